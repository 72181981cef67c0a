//! The weights of the scorers.

/// The field of a tool in which a word occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Name,
    Description,
    ParameterName,
    ParameterText,
    Value,
    Tag,
}

impl Field {
    pub(crate) const COUNT: usize = 6;
}

/// The weight of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldWeight {
    /// Weight of a word in it.
    pub(crate) weight: f32,
    /// Strength of the normalization by length, from 0 (none) to 1 (full).
    pub(crate) by_length: f32,
    /// Length in words at which the normalization has no effect.
    pub(crate) usual_length: f32,
}

const fn field(weight: f32, by_length: f32, usual_length: f32) -> FieldWeight {
    FieldWeight { weight, by_length, usual_length }
}

// Tuned on every other query of the catalog in docs/selection.md, and evaluated on the rest.

/// The weight of each field, in the order of [`Field`].
pub(crate) const FIELDS: [FieldWeight; Field::COUNT] = [
    field(1.4, 1.0, 3.0),
    field(0.7, 1.0, 14.0),
    field(1.0, 0.5, 4.0),
    field(0.3, 0.6, 30.0),
    field(0.5, 0.4, 4.0),
    field(1.0, 0.5, 3.0),
];
/// Saturation: how quickly further occurrences of a word lose weight.
pub(crate) const SATURATION: f32 = 0.66;
/// Weight of a pair of neighboring words, relative to a single word.
pub(crate) const PAIR: f32 = 0.5;
/// Weight of a word that shares only a prefix with the query word.
pub(crate) const PREFIX: f32 = 0.55;
/// Number of letters in the common prefix of similar words.
pub(crate) const PREFIX_LENGTH: usize = 4;
/// Weight of the part of the tool's name that the query covers.
pub(crate) const NAME_COVERAGE: f32 = 0.3;
/// Weight of the part of the tool's description that the query covers.
pub(crate) const DESCRIPTION_COVERAGE: f32 = 0.3;
