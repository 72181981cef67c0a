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

/// The numbers of BM25.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    pub(crate) fields: [FieldWeight; Field::COUNT],
    /// How soon further mentions of a word stop counting.
    pub(crate) saturation: f32,
    /// What a pair of neighboring words counts, against a single word.
    pub(crate) pair: f32,
    /// What a word counts that only begins like the one asked for.
    pub(crate) prefix: f32,
    /// How many letters two words have to begin with in common.
    pub(crate) prefix_length: usize,
    /// What it counts that much of the tool's name was asked for.
    pub(crate) name_coverage: f32,
    /// What it counts that much of the tool's description was asked for.
    pub(crate) description_coverage: f32,
}

const fn field(weight: f32, by_length: f32, usual_length: f32) -> FieldWeight {
    FieldWeight { weight, by_length, usual_length }
}

/// Tuned on every other query of the catalog that docs/selection.md names, judged on the rest.
pub(crate) const WEIGHTS: Weights = Weights {
    fields: [
        field(1.4, 1.0, 3.0),
        field(0.7, 1.0, 14.0),
        field(1.0, 0.5, 4.0),
        field(0.3, 0.6, 30.0),
        field(0.5, 0.4, 4.0),
        field(1.0, 0.5, 3.0),
    ],
    saturation: 0.66,
    pair: 0.5,
    prefix: 0.55,
    prefix_length: 4,
    name_coverage: 0.3,
    description_coverage: 0.3,
};
