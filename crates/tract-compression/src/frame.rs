//! Zstd frames, stored without their four-byte magic number.

use std::cell::RefCell;

use zstd::bulk::Compressor;
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx};

use crate::{DecodeError, FRAME, WITH_DICTIONARY};

/// The magic number of a zstd frame.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// Compression level of a first write, on which the caller waits.
const QUICK: i32 = 1;
/// Compression level of a repack. It is slower: a repacked blob is written once and read often.
pub(crate) const THOROUGH: i32 = 12;
/// Maximum size, in bytes, of the copy buffer that a thread keeps between calls.
const KEPT_BYTES: usize = 1 << 20;
/// Maximum length of a blob, in bytes. Stores reject longer ones.
const MAX_BYTES: u64 = 1 << 30;

thread_local! {
    /// Contexts are kept per thread: creating one takes longer than compressing a message.
    static COMPRESSING: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESSING: RefCell<(DCtx<'static>, Vec<u8>)> =
        RefCell::new((DCtx::create(), Vec::new()));
}

/// Returns whether the stored bytes are at most nine tenths of the plain ones.
fn saves_a_tenth(stored: usize, plain: usize) -> bool {
    stored + plain / 10 <= plain
}

/// Compresses a blob for its first write. `None` if that saves less than 10 %.
pub(crate) fn quick(plain: &[u8]) -> Option<Vec<u8>> {
    alone(plain, QUICK)
}

/// Compresses a blob for a repack. `None` if that saves less than 10 %.
pub(crate) fn thorough(plain: &[u8]) -> Option<Vec<u8>> {
    alone(plain, THOROUGH)
}

fn alone(plain: &[u8], level: i32) -> Option<Vec<u8>> {
    let mut stored = compress(plain, level)?;
    // The last byte of the magic number is replaced by the tag; the other three are dropped.
    stored.drain(..MAGIC.len() - 1);
    *stored.first_mut()? = FRAME;
    saves_a_tenth(stored.len(), plain.len()).then_some(stored)
}

/// Compresses bytes without a tag, even if that saves nothing.
pub(crate) fn encode(plain: &[u8]) -> Option<Vec<u8>> {
    let mut frame = compress(plain, THOROUGH)?;
    frame.drain(..MAGIC.len());
    Some(frame)
}

/// Compresses into a complete frame. `None` if that fails, for example for lack of memory.
fn compress(plain: &[u8], level: i32) -> Option<Vec<u8>> {
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    COMPRESSING.with_borrow_mut(|context| {
        context.set_parameter(CParameter::CompressionLevel(level)).ok()?;
        context.compress2(&mut frame, plain).ok()
    })?;
    frame.starts_with(&MAGIC).then_some(frame)
}

/// Compresses a blob with the dictionary of this id. `None` if that saves less than 10 %.
pub(crate) fn with_dictionary(
    plain: &[u8],
    id: &[u8],
    dictionary: &EncoderDictionary<'_>,
) -> Option<Vec<u8>> {
    let mut compressor = Compressor::with_prepared_dictionary(dictionary).ok()?;
    // The id is stored in front of the frame instead, where it can be read without zstd.
    compressor.include_dictid(false).ok()?;
    let frame = compressor.compress(plain).ok()?;
    let stored = [&[WITH_DICTIONARY], id, frame.strip_prefix(&MAGIC)?].concat();
    saves_a_tenth(stored.len(), plain.len()).then_some(stored)
}

/// Decompresses a frame without its magic number.
pub(crate) fn decode(
    frame: &[u8],
    dictionary: Option<&DecoderDictionary<'_>>,
) -> Result<Vec<u8>, DecodeError> {
    DECOMPRESSING.with_borrow_mut(|(context, whole)| {
        whole.clear();
        whole.extend_from_slice(&MAGIC);
        whole.extend_from_slice(frame);
        let plain = decompress(context, whole, dictionary);
        whole.shrink_to(KEPT_BYTES);
        plain.ok_or(DecodeError::Damaged)
    })
}

fn decompress(
    context: &mut DCtx<'static>,
    frame: &[u8],
    dictionary: Option<&DecoderDictionary<'_>>,
) -> Option<Vec<u8>> {
    // A damaged frame may declare any length. Check it against the limit before reserving. Reserved
    // pages that are never written take no memory.
    let length = zstd_safe::get_frame_content_size(frame).ok()??;
    if length > MAX_BYTES {
        return None;
    }
    let length = usize::try_from(length).ok()?;
    let mut plain = Vec::new();
    plain.try_reserve_exact(length).ok()?;
    let written = match dictionary {
        Some(dictionary) => {
            context.decompress_using_ddict(&mut plain, frame, dictionary.as_ddict())
        }
        None => context.decompress(&mut plain, frame),
    };
    (written.ok()? == length).then_some(plain)
}
