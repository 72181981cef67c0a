//! Prefix hashes: the length of the common prefix of two requests in a provider's prompt cache.

use std::fmt;

use sha2::{Digest, Sha256};
use tract_core::CommitId;
use tract_core::text::count;

/// The hash of all blocks of a request up to and including one, in the order of a prompt cache:
/// tools, system, then each message (OpenAI, Ollama) or content block (Anthropic, Gemini, Responses
/// items).
///
/// `prefix[i] = SHA-256(prefix[i-1] ‖ SHA-256(block i as sent))`, with nothing before the first.
/// A content that is one string counts as a single text block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixHash([u8; 32]);

impl PrefixHash {
    /// Returns the 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn next(before: Option<&Self>, block: &str) -> Self {
        let mut hasher = Sha256::new();
        if let Some(before) = before {
            hasher.update(before.0);
        }
        hasher.update(Sha256::digest(block.as_bytes()));
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for PrefixHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PrefixHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixHash({self})")
    }
}

/// The source of a block of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrefixSource {
    /// The tool at this place, with this name.
    Tool {
        /// Its place, from 0.
        index: usize,
        /// Its name, as given.
        name: String,
    },
    /// The instructions of this commit.
    System(CommitId),
    /// The message of this commit.
    Message(CommitId),
    /// Added by a repair. If it is a result, the commit is that of its call.
    Repair(Option<CommitId>),
}

impl fmt::Display for PrefixSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool { index, name } => write!(f, "tool {index} ({name})"),
            Self::System(commit) => write!(f, "system ({})", commit.short()),
            Self::Message(commit) => write!(f, "message ({})", commit.short()),
            Self::Repair(Some(commit)) => write!(f, "a placeholder for {}", commit.short()),
            Self::Repair(None) => f.write_str("a closing message"),
        }
    }
}

/// The blocks of a request: hash, origin and size of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) hashes: Vec<PrefixHash>,
    pub(crate) origins: Vec<PrefixSource>,
    pub(crate) sizes: Vec<usize>,
}

impl Blocks {
    pub(crate) fn push(&mut self, origin: PrefixSource, block: &str) {
        self.hashes.push(PrefixHash::next(self.hashes.last(), block));
        self.origins.push(origin);
        self.sizes.push(block.len());
    }
}

/// The first difference between two requests, from which the prompt cache of the first cannot be
/// used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The number of equal blocks.
    pub same_blocks: usize,
    /// The size of the equal blocks in bytes.
    pub same_bytes: usize,
    /// The differing block of the first request.
    pub first: Option<PrefixSource>,
    /// The differing block of the second request.
    pub second: Option<PrefixSource>,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the cache holds {} ({}), then ",
            count(self.same_blocks, "block"),
            count(self.same_bytes, "byte")
        )?;
        match (&self.first, &self.second) {
            (Some(first), Some(second)) => write!(f, "{second} replaces {first}"),
            (Some(first), None) => write!(f, "{first} is gone"),
            (None, Some(second)) => write!(f, "{second} is new"),
            (None, None) => f.write_str("both end"),
        }
    }
}

/// Compares two requests as a prompt cache does; `None` if one is a prefix of the other, so that
/// nothing is missed.
pub fn why_miss(first: &crate::Params, second: &crate::Params) -> Option<Miss> {
    let (a, b) = (&first.blocks, &second.blocks);
    let same_blocks = a.hashes.iter().zip(&b.hashes).take_while(|(a, b)| a == b).count();
    if same_blocks == a.hashes.len().min(b.hashes.len()) {
        return None;
    }
    Some(Miss {
        same_blocks,
        same_bytes: a.sizes.iter().take(same_blocks).sum(),
        first: a.origins.get(same_blocks).cloned(),
        second: b.origins.get(same_blocks).cloned(),
    })
}
