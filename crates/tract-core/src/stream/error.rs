//! Errors of stream lines.

use std::fmt;

use crate::commit::RecordError;
use crate::json::JsonError;

/// Error of a line that is not a valid operation. Nothing was done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamOpError {
    /// The line is not a JSON object with a canonical form.
    #[error("the line is not an operation: {0}")]
    Json(#[from] JsonError),
    /// The line lacks the field `op`.
    #[error("expected a field \"op\", found none")]
    MissingOp,
    /// The operation is unknown.
    #[error("unknown op {found:?}")]
    UnknownOp {
        /// The name, truncated to 80 characters.
        found: String,
        /// The most similar operation, if any.
        nearest: Option<&'static str>,
    },
    /// A required field is missing.
    #[error("op {op:?} expects a field {field:?}, found none")]
    MissingField {
        /// The operation.
        op: &'static str,
        /// The field, or the alternatives.
        field: &'static str,
    },
    /// The operation does not have this field.
    #[error("op {op:?} takes no field {found:?}")]
    UnknownField {
        /// The operation.
        op: &'static str,
        /// The field, truncated to 80 characters.
        found: String,
        /// The most similar field, if any.
        nearest: Option<&'static str>,
    },
    /// A field occurs twice.
    #[error("duplicate field {field:?}")]
    RepeatedField {
        /// The field, truncated to 80 characters.
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
        /// The expected type.
        expected: &'static str,
        /// The actual type.
        found: &'static str,
    },
    /// A field has a value of the right type that is not valid.
    #[error("field {field:?}: {why}")]
    BadValue {
        /// The field.
        field: &'static str,
        /// The expected and the actual value.
        why: String,
    },
    /// The record of an exported commit is not a record.
    #[error("field \"record\": {0}")]
    Record(#[from] RecordError),
    /// The id of an exported object does not match its bytes.
    #[error("{what} {stated} comes out as {found}")]
    OtherId {
        /// The kind of object.
        what: &'static str,
        /// The id in the line.
        stated: String,
        /// The id of the bytes.
        found: String,
    },
}

impl StreamOpError {
    pub(super) fn bad_value(field: &'static str, why: impl fmt::Display) -> Self {
        Self::BadValue { field, why: why.to_string() }
    }

    /// Returns the stable name of the variant.
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

    /// Returns advice on how to fix the error, if there is any.
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
