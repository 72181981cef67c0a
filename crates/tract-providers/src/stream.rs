//! Streams in: bytes, however they are cut, become pieces as they come and in the end the very
//! body that the provider would have sent unstreamed. No network here.

pub(crate) mod tree;

use tract_core::{ModelError, PartialReply, ReplyDelta};
use tract_schema::{Aliases, Dialect};
use tract_sse::SseError;

use crate::adapter::DialectAdapter as _;
use crate::error::ImportError;

pub use tract_sse::{SseDecoder, SseEvent};

/// A stream that does not become an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// Bytes that are no UTF-8.
    #[error("expected UTF-8, found other bytes before byte {before} of the stream")]
    NotUtf8 {
        /// Where the line with them ended, from 1.
        before: u64,
    },
    /// An event is not what the dialect says.
    #[error("an event of the stream: {0}")]
    Shape(#[from] ImportError),
    /// The provider says, within the stream, that it failed.
    #[error("the provider reported within the stream: {message}")]
    Provider {
        /// Its word for the sort of error, such as `overloaded_error`.
        kind: Option<String>,
        /// What it said.
        message: String,
    },
    /// The stream ended without the word that ends an answer.
    #[error("the stream ended before the answer did")]
    Cut,
    /// The answer ended, and the arguments of a call are no JSON object.
    #[error("the arguments of the call {name:?} are not whole: the model stopped within them")]
    Arguments {
        /// The tool.
        name: String,
    },
    /// The stream is larger than its limit.
    #[error("the stream is too large: more than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
}

impl From<SseError> for StreamError {
    fn from(error: SseError) -> Self {
        match error {
            SseError::NotUtf8 { before } => Self::NotUtf8 { before },
            SseError::TooLong { limit_bytes } => Self::TooLarge { limit_bytes: limit_bytes as u64 },
        }
    }
}

impl From<StreamError> for ModelError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Cut => Self::Cut,
            StreamError::TooLarge { limit_bytes } => Self::TooLarge { limit_bytes },
            StreamError::Provider { kind, message } => of_kind(kind.as_deref(), message),
            error @ (StreamError::NotUtf8 { .. }
            | StreamError::Shape(_)
            | StreamError::Arguments { .. }) => {
                Self::InvalidReply { message: error.to_string(), source: Some(Box::new(error)) }
            }
        }
    }
}

/// An error by the provider's own word for its sort.
pub(crate) fn of_kind(kind: Option<&str>, message: String) -> ModelError {
    match kind.unwrap_or_default() {
        // Google's words are those of gRPC, in capitals.
        "insufficient_quota" | "RESOURCE_EXHAUSTED" => {
            ModelError::RateLimited { message, retry_after: None }
        }
        kind if kind.contains("rate_limit") => {
            ModelError::RateLimited { message, retry_after: None }
        }
        kind if kind.contains("overloaded") || kind.contains("server_error") => {
            ModelError::Unavailable { message, source: None }
        }
        "api_error" | "timeout_error" | "UNAVAILABLE" | "INTERNAL" | "DEADLINE_EXCEEDED" => {
            ModelError::Unavailable { message, source: None }
        }
        "authentication_error" | "permission_error" | "UNAUTHENTICATED" | "PERMISSION_DENIED" => {
            ModelError::Unauthorized { message }
        }
        "invalid_request_error"
        | "not_found_error"
        | "request_too_large"
        | "INVALID_ARGUMENT"
        | "NOT_FOUND"
        | "FAILED_PRECONDITION" => ModelError::InvalidRequest { message },
        _ => ModelError::other(format!("the provider answered with an error: {message}")),
    }
}

/// Receives the pieces of an answer.
pub(crate) type OnPiece<'a> = &'a mut dyn FnMut(ReplyDelta);

/// What an answer of one dialect grows in.
pub(crate) trait Accumulate: Send {
    /// Takes one event: its name, where the dialect has names, and its data.
    fn event(&mut self, name: &str, data: &str, on_piece: OnPiece<'_>) -> Result<(), StreamError>;

    /// Whether the word that ends the stream has come.
    fn is_ended(&self) -> bool;

    /// The body, as it would have come unstreamed.
    fn body(&mut self) -> Result<String, StreamError>;

    /// What has come, whole or not.
    fn partial(&self) -> PartialReply;
}

/// Puts a streamed answer together.
///
/// # Behavior
/// - How the bytes are cut makes no difference.
/// - [`end`](Self::end) gives the body that the provider would have sent unstreamed, for
///   [`Params::reply`](crate::Params::reply) to read.
/// - A stream that ends too early ([`StreamError::Cut`]) and one in which the provider reports a
///   failure ([`StreamError::Provider`]) are distinct; [`partial`](Self::partial) has what came.
/// - Arguments are whole, or it is an error.
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
    /// Makes an assembler for an answer in a dialect. It takes up to 64 MiB.
    pub fn new(dialect: Dialect) -> Self {
        let decoder = if dialect.profile().streams_lines {
            Decoder::Lines(tract_sse::Lines::default())
        } else {
            Decoder::Sse(SseDecoder::new())
        };
        let answer = (dialect.profile().stream)();
        Self { decoder, answer, aliases: None, read: 0, limit: 64 << 20 }
    }

    /// Sets how many bytes it takes.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Takes bytes and hands over the pieces that they complete.
    ///
    /// # Errors
    /// [`StreamError`]; what came before it was handed over.
    pub fn push(
        &mut self,
        bytes: &[u8],
        on_piece: &mut dyn FnMut(ReplyDelta),
    ) -> Result<(), StreamError> {
        self.read += bytes.len() as u64;
        if self.read > self.limit {
            return Err(StreamError::TooLarge { limit_bytes: self.limit });
        }
        let Self { decoder, answer, aliases, .. } = self;
        let mut named = |piece| on_piece(own_name(aliases.as_ref(), piece));
        match decoder {
            Decoder::Sse(decoder) => {
                for event in decoder.push(bytes)? {
                    answer.event(&event.event, &event.data, &mut named)?;
                }
                Ok(())
            }
            Decoder::Lines(lines) => lines.push(bytes, |line| match line.trim() {
                "" => Ok(0),
                line => answer.event("", line, &mut named).map(|()| 0),
            }),
        }
    }

    /// Returns whether the word that ends the stream has come; nothing after it counts.
    pub fn is_ended(&self) -> bool {
        self.answer.is_ended()
    }

    /// Takes the end of the stream, and returns the body as it would have come unstreamed.
    ///
    /// # Errors
    /// [`StreamError::Cut`] when the answer had not ended, and what an answer may lack.
    pub fn end(&mut self) -> Result<String, StreamError> {
        // What comes after the last line end or blank line counts when it is whole; when it is
        // not, the stream was cut there.
        let last = match &mut self.decoder {
            Decoder::Sse(decoder) => decoder.end()?.map(|event| (event.event, event.data)),
            Decoder::Lines(lines) => lines.end()?.map(|line| (String::new(), line)),
        };
        if let Some((name, data)) = last.filter(|(_, data)| !data.trim().is_empty()) {
            match self.answer.event(&name, data.trim(), &mut |_| {}) {
                Err(StreamError::Shape(_)) if !self.answer.is_ended() => {
                    return Err(StreamError::Cut);
                }
                other => other?,
            }
        }
        self.answer.body()
    }

    /// Returns what has come so far.
    pub fn partial(&self) -> PartialReply {
        let mut partial = self.answer.partial();
        if let Some(aliases) = &self.aliases {
            for call in &mut partial.calls {
                call.call.name = aliases.original(&call.call.name).to_owned();
            }
        }
        partial
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
