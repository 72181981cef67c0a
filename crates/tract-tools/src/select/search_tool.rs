//! The tool with which a model finds tools that its request does not contain.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tract_core::{Tool, ToolContext, ToolError, ToolParams, ToolResult, ToolTraits};

use super::index::ToolIndex;
use super::pick::PickOptions;
use crate::session::{Session, SessionItem};
use crate::typed::Answer;

/// The arguments of [`SearchTools`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchQuery {
    /// The task of the tool.
    pub query: String,
    /// Maximum number of tools, from 1 to 20; 5 by default.
    #[serde(default)]
    pub limit: Option<u8>,
}

impl ToolParams for SearchQuery {
    fn schema() -> Cow<'static, str> {
        concat!(
            r#"{"type":"object","properties":{"query":{"type":"string","minLength":1,"description":"#,
            r#""What the tool should do, in a few words."},"limit":{"type":["integer","null"],"minimum":1,"#,
            r#""maximum":20,"description":"How many tools to load at most; 5 unless said."}},"#,
            r#""required":["query"],"additionalProperties":false}"#
        )
        .into()
    }
}

/// A found tool, as shown to the model.
#[derive(Clone, Debug, Serialize)]
pub struct FoundTool {
    /// The name by which it is called.
    pub name: String,
    /// The description.
    pub description: String,
    /// The JSON Schema of its arguments, as given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Box<RawValue>>,
}

/// The tools that a conversation has loaded, by their ids in the index, in the order of loading. A
/// slice of the session, so it belongs to the branch, is forked with it, and is restored when the
/// search fails.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedTools(pub Vec<String>);

impl SessionItem for LoadedTools {
    const NAME: &'static str = "loaded_tools";
}

/// Finds tools in an index and marks them as loaded, so that a request contains one tool instead of
/// thousands. The tools are recorded in the [`LoadedTools`] of the call's session, if it has one;
/// an agent of `tract-run` sends them from its next request on.
///
/// ```
/// # tract_core::block_on(async {
/// use std::sync::{Arc, RwLock};
/// use tract_core::{DynTool, ToolContext};
/// use tract_tools::Session;
/// use tract_tools::select::{CatalogEntry, LoadedTools, SearchTools, ToolIndex};
/// let weather = r#"{"name":"get_weather","description":"Weather in a city.","parameters":{"type":"object"}}"#;
/// let index: ToolIndex = [CatalogEntry::parse(weather)?].into_iter().collect();
/// let search = SearchTools::new(Arc::new(RwLock::new(index)));
/// let session = Session::new();
/// assert_eq!(search.deferred(&session), ["get_weather".to_owned()].into());
/// let context = ToolContext::new("c1").with_resource(session.clone());
/// let found = search.run(r#"{"query":"weather forecast"}"#, &context).await?;
/// assert!(found.model_text().contains(r#""name":"get_weather""#));
/// assert_eq!(session.latest::<LoadedTools>().unwrap().0, ["get_weather"]);
/// assert!(search.deferred(&session).is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct SearchTools {
    /// The index, which may change while it is in use.
    pub index: Arc<RwLock<ToolIndex>>,
    /// Options of the selection. The number of tools is an argument of the call.
    pub options: PickOptions,
}

impl SearchTools {
    /// Creates a search over an index.
    pub fn new(index: Arc<RwLock<ToolIndex>>) -> Self {
        Self { index, options: PickOptions::default() }
    }

    /// Returns the names of the tools that a conversation has not loaded yet.
    pub fn deferred(&self, session: &Session) -> BTreeSet<String> {
        let loaded = session.latest::<LoadedTools>().unwrap_or_default().0;
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let entries = index.iter().filter(|entry| !loaded.iter().any(|id| id == entry.id()));
        entries.map(|entry| entry.name().to_owned()).collect()
    }
}

/// Number of tools that are loaded by default.
const USUAL: u8 = 5;
/// Maximum number of tools that one call loads.
const MOST: u8 = 20;

#[async_trait]
impl Tool for SearchTools {
    type Params = SearchQuery;
    type Output = Vec<FoundTool>;

    fn name(&self) -> Cow<'_, str> {
        "search_tools".into()
    }

    fn description(&self) -> Cow<'_, str> {
        "Finds tools by what they do and loads them, so that they can be called from the next \
         message on."
            .into()
    }

    fn traits(&self) -> ToolTraits {
        // It changes the list of loaded tools, but a second call with the same words adds nothing.
        ToolTraits { idempotent: true, ..ToolTraits::default() }
    }

    async fn call(&self, params: SearchQuery, context: &ToolContext) -> Answer<Vec<FoundTool>> {
        context.check()?;
        let limit = params.limit.unwrap_or(USUAL);
        if !(1..=MOST).contains(&limit) {
            let error = format!("expected a number from 1 to {MOST}, found {limit}");
            return Err(ToolError::validation(error).at("limit"));
        }
        let options = PickOptions { max_candidates: usize::from(limit), ..self.options.clone() };
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let picked = index.pick(&params.query, &options);
        if picked.candidates.is_empty() {
            return Ok(ToolResult {
                message: "no tool fits; try other words for what it should do".to_owned(),
                ..ToolResult::ok(Vec::new())
            });
        }
        let session = context.optional_resource::<Session>();
        let mut loaded = session.and_then(Session::latest::<LoadedTools>).unwrap_or_default();
        let mut found = Vec::with_capacity(picked.candidates.len());
        for candidate in &picked.candidates {
            let Some(entry) = index.get(&candidate.id) else { continue };
            if !loaded.0.iter().any(|id| id == entry.id()) {
                loaded.0.push(entry.id().to_owned());
            }
            found.push(FoundTool {
                name: entry.name().to_owned(),
                description: entry.description().to_owned(),
                parameters: entry.schema().map(serde_json::from_str).transpose()?,
            });
        }
        if let Some(session) = session {
            let noted = session.seed(vec![loaded]);
            noted.map_err(|error| ToolError::other(error.to_string()).caused_by(error))?;
        }
        Ok(ToolResult::ok(found))
    }
}
