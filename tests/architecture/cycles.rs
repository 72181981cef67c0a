//! Files of a crate may use each other in a circle only in small groups.
//!
//! Each source file is read as a list of tokens: which modules it declares, which names it imports,
//! and which paths it uses. A path is followed through imports and re-exports to the file that
//! defines its last name; a glob import counts as a use of the module that it names. Unit tests are
//! left out, as they may use anything. That a file declares child modules, or exports their names,
//! does not count.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// The largest number of files that may depend on each other.
const MOST: usize = 5;

/// A module: a file, or a block within one.
#[derive(Default)]
struct Module {
    /// The place in the list of files.
    file: usize,
    parent: usize,
    children: HashMap<String, usize>,
    /// Names that other modules define: the imported path, by the name that it has here.
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Paths in the code, and imported ones.
    paths: Vec<Vec<String>>,
}

/// The modules of a crate; the first one is its root.
#[derive(Default)]
struct Crate {
    files: Vec<String>,
    modules: Vec<Module>,
}

impl Crate {
    fn read(root: &Path) -> Self {
        let mut krate = Self::default();
        krate.add(root, &root.with_file_name(""), 0);
        krate
    }

    /// Reads a file as a module. `folder` contains its children.
    fn add(&mut self, path: &Path, folder: &Path, parent: usize) -> usize {
        let text = std::fs::read_to_string(path).expect("a source file");
        let file = self.files.len();
        self.files.push(path.display().to_string());
        let at = self.module(file, parent);
        let tokens = without_tests(&tokens(&text));
        self.scan(&tokens, at, folder);
        at
    }

    /// Returns the path of a file from the crate's folder.
    fn name(&self, file: usize) -> &str {
        let path = &self.files[file];
        path.rsplit_once("crates/").map_or(path, |(_, name)| name)
    }

    fn module(&mut self, file: usize, parent: usize) -> usize {
        self.modules.push(Module { file, parent, ..Module::default() });
        self.modules.len() - 1
    }

    /// Reads the tokens of a module.
    fn scan(&mut self, tokens: &[String], at: usize, folder: &Path) {
        let token = |n: usize| tokens.get(n).map_or("", String::as_str);
        let mut n = 0;
        while n < tokens.len() {
            match token(n) {
                "mod" if is_name(token(n + 1)) && token(n + 2) == ";" => {
                    let name = token(n + 1).to_owned();
                    let nested = folder.join(&name);
                    let file = folder.join(format!("{name}.rs"));
                    let file = if file.exists() { file } else { nested.join("mod.rs") };
                    let child = self.add(&file, &nested, at);
                    self.modules[at].children.insert(name, child);
                    n += 3;
                }
                "mod" if is_name(token(n + 1)) && token(n + 2) == "{" => {
                    let end = closing(tokens, n + 2);
                    let name = token(n + 1).to_owned();
                    let child = self.module(self.modules[at].file, at);
                    self.scan(&tokens[n + 3..end], child, &folder.join(&name));
                    self.modules[at].children.insert(name, child);
                    n = end + 1;
                }
                "use" => {
                    let length = tokens[n..].iter().position(|token| token == ";");
                    let end = n + length.expect("an import ends");
                    // A re-export offers a name here, and does not use it.
                    let is_used = n == 0 || !matches!(token(n - 1), "pub" | ")");
                    let before = self.modules[at].paths.len();
                    self.import(&tokens[n + 1..end], &[], at);
                    if !is_used {
                        self.modules[at].paths.truncate(before);
                    }
                    n = end + 1;
                }
                first if is_name(first) && token(n.wrapping_sub(1)) != "." => {
                    let mut path = vec![first.to_owned()];
                    while token(n + 1) == "::" && is_name(token(n + 2)) {
                        path.push(token(n + 2).to_owned());
                        n += 2;
                    }
                    // A name alone is a local one, or imported, and then its import counts.
                    if path.len() > 1 {
                        self.modules[at].paths.push(path);
                    }
                    n += 1;
                }
                _ => n += 1,
            }
        }
    }

