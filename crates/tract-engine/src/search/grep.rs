//! Grep: searches messages and tool definitions for lines that match a pattern.

mod backward;
mod pattern;
mod source;
mod stream;
mod text;

use std::collections::VecDeque;
use std::ops::Range;

use tract_compile::IdSet;
use tract_core::store::BlobKey;
use tract_core::{Blob, BlobId, Commit, CommitId, Kind, ToolSchema, parallel};

pub(crate) use self::backward::{BackwardFold, RowChange};
pub use self::pattern::{GrepPattern, GrepPatternBuilder};
use self::source::{Candidate, Source};
pub use self::stream::GrepStream;
pub(crate) use self::text::{SearchText, of_message as message_texts};
use crate::history::log::describe;
use crate::repo::Repo;
use crate::repo::error::Result;

/// Filters of [`grep`].
#[derive(Clone, Debug, Default)]
pub struct GrepOptions {
    /// Only messages of these kinds; all when empty. Tool definitions are left out if a kind is
    /// given.
    pub kinds: Vec<Kind>,
    /// Only calls of this tool, its results, and its definition.
    pub tool: Option<String>,
    /// Only messages whose commit states this time or a later one, in microseconds since 1970.
    pub since: Option<i64>,
    /// Only messages whose commit states this time or an earlier one.
    pub until: Option<i64>,
    /// Number of lines before and after a match that are part of the hit.
    pub context: usize,
    /// Also search what is reachable from the heads but shown by none of them: edited, summarized,
    /// skipped or reverted messages, and tools that are no longer in force.
    pub hidden: bool,
}

impl GrepOptions {
    fn takes(&self, commit: &Commit) -> bool {
        let at = commit.created_at;
        self.since.is_none_or(|since| at.is_some_and(|at| at >= since))
            && self.until.is_none_or(|until| at.is_some_and(|at| at <= until))
            && (self.kinds.is_empty()
                || commit.kind.as_ref().is_some_and(|kind| self.kinds.contains(kind)))
    }

    /// Definitions have neither kind nor time, so these filters exclude them.
    fn takes_definitions(&self) -> bool {
        self.kinds.is_empty() && self.since.is_none() && self.until.is_none()
    }
}

/// A message or tool definition with a matching line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepHit {
    /// A commit that added the content. If there are several: with one head the one nearest to it,
    /// with several heads the newest, the same one that [`search`](crate::search()) returns. For a
    /// definition, a commit after which the tool is in force.
    pub commit: CommitId,
    /// The text as it is stored.
    pub content: BlobId,
    /// The message's kind; `None` for a tool definition.
    pub kind: Option<Kind>,
    /// The tools that it calls, the one that it answers, or the one that it defines.
    pub tool_names: Vec<String>,
    /// When the commit was made: microseconds since 1970, UTC.
    pub created_at: Option<i64>,
    /// The heads that show it, as indices into the list given to [`grep`], in order; empty for a
    /// hidden message.
    pub heads: Vec<usize>,
    /// The matching lines and the lines around them, in order.
    pub lines: Vec<GrepLine>,
}

/// A line of a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepLine {
    /// The part of the message: `text`, `reasoning`, `arguments` or `definition`.
    pub part: &'static str,
    /// The index of that part among the parts of the message, from 0.
    pub part_index: usize,
    /// The line number in the part, from 1.
    pub number: usize,
    /// The line, without the line ending.
    pub text: String,
    /// The byte range of the first match; `None` for a line of context.
    pub matched: Option<Range<usize>>,
}

