//! Turns of phrase in comments that a native reader has to read twice.
//!
//! Well-known Rust projects have such a phrase in 0.4 to 0.9 of 100 comment lines. A few are harmless in
//! their place, so the limit is a rate per crate and not a ban.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;

/// Marked lines of 100 comment lines, above which a crate is refused.
const MOST_PER_100: f64 = 2.0;

/// Crates that are not reworded yet, with their rates. A rate here may only fall.
const ABOVE: &[(&str, f64)] = &[("crates/tract-serve", 12.5)];

/// A phrase. `regex` does not support look-around, so the text around a match is compared separately.
struct Phrase {
    pattern: Regex,
    /// A match after this text is not one.
    unless_after: &'static str,
    /// A match before one of these texts is not one.
    unless_before: &'static [&'static str],
}

impl Phrase {
    fn is_in(&self, line: &str) -> bool {
        self.pattern.find_iter(line).any(|matched| {
            let (before, after) = (&line[..matched.start()], &line[matched.end()..]);
            (self.unless_after.is_empty() || !before.ends_with(self.unless_after))
                && !self.unless_before.iter().any(|text| after.starts_with(text))
        })
    }
}

/// Counts the comment lines of each crate, and collects the marked ones.
pub(super) struct Phrasing {
    phrases: Vec<Phrase>,
    crates: BTreeMap<String, CommentLines>,
}

#[derive(Default)]
struct CommentLines {
    total: usize,
    marked: Vec<String>,
}

impl Phrasing {
    pub(super) fn new() -> Result<Self, String> {
        let phrase = |pattern: &str, unless_after, unless_before| {
            let pattern = Regex::new(pattern).map_err(|error| error.to_string())?;
            Ok::<_, String>(Phrase { pattern, unless_after, unless_before })
        };
        Ok(Self {
            phrases: vec![
                // A noun clause as the subject: "What a schema can cause". A question may begin so.
                phrase(r"^(?:What|Where|Which|Who|That)\b[^?]*$", "", &[])?,
                phrase(r"^How \b", "", &["many", "much", "long", "to", "often"])?,
                // A noun clause as the object of a verb or preposition.
                phrase(
                    r"\b(?:say|says|said|reads?|returns?|takes?|gives?|keeps?|makes?|of|from|with|for|on|in|to|than|as|and|or|but|at|by|: )\s+what\b",
                    "",
                    &[],
                )?,
                phrase(r"\b(?:is|are|was|were|be|has|have) (?:no|none)\b", "there ", &[" longer"])?,
                phrase(r"\bof none\b|\bany more\b", "", &[])?,
                // Verbs of persons, with a thing as the subject.
                phrase(r"\b(?:says|tells|hears|wants|speaks? of|believed)\b", "", &[])?,
                phrase(r"\bso (?:many|much|long|few|large)\b", "", &[" as"])?,
                phrase(r"\b(?:can|to) be had\b|\bas \w+ (?:has|have) it\b", "", &[])?,
                phrase(
                    r"\b(?:for ever|meanwhile|stead|at hand|for its sake|beforehand)\b",
                    "",
                    &[],
                )?,
            ],
            crates: BTreeMap::new(),
        })
    }

    /// Counts the comment lines of a Rust file outside tests. Code blocks of documentation do not count.
    pub(super) fn add(&mut self, file: &Path, text: &str) {
        let Some(name) = crate_of(file) else { return };
        let lines = self.crates.entry(name).or_default();
        let mut in_block = false;
        for (number, line) in text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                in_block = false;
                continue;
            };
            let comment = comment.strip_prefix(['/', '!']).unwrap_or(comment).trim();
            if comment.starts_with("```") {
                in_block = !in_block;
            } else if !in_block && !comment.is_empty() && !comment.starts_with('#') {
                lines.total += 1;
                if self.phrases.iter().any(|phrase| phrase.is_in(comment)) {
                    lines.marked.push(format!("{}:{}: {comment}", file.display(), number + 1));
                }
            }
        }
    }

    /// Reports the crates above the limit, each with its marked lines.
    pub(super) fn report(&self, problems: &mut Vec<String>) {
        for (name, lines) in &self.crates {
            let above = ABOVE.iter().find(|(above, _)| above == name);
            let most = above.map_or(MOST_PER_100, |(_, most)| *most);
            let allowed = most / 100.0 * lines.total as f64;
            if lines.marked.len() as f64 > allowed {
                problems.push(format!(
                    "{name}: {} of {} comment lines are hard to read (limit {allowed:.0}); say what the \
                     thing is or does:\n{}",
                    lines.marked.len(),
                    lines.total,
                    lines.marked.join("\n"),
                ));
            }
        }
    }
}

/// Returns the crate that a file belongs to, as the path of its folder; `None` for tests.
fn crate_of(file: &Path) -> Option<String> {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let (name, folders) = parts.split_last()?;
    let stem = name.strip_suffix(".rs")?;
    let is_test = |part: &str| matches!(part, "test" | "tests" | "benches" | "examples" | "fuzz");
    let root = match *folders.first()? {
        "crates" => 2,
        "tests" if folders.get(1) == Some(&"example-store") => 2,
        _ => 1,
    };
    let inside = folders.get(root..).unwrap_or_default();
    if inside.iter().any(|part| is_test(part))
        || root == 1 && folders.first() == Some(&"tests")
        || matches!(stem, "test" | "tests")
        || stem.ends_with("_test")
        || stem.ends_with("_tests")
        || stem.starts_with("test_")
    {
        return None;
    }
    Some(folders.get(..root)?.join("/"))
}
