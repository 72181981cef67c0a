//! Finds the path to our crates in generated code, under the name in the user's `Cargo.toml`.

use std::path::Path;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote;

/// Returns the path of the module that generated code refers to.
///
/// It is in `tract`, or else in `tract-tools`, under their names in the manifest.
pub(crate) fn private(given: Option<&syn::Path>) -> TokenStream {
    match given {
        Some(path) => quote!(#path::tools::typed::__private),
        None => found(),
    }
}

/// Returns the path with the span that errors in it are reported at.
pub(crate) fn respanned(path: &TokenStream, span: Span) -> TokenStream {
    let mark = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    path.clone().into_iter().map(mark).collect()
}

fn found() -> TokenStream {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    // The examples, tests and doc tests of these packages use the package's own name.
    match package.as_str() {
        "tract" => return quote!(::tract::tools::typed::__private),
        "tract-tools" => return quote!(::tract_tools::typed::__private),
        _ => {}
    }
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let manifest = std::fs::read_to_string(Path::new(&folder).join("Cargo.toml"));
    let own = manifest.unwrap_or_default();
    let shared = || workspace(Path::new(&folder));
    let local = |package| {
        let name = local_name(&own, package, &shared)?;
        Some(Ident::new(&name.replace('-', "_"), Span::call_site()))
    };
    match (local("tract"), local("tract-tools")) {
        (Some(name), _) => quote!(::#name::tools::typed::__private),
        (None, Some(name)) => quote!(::#name::typed::__private),
        (None, None) => quote!(::tract::tools::typed::__private),
    }
}

/// Returns the manifest of the workspace that a folder belongs to.
fn workspace(folder: &Path) -> String {
    folder
        .ancestors()
        .filter_map(|folder| std::fs::read_to_string(folder.join("Cargo.toml")).ok())
        .find(|text| text.lines().any(|line| line.trim().starts_with("[workspace")))
        .unwrap_or_default()
}

/// Returns the local name under which a manifest depends on a package.
fn local_name(manifest: &str, package: &str, shared: &dyn Fn() -> String) -> Option<String> {
    dependencies(manifest, false)
        .into_iter()
        .find(|(name, entry)| match (&entry.package, entry.inherited) {
            (Some(real), _) => real == package,
            (None, false) => name == package,
            (None, true) => dependencies(&shared(), true)
                .into_iter()
                .find(|(shared, _)| shared == name)
                .map_or(name == package, |(_, entry)| {
                    entry.package.as_deref().unwrap_or(name) == package
                }),
        })
        .map(|(name, _)| name)
}

#[derive(Default)]
struct DependencyEntry {
    package: Option<String>,
    inherited: bool,
}

/// Reads the dependency lines of a manifest. An inline table is one line in TOML.
fn dependencies(manifest: &str, of_workspace: bool) -> Vec<(String, DependencyEntry)> {
    let mut found: Vec<(String, DependencyEntry)> = Vec::new();
    // The current table: `None` outside of dependencies, `Some(None)` in a table of them,
    // `Some(Some(name))` in the table of one dependency.
    let mut table: Option<Option<String>> = None;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.split(']').next()) {
            table = header_of(header, of_workspace);
            if let Some(Some(name)) = &table {
                found.push((name.clone(), DependencyEntry::default()));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        let Some(one) = &table else { continue };
        let (name, member) = key.split_once('.').unzip();
        if one.is_none() {
            let name = name.unwrap_or(key).trim_matches('"').to_owned();
            found.push((name, DependencyEntry::default()));
        }
        let Some((_, entry)) = found.last_mut() else { continue };
        let member = if one.is_some() { Some(key) } else { member };
        if let Some(member) = member {
            say(entry, member, value);
            continue;
        }
        let inner = value.trim_start_matches('{').trim_end_matches('}').split(',');
        for (key, value) in inner.filter_map(|part| part.split_once('=')) {
            say(entry, key.trim(), value.trim());
        }
    }
    found
}

fn say(entry: &mut DependencyEntry, key: &str, value: &str) {
    match key {
        "package" => entry.package = value.split('"').nth(1).map(str::to_owned),
        "workspace" => entry.inherited = value.starts_with("true"),
        _ => {}
    }
}

/// Classifies the header of a table: `Some(None)` for a table of dependencies, `Some(Some(name))`
/// for the table of one.
fn header_of(header: &str, of_workspace: bool) -> Option<Option<String>> {
    let is_workspace = header.starts_with("workspace.");
    if is_workspace != of_workspace {
        return None;
    }
    const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let parts: Vec<&str> = header.split('.').map(|part| part.trim().trim_matches('"')).collect();
    match parts[..] {
        [.., last] if TABLES.contains(&last) => Some(None),
        [.., table, name] if TABLES.contains(&table) => Some(Some(name.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(manifest: &str, shared: &str, expected: Option<&str>) {
        let found = local_name(manifest, "tract", &|| shared.to_owned());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn a_renamed_crate_is_found() {
        check("[dependencies]\ntract = \"0.1\"\n", "", Some("tract"));
        check(
            "[dependencies]\nhistory = { git = \"x\", package = \"tract\" }",
            "",
            Some("history"),
        );
        check("[dependencies]\ntract = { package = \"tract-nnef\", version = \"1\" }", "", None);
        check("[dependencies.history]\npackage = \"tract\"\n", "", Some("history"));
        check("[target.'cfg(unix)'.dependencies]\nh.package = \"tract\"", "", Some("h"));
        check("[dev-dependencies]\n# none\ntract={path=\"..\"}", "", Some("tract"));
        check("[package]\ntract = \"x\"\n[features]\ntract = []", "", None);
    }

    #[test]
    fn dependencies_of_the_workspace_are_followed() {
        let shared = "[workspace]\n[workspace.dependencies]\nhistory = { package = \"tract\" }\n";
        check("[dependencies]\nhistory.workspace = true", shared, Some("history"));
        check(
            "[dependencies]\nhistory = { workspace = true, optional = true }",
            shared,
            Some("history"),
        );
        check(
            "[dependencies]\ntract.workspace = true",
            "[workspace.dependencies]\ntract = { path = \"x\" }",
            Some("tract"),
        );
        check("[dependencies]\nserde.workspace = true", shared, None);
    }
}
