//! All numbers of the scorers, in one place.

/// Where in a tool a word is.
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

/// What one field counts for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldWeight {
    /// How much a word in it counts.
    pub(crate) weight: f32,
    /// How much its length takes away: 0 nothing, 1 in full.
    pub(crate) by_length: f32,
    /// The length in words at which nothing is taken away or added.
    pub(crate) usual_length: f32,
}

const fn field(weight: f32, by_length: f32, usual_length: f32) -> FieldWeight {
    FieldWeight { weight, by_length, usual_length }
}

// Tuned on every other query of the catalog that docs/selection.md names, judged on the rest.

/// What each field counts for, in the order of [`Field`].
pub(crate) const FIELDS: [FieldWeight; Field::COUNT] = [
    field(1.4, 1.0, 3.0),
    field(0.7, 1.0, 14.0),
    field(1.0, 0.5, 4.0),
    field(0.3, 0.6, 30.0),
    field(0.5, 0.4, 4.0),
    field(1.0, 0.5, 3.0),
];
/// How soon further mentions of a word stop counting.
pub(crate) const SATURATION: f32 = 0.66;
/// What a pair of neighboring words counts, against a single word.
pub(crate) const PAIR: f32 = 0.5;
/// What a word counts that only begins like the one asked for.
pub(crate) const PREFIX: f32 = 0.55;
/// How many letters two words have to begin with in common.
pub(crate) const PREFIX_LENGTH: usize = 4;
/// What it counts that much of the tool's name was asked for.
pub(crate) const NAME_COVERAGE: f32 = 0.3;
/// What it counts that much of the tool's description was asked for.
pub(crate) const DESCRIPTION_COVERAGE: f32 = 0.3;
