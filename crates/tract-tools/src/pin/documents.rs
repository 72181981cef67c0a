//! Approvals and the policy as documents of a repository.

use tract_core::{BadName, Blob, RefName};

use super::{Pin, PinError, PinPolicy, Pins};

/// The error of a repository's document that is not a valid approval or policy.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {error}")]
pub struct PinDocumentError {
    /// The name of the document.
    pub name: String,
    /// The error.
    #[source]
    pub error: PinError,
}

impl PinDocumentError {
    /// Returns a hint for fixing it.
    pub fn note(&self) -> &'static str {
        if self.name == PinPolicy::DOCUMENT {
            "set the policy again: tract tools policy approved-only"
        } else {
            "approve the tool again: tract tools trust"
        }
    }
}

impl Pin {
    /// Returns the document that stores this approval, with its name.
    ///
    /// # Errors
    /// As [`ref_name`](Self::ref_name).
    pub fn to_document(&self) -> Result<(RefName, Blob), BadName> {
        let name = Self::ref_name(self.server(), self.definition().name())?;
        Ok((name, Blob::seal(self.document().into_bytes())))
    }
}

impl Pins {
    /// Prefix of the names of all approvals.
    pub const DOCUMENTS: &'static str = "pins/";

    /// Reads the approvals that a repository stores under [`DOCUMENTS`](Self::DOCUMENTS).
    ///
    /// # Errors
    /// [`PinDocumentError`] for the first document that is not an approval.
    pub fn from_documents<'a>(
        documents: impl IntoIterator<Item = &'a (RefName, Blob)>,
    ) -> Result<Self, PinDocumentError> {
        let mut pins = Self::new();
        for (name, blob) in documents {
            let pin = Pin::parse(blob.text().unwrap_or_default());
            pins.insert(pin.map_err(|error| document_error(name, error))?);
        }
        Ok(pins)
    }
}

impl PinPolicy {
    /// Returns the document that stores this policy, with its name.
    ///
    /// # Errors
    /// Never in practice: the name is constant and valid.
    pub fn to_document(self) -> Result<(RefName, Blob), BadName> {
        Ok((RefName::new(Self::DOCUMENT)?, Blob::seal(self.document().into_bytes())))
    }

    /// Finds the policy among documents; `None` if there is none. Documents of other
    /// names are ignored, since a store lists by prefix.
    ///
    /// # Errors
    /// [`PinDocumentError`] for a document of the right name that is not a policy.
    pub fn from_documents<'a>(
        documents: impl IntoIterator<Item = &'a (RefName, Blob)>,
    ) -> Result<Option<Self>, PinDocumentError> {
        let found = documents.into_iter().find(|(name, _)| name.as_str() == Self::DOCUMENT);
        found
            .map(|(name, blob)| {
                Self::parse_document(blob.text().unwrap_or_default())
                    .map_err(|error| document_error(name, error))
            })
            .transpose()
    }
}

fn document_error(name: &RefName, error: PinError) -> PinDocumentError {
    PinDocumentError { name: name.as_str().to_owned(), error }
}

#[cfg(test)]
mod tests {
    use tract_core::ToolSchema;

    use super::*;

    #[test]
    fn approvals_and_the_policy_are_read_from_their_documents() {
        let tool = ToolSchema::parse(r#"{"name":"read","inputSchema":{}}"#).expect("a tool");
        let pin = Pin::of("files", &tool);
        let stored = [pin.to_document().expect("a name")];
        let pins = Pins::from_documents(&stored).expect("it is an approval");
        assert_eq!(pins.get("files", "read"), Some(&pin));
        let other = RefName::new("config/pins.old").expect("a name");
        let policy = PinPolicy::TellOnly.to_document().expect("a name");
        let stored = [(other, Blob::seal("?")), policy];
        let found = PinPolicy::from_documents(&stored).expect("it is a policy");
        assert_eq!(found, Some(PinPolicy::TellOnly));
        assert_eq!(PinPolicy::from_documents(&stored[..1]).expect("no policy"), None);
    }

    #[test]
    fn a_damaged_document_is_named_with_the_way_out() {
        let pin = (RefName::new("pins/read-1").expect("a name"), Blob::seal("{}"));
        let error = Pins::from_documents([&pin]).expect_err("it is no approval");
        assert!(error.to_string().starts_with("pins/read-1: expected a pin"), "{error}");
        assert!(error.note().contains("tools trust"));
        let name = RefName::new(PinPolicy::DOCUMENT).expect("a name");
        let policy = (name, Blob::seal(r#"{"v":9,"policy":"tell-only"}"#));
        let error = PinPolicy::from_documents([&policy]).expect_err("it is newer");
        assert!(error.note().contains("tools policy"));
    }
}
