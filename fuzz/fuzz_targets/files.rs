//! libFuzzer's door to [`ctcp_fuzz::files`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctcp_fuzz::files::run(data));
