//! Compiled contexts and requests.

use pyo3::prelude::*;
use serde_json::json;
use tract::compile::Pairing;
use tract::forms::{Form, FormOptions, PrefixSource, compile_form, why_miss};

use crate::error;

/// A compiled context: plain data, independent of the store.
#[pyclass(frozen, module = "tract_context._native")]
pub(crate) struct Compiled {
    compiled: tract::Compiled,
}

impl Compiled {
    pub(crate) fn new(compiled: tract::Compiled) -> Self {
        Self { compiled }
    }
}

#[pymethods]
impl Compiled {
    #[getter]
    fn head(&self) -> Option<String> {
        self.compiled.head().map(|id| id.to_string())
    }

    #[getter]
    fn commit_count(&self) -> u64 {
        self.compiled.commit_count()
    }

    #[getter]
    fn message_count(&self) -> usize {
        self.compiled.message_count()
    }

    #[getter]
    fn token_count(&self) -> (u64, String) {
        let tokens = self.compiled.token_count();
        (tokens.count, tokens.source.to_string())
    }

    /// The active tools: name, id, schema as given.
    #[getter]
    fn tools(&self) -> Vec<(String, String, String)> {
        let tools = self.compiled.tools().iter();
        tools
            .map(|tool| (tool.name.clone(), tool.id.to_string(), tool.schema.to_string()))
            .collect()
    }

    /// Compiles the context to a form.
    fn form(
        &self,
        py: Python<'_>,
        form: &str,
        pairing: Option<&str>,
        strict_tools: bool,
    ) -> PyResult<Params> {
        let form: Form = form.parse().map_err(|error| error::of(&tract::Error::from(error)))?;
        let mut options = FormOptions { strict_tools, ..FormOptions::default() };
        if let Some(word) = pairing {
            let pairing = Pairing::parse(word)
                .ok_or_else(|| error::invalid(format!("unknown pairing {word:?}")))?;
            options.pairing = Some(pairing);
        }
        let params = py.detach(|| compile_form(&self.compiled, form, &options));
        params.map(|params| Params { params }).map_err(|error| error::of(&error.into()))
    }
}

/// A request in a provider's form.
#[pyclass(frozen, module = "tract_context._native")]
pub(crate) struct Params {
    params: tract::Params,
}

#[pymethods]
impl Params {
    /// The body: JSON text.
    fn json(&self) -> String {
        self.params.to_json()
    }

    /// The commit of each block, or `None` for one that a repair added and for a tool.
    #[getter]
    fn origins(&self) -> Vec<Option<String>> {
        let commit = |origin: &PrefixSource| match origin {
            PrefixSource::System(commit) | PrefixSource::Message(commit) => {
                Some(commit.to_string())
            }
            PrefixSource::Tool { .. } | PrefixSource::Repair(_) => None,
        };
        self.params.origins().iter().map(commit).collect()
    }

    #[getter]
    fn repairs(&self) -> Vec<String> {
        self.params.repairs.iter().map(ToString::to_string).collect()
    }

    /// Compares the cached prefixes of two requests: the first difference as JSON, or `None`.
    fn why_miss(&self, second: &Self) -> Option<String> {
        let miss = why_miss(&self.params, &second.params)?;
        let value = json!({
            "same_blocks": miss.same_blocks,
            "same_bytes": miss.same_bytes,
            "text": miss.to_string(),
        });
        Some(value.to_string())
    }
}
