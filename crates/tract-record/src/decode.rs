//! Removes content codings from the copy of a body, within limits.

mod zstd;

use std::io::{self, Read};

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Maximum output of one coding in bytes.
pub(crate) const MAX_DECODED_BYTES: usize = 48 << 20;
/// Maximum number of codings of one body. More are an attack.
const MAX_LAYERS: usize = 4;

/// A body that was decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) bytes: Vec<u8>,
    /// Whether the body ended within a coding; the bytes before the end are there.
    pub(crate) is_cut: bool,
}

/// Why a body cannot be decoded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("no decoder for {coding:?} of {header:?}")]
    Unsupported { coding: String, header: String },
    #[error("more than {MAX_DECODED_BYTES} bytes")]
    TooLarge,
    #[error("no {0} data")]
    Undecodable(&'static str),
}

/// Decodes a body with a `content-encoding` header. A truncated body is decoded up to its end.
pub(crate) fn decode(bytes: Vec<u8>, header: Option<&str>) -> Result<Decoded, DecodeError> {
    let header = header.unwrap_or_default();
    let names = header.split(',').map(|name| name.trim().to_ascii_lowercase());
    let mut codings = Vec::new();
    for name in names.filter(|name| !name.is_empty() && name != "identity") {
        codings.push(Coding::of(&name).ok_or_else(|| DecodeError::Unsupported {
            coding: name.clone(),
            header: header.to_owned(),
        })?);
    }
    if codings.len() > MAX_LAYERS {
        return Err(DecodeError::TooLarge);
    }
    let mut decoded = Decoded { bytes, is_cut: false };
    // The header lists the codings in the order in which they were applied.
    for coding in codings.into_iter().rev() {
        let next = coding.undo(&decoded.bytes)?;
        decoded = Decoded { is_cut: decoded.is_cut || next.is_cut, ..next };
    }
    Ok(decoded)
}

/// The ends of encoded empty bodies: the checksum of zlib, and the last block of bare deflate.
const EMPTY_DEFLATE: [&[u8]; 2] = [&[0, 0, 0, 1], &[3, 0]];

#[derive(Clone, Copy, Debug)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Coding {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "br" => Self::Brotli,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }

    fn undo(self, bytes: &[u8]) -> Result<Decoded, DecodeError> {
        let decoded = match self {
            Self::Gzip => read(MultiGzDecoder::new(bytes), self.name()),
            // The standard requires zlib; some servers send bare deflate.
            Self::Deflate if is_zlib(bytes) => read(ZlibDecoder::new(bytes), self.name()),
            Self::Deflate => read(DeflateDecoder::new(bytes), self.name()),
            Self::Brotli => read(brotli_decompressor::Decompressor::new(bytes, 4096), self.name()),
            Self::Zstd => zstd::decode(bytes),
        }?;
        // Nothing was encoded, or the body was lost on the way. The decoders of deflate do not
        // report a missing end.
        let is_lost = match self {
            Self::Deflate => !EMPTY_DEFLATE.iter().any(|end| bytes.ends_with(end)),
            Self::Gzip | Self::Brotli | Self::Zstd => bytes.is_empty(),
        };
        if decoded.bytes.is_empty() && (is_lost || decoded.is_cut) {
            return Err(DecodeError::Undecodable(self.name()));
        }
        Ok(decoded)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

fn is_zlib(bytes: &[u8]) -> bool {
    let Some([first, second]) = bytes.first_chunk() else { return false };
    first & 0x0f == 8 && u16::from_be_bytes([*first, *second]).is_multiple_of(31)
}

/// Reads all output of a decoder. An early end counts as a cut if there is some output; any other
/// error makes the body unreadable.
fn read(mut decoder: impl Read, name: &'static str) -> Result<Decoded, DecodeError> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        match decoder.read(&mut buffer) {
            Ok(0) => return Ok(Decoded { bytes, is_cut: false }),
            Ok(count) => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !bytes.is_empty() => {
                return Ok(Decoded { bytes, is_cut: true });
            }
            Err(_) => return Err(DecodeError::Undecodable(name)),
        }
        if bytes.len() > MAX_DECODED_BYTES {
            return Err(DecodeError::TooLarge);
        }
    }
}
