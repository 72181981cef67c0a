//! Examples of calls, for prompts and documentation.

use std::fmt;
use std::marker::PhantomData;

use serde::Serialize;
use tract_core::{JsonText, RenderedValue, Tool, ToolError, ToolParams};

use crate::typed::rendered;

/// Maximum number of characters of an example's description.
pub const MOST_CHARACTERS: usize = 200;

/// An example of a call and its result. It is checked when it is created: the input must match the
/// parameters of the tool, the output its result type.
///
/// ```
/// use tract_tools::example::ToolExample;
/// use tract_tools::typed::Args;
///
/// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// struct Lookup { entity_id: String }
/// #[derive(serde::Serialize)]
/// struct Found { entity_id: String, url: String }
///
/// let example = ToolExample::<Args<Lookup>, Found>::new(
///     "Basic lookup",
///     &Lookup { entity_id: "abc-123".into() },
///     &Found { entity_id: "abc-123".into(), url: "https://example.org/abc-123".into() },
/// )?;
/// assert_eq!(example.input().as_str(), r#"{"entity_id":"abc-123"}"#);
///
/// let wrong = ToolExample::<Args<Lookup>, Found>::new(
///     "Typo",
///     &serde_json::json!({"entity": "abc-123"}),
///     &Found { entity_id: String::new(), url: String::new() },
/// );
/// assert!(wrong.unwrap_err().to_string().contains("entity_id"));
/// # Ok::<(), tract_tools::example::ExampleError>(())
/// ```
pub struct ToolExample<P, O> {
    example: Example,
    types: PhantomData<fn(P) -> O>,
}

impl<P, O> Clone for ToolExample<P, O> {
    fn clone(&self) -> Self {
        Self { example: self.example.clone(), types: PhantomData }
    }
}

impl<P, O> fmt::Debug for ToolExample<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.example.fmt(f)
    }
}

/// The error of an invalid example.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExampleError {
    /// Its description is too short or too long.
    #[error("expected an example described by 1 to 200 characters, found {found}")]
    Description {
        /// Number of characters found.
        found: usize,
    },
    /// Its input does not match the tool's parameters.
    #[error("expected the input of an example to be what the tool takes: {0}")]
    Input(#[source] ToolError),
    /// Its output cannot be written as JSON.
    #[error("expected the output of an example to be JSON: {0}")]
    Output(#[source] ToolError),
}

impl<P: ToolParams, O: Serialize> ToolExample<P, O> {
    /// Creates an example whose output is shown as JSON.
    ///
    /// # Errors
    /// [`ExampleError`].
    pub fn new(
        description: impl Into<String>,
        input: &impl Serialize,
        output: &O,
    ) -> Result<Self, ExampleError> {
        let output = rendered(output, None).map_err(ExampleError::Output)?;
        Self::checked(description.into(), input, output)
    }

    /// Creates an example of a tool, whose output is shown as the tool renders it.
    ///
    /// # Errors
    /// [`ExampleError`].
    pub fn of<T: Tool<Params = P, Output = O>>(
        tool: &T,
        description: impl Into<String>,
        input: &impl Serialize,
        output: &O,
    ) -> Result<Self, ExampleError> {
        let output = rendered(output, tool.render(output)).map_err(ExampleError::Output)?;
        Self::checked(description.into(), input, output)
    }

    fn checked(
        description: String,
        input: &impl Serialize,
        output: RenderedValue,
    ) -> Result<Self, ExampleError> {
        let description = description.trim().to_owned();
        let found = description.chars().count();
        if !(1..=MOST_CHARACTERS).contains(&found) {
            return Err(ExampleError::Description { found });
        }
        let wrong = |error: serde_json::Error| {
            ExampleError::Input(ToolError::validation(error.to_string()).caused_by(error))
        };
        let input = JsonText::of(input).map_err(wrong)?;
        serde_json::from_str::<P>(input.as_str()).map_err(wrong)?;
        let example = Example { description, input, output };
        Ok(Self { example, types: PhantomData })
    }
}

impl<P, O> ToolExample<P, O> {
    /// Returns the description.
    pub fn description(&self) -> &str {
        &self.example.description
    }

    /// Returns the arguments.
    pub fn input(&self) -> &JsonText {
        &self.example.input
    }

    /// Returns the result of the call.
    pub fn output(&self) -> &RenderedValue {
        &self.example.output
    }

    /// Erases the types.
    pub fn erase(self) -> Example {
        self.example
    }
}

/// A type-erased example, as prompts contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The description.
    pub description: String,
    /// The arguments.
    pub input: JsonText,
    /// The result of the call.
    pub output: RenderedValue,
}

impl<P, O> From<ToolExample<P, O>> for Example {
    fn from(example: ToolExample<P, O>) -> Self {
        example.erase()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::Args;

    #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Lookup {
        id: String,
    }

    #[test]
    fn a_description_has_1_to_200_characters() {
        let of = |description: &str| {
            let input = Lookup { id: "a".to_owned() };
            ToolExample::<Args<Lookup>, &str>::new(description, &input, &"found")
        };
        // Characters, not bytes; spaces around them do not count.
        for fits in ["a".to_owned(), "é".repeat(200), format!("  {}\n", "a".repeat(200))] {
            assert_eq!(of(&fits).unwrap().description(), fits.trim());
        }
        for (misfit, characters) in [("é".repeat(201), 201), ("  ".to_owned(), 0)] {
            let error = of(&misfit).unwrap_err();
            assert!(
                matches!(error, ExampleError::Description { found } if found == characters),
                "{error}"
            );
        }
    }
}
