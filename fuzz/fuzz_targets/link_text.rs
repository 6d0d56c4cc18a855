//! libFuzzer's door to [`ctcp_fuzz::link_text`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctcp_fuzz::link_text::run(data));
