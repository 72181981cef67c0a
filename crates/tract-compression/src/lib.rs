//! The stored form of a blob: plain, or compressed if that saves a tenth.
//!
//! | first byte | what follows |
//! | --- | --- |
//! | `FF` | the bytes as they are: those of a blob that begins with one of these three |
//! | `FE` | a frame of zstd without its magic number |
//! | `FD` | the id of a dictionary (4 bytes), and a frame that needs it |
//! | any other | nothing: this byte is the first of the blob |
//!
//! No text in UTF-8 begins with one of the three, so nearly all blobs that are kept plain are kept as they
//! are.
//!
//! ```
//! use std::convert::Infallible;
//! use tract_compression::{decode, encode};
//!
//! let text = r#"{"role":"user"}"#.repeat(1000);
//! let stored = encode(text.as_bytes());
//! let plain = decode((0, 0), &stored, |_| Ok::<_, Infallible>(None)).unwrap()?;
//! assert_eq!(plain, text.as_bytes());
//! # Ok::<(), tract_compression::DecodeError>(())
//! ```
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::sync::Arc;

#[cfg(feature = "zstd")]
mod cache;
mod dictionary;
#[cfg(feature = "zstd")]
mod frame;
mod row;

pub use self::dictionary::{Dictionary, DictionaryId};
pub use self::row::DictionaryRow;

const RAW: u8 = 0xFF;
const FRAME: u8 = 0xFE;
const WITH_DICTIONARY: u8 = 0xFD;

/// Whether this build reads and writes what is compressed.
pub const IS_AVAILABLE: bool = cfg!(feature = "zstd");

/// Minimum length in bytes of a blob that is compressed when it is written. Shorter ones gain little
/// without a dictionary, and compressing them would slow every append.
pub const MIN_BYTES: usize = 1024;

/// Maximum dictionary size in bytes.
pub const DICTIONARY_BYTES: usize = 112 << 10;

/// Copies of each dictionary in a store. With one copy, damage to it would lose every blob compressed
/// with it.
pub const DICTIONARY_COPIES: u8 = 2;

/// Bytes of blobs that a dictionary is trained on.
pub const SAMPLE_BYTES: u64 = 100 * DICTIONARY_BYTES as u64;

/// Maximum length in bytes of a sample. Longer blobs gain nothing from a dictionary: they contain enough
/// repetition themselves.
pub const MAX_SAMPLE_BYTES: usize = 64 << 10;

/// Why stored bytes cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// This build lacks the feature that decompresses.
    #[error("the bytes are compressed, and this build lacks the feature `compression`")]
    Unavailable,
    /// The dictionary is not stored.
    #[error("the bytes are compressed with dictionary {0}, which is not stored")]
    NoDictionary(DictionaryId),
    /// The bytes are not a compressed frame.
    #[error("the compressed bytes are damaged")]
    Damaged,
}

/// Encodes a blob for storage. Compresses it if it has at least [`MIN_BYTES`] and shrinks by a tenth.
pub fn encode(plain: &[u8]) -> Cow<'_, [u8]> {
    #[cfg(feature = "zstd")]
    if plain.len() >= MIN_BYTES
        && let Some(stored) = frame::quick(plain)
    {
        return Cow::Owned(stored);
    }
    as_it_is(plain)
}

/// Returns the smallest encoding.
fn repacked<'p>(plain: &'p [u8], dictionary: Option<&Dictionary>) -> Cow<'p, [u8]> {
    #[cfg(feature = "zstd")]
    {
        let dictionary = dictionary.filter(|_| plain.len() <= MAX_SAMPLE_BYTES);
        let smaller = match dictionary {
            Some(dictionary) => dictionary.encode(plain),
            None => frame::thorough(plain),
        };
        if let Some(stored) = smaller {
            return Cow::Owned(stored);
        }
    }
    let _ = dictionary;
    as_it_is(plain)
}

/// Returns what a repack stores instead of `stored`, whose plain bytes these are; `None` where that stays.
pub fn replacement(
    stored: &[u8],
    plain: &[u8],
    dictionary: Option<&Dictionary>,
) -> Option<Vec<u8>> {
    let again = repacked(plain, dictionary);
    // An older dictionary has to go, even where the blob takes more without it.
    let needed = dictionary_of(stored);
    let is_older = needed.is_some() && needed != dictionary_of(&again);
    (again.len() < stored.len() || is_older).then(|| again.into_owned())
}

