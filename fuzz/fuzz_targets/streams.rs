//! libFuzzer's door to [`ctcp_fuzz::streams`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctcp_fuzz::streams::run(data));
