//! Sessions in dispatch: they receive events, and are restored when a call fails.

use std::sync::Arc;

use super::{Session, SessionSnapshot};
use crate::dispatch::ToolInvoked;
use crate::event::{Event, EventSink, EventType};
use crate::snapshot::{BoxError, SavedState, Snapshot};

impl Snapshot for Session {
    fn name(&self) -> &str {
        "session"
    }

    fn identity(&self) -> usize {
        Arc::as_ptr(&self.state).addr()
    }

    fn snapshot(&self) -> Result<SavedState, BoxError> {
        Ok(SavedState::new(Session::snapshot(self)))
    }

    fn restore(&self, saved: SavedState) -> Result<(), BoxError> {
        Session::restore(self, &saved.take::<SessionSnapshot>()?);
        Ok(())
    }
}

/// Events reach the reducers of their type, else the slice of their name. The outcomes of calls are
/// a log; the value of a success goes to the slices that its tool is [routed](Session::route) to.
impl EventSink for Session {
    fn publish(&self, event: &Event) -> Result<(), BoxError> {
        if let Some(invoked) = event.get::<ToolInvoked>() {
            self.deliver(&invoked.tool_name, invoked.success, invoked.value.as_ref())?;
            self.log_named(ToolInvoked::KIND)?;
        }
        let mut failed = None;
        let json = || {
            event.json().map_err(|error| {
                let source = serde::ser::Error::custom(&error);
                failed = Some(error);
                source
            })
        };
        let published = self.publish_any(event.kind(), event.as_any(), json);
        published.map_err(|error| failed.unwrap_or_else(|| error.into()))
    }
}
