//! libFuzzer's door to [`ctcp_fuzz::handshake`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctcp_fuzz::handshake::run(data));
