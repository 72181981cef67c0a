//! The modules of the engine use only modules below them.

use std::path::{Path, PathBuf};

/// The top-level modules of `tract-engine`, lowest first, as its `lib.rs` lists them.
const MODULES: &[&str] = &["plan", "repo", "history", "write", "search", "verbs", "upkeep", "sync"];

fn source() -> PathBuf {
    super::root().join("crates/tract-engine/src")
}

/// Returns all source files in a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder of the engine") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the code of a file without comments and without its unit tests, which may use anything.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_last_module = |next: &&str| next.starts_with("mod ") && next.ends_with('{');
        if line == "#[cfg(test)]" && lines.peek().is_some_and(is_last_module) {
            break;
        }
        if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// Returns the first names of the paths that begin at the root of the crate: `a` and `B` for
/// `crate::a::c` and for `crate::{a::c, B}`. A file with the given number of parents reaches the root
/// with as many `super`.
fn names_at_root(code: &str, parents: usize) -> Vec<String> {
    let root = ["crate::".to_owned(), "super::".repeat(parents)];
    let is_in_name = |before: char| before.is_alphanumeric() || matches!(before, '_' | ':' | '$');
    let mut names = Vec::new();
    for root in root {
        for (at, _) in code.match_indices(&root) {
            if code[..at].ends_with(is_in_name) {
                continue;
            }
            let path = &code[at + root.len()..];
            match path.strip_prefix('{') {
                Some(group) => names.extend(members(group)),
                None => names.extend(first_name(path)),
            }
        }
    }
    names
}

fn first_name(path: &str) -> Option<String> {
    let name: String =
        path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    Some(name).filter(|name| !name.is_empty() && name != "super")
}

/// Returns the first names of the paths in a group, which begins after its brace.
fn members(group: &str) -> Vec<String> {
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.extend(first_name(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.extend(first_name(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names
}

/// Returns the module that a file belongs to, and how many modules are above its own.
fn module_of(file: &Path) -> (String, usize) {
    let path = file.strip_prefix(source()).expect("a file of the engine").with_extension("");
    let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    (parts[0].clone(), parts.len())
}

/// Returns what a module may not use of the given names: a module above it, or a name that the
/// crate exports, which hides the module it comes from.
fn refused(module: &str, names: &[String]) -> Vec<String> {
    let place = |name: &str| MODULES.iter().position(|one| *one == name);
    let own = place(module).unwrap_or_else(|| panic!("{module} is not in the list of modules"));
    names.iter().filter(|name| place(name).is_none_or(|other| other > own)).cloned().collect()
}

#[test]
fn modules_of_the_engine_use_only_lower_ones() {
    let mut upward = Vec::new();
    let mut seen = 0;
    for file in files(&source()) {
        if file.ends_with("src/lib.rs") || file.ends_with("tests.rs") {
            continue;
        }
        let (module, parents) = module_of(&file);
        let names = names_at_root(&code(&std::fs::read_to_string(&file).expect("a file")), parents);
        seen += names.len();
        for name in refused(&module, &names) {
            upward.push(format!("{}: crate::{name}", file.display()));
        }
    }
    assert!(seen > 300, "only {seen} paths were found");
    assert!(upward.is_empty(), "these uses point up:\n{}", upward.join("\n"));
}

#[test]
fn the_engine_lists_its_modules_from_the_lowest_to_the_highest() {
    let lib = std::fs::read_to_string(source().join("lib.rs")).expect("lib.rs");
    let listed = lib.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    assert_eq!(listed.collect::<Vec<_>>(), MODULES);
}

#[test]
fn an_upward_use_is_found() {
    for (module, parents, text) in [
        ("repo", 2, "use crate::verbs::merge::Merged;\n"),
        ("write", 2, "use crate::{plan::History, upkeep::{gc::gc, erase}};\n"),
        ("plan", 2, "fn f() {\n    crate::repo::error::code()\n}\n"),
        ("history", 3, "use super::super::super::sync::copy;\n"),
        ("sync", 2, "use crate::Repo;\n"),
    ] {
        let names = names_at_root(&code(text), parents);
        assert_eq!(refused(module, &names).len(), 1, "{text}{names:?}");
    }
    for (module, parents, text) in [
        ("sync", 3, "use crate::repo::{Repo, error::Error};\nuse super::super::bundle::Bundle;\n"),
        (
            "write",
            2,
            "// crate::verbs\n#[cfg(test)]\nmod tests {\n    use crate::verbs::undo;\n}\n",
        ),
    ] {
        let names = names_at_root(&code(text), parents);
        assert_eq!(refused(module, &names), [""; 0], "{text}{names:?}");
    }
}
