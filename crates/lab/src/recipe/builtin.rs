//! The embedded recipes.

use std::sync::OnceLock;

use super::Recipe;

/// Files of `recipes/`, in the order in which they are listed.
pub(super) const FILES: &[(&str, &str)] =
    &[("cc14-fig2a", include_str!("../../recipes/cc14-fig2a.toml"))];

/// All embedded recipes, in the papers' order.
///
/// # Panics
/// If one of them does not parse; a test reads them all.
pub fn recipes() -> &'static [Recipe] {
    static RECIPES: OnceLock<Vec<Recipe>> = OnceLock::new();
    RECIPES.get_or_init(|| {
        FILES
            .iter()
            .map(|(id, text)| match Recipe::parse(id, text) {
                Ok(recipe) => recipe,
                Err(error) => panic!("an embedded recipe is broken: {error}"),
            })
            .collect()
    })
}
