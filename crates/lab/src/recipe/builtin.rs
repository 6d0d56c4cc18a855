//! The embedded recipes.

use std::sync::OnceLock;

use super::Recipe;

/// Files of `recipes/`, in the order in which they are listed.
const FILES: &[(&str, &str)] = &[
    ("readme", include_str!("../../recipes/readme.toml")),
    (
        "testbed-check",
        include_str!("../../recipes/testbed-check.toml"),
    ),
    ("cc14-fig2a", include_str!("../../recipes/cc14-fig2a.toml")),
    ("cc14-fig2b", include_str!("../../recipes/cc14-fig2b.toml")),
    ("cc14-fig3", include_str!("../../recipes/cc14-fig3.toml")),
    ("cc14-fig4a", include_str!("../../recipes/cc14-fig4a.toml")),
    ("cc14-fig4b", include_str!("../../recipes/cc14-fig4b.toml")),
    ("cc14-fig5", include_str!("../../recipes/cc14-fig5.toml")),
    ("cc14-fig6", include_str!("../../recipes/cc14-fig6.toml")),
    ("cc14-fig7", include_str!("../../recipes/cc14-fig7.toml")),
    ("cc14-fig8", include_str!("../../recipes/cc14-fig8.toml")),
    ("cc14-fig9", include_str!("../../recipes/cc14-fig9.toml")),
    ("cc14-model", include_str!("../../recipes/cc14-model.toml")),
    (
        "mp12-table4",
        include_str!("../../recipes/mp12-table4.toml"),
    ),
    (
        "mp12-table5",
        include_str!("../../recipes/mp12-table5.toml"),
    ),
    ("mp12-proxy", include_str!("../../recipes/mp12-proxy.toml")),
    ("paths-grid", include_str!("../../recipes/paths-grid.toml")),
    ("paths-cold", include_str!("../../recipes/paths-cold.toml")),
    (
        "paths-change",
        include_str!("../../recipes/paths-change.toml"),
    ),
    (
        "control-suite",
        include_str!("../../recipes/control-suite.toml"),
    ),
    (
        "control-steady",
        include_str!("../../recipes/control-steady.toml"),
    ),
    (
        "control-paths",
        include_str!("../../recipes/control-paths.toml"),
    ),
    (
        "control-satellite",
        include_str!("../../recipes/control-satellite.toml"),
    ),
    (
        "control-http",
        include_str!("../../recipes/control-http.toml"),
    ),
    (
        "control-cubic",
        include_str!("../../recipes/control-cubic.toml"),
    ),
    (
        "control-flows",
        include_str!("../../recipes/control-flows.toml"),
    ),
    ("fec-fig1a", include_str!("../../recipes/fec-fig1a.toml")),
    ("fec-fig1b", include_str!("../../recipes/fec-fig1b.toml")),
    ("fec-fig2", include_str!("../../recipes/fec-fig2.toml")),
    ("fec-fig7", include_str!("../../recipes/fec-fig7.toml")),
    ("fec-fig8", include_str!("../../recipes/fec-fig8.toml")),
    ("sat-fig2", include_str!("../../recipes/sat-fig2.toml")),
    ("sat-fig3", include_str!("../../recipes/sat-fig3.toml")),
    ("sat-fig4", include_str!("../../recipes/sat-fig4.toml")),
    ("model-fig2", include_str!("../../recipes/model-fig2.toml")),
    ("model-fig5", include_str!("../../recipes/model-fig5.toml")),
    ("model-fig6", include_str!("../../recipes/model-fig6.toml")),
    (
        "model-fig10",
        include_str!("../../recipes/model-fig10.toml"),
    ),
    (
        "model-table1",
        include_str!("../../recipes/model-table1.toml"),
    ),
];

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
