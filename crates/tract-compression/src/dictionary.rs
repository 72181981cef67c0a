//! Dictionaries: what the blobs of a repository have in common.

use std::fmt;

use sha2::{Digest, Sha256};

/// The id of a dictionary: the first four bytes of the hash of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryId([u8; 4]);

impl DictionaryId {
    /// Makes an id of its bytes.
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

    /// A dictionary; there is none in a build without the feature `zstd`.
    #[derive(Debug)]
    pub enum Dictionary {}

    impl Dictionary {
        /// Trains a dictionary on blobs: gives none.
        pub fn train<'s>(_samples: impl IntoIterator<Item = &'s [u8]>) -> Option<Self> {
            None
        }

        /// Reads what [`stored`](Self::stored) gave: there is nothing that could read it.
        pub fn open(_stored: &[u8]) -> Option<Self> {
            None
        }

        /// Returns its name.
        pub fn id(&self) -> DictionaryId {
            match *self {}
        }

        /// Returns it as a store keeps it.
        pub fn stored(&self) -> Vec<u8> {
            match *self {}
        }

        /// Returns the bytes of a blob as they are stored, if that saves a tenth.
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

    /// The number of samples that a dictionary is evaluated on.
    const WEIGHED_SAMPLES: usize = 4096;

    /// A dictionary, ready to compress and to decompress with.
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

        /// Trains a dictionary on blobs; gives none when they are too few or have nothing in common.
        /// They should come in no order, such as that of their hashes. Takes as many bytes of memory as
        /// the samples have, a few times.
        pub fn train<'s>(samples: impl IntoIterator<Item = &'s [u8]>) -> Option<Self> {
            let mut samples: Vec<&[u8]> = samples.into_iter().collect();
            // Training leaves out the last quarter, to weigh what it finds. What lies there can matter most,
            // so each quarter is left out once, and the best dictionary is kept.
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
            // A larger one would hold what is said once.
            let max_bytes = (joined.len() / 10).min(DICTIONARY_BYTES);
            let content = zstd::dict::from_continuous(&joined, &sizes, max_bytes).ok()?;
            Some(Self::new(content))
        }

        /// Returns how many bytes some of the samples take with it.
        fn size_of(&self, samples: &[&[u8]]) -> usize {
            let stride = samples.len().div_ceil(WEIGHED_SAMPLES).max(1);
            let sizes = samples.iter().step_by(stride);
            sizes
                .map(|sample| self.encode(sample).map_or(sample.len(), |stored| stored.len()))
                .sum()
        }

        /// Reads what [`stored`](Self::stored) gave; `None` when it is damaged.
        pub fn open(stored: &[u8]) -> Option<Self> {
            let content = frame::decode(stored, None).ok()?;
            Some(Self::new(content))
        }

        /// Returns its name.
        pub fn id(&self) -> DictionaryId {
            self.id
        }

        /// Returns it as a store keeps it: compressed itself.
        pub fn stored(&self) -> Vec<u8> {
            frame::encode(&self.content).unwrap_or_default()
        }

        /// Returns the bytes of a blob as they are stored, if that saves a tenth.
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
