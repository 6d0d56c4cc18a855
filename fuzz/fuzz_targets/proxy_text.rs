//! libFuzzer's door to [`ctcp_fuzz::proxy_text`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctcp_fuzz::proxy_text::run(data));
