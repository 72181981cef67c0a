//! Details lost in summaries: details of hidden messages that the context does not contain
//! elsewhere.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tract_compile::{IdMap, stated_priority};
use tract_core::{Change, Commit, CommitId, Content, Kind, Op, Part, Priority};

use crate::repo::Repo;
use crate::repo::error::Result;

/// A summary in a context, and the details lost in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostEntry {
    /// The number of the summary in the context, from 1: the `n` of `#n` in a revision.
    pub number: usize,
    /// The commit of the summary.
    pub summary: CommitId,
    /// Number of hidden messages, including those under summaries that it hides.
    pub hidden: usize,
    /// The lost details, by kind, the most frequent first.
    pub items: Vec<LostItem>,
}

/// A detail of a hidden message that the context does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostItem {
    /// Its kind.
    pub kind: LostKind,
    /// The sentence, command or name.
    pub text: String,
    /// The first hidden message that contains it, in the version that was summarized.
    pub commit: CommitId,
    /// The number of times that hidden messages contain it.
    pub count: usize,
}

/// The kind of a [`LostItem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LostKind {
    /// A sentence of a user, the model or the instructions.
    Text,
    /// A command passed to a tool.
    Command,
    /// A path, an identifier, a version or an address.
    Name,
}

impl LostKind {
    /// Returns the stable code.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Command => "command",
            Self::Name => "name",
        }
    }
}

/// Returns the details that the summaries of a context lost. If `head` is a summary itself, only
/// that one is checked.
///
/// # Behavior
/// A word is in the context if one of its messages (summaries, remaining and later messages)
/// contains it in a text or in the arguments of a call. Of each hidden message that was not
/// skipped:
/// - A **text** is a sentence of the instructions, a user or the model with at least three
///   different words of four or more letters. It is lost if the context contains fewer than half of
///   these words, ignoring case.
/// - A **command** is the value of the argument `command`, `cmd` or `script` of a call, with white
///   space collapsed. It is lost if the context lacks any of its words.
/// - A **name** is a word of at least three characters with at least one letter that is not an
///   ordinary word: it contains `/`, `_`, `@`, `::` or an inner dot, a digit, or an upper-case
///   letter after a lower-case one. Text after a single colon, such as a line number, is not part
///   of it. It is lost if the context does not contain it. Names in results count.
///
/// # Errors
/// When a message is not stored, or the store fails.
///
/// # Complexity
/// Linear in the texts of the context and of the hidden messages.
pub async fn lost(repo: &Repo, head: CommitId) -> Result<Vec<LostEntry>> {
    let history = repo.fold(Some(head)).await?;
    let own = history.head_commit().filter(|commit| matches!(commit.op, Op::Compress { .. }));
    let slots: Vec<CommitId> = history
        .view()
        .rows()
        .filter(|row| history.fact(row.slot).is_some_and(|fact| fact.is_shown()))
        .map(|row| row.slot)
        .collect();
    let summaries: IdMap<CommitId, Commit> = read(repo, &slots)
        .await?
        .into_iter()
        .filter(|commit| matches!(commit.op, Op::Compress { .. }))
        .filter(|commit| own.is_none_or(|own| own.id() == commit.id()))
        .map(|commit| (commit.id(), commit))
        .collect();
    if summaries.is_empty() {
        return Ok(Vec::new());
    }
    let mut words = SaidWords::default();
    let compiled = repo.compiler().compile(Some(head)).await?;
    compiled.messages().for_each(|message| words.add(&message.content));
    let mut entries = Vec::new();
    for (place, slot) in slots.into_iter().enumerate() {
        let Some(summary) = summaries.get(&slot) else { continue };
        let mut found = Collected::default();
        let hidden = hidden(repo, summary).await?;
        for (commit, content) in &hidden {
            found.add(*commit, content);
        }
        entries.push(LostEntry {
            number: place + 1,
            summary: slot,
            hidden: hidden.len(),
            items: found.lost(&words),
        });
    }
    Ok(entries)
}

