//! libFuzzer's door to [`ctcp_fuzz::connection`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctcp_fuzz::connection::run(data));
