//! libFuzzer's door to [`ctcp_fuzz::wire`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctcp_fuzz::wire::run(data));