/// Starts a grep over everything that the heads show.
///
/// # Behavior
/// - Searches messages (texts, reasoning, arguments of calls, results) and definitions of tools,
///   line by line. Arguments and definitions are searched as lines `path: value`, without JSON
///   escapes.
/// - Reports each content once, with all heads whose context shows it. Content that no context
///   shows is reported only with [`GrepOptions::hidden`].
/// - Goes from new to old along each branch; an edited message is found at the position of the
///   original message.
/// - Sees the heads as given: commits made during the search are not included.
///
/// # Errors
/// When a commit is not stored, when stored data is damaged, or when the store fails.
///
/// # Complexity
/// With one head and without hidden messages, history is read during the search: the first hits
/// arrive after one page, and memory does not grow with the history. With several heads, history is
/// read twice. The first pass reads only commits, to find out which heads show which message, and
/// keeps a few hundred bytes for each. Both are linear in the commits and in the searched bytes,
/// for any pattern and any number of heads that share commits.
pub async fn grep(
    repo: &Repo,
    heads: &[CommitId],
    pattern: GrepPattern,
    options: GrepOptions,
) -> Result<Grep> {
    let source = match heads {
        [] => None,
        heads => {
            let source = Source::new(repo, heads, &options).await;
            Some(repo.or_collected(source, heads).await?)
        }
    };
    Ok(Grep {
        repo: repo.clone(),
        heads: heads.to_vec(),
        pattern,
        options,
        source,
        waiting: VecDeque::new(),
        found: [IdSet::default(), IdSet::default()],
        average: FIRST_AVERAGE,
        searched: 0,
    })
}

/// A grep in progress.
pub struct Grep {
    repo: Repo,
    heads: Vec<CommitId>,
    pattern: GrepPattern,
    options: GrepOptions,
    source: Option<Source>,
    waiting: VecDeque<Candidate>,
    /// The contents and definitions of the hits so far.
    found: [IdSet<BlobId>; 2],
    /// Average size of the contents that were read last.
    average: usize,
    searched: usize,
}

impl std::fmt::Debug for Grep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grep").field("searched", &self.searched).finish_non_exhaustive()
    }
}

/// Approximate number of bytes of contents that are in memory at a time.
const BYTES: usize = 4 << 20;
/// Minimum and maximum number of contents that are read together.
const CONTENTS: [usize; 2] = [8, 1024];
/// Estimated size of a content before the first one is read.
const FIRST_AVERAGE: usize = BYTES / 128;
/// Number of bytes that justify another thread.
const THREAD_BYTES: usize = 128 << 10;

impl Grep {
    /// Continues until there are hits; `None` at the end.
    ///
    /// # Errors
    /// As [`grep`].
    pub async fn next_hits(&mut self) -> Result<Option<Vec<GrepHit>>> {
        let hits = self.next_found().await;
        self.repo.or_collected(hits, &self.heads).await
    }

    async fn next_found(&mut self) -> Result<Option<Vec<GrepHit>>> {
        loop {
            if self.waiting.is_empty() {
                let Some(source) = &mut self.source else { return Ok(None) };
                match source.next_page(&self.repo, &self.options).await? {
                    Some(page) => self.waiting.extend(page),
                    None => self.source = None,
                }
                continue;
            }
            let [least, most] = CONTENTS;
            let count = (BYTES / self.average.max(1)).clamp(least, most).min(self.waiting.len());
            let candidates: Vec<Candidate> = self.waiting.drain(..count).collect();
            let hits = self.search(candidates).await?;
            if !hits.is_empty() {
                return Ok(Some(hits));
            }
        }
    }

    /// Returns the number of messages and definitions searched so far.
    pub fn searched(&self) -> usize {
        self.searched
    }

    /// Converts the search into a stream of hits.
    pub fn into_stream(self) -> GrepStream {
        GrepStream::new(self)
    }

