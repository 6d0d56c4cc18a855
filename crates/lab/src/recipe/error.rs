//! What is wrong with a recipe, and where.

use std::ops::Range;

use thiserror::Error;

/// Why a recipe cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecipeError {
    /// There is no embedded recipe of this id.
    #[error("there is no experiment `{id}`; there are: {}", .known.join(", "))]
    Unknown {
        /// What was asked for.
        id: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The text is not a recipe: a wrong key, a wrong type, an impossible value.
    #[error("recipe {recipe}, line {line}, {}: {message}", key_or_place(.key))]
    Text {
        /// The recipe.
        recipe: String,
        /// Counted from 1.
        line: usize,
        /// The key at that place; empty outside one.
        key: String,
        /// What is wrong, and what is allowed.
        message: String,
    },
}

/// `key `loss``, or nothing better than the place itself.
fn key_or_place(key: &str) -> String {
    if key.is_empty() {
        "here".to_owned()
    } else {
        format!("key `{key}`")
    }
}

impl RecipeError {
    /// An error of the TOML reader, its place found again in `text`.
    pub(crate) fn syntax(recipe: &str, text: &str, error: &toml::de::Error) -> Self {
        let span = error.span().unwrap_or(0..0);
        Self::Text {
            recipe: recipe.to_owned(),
            line: line_of(text, span.start),
            key: key_of(text, &span),
            message: error.message().replace('\n', " "),
        }
    }

    /// An error about the first place where `found` stands in quotes, or about
    /// the recipe as a whole.
    pub(crate) fn about(recipe: &str, text: &str, found: &str, message: String) -> Self {
        let quoted = format!("\"{found}\"");
        let start = text.find(&quoted).unwrap_or(0);
        Self::Text {
            recipe: recipe.to_owned(),
            line: line_of(text, start),
            key: key_of(text, &(start..start)),
            message,
        }
    }
}

/// The line of a byte, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}

/// The key that a span is, or belongs to.
fn key_of(text: &str, span: &Range<usize>) -> String {
    let is_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let Some(before) = text.get(..span.start) else {
        return String::new();
    };
    let found = text.get(span.clone()).unwrap_or("");
    // The span of an unknown key is the key itself.
    let after = text.get(span.end..).unwrap_or("").trim_start();
    if !found.is_empty() && found.chars().all(is_key) && after.starts_with('=') {
        return found.to_owned();
    }
    // Else the nearest `key =` before it, on its line.
    let line = before.rsplit('\n').next().unwrap_or("");
    let Some((left, _)) = line.rsplit_once('=') else {
        return String::new();
    };
    let left = left.trim_end();
    let start = left.rfind(|c| !is_key(c)).map_or(0, |at| at + 1);
    left[start..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_found_in_tables_of_one_line_too() {
        let text = "a = 1\nloss = { bernoulli = { share = 1.5 } }\n";
        let at = text.find("1.5").unwrap();
        assert_eq!(line_of(text, at), 2);
        assert_eq!(key_of(text, &(at..at + 3)), "share");
        let at = text.find("bernoulli").unwrap();
        assert_eq!(key_of(text, &(at..at + 9)), "bernoulli");
    }
}
