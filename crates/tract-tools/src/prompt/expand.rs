//! The tool with which a model opens sections.

use std::borrow::Cow;
use std::collections::BTreeSet;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tract_core::{Tool, ToolContext, ToolError, ToolTraits, nearest};

use crate::session::{Session, SessionError, SessionItem};
use crate::typed::{Answer, Args};

/// The name of the tool that opens sections which are shown as a summary.
pub const OPEN_SECTIONS: &str = "open_sections";

/// The sections that a model has opened: a slice of the session, which applies to prompts that are
/// rendered with that session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedSections(pub Vec<String>);

impl SessionItem for OpenedSections {
    const NAME: &'static str = "opened_sections";
}

impl OpenedSections {
    /// Adds sections to the open ones of a session.
    ///
    /// # Errors
    /// [`SessionError`] if another type has the name of the slice.
    pub fn open(session: &Session, sections: &[String]) -> Result<(), SessionError> {
        let mut opened = session.latest::<Self>().unwrap_or_default();
        for path in sections {
            if !opened.0.contains(path) {
                opened.0.push(path.clone());
            }
        }
        session.seed(vec![opened])
    }
}

/// What a model asks of `open_sections`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OpenParams {
    /// The paths of the sections, as they stand in their headings.
    sections: Vec<String>,
    /// Why they are needed.
    #[serde(default)]
    reason: Option<String>,
}

/// Opens sections that a rendered prompt shows as a summary. It does not show them itself: it ends
/// the turn, and the code that runs the turns renders the prompt again.
pub(crate) struct OpenSections {
    /// The sections that are shown as a summary at first.
    pub(crate) summarized: BTreeSet<String>,
    /// All sections.
    pub(crate) sections: BTreeSet<String>,
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
        ToolTraits::READ_ONLY
    }

    async fn call(&self, Args(args): Self::Params, context: &ToolContext) -> Answer<()> {
        if args.sections.is_empty() {
            return Err(
                ToolError::validation("expected at least one section, found none").at("sections")
            );
        }
        let session = context.optional_resource::<Session>();
        let open = session.and_then(Session::latest::<OpenedSections>).unwrap_or_default().0;
        for (place, path) in args.sections.iter().enumerate() {
            let at = |error: ToolError| error.at(format!("sections[{place}]"));
            if !self.sections.contains(path) {
                let text = format!("expected the path of a section, found {path:?}");
                let near = nearest(path, self.sections.iter().map(String::as_str));
                let note = near.map(|near| format!("did you mean {near:?}?"));
                return Err(at(note
                    .into_iter()
                    .fold(ToolError::validation(text), ToolError::note)));
            }
            if !self.summarized.contains(path) || open.contains(path) {
                let text = format!("expected a section that is collapsed, found {path:?}");
                return Err(at(ToolError::validation(text).note("it is shown in full already")));
            }
        }
        let reason = args.reason.unwrap_or_else(|| "the sections are shown in full".to_owned());
        Err(ToolError::visibility_expansion(args.sections, reason))
    }
}
