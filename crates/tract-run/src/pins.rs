//! Checks calls against the approvals of tools in the repository.

use std::sync::{Arc, PoisonError};

use tract_tools::Policy;
use tract_tools::pin::{PinGate, PinPolicy, Pins};

use crate::agent::Agent;
use crate::error::Result;

impl Agent {
    /// Allows tools to run regardless of the repository's approvals.
    ///
    /// Without this, calls of an approved tool, and of any other tool of a server that has an
    /// approved one, must pass the repository's policy.
    #[must_use]
    pub fn ignore_pins(mut self) -> Self {
        self.heeds_pins = false;
        self
    }

    /// Reads the approvals as they are now: another process may have changed them since the last run.
    pub(crate) async fn read_pins(&self) -> Result<()> {
        if !self.heeds_pins || self.registry().is_empty() {
            return Ok(());
        }
        let stored = self.repo.documents(Pins::DOCUMENTS).await?;
        let pins = Pins::from_documents(&stored)?;
        let stored = self.repo.documents(PinPolicy::DOCUMENT).await?;
        let stated = PinPolicy::from_documents(&stored)?;
        let gate = PinGate::of_registry(&pins, stated, self.registry());
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(gate));
        Ok(())
    }

    /// Returns the policy that was read last.
    pub(crate) fn pin_gate(&self) -> Option<Arc<dyn Policy>> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.as_ref().map(|gate| Arc::clone(gate) as Arc<dyn Policy>)
    }
}
