//! Reads streams: assembles bytes, split at any position, into pieces, and in the end into the body
//! that the provider would have sent without streaming. It does not use the network.

pub(crate) mod event;
pub(crate) mod tree;

use std::borrow::Cow;

use tract_core::{PartialReply, ReplyDelta, json};
use tract_schema::{Aliases, Dialect};

use self::event::{Accumulate, OnPiece};
use crate::answers::kept_json;
use crate::error::ReplyError;
use crate::params::Params;
use crate::profile_of;

pub use self::event::StreamError;
pub use tract_sse::{SseDecoder, SseEvent};

/// Assembles a streamed answer.
///
/// # Behavior
/// - The result does not depend on how the bytes are split.
/// - [`end`](Self::end) returns the body that the provider would have sent unstreamed, for
///   [`Params::reply`](crate::Params::reply).
/// - A stream that ends too early ([`StreamError::Cut`]) and a failure that the provider reports
///   ([`StreamError::Provider`]) are distinct. [`partial`](Self::partial) has the part that
///   arrived.
/// - Incomplete arguments are an error.
///
/// ```
/// use tract_providers::{Dialect, stream::Assembler};
/// let mut assembler = Assembler::new(Dialect::OpenAi);
/// let mut text = String::new();
/// let stream = concat!(
///     "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"}}]}\n\n",
///     "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n",
///     "data: [DONE]\n\n",
/// );
/// assembler.push(stream.as_bytes(), &mut |piece| {
///     if let tract_core::ReplyDelta::Text(more) = piece {
///         text.push_str(&more);
///     }
/// })?;
/// assert_eq!(text, "Hello");
/// assert!(assembler.end()?.contains(r#""content":"Hello""#));
/// # Ok::<(), tract_providers::stream::StreamError>(())
/// ```
pub struct Assembler {
    decoder: Decoder,
    answer: Box<dyn Accumulate>,
    /// Whether a piece contained an unpaired surrogate. Until the end it is replaced by a marker.
    has_marks: bool,
    /// Number of damaged places that were replaced so far.
    replaced: usize,
    joiner: PieceJoiner,
    pub(crate) aliases: Option<Aliases>,
    read: u64,
    limit: u64,
}

enum Decoder {
    Sse(SseDecoder),
    Lines(tract_sse::Lines),
}

impl std::fmt::Debug for Assembler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assembler").field("read", &self.read).finish_non_exhaustive()
    }
}

impl Assembler {
    /// Makes an assembler for an answer in a dialect. The default limit is 64 MiB.
    pub fn new(dialect: Dialect) -> Self {
        let profile = profile_of(dialect);
        let decoder = if profile.api.streams_lines {
            Decoder::Lines(tract_sse::Lines::default())
        } else {
            Decoder::Sse(SseDecoder::new())
        };
        let answer = (profile.stream)();
        let joiner = PieceJoiner::default();
        let (aliases, has_marks, replaced, read, limit) = (None, false, 0, 0, 64 << 20);
        Self { decoder, answer, has_marks, replaced, joiner, aliases, read, limit }
    }

    /// Sets the maximum size of the stream in bytes.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Adds bytes, and delivers the pieces that they complete.
    ///
    /// # Errors
    /// [`StreamError`]; the pieces before the error were delivered.
    pub fn push(
        &mut self,
        bytes: &[u8],
        on_piece: &mut dyn FnMut(ReplyDelta),
    ) -> Result<(), StreamError> {
        self.read += bytes.len() as u64;
        if self.read > self.limit {
            return Err(StreamError::TooLarge { limit_bytes: self.limit });
        }
        let Self { decoder, answer, aliases, has_marks, replaced, joiner, .. } = self;
        let mut event = |name: &str, data: &str| {
            let data = readable(data, has_marks, replaced);
            answer.event(name, &data, &mut |piece| {
                joiner.push(own_name(aliases.as_ref(), piece), on_piece);
            })
        };
        match decoder {
            Decoder::Sse(decoder) => {
                decoder.push(bytes)?.iter().try_for_each(|sent| event(&sent.event, &sent.data))
            }
            Decoder::Lines(lines) => lines.push(bytes, |line| match line.trim() {
                "" => Ok(0),
                line => event("", line).map(|()| 0),
            }),
        }
    }

    /// Returns whether the end marker has arrived. Everything after it is ignored.
    pub fn is_ended(&self) -> bool {
        self.answer.is_ended()
    }

    /// Ends the stream, and returns the body that an unstreamed answer would have.
    ///
    /// # Errors
    /// [`StreamError::Cut`] if the answer was incomplete, and the errors of incomplete calls.
    pub fn end(&mut self) -> Result<String, StreamError> {
        // Text after the last line end or blank line counts if it is a complete event. Otherwise
        // the stream was cut there.
        let last = match &mut self.decoder {
            Decoder::Sse(decoder) => decoder.end().map(|event| (event.event, event.data)),
            Decoder::Lines(lines) => lines.end().map(|line| (String::new(), line)),
        };
        if let Some((name, data)) = last.filter(|(_, data)| !data.trim().is_empty()) {
            let data = readable(data.trim(), &mut self.has_marks, &mut self.replaced);
            match self.answer.event(&name, &data, &mut |_| {}) {
                Err(StreamError::Shape(_)) if !self.answer.is_ended() => {
                    return Err(StreamError::Cut);
                }
                other => other?,
            }
        }
        let body = self.answer.body()?;
        let (body, unpaired) = match self.has_marks {
            true => {
                let (joined, unpaired) = json::join_surrogates(&body);
                (joined.into_owned(), unpaired)
            }
            false => (body, 0),
        };
        // The arguments of a call are JSON within a JSON string, so they are repaired separately.
        let decoded = json::decode(body.as_bytes());
        self.replaced += unpaired + decoded.count;
        match decoded.text {
            Cow::Borrowed(_) => Ok(body),
            Cow::Owned(decoded) => Ok(decoded),
        }
    }

