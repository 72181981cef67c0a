//! Owned arguments of a statement with their types, so that the statement need not be prepared.

use bytes::{Bytes, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// Bytes sent as a `bytea`, without another copy.
#[derive(Clone, Debug)]
pub(crate) struct Raw(pub(crate) Bytes);

impl Raw {
    pub(crate) fn id(id: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(id))
    }
}

impl From<Vec<u8>> for Raw {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl ToSql for Raw {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::BYTEA
    }

    to_sql_checked!();
}

type Argument = (Box<dyn ToSql + Send + Sync>, Type);

/// The arguments of one statement, in order.
#[derive(Debug, Default)]
pub(crate) struct Args(Vec<Argument>);

impl Args {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub(crate) fn with(mut self, value: impl ToSql + Send + Sync + 'static, kind: Type) -> Self {
        self.0.push((Box::new(value), kind));
        self
    }

    #[must_use]
    pub(crate) fn int(self, value: i64) -> Self {
        self.with(value, Type::INT8)
    }

    #[must_use]
    pub(crate) fn text(self, value: &str) -> Self {
        self.with(value.to_owned(), Type::TEXT)
    }

    #[must_use]
    pub(crate) fn id(self, value: &[u8]) -> Self {
        self.with(Raw::id(value), Type::BYTEA)
    }

    #[must_use]
    pub(crate) fn raw(self, value: &Raw) -> Self {
        self.with(value.clone(), Type::BYTEA)
    }

    #[must_use]
    pub(crate) fn ids(self, values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let values: Vec<Raw> = values.into_iter().map(|id| Raw::id(id.as_ref())).collect();
        self.with(values, Type::BYTEA_ARRAY)
    }

    #[must_use]
    pub(crate) fn raws(self, values: Vec<Raw>) -> Self {
        self.with(values, Type::BYTEA_ARRAY)
    }

    #[must_use]
    pub(crate) fn maybe_raws(self, values: Vec<Option<Raw>>) -> Self {
        self.with(values, Type::BYTEA_ARRAY)
    }

    /// Adds a list, or null if it is empty.
    #[must_use]
    pub(crate) fn listed(self, values: Vec<Raw>) -> Self {
        self.with((!values.is_empty()).then_some(values), Type::BYTEA_ARRAY)
    }

    /// Adds a list of numbers, or null if it is empty.
    #[must_use]
    pub(crate) fn numbered(self, values: Vec<i32>) -> Self {
        self.with((!values.is_empty()).then_some(values), Type::INT4_ARRAY)
    }

    /// Returns the arguments in the form that the driver expects.
    pub(crate) fn as_params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.0.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone())).collect()
    }
}
