//! Documents: blobs that refs outside of branches and tags name, such as pins.

use tract_core::{Blob, RefName, RefTarget};

use crate::repo::Repo;
use crate::repo::batch::{apply_and_tell, require_done};
use crate::repo::error::Result;
use crate::write::txn::ref_edit;

impl Repo {
    /// Reads the documents whose names begin with `prefix`, sorted by name.
    ///
    /// # Errors
    /// [`Error::Missing`](crate::Error::Missing) for a blob that is not stored; when the store
    /// fails.
    pub async fn documents(&self, prefix: &str) -> Result<Vec<(RefName, Blob)>> {
        let mut found = Vec::new();
        for (name, target) in self.store().list_refs(self.name(), prefix).await? {
            if let RefTarget::Blob(id) = target {
                found.push((name, self.require_blob(id).await?));
            }
        }
        Ok(found)
    }

    /// Writes documents, all or none, and notes `what` in the ref log. Unchanged documents are
    /// skipped; if none changed, nothing is written.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) when a document was moved since it was read;
    /// when the store fails.
    pub async fn set_documents(&self, what: &str, documents: Vec<(RefName, Blob)>) -> Result<()> {
        let names: Vec<RefName> = documents.iter().map(|(name, _)| name.clone()).collect();
        let targets = self.store().refs(self.name(), &names).await?;
        let operation = self.operation_or_new(None)?;
        let mut batch = self.batch(&operation, what)?;
        for ((name, blob), target) in documents.into_iter().zip(targets) {
            let to = RefTarget::Blob(blob.id());
            if target.as_ref() == Some(&to) {
                continue;
            }
            batch.blobs.push(blob);
            batch.refs.push(ref_edit(name, target, Some(to)));
        }
        if batch.refs.is_empty() {
            return Ok(());
        }
        require_done(apply_and_tell(self, &operation, batch).await?)
    }
}