    /// Reads what follows `use`, after the given beginning of its path.
    fn import(&mut self, tokens: &[String], before: &[String], at: usize) {
        let mut path = before.to_vec();
        let mut n = 0;
        while n < tokens.len() {
            match tokens[n].as_str() {
                "::" => n += 1,
                "*" => return self.modules[at].globs.push(path),
                "{" => {
                    for member in members(&tokens[n + 1..closing(tokens, n)]) {
                        self.import(member, &path, at);
                    }
                    return;
                }
                "self" if !path.is_empty() => n += 1,
                "as" => {
                    self.modules[at].paths.push(path.clone());
                    self.modules[at].imports.insert(tokens[n + 1].clone(), path);
                    return;
                }
                name => {
                    path.push(name.to_owned());
                    n += 1;
                }
            }
        }
        let name = path.last().expect("a name").clone();
        self.modules[at].paths.push(path.clone());
        self.modules[at].imports.insert(name, path);
    }

    /// Returns the module that a path in a module leads to; `None` if it leaves the crate.
    fn target(&self, path: &[String], from: usize, depth: usize) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => 0,
            "self" => from,
            "super" => self.modules[from].parent,
            // Another name is local, or that of another crate.
            _ => return self.named(path, from, depth)?,
        };
        match rest {
            [] => Some(start),
            [next, ..] if next == "super" => self.target(rest, start, depth),
            _ => self.named(rest, start, depth).unwrap_or(Some(start)),
        }
    }

    /// Returns the module that a path leads to which begins with a name of a module, or `Some(None)`
    /// if it leaves the crate; `None` if the module has neither a child nor an import of this name.
    fn named(&self, path: &[String], within: usize, depth: usize) -> Option<Option<usize>> {
        let (first, rest) = path.split_first()?;
        let module = &self.modules[within];
        if let Some(child) = module.children.get(first) {
            return Some(self.named(rest, *child, depth).unwrap_or(Some(*child)));
        }
        // Imports may lead in a circle.
        if depth > 12 {
            return None;
        }
        if let Some(import) = module.imports.get(first) {
            let whole: Vec<String> = import.iter().chain(rest).cloned().collect();
            let is_own = import.first() == Some(first);
            return Some(if is_own { None } else { self.target(&whole, within, depth + 1) });
        }
        module.globs.iter().find_map(|glob| {
            let target = self.target(glob, within, depth + 1)?;
            self.named(path, target, depth + 1)
        })
    }

    /// Returns the files that each file uses.
    fn uses(&self) -> Vec<BTreeSet<usize>> {
        let mut uses = vec![BTreeSet::new(); self.files.len()];
        for (at, module) in self.modules.iter().enumerate() {
            let globs = module.globs.iter().filter(|glob| glob[0] != "self");
            for path in module.paths.iter().chain(globs) {
                if let Some(target) = self.target(path, at, 0) {
                    let file = self.modules[target].file;
                    if file != module.file {
                        uses[module.file].insert(file);
                    }
                }
            }
        }
        uses
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns the place of the bracket that closes the one at `open`.
fn closing(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (n, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" | "[" | "(" => depth += 1,
            "}" | "]" | ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return n;
        }
    }
    tokens.len()
}

/// Splits the inside of a group of imports at its commas.
fn members(tokens: &[String]) -> Vec<&[String]> {
    let (mut members, mut start, mut n) = (Vec::new(), 0, 0);
    while n < tokens.len() {
        match tokens[n].as_str() {
            "{" => n = closing(tokens, n),
            "," => {
                members.push(&tokens[start..n]);
                start = n + 1;
            }
            _ => {}
        }
        n += 1;
    }
    members.push(tokens.get(start..).unwrap_or_default());
    members.retain(|member| !member.is_empty());
    members
}

/// Splits a source text into names, `::` and single characters, without comments and literals.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if c == '"' {
            string(rest)
        } else if c == '\'' {
            character(rest)
        } else if c.is_alphanumeric() || c == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let length = length.unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// Returns the length of the raw string that a text begins with.
fn raw_string(text: &str) -> Option<usize> {
    let hashes = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let count = hashes.find(|c| c != '#')?;
    let inner = hashes[count..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(count));
    let before = text.len() - inner.len();
    Some(inner.find(&end).map_or(text.len(), |at| before + at + end.len()))
}

/// Returns the length of the string that a text begins with.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of the character or lifetime that a text begins with.
fn character(text: &str) -> usize {
    if text[1..].starts_with('\\') {
        return text[3..].find('\'').map_or(text.len(), |at| at + 4);
    }
    let inner = text[1..].chars().next().map_or(1, char::len_utf8);
    if text[1 + inner..].starts_with('\'') { inner + 2 } else { 1 }
}

/// Returns the tokens without the items that only unit tests have.
fn without_tests(tokens: &[String]) -> Vec<String> {
    const TEST: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut n = 0;
    while n < tokens.len() {
        if tokens[n..].iter().take(TEST.len()).eq(TEST) {
            n += TEST.len();
            // An item ends with its first block, or before that with a semicolon.
            while n < tokens.len() && tokens[n] != ";" && tokens[n] != "{" {
                n = if tokens[n] == "(" { closing(tokens, n) } else { n } + 1;
            }
            n = if tokens.get(n).is_some_and(|token| token == "{") {
                closing(tokens, n)
            } else {
                n
            };
            n += 1;
        } else {
            kept.push(tokens[n].clone());
            n += 1;
        }
    }
    kept
}

/// Returns the groups of files that depend on each other, the largest first.
fn cycles(uses: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reached: Vec<BTreeSet<usize>> = (0..uses.len()).map(|from| reach(uses, from)).collect();
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (file, targets) in reached.iter().enumerate() {
        let first = targets.iter().find(|target| reached[**target].contains(&file));
        if let Some(first) = first {
            groups.entry(*first).or_default().push(file);
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

fn reach(uses: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        open.extend(uses[file].iter().filter(|next| reached.insert(**next)));
    }
    reached
}

#[test]
fn files_depend_on_each_other_in_small_groups_only() {
    let (mut seen, mut large) = (0, Vec::new());
    for entry in std::fs::read_dir(super::root().join("crates")).expect("the crates") {
        let lib = entry.expect("an entry").path().join("src/lib.rs");
        if !lib.exists() {
            continue;
        }
        let krate = Crate::read(&lib);
        let uses = krate.uses();
        seen += uses.iter().map(BTreeSet::len).sum::<usize>();
        for group in cycles(&uses).into_iter().filter(|group| group.len() > MOST) {
            large.push(format!("{} files:", group.len()));
            for file in &group {
                let within: Vec<&str> = uses[*file]
                    .iter()
                    .filter(|to| group.contains(to))
                    .map(|to| krate.name(*to))
                    .collect();
                large.push(format!("  {} uses {}", krate.name(*file), within.join(", ")));
            }
        }
    }
    assert!(seen > 2_000, "only {seen} uses were found");
    assert!(large.is_empty(), "these depend on each other:\n{}", large.join("\n"));
}

/// Writes the files of a crate, and returns the sizes of its cycles.
fn sizes(files: &[(&str, &str)]) -> Vec<usize> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    cycles(&Crate::read(&folder.path().join("lib.rs")).uses()).iter().map(Vec::len).collect()
}

#[test]
fn a_cycle_is_found_through_imports_and_reexports() {
    let lib = "mod a;\nmod b;\npub use crate::a::Deep;\n";
    let a = "mod deep;\npub use deep::Deep;\npub struct A;\n";
    let deep = "use crate::b::B;\npub struct Deep(B);\n";
    for b in [
        "use crate::{a::{self, Deep as Other}, nothing};\npub struct B(Other);\n",
        "pub struct B(crate::Deep);\n",
        "use super::a;\npub fn b() { let _ = a::Deep; }\npub struct B;\n",
        "mod inner { use super::super::a::Deep; }\npub struct B;\n",
    ] {
        let files = [("lib.rs", lib), ("a.rs", a), ("a/deep.rs", deep), ("b.rs", b)];
        assert_eq!(sizes(&files), [2], "{b}");
    }
    // Comments, texts, unit tests and other crates are no uses.
    for b in [
        "// crate::Deep\npub const B: &str = r#\"crate::Deep\"#;\n",
        "#[cfg(test)]\nmod tests {\n    use crate::Deep;\n}\npub struct B;\n",
        "use other::a::Deep;\npub struct B<'a>(&'a Deep, char::MAX == ':');\n",
    ] {
        let files = [("lib.rs", lib), ("a.rs", a), ("a/deep.rs", deep), ("b.rs", b)];
        assert_eq!(sizes(&files), [0; 0], "{b}");
    }
}
