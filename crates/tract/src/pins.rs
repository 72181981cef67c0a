//! Approvals of tools, as the repository keeps them.

use tract_core::{Blob, RefName, ToolSchema};
use tract_tools::pin::{Pin, PinGate, PinPolicy, Pins};

use crate::error::{Error, Result};
use crate::handle::Tract;

impl Tract {
    /// Returns the approvals of tools, and the policy of the repository for servers' tools.
    pub fn pins(&self) -> ToolPins<'_> {
        ToolPins { tract: self }
    }
}

/// The approvals of tools of a repository: what [`Tract::pins`] returns.
#[derive(Clone, Copy, Debug)]
pub struct ToolPins<'a> {
    tract: &'a Tract,
}

impl ToolPins<'_> {
    /// Reads the tools that were approved in this repository.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a document that is no pin; what the store reports.
    pub async fn all(&self) -> Result<Pins> {
        let mut pins = Pins::new();
        for (name, blob) in self.tract.repo().documents("pins/").await? {
            let text = blob.text().unwrap_or_default();
            let pin = Pin::parse(text).map_err(|error| Error::Invalid {
                message: format!("{}: {error}", name.as_str()),
                note: Some("approve the tool again: tract tools trust".to_owned()),
            })?;
            pins.insert(pin);
        }
        Ok(pins)
    }

    /// Approves tools: from here on each is bound to this definition. One that was approved before
    /// takes this definition; all are written, or none.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::ToolSchema;
    /// use tract::tools::pin::{Pin, ApprovalStatus};
    /// let tract = tract::open("memory:").await?;
    /// let tool = ToolSchema::parse(r#"{"name":"read","inputSchema":{"type":"object"}}"#)?;
    /// tract.pins().approve([Pin::of("files", &tool)]).await?;
    /// assert_eq!(tract.pins().all().await?.status_of("files", &tool), ApprovalStatus::Approved);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Conflict`] when another writer approved one meanwhile; what the store reports.
    pub async fn approve(&self, pins: impl IntoIterator<Item = Pin>) -> Result<()> {
        let mut documents = Vec::new();
        for pin in pins {
            let name = Pin::ref_name(pin.server(), pin.definition().name())?;
            documents.push((name, Blob::seal(pin.document().into_bytes())));
        }
        Ok(self.tract.repo().set_documents("pin", documents).await?)
    }

    /// Reads which tools of servers may run, as this repository has it; `None` when that was not configured.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a document that is no policy; what the store reports.
    pub async fn policy(&self) -> Result<Option<PinPolicy>> {
        let found = self.tract.repo().documents(PinPolicy::DOCUMENT).await?;
        let Some((_, blob)) =
            found.into_iter().find(|(name, _)| name.as_str() == PinPolicy::DOCUMENT)
        else {
            return Ok(None);
        };
        match PinPolicy::parse_document(blob.text().unwrap_or_default()) {
            Ok(policy) => Ok(Some(policy)),
            Err(error) => Err(Error::Invalid {
                message: format!("{}: {error}", PinPolicy::DOCUMENT),
                note: Some("say it again: tract tools policy approved-only".to_owned()),
            }),
        }
    }

    /// Sets which tools of servers may run, from now on and for all who open the repository.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another writer set it meanwhile; what the store reports.
    pub async fn set_policy(&self, policy: PinPolicy) -> Result<()> {
        let name = RefName::new(PinPolicy::DOCUMENT)?;
        let documents = vec![(name, Blob::seal(policy.document().into_bytes()))];
        Ok(self.tract.repo().set_documents("pin policy", documents).await?)
    }

    /// Makes the policy that holds calls of a server's tools to what was approved here: for
    /// registries, and for other code that asks policies. Where the repository says nothing, only
    /// approved tools may run. Agents ask by themselves and need none.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::ToolSchema;
    /// use tract::tools::pin::{Pin, PinPolicy};
    /// use tract::tools::{Call, Registry, hydrate};
    /// let tract = tract::open("memory:").await?;
    /// let text = r#"{"name":"read","inputSchema":{"type":"object"}}"#;
    /// let tool = ToolSchema::parse(text)?;
    /// let run = async || {
    ///     let gate = tract.pins().gate("files", [&tool]).await?;
    ///     let registry = Registry::builder().definition(text).policy(gate).build();
    ///     let registry = registry.expect("the definition is one");
    ///     Ok::<_, tract::Error>(hydrate(Call::new("c1", "read", "{}"), &registry)[0].success())
    /// };
    /// assert!(!run().await?, "it is not approved");
    /// tract.pins().set_policy(PinPolicy::RefuseChanged).await?;
    /// assert!(run().await?, "it did not change");
    /// tract.pins().set_policy(PinPolicy::ApprovedOnly).await?;
    /// tract.pins().approve([Pin::of("files", &tool)]).await?;
    /// assert!(run().await?);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`all`](Self::all) and [`policy`](Self::policy).
    pub async fn gate<'a>(
        &self,
        server: &str,
        definitions: impl IntoIterator<Item = &'a ToolSchema>,
    ) -> Result<PinGate> {
        let policy = self.policy().await?.unwrap_or_default();
        Ok(PinGate::new(&self.all().await?, policy).guard_all(server, definitions))
    }
}