/// Returns the bytes as they are stored without compression.
pub fn as_it_is(plain: &[u8]) -> Cow<'_, [u8]> {
    match is_ambiguous(plain) {
        true => Cow::Owned([&[RAW], plain].concat()),
        false => Cow::Borrowed(plain),
    }
}

/// Whether bytes that were stored before there was compression would be read as something else.
pub fn is_ambiguous(plain: &[u8]) -> bool {
    matches!(plain.first(), Some(WITH_DICTIONARY..=RAW))
}

/// Whether stored bytes have to be decompressed.
pub fn is_compressed(stored: &[u8]) -> bool {
    matches!(stored.first(), Some(&(FRAME | WITH_DICTIONARY)))
}

/// Returns the bytes that everything which needs a dictionary begins with.
pub fn mark(id: DictionaryId) -> [u8; 5] {
    let [a, b, c, d] = *id.as_bytes();
    [WITH_DICTIONARY, a, b, c, d]
}

/// Returns the dictionary that stored bytes need.
pub fn dictionary_of(stored: &[u8]) -> Option<DictionaryId> {
    let (tag, rest) = stored.split_first()?;
    let id = rest.first_chunk::<4>().filter(|_| *tag == WITH_DICTIONARY)?;
    Some(DictionaryId::from_bytes(*id))
}

/// Empties the cache of dictionaries, so that tests read them from the store.
#[doc(hidden)]
pub fn forget_dictionaries() {
    #[cfg(feature = "zstd")]
    cache::clear();
}

/// The source of dictionaries: an open store, and a repository in it.
pub type DictionaryScope = (u64, u64);

/// Finds the dictionary that stored bytes need: among those that were read there lately, else `load` reads it
/// from the store, as [`Dictionary::stored`] gave it. `None` when they need none, or it is not stored.
///
/// # Errors
/// Those of `load`.
pub fn dictionary_for<E>(
    scope: DictionaryScope,
    stored: &[u8],
    load: impl FnOnce(DictionaryId) -> Result<Option<Vec<u8>>, E>,
) -> Result<Option<Arc<Dictionary>>, E> {
    #[cfg(feature = "zstd")]
    if let Some(id) = dictionary_of(stored) {
        return cache::dictionary(scope, id, load);
    }
    let _ = (scope, stored, load);
    Ok(None)
}

/// Decodes a stored blob.
///
/// # Errors
/// `NoDictionary` if the given dictionary is not the one it needs; `Damaged` if it is not a frame;
/// `Unavailable` when this build cannot decompress.
pub fn decode_with<'s>(
    stored: &'s [u8],
    dictionary: Option<&Dictionary>,
) -> Result<Cow<'s, [u8]>, DecodeError> {
    match stored.split_first() {
        Some((&RAW, plain)) => Ok(Cow::Borrowed(plain)),
        #[cfg(feature = "zstd")]
        Some((&FRAME, frame)) => frame::decode(frame, None).map(Cow::Owned),
        #[cfg(feature = "zstd")]
        Some((&WITH_DICTIONARY, rest)) => {
            let (id, frame) =
                dictionary_of(stored).zip(rest.get(4..)).ok_or(DecodeError::Damaged)?;
            let dictionary = dictionary.filter(|dictionary| dictionary.id() == id);
            let dictionary = dictionary.ok_or(DecodeError::NoDictionary(id))?;
            frame::decode(frame, Some(dictionary.decoder())).map(Cow::Owned)
        }
        #[cfg(not(feature = "zstd"))]
        Some((&(FRAME | WITH_DICTIONARY), _)) => {
            let _ = dictionary;
            Err(DecodeError::Unavailable)
        }
        _ => Ok(Cow::Borrowed(stored)),
    }
}