    /// Returns the number of damaged places, such as unpaired surrogates, that were replaced by
    /// U+FFFD. Bytes that are not UTF-8 are not counted. The number is complete after
    /// [`end`](Self::end).
    pub fn replaced_count(&self) -> usize {
        self.replaced
    }

    /// Returns the part that has arrived.
    pub fn partial(&self) -> PartialReply {
        let mut partial = self.answer.partial();
        if self.has_marks {
            let calls = partial.calls.iter_mut().map(|call| &mut call.call.arguments);
            for text in calls.chain([&mut partial.text, &mut partial.reasoning]) {
                *text = json::join_surrogates(text).0.into_owned();
            }
            for choice in &mut partial.other_choices {
                *choice = kept_json(&json::join_surrogates(choice.as_str()).0);
            }
        }
        if let Some(aliases) = &self.aliases {
            for call in &mut partial.calls {
                call.call.name = aliases.original(&call.call.name).to_owned();
            }
        }
        partial
    }
}

impl Params {
    /// Makes an assembler for a streamed answer to this request. Its tools have their original
    /// names.
    ///
    /// # Errors
    /// [`ReplyError::NoRequest`] if the form is not a request.
    pub fn assembler(&self) -> Result<Assembler, ReplyError> {
        let mut assembler = Assembler::new(self.request_dialect()?);
        assembler.aliases.clone_from(&self.aliases);
        Ok(assembler)
    }
}

/// Decodes the data of an event. An unpaired surrogate becomes a marker, as its other half may be
/// in the next piece.
fn readable<'a>(data: &'a str, has_marks: &mut bool, replaced: &mut usize) -> Cow<'a, str> {
    match json::mark_surrogates(data) {
        Some(marked) => {
            *has_marks = true;
            let decoded = json::decode(marked.as_bytes());
            *replaced += decoded.count;
            Cow::Owned(decoded.text.into_owned())
        }
        None => {
            let decoded = json::decode(data.as_bytes());
            *replaced += decoded.count;
            decoded.text
        }
    }
}

/// Joins surrogate pairs that were split over consecutive pieces.
#[derive(Debug, Default)]
struct PieceJoiner {
    /// A piece that consists of the first half.
    open: Option<ReplyDelta>,
}

impl PieceJoiner {
    fn push(&mut self, mut piece: ReplyDelta, on_piece: OnPiece<'_>) {
        if let Some(mut open) = self.open.take() {
            if let Some((half, text)) = same_text(&mut open, &mut piece) {
                text.insert_str(0, half);
            } else {
                join_piece(&mut open);
                on_piece(open);
            }
        }
        if let Some(text) = text_of(&mut piece) {
            let (_, half) = json::split_open_surrogate(text);
            if !half.is_empty() {
                let half = half.to_owned();
                text.truncate(text.len() - half.len());
                let mut open = piece.clone();
                if let Some(text) = text_of(&mut open) {
                    *text = half;
                }
                self.open = Some(open);
            }
        }
        join_piece(&mut piece);
        if text_of(&mut piece).is_none_or(|text| !text.is_empty()) {
            on_piece(piece);
        }
    }
}

fn text_of(piece: &mut ReplyDelta) -> Option<&mut String> {
    match piece {
        ReplyDelta::Text(text)
        | ReplyDelta::Reasoning(text)
        | ReplyDelta::Arguments { text, .. } => Some(text),
        _ => None,
    }
}

/// Returns the texts of two pieces, if the second one continues the first.
fn same_text<'a>(
    first: &'a mut ReplyDelta,
    second: &'a mut ReplyDelta,
) -> Option<(&'a str, &'a mut String)> {
    match (first, second) {
        (ReplyDelta::Text(a), ReplyDelta::Text(b))
        | (ReplyDelta::Reasoning(a), ReplyDelta::Reasoning(b)) => Some((a, b)),
        (
            ReplyDelta::Arguments { index, text: a },
            ReplyDelta::Arguments { index: at, text: b },
        ) if index == at => Some((a, b)),
        _ => None,
    }
}

fn join_piece(piece: &mut ReplyDelta) {
    if let Some(text) = text_of(piece)
        && let (Cow::Owned(joined), _) = json::join_surrogates(text)
    {
        *text = joined;
    }
}

fn own_name(aliases: Option<&Aliases>, piece: ReplyDelta) -> ReplyDelta {
    match (aliases, piece) {
        (Some(aliases), ReplyDelta::Call { index, name }) => {
            ReplyDelta::Call { index, name: aliases.original(&name).to_owned() }
        }
        (_, piece) => piece,
    }
}
