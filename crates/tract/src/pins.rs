//! Approvals of tools, as the repository keeps them.

use tract_core::{Blob, RefName, ToolSchema};
use tract_tools::pin::{Pin, PinGate, PinPolicy, Pins};

use crate::error::{Error, Result};
use crate::handle::Tract;

impl Tract {
    /// Reads the tools that were approved in this repository.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a document that is no pin; what the store says.
    pub async fn pins(&self) -> Result<Pins> {
        let mut pins = Pins::new();
        for (name, blob) in self.repo().documents("pins/").await? {
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
    /// tract.pin([Pin::of("files", &tool)]).await?;
    /// assert_eq!(tract.pins().await?.status_of("files", &tool), ApprovalStatus::Approved);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Conflict`] when another writer approved one meanwhile; what the store says.
    pub async fn pin(&self, pins: impl IntoIterator<Item = Pin>) -> Result<()> {
        let mut documents = Vec::new();
        for pin in pins {
            let name = Pin::ref_name(pin.server(), pin.definition().name())?;
            documents.push((name, Blob::seal(pin.document().into_bytes())));
        }
        Ok(self.repo().set_documents("pin", documents).await?)
    }

    /// Reads which tools of servers may run, as this repository has it; `None` when that was not configured.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a document that is no policy; what the store says.
    pub async fn pin_policy(&self) -> Result<Option<PinPolicy>> {
        let found = self.repo().documents(PinPolicy::DOCUMENT).await?;
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

    /// Says which tools of servers may run, from now on and for all users of the repository.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another writer set it meanwhile; what the store says.
    pub async fn set_pin_policy(&self, policy: PinPolicy) -> Result<()> {
        let name = RefName::new(PinPolicy::DOCUMENT)?;
        let documents = vec![(name, Blob::seal(policy.document().into_bytes()))];
        Ok(self.repo().set_documents("pin policy", documents).await?)
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
    ///     let gate = tract.pin_gate("files", [&tool]).await?;
    ///     let registry = Registry::builder().definition(text).policy(gate).build();
    ///     let registry = registry.expect("the definition is one");
    ///     Ok::<_, tract::Error>(hydrate(Call::new("c1", "read", "{}"), &registry)[0].success())
    /// };
    /// assert!(!run().await?, "it is not approved");
    /// tract.set_pin_policy(PinPolicy::RefuseChanged).await?;
    /// assert!(run().await?, "it did not change");
    /// tract.set_pin_policy(PinPolicy::ApprovedOnly).await?;
    /// tract.pin([Pin::of("files", &tool)]).await?;
    /// assert!(run().await?);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`pins`](Self::pins) and [`pin_policy`](Self::pin_policy).
    pub async fn pin_gate<'a>(
        &self,
        server: &str,
        definitions: impl IntoIterator<Item = &'a ToolSchema>,
    ) -> Result<PinGate> {
        let policy = self.pin_policy().await?.unwrap_or_default();
        Ok(PinGate::new(&self.pins().await?, policy).guard_all(server, definitions))
    }
}
