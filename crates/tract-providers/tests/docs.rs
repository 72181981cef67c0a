//! The page of the documentation that lists the providers.

use tract_providers::{Dialect, api_of};

#[test]
fn the_page_of_models_lists_every_provider() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/models.md");
    let page = std::fs::read_to_string(path).expect("the page");
    for dialect in Dialect::ALL {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{dialect}/MODEL` |")));
        let row = row.unwrap_or_else(|| panic!("no row of {dialect}"));
        let api = api_of(dialect);
        // Responses shares the server of the row above it.
        let is_shared = Dialect::ALL.into_iter().find(|one| api_of(*one).base_url == api.base_url);
        if is_shared == Some(dialect) {
            assert!(row.contains(api.base_url) && row.contains(api.base_variable), "{row}");
        }
        assert!(row.contains(api.key_variable), "{row}");
        assert_eq!(row.contains("none needed"), !api.needs_key, "{row}");
    }
}
