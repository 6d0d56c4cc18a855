//! The live page: one answer, with everything in it.

use std::sync::OnceLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = concat!(
    include_str!("page/words.js"),
    include_str!("page/chart.js"),
    include_str!("page/page.js")
);

/// The page and what a browser may do with it.
pub(crate) struct Page {
    pub(crate) html: String,
    /// The content security policy: this very style and script, and talking to
    /// whom it came from.
    pub(crate) policy: String,
}

/// Put together once.
pub(crate) fn page() -> &'static Page {
    static PAGE: OnceLock<Page> = OnceLock::new();
    PAGE.get_or_init(|| Page {
        html: HTML
            .replace("/*style*/", STYLE)
            .replace("/*script*/", SCRIPT),
        policy: format!(
            "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'; style-src '{}'; script-src '{}'",
            source_hash(STYLE),
            source_hash(SCRIPT)
        ),
    })
}

fn source_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    format!("sha256-{}", BASE64_STANDARD.encode(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_needs_nothing_else() {
        let html = &page().html;
        assert!(html.contains(STYLE) && html.contains(SCRIPT));
        // The name of the SVG namespace is no address that is fetched.
        let html = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!html.contains(outside), "{outside}");
        }
        assert!(html.len() < 64 << 10, "{} bytes", html.len());
    }

    #[test]
    fn every_quantity_shown_is_described() {
        let quoted = |text: &str, before: &str, end: char| -> Vec<String> {
            let parts = text.split(before).skip(1);
            let part = parts.filter_map(|part| part.split(end).next());
            part.map(str::to_owned).collect()
        };
        let shown = quoted(include_str!("page/page.js"), "word(\"", '"');
        assert!(shown.len() > 20, "{shown:?}");
        for name in shown {
            let entry = format!("\n  {name}: [");
            assert!(include_str!("page/words.js").contains(&entry), "{name}");
        }
    }
}
