//! Approvals of tools, which a repository stores.

use tract_core::ToolSchema;
use tract_tools::pin::{Pin, PinGate, PinPolicy, Pins};

use crate::error::Result;
use crate::handle::Tract;

impl Tract {
    /// Returns the approvals of tools, and the policy of the repository for servers' tools.
    pub fn pins(&self) -> ToolPins<'_> {
        ToolPins { tract: self }
    }
}

/// The approvals of tools of a repository, returned by [`Tract::pins`].
#[derive(Clone, Copy, Debug)]
pub struct ToolPins<'a> {
    tract: &'a Tract,
}

impl ToolPins<'_> {
    /// Returns the approved tools of this repository.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a document that is not a pin; store errors.
    pub async fn all(&self) -> Result<Pins> {
        let stored = self.tract.repo().documents(Pins::DOCUMENTS).await?;
        Ok(Pins::from_documents(&stored)?)
    }

    /// Approves tools: each name is bound to this definition. A tool that was approved before is
    /// bound to the new definition. The write is atomic.
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
    /// [`Error::Conflict`](crate::Error::Conflict) if another writer approved one concurrently;
    /// store errors.
    pub async fn approve(&self, pins: impl IntoIterator<Item = Pin>) -> Result<()> {
        let documents = pins.into_iter().map(|pin| pin.to_document()).collect::<Result<_, _>>()?;
        Ok(self.tract.repo().set_documents("pin", documents).await?)
    }

    /// Returns the policy of this repository for servers' tools; `None` if none was set.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a document that is not a policy; store errors.
    pub async fn policy(&self) -> Result<Option<PinPolicy>> {
        let stored = self.tract.repo().documents(PinPolicy::DOCUMENT).await?;
        Ok(PinPolicy::from_documents(&stored)?)
    }

    /// Sets which tools of servers may run, for everyone who opens the repository.
    ///
    /// # Errors
    /// [`Error::Conflict`](crate::Error::Conflict) if another writer set it concurrently; store
    /// errors.
    pub async fn set_policy(&self, policy: PinPolicy) -> Result<()> {
        Ok(self.tract.repo().set_documents("pin policy", vec![policy.to_document()?]).await?)
    }

    /// Makes a policy for registries that rejects calls of tools that were not approved here.
    ///
    /// Without a policy of the repository, only approved tools may run. Agents check approvals
    /// themselves and do not need this policy.
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
