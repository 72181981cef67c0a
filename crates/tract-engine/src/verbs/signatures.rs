//! Signatures of tags. They cover the id of a commit, and so the whole history it leads to.

use tract_core::{Blob, CommitId, RefName, RefTarget};

use crate::repo::Repo;
use crate::repo::batch::require_done;
use crate::repo::error::{Error, Result};
use crate::write::txn::{Txn, WriteOptions};

/// The SSH signature namespace. It prevents a signature made for another purpose from being
/// accepted for a tag.
pub const SIGNATURE_NAMESPACE: &str = "tract";

/// The prefix of the refs that hold signatures.
const SIGNATURES: &str = "signatures/";

/// A tag with its commit and signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedTag {
    /// The tag's name.
    pub tag: String,
    /// The commit that the tag names.
    pub commit: CommitId,
    /// The signature, in the armored format of `ssh-keygen -Y sign`; `None` for an unsigned tag.
    pub signature: Option<String>,
}

impl SignedTag {
    /// Creates an unsigned tag.
    pub fn new(tag: impl Into<String>, commit: CommitId) -> Self {
        Self { tag: tag.into(), commit, signature: None }
    }

    /// Returns the text to sign: the name and the commit. A signature for another tag or commit
    /// does not verify against it.
    ///
    /// ```
    /// use tract_core::CommitId;
    /// use tract_engine::SignedTag;
    /// let tag = SignedTag::new("v1", CommitId::from_bytes([0xab; 32]));
    /// assert_eq!(tag.text(), format!("tract tag 1\ntag v1\ncommit {}\n", "ab".repeat(32)));
    /// ```
    pub fn text(&self) -> String {
        format!("tract tag 1\ntag {}\ncommit {}\n", self.tag, self.commit.to_hex())
    }
}

impl Repo {
    /// Creates a tag with its signature in one write, or signs an existing one.
    ///
    /// # Errors
    /// As [`create_tag`](Self::create_tag); [`Error::Exists`] also when the tag names another
    /// commit. An existing signature is replaced.
    pub async fn create_signed_tag(&self, tag: &SignedTag) -> Result<RefName> {
        let name = RefName::tag(&tag.tag)?;
        let to = RefTarget::Commit(tag.commit);
        self.require_uncollected(&[tag.commit]).await?;
        let mut txn = Txn::new(self)?;
        match txn.target(&name).await? {
            Some(at) if at == to => txn.hold(&name, Some(at)),
            Some(at) => return Err(Error::Exists { name, at }),
            None => txn.move_ref(&name, Some(to)).await?,
        }
        if let (Some(at), Some(signature)) = (name.companion(), &tag.signature) {
            let document = Blob::seal(signature.clone());
            let to = RefTarget::Blob(document.id());
            txn.blob(document)?;
            txn.move_ref(&at, Some(to)).await?;
        }
        require_done(txn.apply("tag", &WriteOptions::default()).await?)?;
        Ok(name)
    }

    /// Lists the tags with their signatures, sorted by name. Signatures are not verified: use
    /// `ssh-keygen -Y verify` with [`SignedTag::text`].
    ///
    /// # Errors
    /// When the store fails.
    pub async fn signed_tags(&self) -> Result<Vec<SignedTag>> {
        let tags = self.tags().await?.into_iter();
        let mut tags: Vec<_> = tags.map(|(tag, commit)| SignedTag::new(tag, commit)).collect();
        for (name, document) in self.documents(SIGNATURES).await? {
            let Some(tag) = name.as_str().strip_prefix(SIGNATURES) else { continue };
            let found = tags.binary_search_by(|found| found.tag.as_str().cmp(tag)).ok();
            if let Some(found) = found.and_then(|place| tags.get_mut(place)) {
                // A document that is not text becomes a signature that never verifies.
                found.signature = Some(document.text().unwrap_or_default().to_owned());
            }
        }
        Ok(tags)
    }
}
