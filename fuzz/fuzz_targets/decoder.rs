//! libFuzzer's door to [`ctcp_fuzz::decoder`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctcp_fuzz::decoder::run(data));
