//! The tool by which a model finds tools that its request does not carry.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tract_core::{Tool, ToolContext, ToolError, ToolParams, ToolResult, ToolTraits};

use super::index::ToolIndex;
use super::pick::PickOptions;

/// What a model asks of [`SearchTools`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchQuery {
    /// What the tool should do.
    pub query: String,
    /// How many tools at most, from 1 to 20; 5 unless said.
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

/// A tool that was found, as the model reads it.
#[derive(Clone, Debug, Serialize)]
pub struct FoundTool {
    /// The name to call it by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments, as given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Box<RawValue>>,
}

/// The tools that a conversation has loaded, in order of first sight. Clones are the same list.
///
/// Whoever makes the next request adds these to its tools, so that the model can call them; the
/// commit that sets them records what was loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadedTools(Arc<Mutex<Vec<String>>>);

impl LoadedTools {
    /// Makes an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the ids of the tools.
    pub fn ids(&self) -> Vec<String> {
        self.lock().clone()
    }

    /// Adds a tool; one that is there stays where it is.
    pub fn add(&self, id: &str) {
        let mut ids = self.lock();
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        // A push is complete or did not happen, so a panic leaves the list usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds tools in an index and marks them as loaded: with it a request carries one tool instead of
/// thousands.
///
/// ```
/// # tract_core::block_on(async {
/// use std::sync::{Arc, RwLock};
/// use tract_core::{DynTool, ToolContext};
/// use tract_tools::select::{CatalogEntry, SearchTools, ToolIndex};
/// let weather = r#"{"name":"get_weather","description":"Weather in a city.","parameters":{"type":"object"}}"#;
/// let index: ToolIndex = [CatalogEntry::parse(weather)?].into_iter().collect();
/// let search = SearchTools::new(Arc::new(RwLock::new(index)));
/// let found = search.run(r#"{"query":"weather forecast"}"#, &ToolContext::new("c1")).await?;
/// assert!(found.model_text().contains(r#""name":"get_weather""#));
/// assert_eq!(search.loaded().ids(), ["get_weather"]);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct SearchTools {
    index: Arc<RwLock<ToolIndex>>,
    options: PickOptions,
    loaded: LoadedTools,
}

impl SearchTools {
    /// Makes a search over an index, which may change while it is in use.
    pub fn new(index: Arc<RwLock<ToolIndex>>) -> Self {
        Self { index, options: PickOptions::new(), loaded: LoadedTools::new() }
    }

    /// Sets how to choose; how many the model says itself.
    #[must_use]
    pub fn options(mut self, options: PickOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the list that found tools are added to: one for each conversation.
    #[must_use]
    pub fn loading_into(mut self, loaded: LoadedTools) -> Self {
        self.loaded = loaded;
        self
    }

    /// Returns the list that found tools are added to.
    pub fn loaded(&self) -> &LoadedTools {
        &self.loaded
    }
}

/// How many tools are loaded unless the model says.
const USUAL: u8 = 5;
/// How many tools are loaded at most.
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
        // It lengthens the list of loaded tools, and a second call with the same words adds none.
        ToolTraits::new().idempotent()
    }

    async fn call(
        &self,
        params: SearchQuery,
        context: &ToolContext,
    ) -> Result<ToolResult<Vec<FoundTool>>, ToolError> {
        context.check()?;
        let limit = params.limit.unwrap_or(USUAL);
        if !(1..=MOST).contains(&limit) {
            let error = format!("expected a number from 1 to {MOST}, found {limit}");
            return Err(ToolError::validation(error).at("limit"));
        }
        let options = self.options.clone().max_candidates(usize::from(limit));
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let picked = index.pick(&params.query, &options);
        if picked.candidates.is_empty() {
            return Ok(ToolResult::ok(Vec::new())
                .message("no tool fits; try other words for what it should do"));
        }
        let mut found = Vec::with_capacity(picked.candidates.len());
        for candidate in &picked.candidates {
            let Some(entry) = index.get(&candidate.id) else { continue };
            self.loaded.add(entry.id());
            found.push(FoundTool {
                name: entry.name().to_owned(),
                description: entry.description().to_owned(),
                parameters: entry.schema().map(serde_json::from_str).transpose()?,
            });
        }
        Ok(ToolResult::ok(found))
    }
}
