//! zstd: consecutive frames, each with a limited window. The last one may be cut.

use ruzstd::decoding::StreamingDecoder;

use super::{DecodeError, Decoded, read};

/// Maximum window of a frame in bytes, which a decoder keeps in memory.
const MAX_WINDOW_BYTES: u64 = 32 << 20;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// An empty block that ends its frame.
const LAST_BLOCK: [u8; 3] = [1, 0, 0];

const BROKEN: DecodeError = DecodeError::Undecodable("zstd");

pub(super) fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut all = Decoded { bytes: Vec::new(), is_cut: false };
    let mut rest = bytes;
    while !rest.is_empty() {
        if let Some(after) = skippable(rest) {
            rest = after;
            continue;
        }
        let frame = match Frame::of(rest) {
            Ok(frame) => frame,
            Err(FrameError::Cut) if !all.bytes.is_empty() => {
                all.is_cut = true;
                break;
            }
            Err(FrameError::Cut | FrameError::Broken) => return Err(BROKEN),
        };
        let (data, after) = rest.split_at_checked(frame.bytes).ok_or(BROKEN)?;
        let decoded = if frame.is_cut {
            // The decoder outputs the last window of a frame only at its end, so a cut frame gets
            // one.
            let mut whole = data.to_vec();
            whole.extend(LAST_BLOCK);
            whole.extend([0; 4]);
            all.is_cut = true;
            decode_frame(&whole)
        } else {
            decode_frame(data)
        };
        match decoded {
            Ok(decoded) => all.bytes.extend(decoded.bytes),
            // A frame without content is valid.
            Err(DecodeError::Undecodable(_)) if frame.has_no_content => {}
            Err(error) => return Err(error),
        }
        if all.bytes.len() > super::MAX_DECODED_BYTES {
            return Err(DecodeError::TooLarge);
        }
        if frame.is_cut {
            break;
        }
        rest = after;
    }
    Ok(all)
}

fn decode_frame(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    read(StreamingDecoder::new(bytes).map_err(|_| BROKEN)?, "zstd")
}

/// Returns the bytes after a skippable frame.
fn skippable(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let [a, b, c, d, size @ ..] = *head;
    let magic = u32::from_le_bytes([a, b, c, d]);
    let size = usize::try_from(u32::from_le_bytes(size)).ok()?;
    (magic & 0xffff_fff0 == 0x184d_2a50).then_some(rest)?.get(size..)
}

/// The extent of a frame, as far as it was received.
struct Frame {
    /// The length of the frame, or of its complete blocks if it is cut.
    bytes: usize,
    is_cut: bool,
    has_no_content: bool,
}

enum FrameError {
    /// The frame ends within its header, or before its first block is complete.
    Cut,
    Broken,
}

impl Frame {
    /// Walks the header of a frame and its blocks.
    fn of(bytes: &[u8]) -> Result<Self, FrameError> {
        let start = bytes.get(..4).ok_or(FrameError::Cut)?;
        if start != MAGIC {
            return Err(FrameError::Broken);
        }
        let descriptor = *bytes.get(4).ok_or(FrameError::Cut)?;
        let is_single = descriptor & 0x20 != 0;
        let has_checksum = descriptor & 0x04 != 0;
        let mut at = 5;
        let mut window = 0;
        if !is_single {
            let byte = *bytes.get(at).ok_or(FrameError::Cut)?;
            at += 1;
            let base = 1_u64 << (10 + (byte >> 3));
            window = base + (base / 8) * u64::from(byte & 7);
        }
        at += [0, 1, 2, 4].get(usize::from(descriptor & 3)).copied().unwrap_or(0);
        let size_bytes = match (descriptor >> 6, is_single) {
            (0, false) => 0,
            (0, true) => 1,
            (flag, _) => 1_usize << flag,
        };
        let size = bytes.get(at..at + size_bytes).ok_or(FrameError::Cut)?;
        let size = size.iter().rev().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        at += size_bytes;
        if is_single {
            window = if size_bytes == 2 { size + 256 } else { size };
        }
        if window > MAX_WINDOW_BYTES {
            return Err(FrameError::Broken);
        }
        let first = at;
        let mut content = 0;
        while let Some([a, b, c]) = bytes.get(at..at + 3) {
            let block = u32::from_le_bytes([*a, *b, *c, 0]);
            let size = usize::try_from(block >> 3).map_err(|_| FrameError::Broken)?;
            let stored = match (block >> 1) & 3 {
                0 | 2 => size,
                1 => 1,
                _ => return Err(FrameError::Broken),
            };
            let end = at + 3 + stored;
            if end > bytes.len() {
                break;
            }
            at = end;
            content += size;
            if block & 1 == 1 {
                let end = at + if has_checksum { 4 } else { 0 };
                let is_cut = end > bytes.len();
                if is_cut {
                    // Only the checksum is missing, so the cut frame gets nothing but an end.
                    return if content == 0 { Err(FrameError::Cut) } else { Ok(Self::cut(at)) };
                }
                return Ok(Self { bytes: end, is_cut: false, has_no_content: content == 0 });
            }
        }
        if at == first { Err(FrameError::Cut) } else { Ok(Self::cut(at)) }
    }

    fn cut(bytes: usize) -> Self {
        Self { bytes, is_cut: true, has_no_content: false }
    }
}
