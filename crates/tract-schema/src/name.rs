//! Tool names that a provider accepts, and reversible aliases for those that it rejects.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tract_core::hash;

use crate::dialect::Dialect;

/// Maximum length of a name, in characters, for the providers that have a limit.
pub const MAX_NAME: usize = 64;

/// Returns whether a provider accepts a tool's name: `[A-Za-z0-9_-]{1,64}`, for Gemini with a letter
/// or an underscore at the beginning, or any non-empty name for Ollama.
pub fn accepts(dialect: Dialect, name: &str) -> bool {
    let rules = dialect.tools();
    let begins_well = !rules.begins_with_letter || begins_with_letter(name);
    match rules.longest_name {
        Some(longest) => {
            (1..=longest).contains(&name.len()) && name.bytes().all(plain) && begins_well
        }
        None => !name.is_empty(),
    }
}

fn begins_with_letter(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

fn plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Returns a name that the provider accepts: the name itself, or an alias made from it and eight
/// hex digits of its hash. A name has the same alias in every request.
///
/// ```
/// use tract_schema::{Dialect, alias};
/// assert_eq!(alias(Dialect::OpenAi, "grep"), "grep");
/// assert_eq!(alias(Dialect::OpenAi, "fs.read"), "fs_read_8a61f454");
/// ```
pub fn alias(dialect: Dialect, name: &str) -> Cow<'_, str> {
    if accepts(dialect, name) { Cow::Borrowed(name) } else { Cow::Owned(made(dialect, name, 8)) }
}

/// Suggests a name similar to a rejected one that every provider accepts.
///
/// ```
/// assert_eq!(tract_schema::suggestion("Send E-Mail!"), "send_e-mail");
/// assert_eq!(tract_schema::suggestion("getUserName"), "get_user_name");
/// ```
pub fn suggestion(name: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    for c in name.chars() {
        let word_begins = c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if word_begins {
            out.push('_');
        }
        match c.is_ascii() && plain(c as u8) {
            true => out.push(c.to_ascii_lowercase()),
            false if out.ends_with('_') => {}
            false => out.push('_'),
        }
        before = c;
    }
    let kept: String = out.trim_matches('_').chars().take(MAX_NAME).collect();
    if kept.is_empty() { "tool".to_owned() } else { kept }
}

fn made(dialect: Dialect, name: &str, digits: usize) -> String {
    let letters = name.chars();
    // Other characters become underscores.
    let begins_badly = name.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let letters = match dialect.tools().begins_with_letter && begins_badly {
        true => Some('_').into_iter().chain(letters),
        false => None.into_iter().chain(letters),
    };
    let kept: String = letters
        .map(|c| if c.is_ascii() && plain(c as u8) { c } else { '_' })
        .take(MAX_NAME - 1 - digits)
        .collect();
    let kept = if kept.is_empty() { "tool" } else { kept.as_str() };
    let hex = hash::blob(name.as_bytes()).to_hex();
    format!("{kept}_{}", hex.get(..digits).unwrap_or(&hex))
}

/// The aliases of one request, which map the names in a reply back to the original ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aliases {
    dialect: Dialect,
    by_name: BTreeMap<String, String>,
    by_alias: BTreeMap<String, String>,
}

impl Aliases {
    /// Creates aliases for the names of a request that need one. If an alias is taken by another
    /// tool, more digits of the hash are used.
    pub fn of<'a>(dialect: Dialect, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let mut aliases = Self { dialect, by_name: BTreeMap::new(), by_alias: BTreeMap::new() };
        for name in &names {
            if accepts(dialect, name) || aliases.by_name.contains_key(*name) {
                continue;
            }
            let taken = |made: &String| {
                names.contains(&made.as_str()) || aliases.by_alias.contains_key(made)
            };
            let made =
                (8..=32).step_by(8).map(|digits| made(dialect, name, digits)).find(|m| !taken(m));
            if let Some(made) = made {
                aliases.by_alias.insert(made.clone(), (*name).to_owned());
                aliases.by_name.insert((*name).to_owned(), made);
            }
        }
        aliases
    }

    /// Returns the name to send for an original name.
    pub fn sent<'a>(&'a self, name: &'a str) -> Cow<'a, str> {
        match self.by_name.get(name) {
            Some(alias) => Cow::Borrowed(alias),
            None => alias(self.dialect, name),
        }
    }

    /// Returns the original name for a name that was sent.
    pub fn original<'a>(&'a self, sent: &'a str) -> &'a str {
        self.by_alias.get(sent).map_or(sent, String::as_str)
    }

    /// Returns an iterator over the pairs of alias and original name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_alias.iter().map(|(alias, name)| (alias.as_str(), name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_names_get_accepted_aliases_that_lead_back() {
        let long = "x".repeat(200);
        let names = ["a.b", "", "grep", "größe", long.as_str(), "a_b"];
        let aliases = Aliases::of(Dialect::Anthropic, names);
        let mut sent = std::collections::BTreeSet::new();
        for name in names {
            let alias = aliases.sent(name).into_owned();
            assert!(accepts(Dialect::Anthropic, &alias), "{alias}");
            assert_eq!(aliases.original(&alias), name);
            assert!(sent.insert(alias));
        }
        assert_eq!(aliases.sent("grep"), "grep");
    }

    #[test]
    fn names_for_gemini_begin_with_a_letter_or_an_underscore() {
        let long = "7".repeat(64);
        for name in ["7zip", "-a", "", "7.zip", "é", long.as_str()] {
            let alias = alias(Dialect::Gemini, name).into_owned();
            assert!(accepts(Dialect::Gemini, &alias), "{alias}");
            let aliases = Aliases::of(Dialect::Gemini, [name]);
            assert_eq!(aliases.original(&aliases.sent(name)), name);
        }
        assert_eq!(alias(Dialect::OpenAi, "7zip"), "7zip");
        assert_eq!(alias(Dialect::Gemini, "_7zip"), "_7zip");
    }

    #[test]
    fn an_alias_is_never_another_tools_name() {
        let taken = alias(Dialect::OpenAi, "a.b").into_owned();
        let aliases = Aliases::of(Dialect::OpenAi, ["a.b", taken.as_str()]);
        assert_ne!(aliases.sent("a.b"), taken.as_str());
        assert_eq!(aliases.original(&taken), taken);
        assert_eq!(aliases.original(&aliases.sent("a.b")), "a.b");
    }

    #[test]
    fn ollama_takes_any_name() {
        assert_eq!(alias(Dialect::Ollama, "a.b/c"), "a.b/c");
    }
}