/// Reads the messages hidden by a summary, including those under nested summaries, except skipped
/// ones.
async fn hidden(repo: &Repo, summary: &Commit) -> Result<Vec<(CommitId, Content)>> {
    let mut found = Vec::new();
    let mut open = vec![summary.clone()];
    while let Some(summary) = open.pop() {
        let changes = repo.changes(&summary).await?;
        let rows: Vec<_> = changes
            .iter()
            .filter_map(|change| match change {
                Change::Remove { slot, row } => Some((slot.resolve(summary.id()), *row)),
                Change::Add { .. } | Change::Version { .. } | Change::Mark { .. } => None,
            })
            .collect();
        let named = rows.iter().flat_map(|(slot, row)| {
            let version = row.version.resolve(summary.id());
            let mark = row.mark.map(|mark| mark.resolve(summary.id()));
            [Some(*slot), Some(version), mark]
        });
        let named: Vec<CommitId> = named.flatten().collect();
        let known: IdMap<CommitId, Commit> =
            read(repo, &named).await?.into_iter().map(|commit| (commit.id(), commit)).collect();
        for (slot, row) in rows {
            if let Some(under) = known.get(&slot)
                && matches!(under.op, Op::Compress { .. })
            {
                open.push(under.clone());
                continue;
            }
            let Some(version) = known.get(&row.version.resolve(summary.id())) else { continue };
            let mark = row.mark.and_then(|mark| known.get(&mark.resolve(summary.id())));
            let default = version.kind.as_ref().map(Kind::default_priority);
            let priority = mark.and_then(stated_priority).or(default);
            if priority.is_some_and(|priority| priority > Priority::Skip)
                && version.content.is_some()
            {
                found.push((version.id(), repo.content_of(version.id()).await?));
            }
        }
    }
    Ok(found)
}

/// Reads the commits that are stored; a slot is only a name and may be missing.
async fn read(repo: &Repo, ids: &[CommitId]) -> Result<Vec<Commit>> {
    let mut commits = Vec::with_capacity(ids.len());
    for ids in ids.chunks(1024) {
        commits.extend(repo.store().commits(repo.name(), ids).await?.into_iter().flatten());
    }
    Ok(commits)
}

/// The words of a context.
#[derive(Default)]
struct SaidWords {
    /// Words of texts, in lower case.
    words: HashSet<String>,
    /// Words of commands and names, as written.
    exact: HashSet<String>,
}

impl SaidWords {
    fn add(&mut self, content: &Content) {
        let mut texts = vec![content.text()];
        texts.extend(
            content.calls().flat_map(|call| strings(&call.arguments)).map(|(_, text)| text),
        );
        for text in texts {
            self.words.extend(words(&text));
            self.exact.extend(command_words(&text).map(str::to_owned));
            self.exact.extend(names(&text).map(str::to_owned));
        }
    }

    fn says(&self, kind: LostKind, text: &str) -> bool {
        match kind {
            LostKind::Name => self.exact.contains(text),
            LostKind::Command => command_words(text).all(|word| self.exact.contains(word)),
            LostKind::Text => {
                let words: HashSet<String> = words(text).collect();
                let shared = words.iter().filter(|word| self.words.contains(*word)).count();
                2 * shared >= words.len()
            }
        }
    }
}

/// The details of hidden messages, with the order and commit of the first occurrence and their
/// number.
#[derive(Default)]
struct Collected {
    items: HashMap<(LostKind, String), (usize, CommitId, usize)>,
}

impl Collected {
    fn add(&mut self, commit: CommitId, content: &Content) {
        let text = content.text();
        if matches!(content, Content::System(_) | Content::User(_) | Content::Assistant(_)) {
            let is_long = |text: &&str| words(text).collect::<HashSet<_>>().len() >= 3;
            let sentences = sentences(&text).into_iter().filter(is_long);
            sentences.for_each(|text| self.count(LostKind::Text, text, commit));
        }
        names(&text).for_each(|name| self.count(LostKind::Name, name, commit));
        for part in content.parts() {
            let Part::ToolCall(call) = part else { continue };
            for (key, text) in strings(&call.arguments) {
                if matches!(key.as_str(), "command" | "cmd" | "script") {
                    let command = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    self.count(LostKind::Command, &command, commit);
                } else {
                    names(&text).for_each(|name| self.count(LostKind::Name, name, commit));
                }
            }
        }
    }

    fn count(&mut self, kind: LostKind, text: &str, commit: CommitId) {
        if text.is_empty() {
            return;
        }
        let place = self.items.len();
        let (_, _, count) = self.items.entry((kind, text.to_owned())).or_insert((place, commit, 0));
        *count += 1;
    }

