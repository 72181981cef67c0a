//! Dictionaries: byte strings shared by the blobs of a repository.

use std::fmt;

use sha2::{Digest, Sha256};

/// The id of a dictionary: the first four bytes of the SHA-256 of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryId([u8; 4]);

impl DictionaryId {
    /// Creates an id from its bytes.
    pub const fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub const fn as_bytes(&self) -> &[u8; 4] {
        &self.0
    }

    #[cfg_attr(not(feature = "zstd"), allow(dead_code, reason = "only dictionaries have ids"))]
    fn of(content: &[u8]) -> Self {
        let digest: [u8; 32] = Sha256::digest(content).into();
        let (first, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
        Self(*first)
    }
}

impl fmt::Display for DictionaryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

#[cfg(not(feature = "zstd"))]
pub use self::without::Dictionary;

#[cfg(feature = "zstd")]
pub use self::with::Dictionary;

#[cfg(not(feature = "zstd"))]
mod without {
    use super::DictionaryId;

    /// A dictionary. Uninhabited in a build without the feature `zstd`.
    #[derive(Debug)]
    pub enum Dictionary {}

    impl Dictionary {
        /// Trains a dictionary on blobs. Always `None` in this build.
        pub fn train<'s>(_samples: impl IntoIterator<Item = &'s [u8]>) -> Option<Self> {
            None
        }

        /// Opens a stored dictionary. Always `None` in this build, which cannot read it.
        pub fn open(_stored: &[u8]) -> Option<Self> {
            None
        }

        /// Returns its id.
        pub fn id(&self) -> DictionaryId {
            match *self {}
        }

        /// Returns the bytes that a store keeps.
        pub fn stored(&self) -> Vec<u8> {
            match *self {}
        }

        /// Encodes a blob for storage, or returns `None` if that saves less than 10 %.
        pub fn encode(&self, _plain: &[u8]) -> Option<Vec<u8>> {
            match *self {}
        }
    }
}

#[cfg(feature = "zstd")]
mod with {
    use std::fmt;
    use std::sync::OnceLock;

    use zstd::dict::{DecoderDictionary, EncoderDictionary};

    use super::DictionaryId;
    use crate::{DICTIONARY_BYTES, frame};

    /// Maximum number of samples on which a trained dictionary is evaluated.
    const WEIGHED_SAMPLES: usize = 4096;

    /// A dictionary, ready for compression and decompression. The two zstd contexts are built on
    /// first use.
    pub struct Dictionary {
        id: DictionaryId,
        content: Vec<u8>,
        encoder: OnceLock<EncoderDictionary<'static>>,
        decoder: OnceLock<DecoderDictionary<'static>>,
    }

    impl fmt::Debug for Dictionary {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let Self { id, content, .. } = self;
            f.debug_struct("Dictionary").field("id", id).field("bytes", &content.len()).finish()
        }
    }

    impl Dictionary {
        fn new(content: Vec<u8>) -> Self {
            let (encoder, decoder) = (OnceLock::new(), OnceLock::new());
            Self { id: DictionaryId::of(&content), content, encoder, decoder }
        }

        /// Trains a dictionary on blobs. `None` if there are too few, or if they have nothing in
        /// common. The samples should come in an unbiased order, such as that of their hashes.
        /// Takes a few times as much memory as the samples have bytes.
        pub fn train<'s>(samples: impl IntoIterator<Item = &'s [u8]>) -> Option<Self> {
            let mut samples: Vec<&[u8]> = samples.into_iter().collect();
            // zstd holds out the last quarter of the samples for evaluation. The most useful
            // strings may be in that quarter, so train four times, holding out each quarter once,
            // and keep the dictionary that compresses best.
            let quarter = samples.len() / 4;
            let mut best: Option<(usize, Self)> = None;
            for _ in 0..4 {
                samples.rotate_left(quarter);
                let Some(trained) = Self::train_once(&samples) else { continue };
                let size = trained.size_of(&samples);
                if best.as_ref().is_none_or(|(least, _)| size < *least) {
                    best = Some((size, trained));
                }
            }
            best.map(|(_, best)| best)
        }

        fn train_once(samples: &[&[u8]]) -> Option<Self> {
            let sizes: Vec<usize> = samples.iter().map(|sample| sample.len()).collect();
            let joined = samples.concat();
            // A dictionary of more than a tenth of the samples would contain strings that occur
            // only once.
            let max_bytes = (joined.len() / 10).min(DICTIONARY_BYTES);
            let content = zstd::dict::from_continuous(&joined, &sizes, max_bytes).ok()?;
            Some(Self::new(content))
        }

        /// Returns the total size of some of the samples when compressed with it.
        fn size_of(&self, samples: &[&[u8]]) -> usize {
            let stride = samples.len().div_ceil(WEIGHED_SAMPLES).max(1);
            let sizes = samples.iter().step_by(stride);
            sizes
                .map(|sample| self.encode(sample).map_or(sample.len(), |stored| stored.len()))
                .sum()
        }

        /// Opens a dictionary from the bytes of [`stored`](Self::stored). `None` if they are
        /// damaged.
        pub fn open(stored: &[u8]) -> Option<Self> {
            let content = frame::decode(stored, None).ok()?;
            Some(Self::new(content))
        }

        /// Returns its id.
        pub fn id(&self) -> DictionaryId {
            self.id
        }

        /// Returns the bytes that a store keeps: the content, compressed.
        pub fn stored(&self) -> Vec<u8> {
            frame::encode(&self.content).unwrap_or_default()
        }

        /// Encodes a blob for storage, or returns `None` if that saves less than 10 %.
        pub fn encode(&self, plain: &[u8]) -> Option<Vec<u8>> {
            frame::with_dictionary(plain, self.id.as_bytes(), self.encoder())
        }

        fn encoder(&self) -> &EncoderDictionary<'static> {
            self.encoder.get_or_init(|| EncoderDictionary::copy(&self.content, frame::THOROUGH))
        }

        pub(crate) fn decoder(&self) -> &DecoderDictionary<'static> {
            self.decoder.get_or_init(|| DecoderDictionary::copy(&self.content))
        }
    }
}
