//! The pages of the documentation that list the providers.

use tract_providers::{Dialect, api_of};

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a page")
}

#[test]
fn the_page_of_models_lists_every_provider() {
    let page = page("models.md");
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

#[test]
fn the_page_of_recording_lists_every_variable() {
    let page = page("record.md");
    for api in Dialect::ALL.map(api_of) {
        let row =
            page.lines().find(|line| line.starts_with(&format!("| `{}` |", api.base_variable)));
        let row = row.unwrap_or_else(|| panic!("no row of {}", api.base_variable));
        assert!(row.contains(api.base_url), "{row}");
    }
}