    fn lost(self, words: &SaidWords) -> Vec<LostItem> {
        let lost = self.items.into_iter().filter(|((kind, text), _)| !words.says(*kind, text));
        let mut lost: Vec<_> = lost.collect();
        lost.sort_by_key(|((kind, _), (place, _, count))| {
            (*kind, std::cmp::Reverse(*count), *place)
        });
        let item = |((kind, text), (_, commit, count))| LostItem { kind, text, commit, count };
        lost.into_iter().map(item).collect()
    }
}

/// Returns the words that distinguish sentences: those of four or more letters, in lower case.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.chars().nth(3).is_some())
        .map(str::to_lowercase)
}

/// Splits a text into sentences: at line breaks, and after `.`, `!` or `?` followed by white space,
/// so that the dot in `main.rs` does not end a sentence.
fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut from = 0;
    let mut characters = text.char_indices().peekable();
    while let Some((place, c)) = characters.next() {
        let before_space = characters.peek().is_none_or(|(_, next)| next.is_whitespace());
        if c == '\n' || (matches!(c, '.' | '!' | '?') && before_space) {
            let end = place + c.len_utf8();
            found.extend(text.get(from..end));
            from = end;
        }
    }
    found.extend(text.get(from..));
    found.into_iter().map(str::trim).filter(|sentence| !sentence.is_empty()).collect()
}

/// Returns the words of a command, without quotes and punctuation around them.
fn command_words(text: &str) -> impl Iterator<Item = &str> {
    let around =
        |c: char| matches!(c, '`' | '"' | '\'' | ',' | ';' | '(' | ')' | '.' | ':' | '!' | '?');
    text.split_whitespace()
        .map(move |word| word.trim_matches(around))
        .filter(|word| !word.is_empty())
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    let inside =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | '-' | '@' | '~' | '+' | ':');
    text.split(move |c| !inside(c)).map(without_colon).filter(|word| is_name(word))
}

/// Cuts the text after a single colon, unless the word is a URL, and the punctuation around the
/// word.
fn without_colon(word: &str) -> &str {
    let single = word.char_indices().find(|(place, c)| {
        let (before, after) = word.split_at(*place);
        *c == ':' && !before.ends_with(':') && !after.starts_with("::") && !after.starts_with("://")
    });
    let word = single.and_then(|(place, _)| word.get(..place)).unwrap_or(word);
    word.trim_end_matches(['.', ':', '-', '+', '~', '/']).trim_start_matches([':', '-', '+', '@'])
}

fn is_name(word: &str) -> bool {
    let mut characters = word.chars().peekable();
    let (mut letter, mut digit, mut hump, mut sign) = (false, false, false, false);
    let mut before = ' ';
    while let Some(c) = characters.next() {
        letter |= c.is_alphabetic();
        digit |= c.is_numeric();
        hump |= before.is_lowercase() && c.is_uppercase();
        sign |= matches!(c, '/' | '_' | '@') || (c == ':' && before == ':');
        sign |= c == '.'
            && before.is_alphanumeric()
            && characters.peek().is_some_and(|next| next.is_alphanumeric());
        before = c;
    }
    word.chars().nth(2).is_some() && letter && (digit || hump || sign)
}

/// Returns the strings in the arguments of a call, each with its nearest key. Arguments that are
/// not JSON are returned as one string.
fn strings(arguments: &str) -> Vec<(String, String)> {
    fn collect(key: &str, value: Value, out: &mut Vec<(String, String)>) {
        match value {
            Value::String(text) => out.push((key.to_owned(), text)),
            Value::Array(items) => items.into_iter().for_each(|item| collect(key, item, out)),
            Value::Object(members) => {
                members.into_iter().for_each(|(key, value)| collect(&key, value, out));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut out = Vec::new();
    match serde_json::from_str(arguments) {
        Ok(value) => collect("", value, &mut out),
        Err(_) => out.push((String::new(), arguments.to_owned())),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_that_no_dictionary_has() {
        let text =
            "See `src/main.rs:12`, std::fs and fooBar in v1.2 at https://a.b/c. The end. A/B a@b.c";
        let found: Vec<&str> = names(text).collect();
        assert_eq!(
            found,
            ["src/main.rs", "std::fs", "fooBar", "v1.2", "https://a.b/c", "A/B", "a@b.c"]
        );
    }

    #[test]
    fn a_full_stop_inside_a_word_ends_no_sentence() {
        let found = sentences("Open main.rs now. Then\nsave it! Done?");
        assert_eq!(found, ["Open main.rs now.", "Then", "save it!", "Done?"]);
    }
}
