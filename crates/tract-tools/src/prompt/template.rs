//! Texts with placeholders.

use std::any::TypeId;
use std::collections::BTreeMap;

use tract_core::nearest;

use super::error::{PromptFault, RenderError};
use super::section::ParamsType;

/// A parsed text: literal pieces, and names of placeholders.
#[derive(Clone, Debug, Default)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<Piece>,
    /// The text as given.
    pub(crate) given: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(String),
    Value(String),
}

impl Template {
    pub(crate) fn read(given: &str) -> Self {
        let text = dedent(given);
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text.as_str();
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(escaped) = plain.strip_suffix('$') {
                plain.truncate(escaped.len());
                plain.push_str("${");
                rest = from.get(2..).unwrap_or_default();
                continue;
            }
            match from.find('}') {
                Some(end) => {
                    pieces.push(Piece::Text(std::mem::take(&mut plain)));
                    pieces.push(Piece::Value(from.get(2..end).unwrap_or_default().to_owned()));
                    rest = from.get(end + 1..).unwrap_or_default();
                }
                None => {
                    plain.push_str(from);
                    rest = "";
                }
            }
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        Self { pieces, given: given.to_owned() }
    }

    /// Returns an error for each placeholder that is not a field of the parameters.
    pub(crate) fn faults(&self, path: &str, params: Option<&ParamsType>) -> Vec<PromptFault> {
        let known = |name: &str| params.is_some_and(|params| params.fields.contains(name));
        let names = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Value(name) if !known(name) => Some(name),
            Piece::Value(_) | Piece::Text(_) => None,
        });
        let fault = |name: &String| {
            let fields = params.into_iter().flat_map(|params| &params.fields);
            PromptFault::UnknownField {
                path: path.to_owned(),
                nearest: nearest(name, fields.map(String::as_str)).map(str::to_owned),
                name: name.clone(),
            }
        };
        names.map(fault).collect()
    }

    pub(crate) fn fill(
        &self,
        path: &str,
        params: Option<&ParamsType>,
        values: &BTreeMap<TypeId, BTreeMap<String, String>>,
    ) -> Result<String, RenderError> {
        let mut out = String::new();
        for piece in &self.pieces {
            match (piece, params) {
                (Piece::Text(text), _) => out.push_str(text),
                (Piece::Value(name), Some(params)) => {
                    let bound = values.get(&params.id).ok_or_else(|| RenderError::Unbound {
                        path: path.to_owned(),
                        params: params.name,
                    })?;
                    // A field that was not serialized becomes empty text.
                    out.push_str(bound.get(name).map_or("", String::as_str));
                }
                // Building the prompt rejects this.
                (Piece::Value(_), None) => {}
            }
        }
        Ok(out)
    }
}

/// Removes common indentation and surrounding white space.
fn dedent(text: &str) -> String {
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    // A text may begin right after its opening quote, so its first line may have less indentation
    // than the others.
    let first_flush = lines().next().is_some_and(|line| !line.starts_with([' ', '\t']));
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let common = if first_flush { 0 } else { lines().map(indent).min().unwrap_or(0) };
    let cut = |line: &str| line.get(common..).unwrap_or_default().trim_end().to_owned();
    let cut: Vec<String> = text.lines().map(cut).collect();
    cut.join("\n").trim().to_owned()
}
