//! Approvals of tools, as the repository keeps them.

use tract_core::Blob;
use tract_tools::pin::{Pin, Pins};

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
    /// use tract::tools::pin::{Pin, Standing};
    /// let tract = tract::open("memory:").await?;
    /// let tool = ToolSchema::parse(r#"{"name":"read","inputSchema":{"type":"object"}}"#)?;
    /// tract.pin([Pin::of("files", &tool)]).await?;
    /// assert_eq!(tract.pins().await?.standing("files", &tool), Standing::Approved);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Conflict`] when one was approved by somebody else meanwhile; what the store says.
    pub async fn pin(&self, pins: impl IntoIterator<Item = Pin>) -> Result<()> {
        let mut documents = Vec::new();
        for pin in pins {
            let name = Pin::ref_name(pin.server(), pin.definition().name())?;
            documents.push((name, Blob::seal(pin.document().into_bytes())));
        }
        Ok(self.repo().set_documents("pin", documents).await?)
    }
}
