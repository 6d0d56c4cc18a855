//! libFuzzer's door to [`ctcp_fuzz::peer`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ctcp_fuzz::peer::run(data));
