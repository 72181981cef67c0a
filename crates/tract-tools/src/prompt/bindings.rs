//! The bindings of a prompt's placeholders.

use std::any::{Any, TypeId, type_name};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use tract_core::JsonText;

use super::expand::OpenedSections;
use crate::session::Session;

/// Values of parameters, the session, and the sections that are shown in full.
#[derive(Clone, Default)]
pub struct Bindings {
    pub(crate) values: BTreeMap<TypeId, BTreeMap<String, String>>,
    typed: BTreeMap<TypeId, Arc<dyn Any + Send + Sync>>,
    session: Option<Session>,
    pub(crate) opened: BTreeSet<String>,
}

impl fmt::Debug for Bindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<_> = self.values.values().collect();
        f.debug_struct("Bindings").field("values", &values).field("opened", &self.opened).finish()
    }
}

/// The error of a value that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// A value of this type is bound already.
    #[error("expected one value of {type_name}, found two")]
    Twice {
        /// The type.
        type_name: &'static str,
    },
    /// The value is not a JSON object.
    #[error("expected {type_name} to become a JSON object: {source}")]
    NoObject {
        /// The type.
        type_name: &'static str,
        /// The serializer's error.
        source: serde_json::Error,
    },
}

impl Bindings {
    /// Creates empty bindings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds the fields of a value: text unchanged, null as empty text, all others as JSON.
    ///
    /// # Errors
    /// [`BindError::Twice`] if its type is bound, [`BindError::NoObject`] if it is not a struct
    /// with fields.
    pub fn bind<P: Serialize + 'static>(mut self, params: &P) -> Result<Self, BindError> {
        let type_name = type_name::<P>();
        let no_object = |source| BindError::NoObject { type_name, source };
        let text = JsonText::of(params).map_err(no_object)?;
        let members: BTreeMap<String, JsonText> =
            serde_json::from_str(text.as_str()).map_err(no_object)?;
        let values = members.into_iter().map(|(name, value)| (name, shown(&value))).collect();
        match self.values.insert(TypeId::of::<P>(), values) {
            Some(_) => Err(BindError::Twice { type_name }),
            None => Ok(self),
        }
    }

    /// Binds a value and stores it, so that sections can use it to decide whether they are enabled.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_shared<P>(self, params: Arc<P>) -> Result<Self, BindError>
    where
        P: Serialize + Send + Sync + 'static,
    {
        let mut bound = self.bind(&*params)?;
        bound.typed.insert(TypeId::of::<P>(), params);
        Ok(bound)
    }

    /// Sets the session.
    #[must_use]
    pub fn session(mut self, session: &Session) -> Self {
        self.session = Some(session.clone());
        self
    }

    /// Shows sections, given by their paths, in full, with the sections that contain them.
    #[must_use]
    pub fn open<S: Into<String>>(mut self, paths: impl IntoIterator<Item = S>) -> Self {
        self.opened.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Returns a value bound by [`bind_shared`](Self::bind_shared).
    pub fn get<P: 'static>(&self) -> Option<&P> {
        self.typed.get(&TypeId::of::<P>())?.downcast_ref()
    }

    /// Returns the session.
    pub fn get_session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Returns all sections that the caller, or the model in this session, has opened.
    pub(crate) fn all_opened(&self) -> BTreeSet<String> {
        let mut opened = self.opened.clone();
        let of_session = self.session.as_ref().and_then(Session::latest::<OpenedSections>);
        opened.extend(of_session.unwrap_or_default().0);
        opened
    }
}

fn shown(value: &JsonText) -> String {
    match value.as_str() {
        "null" => String::new(),
        text => serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned()),
    }
}
