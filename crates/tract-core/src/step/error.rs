//! Why a line of a stream is refused.

use std::fmt;

use crate::commit::RecordError;
use crate::json::JsonError;

/// A line of a stream that is not an operation. Nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamOpError {
    /// The line is no JSON object, or one that has no canonical form.
    #[error("the line is not an operation: {0}")]
    Json(#[from] JsonError),
    /// The line has no `op`.
    #[error("expected a field \"op\", found none")]
    MissingOp,
    /// No operation has this name.
    #[error("unknown op {found:?}")]
    UnknownOp {
        /// The name, cut at 80 characters.
        found: String,
        /// The operation that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A field that the operation needs is not there.
    #[error("op {op:?} expects a field {field:?}, found none")]
    MissingField {
        /// The operation.
        op: &'static str,
        /// The field, or the fields of which one is needed.
        field: &'static str,
    },
    /// The operation takes no such field.
    #[error("op {op:?} takes no field {found:?}")]
    UnknownField {
        /// The operation.
        op: &'static str,
        /// The field, cut at 80 characters.
        found: String,
        /// The field that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A field occurs twice.
    #[error("duplicate field {field:?}")]
    RepeatedField {
        /// The field, cut at 80 characters.
        field: String,
    },
    /// Two fields exclude each other.
    #[error("op {op:?} takes {one:?} or {other:?}, found both")]
    BothFields {
        /// The operation.
        op: &'static str,
        /// One of them.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// A field has a value of the wrong type.
    #[error("field {field:?} expects {expected}, found {found}")]
    WrongType {
        /// The field.
        field: &'static str,
        /// The type that it takes.
        expected: &'static str,
        /// The type that was found.
        found: &'static str,
    },
    /// A field has a value of the right type that means nothing.
    #[error("field {field:?}: {why}")]
    BadValue {
        /// The field.
        field: &'static str,
        /// What was expected and what was found.
        why: String,
    },
    /// The record of an exported commit is not a record.
    #[error("field \"record\": {0}")]
    Record(#[from] RecordError),
    /// An exported object is not the one that it is said to be.
    #[error("{what} {stated} comes out as {found}")]
    OtherId {
        /// What sort of object.
        what: &'static str,
        /// The id that the line states.
        stated: String,
        /// The id that its bytes have.
        found: String,
    },
}

impl StreamOpError {
    pub(super) fn bad_value(field: &'static str, why: impl fmt::Display) -> Self {
        Self::BadValue { field, why: why.to_string() }
    }

    /// Returns the stable word for the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "invalid_json",
            Self::MissingOp => "missing_op",
            Self::UnknownOp { .. } => "unknown_op",
            Self::MissingField { .. } => "missing_field",
            Self::UnknownField { .. } => "unknown_field",
            Self::RepeatedField { .. } => "repeated_field",
            Self::BothFields { .. } => "both_fields",
            Self::WrongType { .. } => "wrong_type",
            Self::BadValue { .. } => "bad_value",
            Self::Record(_) => "bad_record",
            Self::OtherId { .. } => "other_id",
        }
    }

    /// Returns what to do about it, where something helps.
    pub fn notes(&self) -> Vec<String> {
        let note = match self {
            Self::UnknownOp { nearest: Some(name), .. }
            | Self::UnknownField { nearest: Some(name), .. } => format!("did you mean {name:?}?"),
            Self::UnknownOp { nearest: None, .. } | Self::MissingOp => {
                let ops: Vec<_> = super::op_names().collect();
                format!("the ops are {}", ops.join(", "))
            }
            Self::MissingField { op, .. } => {
                let example = super::OPS.iter().find(|(name, ..)| name == op);
                format!("an example: {}", example.map_or("", |(.., example)| example))
            }
            Self::OtherId { .. } => {
                "the line was changed, or made by another format; export it again".to_owned()
            }
            Self::Json(JsonError::Syntax { .. }) => "each line is one JSON object".to_owned(),
            Self::Json(_)
            | Self::UnknownField { nearest: None, .. }
            | Self::RepeatedField { .. }
            | Self::BothFields { .. }
            | Self::WrongType { .. }
            | Self::BadValue { .. }
            | Self::Record(_) => return Vec::new(),
        };
        vec![note]
    }
}
