//! Typed events that tools publish, and the interfaces that receive them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use tract_core::JsonText;

use crate::snapshot::{BoxError, Snapshot};

/// A type of events. A session routes events to its slices by this type, and stores them as JSON.
///
/// ```
/// use tract_tools::event::{Event, EventType};
/// #[derive(Debug, serde::Serialize)]
/// struct StepDone { step: u32 }
/// impl EventType for StepDone {
///     const KIND: &'static str = "step_done";
/// }
/// let event = Event::new(StepDone { step: 3 });
/// assert_eq!(event.kind(), "step_done");
/// assert_eq!(event.get::<StepDone>().map(|done| done.step), Some(3));
/// assert_eq!(event.json()?.as_str(), r#"{"step":3}"#);
/// # Ok::<(), tract_tools::snapshot::BoxError>(())
/// ```
pub trait EventType: Serialize + fmt::Debug + Send + Sync + 'static {
    /// The stable name of the type.
    const KIND: &'static str;
}

trait Erased: fmt::Debug + Send + Sync {
    fn kind(&self) -> &'static str;
    fn json(&self) -> Result<JsonText, BoxError>;
    fn any(&self) -> &(dyn Any + Send + Sync);
}

impl<T: EventType> Erased for T {
    fn kind(&self) -> &'static str {
        T::KIND
    }

    fn json(&self) -> Result<JsonText, BoxError> {
        Ok(JsonText::of(self)?)
    }

    fn any(&self) -> &(dyn Any + Send + Sync) {
        self
    }
}

/// An event. Cheap to clone; its JSON is created on demand.
#[derive(Clone, Debug)]
pub struct Event(Arc<dyn Erased>);

impl Event {
    /// Creates an event from a value.
    pub fn new<T: EventType>(value: T) -> Self {
        Self(Arc::new(value))
    }

    /// Creates an event from a shared value.
    pub fn shared<T: EventType>(value: Arc<T>) -> Self {
        Self(value)
    }

    /// Returns the name of its type.
    pub fn kind(&self) -> &'static str {
        self.0.kind()
    }

    /// Returns the value, if it is a `T`.
    pub fn get<T: EventType>(&self) -> Option<&T> {
        self.0.any().downcast_ref()
    }

    /// Returns the value as [`Any`], for code that routes by [`TypeId`](std::any::TypeId).
    pub fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self.0.any()
    }

    /// Returns it as JSON.
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    pub fn json(&self) -> Result<JsonText, BoxError> {
        self.0.json()
    }
}

/// Receives events.
pub trait EventSink: Send + Sync {
    /// Processes one event, synchronously.
    ///
    /// # Errors
    /// If it fails, the call that published the event fails too.
    fn publish(&self, event: &Event) -> Result<(), BoxError>;
}

/// The state of a conversation, as dispatch uses it: it receives events and can be restored.
///
/// # Behavior
/// Restoring it reverts the effect of events on its state but keeps its log, so failed calls and
/// their events are not lost.
pub trait SessionState: Snapshot + EventSink + Any {}

impl<T: Snapshot + EventSink + Any + ?Sized> SessionState for T {}
