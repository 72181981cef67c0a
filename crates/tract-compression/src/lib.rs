//! Encodes blobs for storage: plain, or compressed if that saves a tenth.
//!
//! | first byte | meaning of the following bytes |
//! | --- | --- |
//! | `FF` | a plain blob whose own first byte is `FD`, `FE` or `FF` |
//! | `FE` | a zstd frame without its magic number |
//! | `FD` | the id of a dictionary (4 bytes), and a frame compressed with it |
//! | any other | a plain blob; this byte is its first |
//!
//! UTF-8 text never starts with one of the three tags, so nearly all plain blobs are stored without
//! a prefix.
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

/// Whether this build can read and write compressed blobs.
pub const IS_AVAILABLE: bool = cfg!(feature = "zstd");

/// Minimum length, in bytes, of a blob that is compressed when it is first written with many
/// others. Compressing shorter ones would slow down an import by a third.
pub const MIN_BYTES: usize = 1024;

/// Minimum length, in bytes, of a blob that is compressed when it is first written with few others,
/// to a durable store. Such a write waits for the disk, which takes far longer than compressing it.
pub const MIN_BYTES_OF_FEW: usize = 256;

/// Maximum dictionary size in bytes.
pub const DICTIONARY_BYTES: usize = 112 << 10;

/// Number of copies that a store keeps of each dictionary. If the only copy were damaged, every
/// blob compressed with it would be lost.
pub const DICTIONARY_COPIES: u8 = 2;

/// Number of bytes of blobs on which a dictionary is trained.
pub const SAMPLE_BYTES: u64 = 100 * DICTIONARY_BYTES as u64;

/// Maximum length, in bytes, of a blob that is used for training or compressed with a dictionary.
/// Longer ones repeat enough of their own text and gain nothing from it.
pub const MAX_SAMPLE_BYTES: usize = 64 << 10;

/// Error of decoding stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes are compressed, and this build lacks the feature `compression`.
    #[error("the bytes are compressed, and this build lacks the feature `compression`")]
    Unavailable,
    /// The dictionary that the bytes need is not stored.
    #[error("the bytes are compressed with dictionary {0}, which is not stored")]
    NoDictionary(DictionaryId),
    /// The compressed bytes are not a valid frame.
    #[error("the compressed bytes are damaged")]
    Damaged,
}

/// Encodes a blob for its first write. Compresses it if it has at least [`MIN_BYTES`] and that
/// saves 10 %.
pub fn encode(plain: &[u8]) -> Cow<'_, [u8]> {
    encode_from(plain, MIN_BYTES)
}

/// Encodes a blob for its first write. Compresses it if it has at least this number of bytes and
/// that saves 10 %.
pub fn encode_from(plain: &[u8], min_bytes: usize) -> Cow<'_, [u8]> {
    #[cfg(not(feature = "zstd"))]
    let _ = min_bytes;
    #[cfg(feature = "zstd")]
    if plain.len() >= min_bytes
        && let Some(stored) = frame::quick(plain)
    {
        return Cow::Owned(stored);
    }
    as_it_is(plain)
}

/// Returns the smallest encoding of a blob.
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

/// Returns the encoding that a repack stores in place of `stored`, whose decoded bytes are `plain`.
/// `None` if `stored` is kept.
pub fn replacement(
    stored: &[u8],
    plain: &[u8],
    dictionary: Option<&Dictionary>,
) -> Option<Vec<u8>> {
    let again = repacked(plain, dictionary);
    // Replace an older dictionary even if the new encoding is larger, so that the old one can be
    // deleted.
    let needed = dictionary_of(stored);
    let is_older = needed.is_some() && needed != dictionary_of(&again);
    (again.len() < stored.len() || is_older).then(|| again.into_owned())
}

/// Encodes a blob without compression.
pub fn as_it_is(plain: &[u8]) -> Cow<'_, [u8]> {
    match is_ambiguous(plain) {
        true => Cow::Owned([&[RAW], plain].concat()),
        false => Cow::Borrowed(plain),
    }
}

/// Returns whether a plain blob starts with one of the tags, and so has to be stored with a prefix.
/// Blobs written before compression was added lack that prefix.
pub fn is_ambiguous(plain: &[u8]) -> bool {
    matches!(plain.first(), Some(WITH_DICTIONARY..=RAW))
}

/// Returns whether stored bytes are compressed.
pub fn is_compressed(stored: &[u8]) -> bool {
    matches!(stored.first(), Some(&(FRAME | WITH_DICTIONARY)))
}

/// Returns the prefix of all stored bytes that were compressed with this dictionary.
pub fn mark(id: DictionaryId) -> [u8; 5] {
    let [a, b, c, d] = *id.as_bytes();
    [WITH_DICTIONARY, a, b, c, d]
}

/// Returns the id of the dictionary that stored bytes were compressed with.
pub fn dictionary_of(stored: &[u8]) -> Option<DictionaryId> {
    let (tag, rest) = stored.split_first()?;
    let id = rest.first_chunk::<4>().filter(|_| *tag == WITH_DICTIONARY)?;
    Some(DictionaryId::from_bytes(*id))
}

/// Empties the dictionary cache. For tests that check which dictionaries a store has.
#[doc(hidden)]
pub fn forget_dictionaries() {
    #[cfg(feature = "zstd")]
    cache::clear();
}

/// Cache key of the place that a dictionary is read from: an open store, and a repository in it.
pub type DictionaryScope = (u64, u64);

/// Returns the dictionary that stored bytes need, from the cache or from the store. `load` reads
/// the bytes that [`Dictionary::stored`] returned. `None` if the bytes need no dictionary, or if it
/// is not stored.
///
/// # Errors
/// Errors of `load`.
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

/// Decodes stored bytes with the dictionary that they need, if any.
///
/// # Errors
/// `NoDictionary` if `dictionary` is not the one that the bytes need; `Damaged` if the frame is
/// invalid; `Unavailable` if this build cannot decompress.
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

/// Decodes stored bytes, loading the dictionary if they need one: [`dictionary_for`], then
/// [`decode_with`].
///
/// # Errors
/// The outer error is that of `load`; the inner one is that of [`decode_with`].
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
            // Some flips decode to other bytes, which callers detect by the hash. None may panic or
            // allocate much memory.
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
        // The dictionary comes from the cache of the same store.
        assert_eq!(plain(&stored).as_deref(), Ok(text.as_bytes()));
        // Another store must have its own copy.
        let none = |_| Ok::<_, Infallible>(None);
        let elsewhere = decode((0, 1), &stored, none).expect("nothing fails");
        assert_eq!(elsewhere, Err(DecodeError::NoDictionary(dictionary.id())));
        let wrong = |_| Ok::<_, Infallible>(Some(b"not it".to_vec()));
        let other = [[WITH_DICTIONARY].as_slice(), &[1, 2, 3, 4], &stored[5..]].concat();
        let id = DictionaryId::from_bytes([1, 2, 3, 4]);
        assert_eq!(decode((0, 0), &other, wrong).unwrap(), Err(DecodeError::NoDictionary(id)));
    }
}