/// Does what [`dictionary_for`] and [`decode_with`] do.
///
/// # Errors
/// Outside, the failure of `load`; inside, what is wrong with the bytes.
pub fn decode<'s, E>(
    scope: DictionaryScope,
    stored: &'s [u8],
    load: impl FnOnce(DictionaryId) -> Result<Option<Vec<u8>>, E>,
) -> Result<Result<Cow<'s, [u8]>, DecodeError>, E> {
    let dictionary = dictionary_for(scope, stored, load)?;
    Ok(decode_with(stored, dictionary.as_deref()))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn plain(stored: &[u8]) -> Result<Vec<u8>, DecodeError> {
        let none = |_| Ok::<_, Infallible>(None);
        decode((0, 0), stored, none).expect("nothing fails").map(Cow::into_owned)
    }

    #[test]
    fn short_bytes_and_texts_are_stored_as_they_are() {
        for bytes in [b"".as_slice(), b"{}", "ü".as_bytes(), &[0xFC, 1]] {
            assert_eq!(encode(bytes), bytes);
            assert_eq!(plain(bytes).as_deref(), Ok(bytes));
        }
    }

    #[test]
    fn bytes_that_begin_like_a_frame_are_marked() {
        for first in WITH_DICTIONARY..=RAW {
            let bytes = [first, 0xD8, 1, 2, 3];
            assert!(is_ambiguous(&bytes));
            let stored = encode(&bytes);
            assert_eq!((stored.len(), plain(&stored).as_deref()), (6, Ok(bytes.as_slice())));
        }
    }

    #[test]
    #[cfg(not(feature = "zstd"))]
    fn frames_name_the_feature_that_reads_them() {
        assert_eq!(plain(&[FRAME, 1, 2]), Err(DecodeError::Unavailable));
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn damaged_frames_are_errors_whatever_was_flipped_or_cut() {
        let text = "the same words, again and again: ".repeat(100);
        let stored = encode(text.as_bytes()).into_owned();
        assert!(stored.len() < text.len() / 10, "{}", stored.len());
        assert_eq!(plain(&stored).as_deref(), Ok(text.as_bytes()));
        for cut in 1..stored.len() {
            assert_eq!(plain(&stored[..cut]), Err(DecodeError::Damaged), "{cut}");
        }
        for at in 0..stored.len() * 8 {
            let mut flipped = stored.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            // Some flips decode to other bytes, which the hash reveals. None panics or allocates much memory.
            let _ = plain(&flipped);
        }
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn bytes_that_save_nothing_stay_plain() {
        let mut state = 1u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        });
        let bytes: Vec<u8> = std::iter::once(1).chain(noise).take(5000).collect();
        assert!(encode(&bytes) == bytes.as_slice());
    }

    #[test]
    #[cfg(feature = "zstd")]
    fn dictionaries_make_short_blobs_short() {
        let message = |n: usize| {
            format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"call_{n}","name":"read_file","arguments":{{"path":"src/module_{n}.rs"}}}}]}}"#
            )
        };
        let samples: Vec<String> = (0..2000).map(message).collect();
        let dictionary = Dictionary::train(samples.iter().map(String::as_bytes))
            .expect("so many samples train one");
        let text = message(123_456);
        let stored = dictionary.encode(text.as_bytes()).expect("it saves a tenth");
        assert!(stored.len() * 3 < text.len(), "{} of {}", stored.len(), text.len());
        assert_eq!(dictionary_of(&stored), Some(dictionary.id()));
        assert_eq!(plain(&stored), Err(DecodeError::NoDictionary(dictionary.id())));
        let load = |_| Ok::<_, Infallible>(Some(dictionary.stored()));
        let read = decode((0, 0), &stored, load).expect("nothing fails").expect("it is sound");
        assert_eq!(read, text.as_bytes());
        // The cache is keyed by the content of the dictionary.
        assert_eq!(plain(&stored).as_deref(), Ok(text.as_bytes()));
        // Another store has to have it itself.
        let none = |_| Ok::<_, Infallible>(None);
        let elsewhere = decode((0, 1), &stored, none).expect("nothing fails");
        assert_eq!(elsewhere, Err(DecodeError::NoDictionary(dictionary.id())));
        let wrong = |_| Ok::<_, Infallible>(Some(b"not it".to_vec()));
        let other = [[WITH_DICTIONARY].as_slice(), &[1, 2, 3, 4], &stored[5..]].concat();
        let id = DictionaryId::from_bytes([1, 2, 3, 4]);
        assert_eq!(decode((0, 0), &other, wrong).unwrap(), Err(DecodeError::NoDictionary(id)));
    }
}
