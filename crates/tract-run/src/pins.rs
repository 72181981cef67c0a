//! What was approved in the repository, as the policy that calls are held to.

use std::sync::{Arc, PoisonError};

use tract_tools::Policy;
use tract_tools::pin::{Pin, PinError, PinGate, PinPolicy, Pins};

use crate::agent::Agent;
use crate::error::{Result, RunError};

impl Agent {
    /// Lets tools run that the repository's approvals would keep from running. Where nothing is
    /// said, the calls of a tool that was approved, or is of a server of which others were, are held
    /// to that and to the policy of the repository.
    #[must_use]
    pub fn ignore_pins(mut self) -> Self {
        self.heeds_pins = false;
        self
    }

    /// Reads what was approved, as it is now.
    pub(crate) async fn read_pins(&self) -> Result<()> {
        if !self.heeds_pins || self.registry().is_empty() {
            return Ok(());
        }
        let unreadable = |name: &str| {
            let name = name.to_owned();
            move |error: PinError| RunError::Pins { name, error }
        };
        let mut pins = Pins::new();
        for (name, blob) in self.repo.documents("pins/").await? {
            let pin = Pin::parse(blob.text().unwrap_or_default());
            pins.insert(pin.map_err(unreadable(name.as_str()))?);
        }
        let mut stated = None;
        for (name, blob) in self.repo.documents(PinPolicy::DOCUMENT).await? {
            if name.as_str() == PinPolicy::DOCUMENT {
                let policy = PinPolicy::parse_document(blob.text().unwrap_or_default());
                stated = Some(policy.map_err(unreadable(name.as_str()))?);
            }
        }
        let gate = PinGate::of_registry(&pins, stated, self.registry());
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(gate));
        Ok(())
    }

    /// The policy that was read last.
    pub(crate) fn pin_gate(&self) -> Option<Arc<dyn Policy>> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        gate.as_ref().map(|gate| Arc::clone(gate) as Arc<dyn Policy>)
    }
}