    async fn search(&mut self, candidates: Vec<Candidate>) -> Result<Vec<GrepHit>> {
        let keys: Vec<BlobKey> = candidates
            .iter()
            .map(|candidate| BlobKey { id: candidate.blob, hint: candidate.hint })
            .collect();
        let blobs = self.repo.blobs_or_erased(&keys).await?;
        let stored = candidates.iter().zip(blobs);
        let stored: Vec<(&Candidate, Blob)> =
            stored.filter_map(|(candidate, blob)| Some((candidate, blob?))).collect();
        self.searched += stored.len();
        let bytes: usize = stored.iter().map(|(_, blob)| blob.bytes().len()).sum();
        self.average = bytes / stored.len().max(1);
        let least = (THREAD_BYTES / self.average.max(1)).max(1);
        let (pattern, options) = (&self.pattern, &self.options);
        let lines = parallel::map(&stored, least, |(candidate, blob)| {
            if !pattern.may_match_stored(blob.bytes()) {
                return Vec::new();
            }
            let text = String::from_utf8_lossy(blob.bytes());
            let texts = match (&candidate.commit.kind, candidate.is_definition) {
                (Some(kind), false) => text::of_message(kind, &text),
                (None, _) | (_, true) => text::of_definition(&text),
            };
            matching_lines(pattern, &texts, options.context)
        });
        let mut hits = Vec::new();
        for ((candidate, blob), lines) in stored.into_iter().zip(lines) {
            let found = &self.found[usize::from(candidate.is_definition)];
            if lines.is_empty() || found.contains(&candidate.blob) {
                continue;
            }
            let tool_names: Vec<String> = if candidate.is_definition {
                let schema = blob.text().and_then(|text| ToolSchema::parse(text).ok());
                schema.map(|schema| schema.name().to_owned()).into_iter().collect()
            } else {
                let described = describe(&self.repo, std::slice::from_ref(&candidate.commit));
                described.await?.into_iter().flat_map(|line| line.tool_names).collect()
            };
            if options.tool.as_ref().is_some_and(|tool| !tool_names.contains(tool)) {
                continue;
            }
            self.found[usize::from(candidate.is_definition)].insert(candidate.blob);
            hits.push(self.hit(candidate, tool_names, lines));
        }
        Ok(hits)
    }

    fn hit(&self, candidate: &Candidate, tool_names: Vec<String>, lines: Vec<GrepLine>) -> GrepHit {
        let numbers = candidate.heads.iter().cloned().flatten();
        let source = self.source.as_ref();
        let mut heads: Vec<usize> =
            numbers.map(|n| source.map_or(0, |source| source.head(n))).collect();
        heads.sort_unstable();
        heads.dedup();
        let commit = &candidate.commit;
        GrepHit {
            commit: commit.id(),
            content: candidate.blob,
            kind: commit.kind.clone().filter(|_| !candidate.is_definition),
            tool_names,
            created_at: commit.created_at,
            heads,
            lines,
        }
    }
}

/// Returns the matching lines and the lines around them. Only the first match of each line is
/// located, so that the time is linear in the texts.
fn matching_lines(pattern: &GrepPattern, texts: &[SearchText], context: usize) -> Vec<GrepLine> {
    let mut found = Vec::new();
    for (part_index, SearchText { part, text }) in texts.iter().enumerate() {
        if !pattern.may_match(text) {
            continue;
        }
        let line = |number: usize, text: &str, matched| GrepLine {
            part,
            part_index,
            number,
            text: text.to_owned(),
            matched,
        };
        let mut before: VecDeque<(usize, &str)> = VecDeque::with_capacity(context.min(64));
        let mut after = 0;
        for (place, text) in text.lines().enumerate() {
            let number = place + 1;
            // A text that was cut off after `\r` has no `\n` at its end.
            let text = text.strip_suffix('\r').unwrap_or(text);
            match pattern.find(text) {
                Some(matched) => {
                    found.extend(before.drain(..).map(|(number, text)| line(number, text, None)));
                    found.push(line(number, text, Some(matched)));
                    after = context;
                }
                None if after > 0 => {
                    found.push(line(number, text, None));
                    after -= 1;
                }
                None if context > 0 => {
                    if before.len() == context {
                        before.pop_front();
                    }
                    before.push_back((number, text));
                }
                None => {}
            }
        }
    }
    found
}
