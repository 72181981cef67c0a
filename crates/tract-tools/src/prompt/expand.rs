//! The tool by which a model asks for all of a section.

use std::borrow::Cow;
use std::collections::BTreeMap;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tract_core::{Tool, ToolContext, ToolError, ToolResult, ToolTraits, nearest};

use crate::typed::Args;

/// The name of the tool that asks for all of sections of which a summary is shown.
pub const OPEN_SECTIONS: &str = "open_sections";

/// What a model asks of `open_sections`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OpenParams {
    /// The paths of the sections, as they stand in their headings.
    sections: Vec<String>,
    /// Why they are needed.
    #[serde(default)]
    reason: Option<String>,
}

/// Asks for all of the sections of which a rendered prompt shows a summary. It does not show them
/// itself: it ends the turn, and whoever runs the turns renders the prompt again.
pub(crate) struct OpenSections {
    /// Whether each section of the prompt is collapsed.
    pub(crate) sections: BTreeMap<String, bool>,
}

#[async_trait]
impl Tool for OpenSections {
    type Params = Args<OpenParams>;
    type Output = ();

    fn name(&self) -> Cow<'_, str> {
        OPEN_SECTIONS.into()
    }

    fn description(&self) -> Cow<'_, str> {
        "Show all of sections of the instructions of which only a summary is shown.".into()
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits::new().read_only()
    }

    async fn call(
        &self,
        Args(asked): Self::Params,
        _: &ToolContext,
    ) -> Result<ToolResult<()>, ToolError> {
        if asked.sections.is_empty() {
            return Err(ToolError::validation("expected at least one section, found none")
                .at("sections"));
        }
        for (place, path) in asked.sections.iter().enumerate() {
            let at = |error: ToolError| error.at(format!("sections[{place}]"));
            match self.sections.get(path) {
                Some(true) => {}
                Some(false) => {
                    let text = format!("expected a section that is collapsed, found {path:?}");
                    return Err(at(ToolError::validation(text).note("it is shown in full already")));
                }
                None => {
                    let text = format!("expected the path of a section, found {path:?}");
                    let known = self.sections.keys().map(String::as_str);
                    return Err(at(match nearest(path, known) {
                        Some(near) => {
                            ToolError::validation(text).note(format!("did you mean {near:?}?"))
                        }
                        None => ToolError::validation(text),
                    }));
                }
            }
        }
        let reason = asked.reason.unwrap_or_else(|| "the sections are shown in full".to_owned());
        Err(ToolError::visibility_expansion(asked.sections, reason))
    }
}
