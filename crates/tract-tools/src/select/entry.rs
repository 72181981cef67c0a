//! The entry of a tool in a catalog.

use std::sync::Arc;

use serde::Deserialize;
use tract_core::DynTool;
use tract_core::json::{self, JsonError};
use tract_schema::ToolView;

use super::parameters;
use super::weights::Field;

/// A tool in a catalog: its texts, and whether it may be selected.
///
/// ```
/// use tract_tools::select::CatalogEntry;
/// let line = r#"{"id":"w1","name":"get_weather","description":"Weather in a city.",
///     "parameters":{"type":"object","properties":{"city":{"type":"string"}}},"tags":["travel"]}"#;
/// let entry = CatalogEntry::parse(line)?;
/// assert_eq!((entry.id(), entry.name()), ("w1", "get_weather"));
/// assert!(entry.is_safe());
/// assert!(!CatalogEntry::new("x", "x", "no schema").is_safe());
/// # Ok::<(), tract_tools::select::EntryError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    id: String,
    name: String,
    description: String,
    parameters: Option<Arc<str>>,
    /// Additional words that describe it.
    pub tags: Vec<String>,
    /// Whether it is declared unsafe, or destructive according to its server. Then it is selected
    /// only if unsafe tools are allowed.
    pub is_unsafe: bool,
}

/// The error of a text that does not describe a tool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// It is not a JSON object.
    #[error("expected a tool as a JSON object: {0}")]
    Json(#[from] JsonError),
    /// A member has a wrong type.
    #[error("member {member:?} of the tool: {source}")]
    Member {
        /// Its name.
        member: String,
        /// The reader's error.
        source: serde_json::Error,
    },
    /// The name is missing.
    #[error("expected a tool with a name, found none")]
    NoName,
}

impl EntryError {
    /// Returns the stable code of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Json(_) => "invalid_json",
            Self::Member { .. } => "bad_member",
            Self::NoName => "no_name",
        }
    }

    /// Returns hints for fixing it.
    pub fn notes(&self) -> Vec<String> {
        let shape = r#"a catalog has a tool a line: {"id","name","description","parameters"}"#;
        vec![shape.to_owned()]
    }
}

impl CatalogEntry {
    /// Creates an entry without parameters. It is not safe until it has a schema.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        description: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            description: description.into(),
            parameters: None,
            tags: Vec::new(),
            is_unsafe: false,
        }
    }

    /// Creates an entry for a tool of this program, with its name as the id. A destructive tool is
    /// declared unsafe.
    ///
    /// # Errors
    /// If its parameters are not a JSON object.
    pub fn of(tool: &dyn DynTool) -> Result<Self, EntryError> {
        let spec = tool.spec();
        let mut entry = Self::new(spec.name.clone(), spec.name, spec.description)
            .parameters(&spec.parameters)?;
        entry.is_unsafe = spec.traits.destructive;
        Ok(entry)
    }

    /// Reads a tool in the form of any provider, or a line of a catalog:
    /// `{"id","name","description","parameters"}`.
    ///
    /// # Behavior
    /// - The id is `id`, a text or a number, else `tool_id`, else the name.
    /// - `tags` are additional words; `unsafe: true` declares it unsafe.
    /// - `annotations` (the hints of an MCP server) can only restrict: `destructiveHint: true`
    ///   makes it unsafe, but no annotation makes it safe.
    ///
    /// # Errors
    /// [`EntryError`] with the invalid member.
    pub fn parse(text: &str) -> Result<Self, EntryError> {
        let view = ToolView::parse(text)?;
        if view.name.is_empty() {
            return Err(EntryError::NoName);
        }
        let outer = json::split_object(text)?;
        let member = |key: &str| {
            view.other(key)
                .or_else(|| outer.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| *raw))
        };
        let id = match member("id").or_else(|| member("tool_id")) {
            Some(raw) if raw.starts_with('"') => read("id", raw)?,
            // The id is the number as it is written.
            Some(raw) => read::<serde_json::Number>("id", raw).map(|_| raw.to_owned())?,
            None => view.name.clone(),
        };
        let description = match view.description {
            Some(raw) => read::<Option<String>>("description", raw)?.unwrap_or_default(),
            None => String::new(),
        };
        let mut entry = Self::new(id, view.name.clone(), description);
        if let Some(raw) = member("tags") {
            entry.tags = read("tags", raw)?;
        }
        if let Some(raw) = member("unsafe") {
            entry.is_unsafe = read("unsafe", raw)?;
        }
        if let Some(raw) = member("annotations") {
            let hints: Option<Hints> = read("annotations", raw)?;
            entry.is_unsafe |= hints.is_some_and(|hints| hints.destructive);
        }
        match view.parameters {
            Some(raw) if raw != "null" => entry.parameters(raw),
            _ => Ok(entry),
        }
    }

    /// Sets the JSON Schema of the arguments.
    ///
    /// # Errors
    /// If the text is not a JSON object.
    pub fn parameters(mut self, schema: &str) -> Result<Self, EntryError> {
        parameters::check_object(schema)
            .map_err(|source| EntryError::Member { member: "parameters".to_owned(), source })?;
        self.parameters = Some(schema.into());
        Ok(self)
    }

    pub(crate) fn with_id(mut self, id: String) -> Self {
        self.id = id;
        self
    }

    /// Returns its id in the catalog.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the name by which models call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description for models.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the JSON Schema of the arguments, as given.
    pub fn schema(&self) -> Option<&str> {
        self.parameters.as_deref()
    }

    /// Returns whether it may be selected by default: it has a schema, was not declared unsafe, and
    /// its server does not mark it as destructive.
    pub fn is_safe(&self) -> bool {
        self.parameters.is_some() && !self.is_unsafe
    }

    /// Calls `each` with name, description and tags.
    pub(crate) fn each_heading(&self, each: &mut dyn FnMut(Field, &str)) {
        each(Field::Name, &self.name);
        each(Field::Description, &self.description);
        for tag in &self.tags {
            each(Field::Tag, tag);
        }
    }

    /// Calls `each` with each of its texts.
    pub(crate) fn each_text(&self, each: &mut dyn FnMut(Field, &str)) {
        self.each_heading(each);
        if let Some(schema) = &self.parameters {
            let read = parameters::each_text(schema, each);
            debug_assert!(read.is_ok(), "checked when it was set");
        }
    }
}

#[derive(Deserialize)]
struct Hints {
    #[serde(default, rename = "destructiveHint")]
    destructive: bool,
}

fn read<'a, T: Deserialize<'a>>(member: &str, raw: &'a str) -> Result<T, EntryError> {
    serde_json::from_str(raw)
        .map_err(|source| EntryError::Member { member: member.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_a_server_only_restrict() {
        let tool = |more: &str| {
            let text = format!(r#"{{"name":"rm","inputSchema":{{"type":"object"}}{more}}}"#);
            CatalogEntry::parse(&text).expect("it is a tool").is_safe()
        };
        assert!(tool(""));
        assert!(tool(r#","annotations":{"readOnlyHint":true}"#));
        assert!(!tool(r#","annotations":{"destructiveHint":true,"readOnlyHint":true}"#));
        assert!(!tool(r#","unsafe":true,"annotations":{"readOnlyHint":true}"#));
    }

    #[test]
    fn an_entry_is_read_in_any_shape() {
        let nested = r#"{"type":"function","function":{"name":"a","description":"A","parameters":{}},"tags":["x"]}"#;
        let entry = CatalogEntry::parse(nested).expect("it is a tool");
        assert_eq!((entry.id(), entry.description(), entry.schema()), ("a", "A", Some("{}")));
        assert_eq!(entry.tags, ["x"]);
        let by_tool_id = CatalogEntry::parse(r#"{"tool_id":"t","name":"a","parameters":{}}"#);
        assert_eq!(by_tool_id.expect("it is a tool").id(), "t");
        let number = CatalogEntry::parse(r#"{"id": 7.0 ,"name":"a","parameters":{}}"#);
        assert_eq!(number.expect("it is a tool").id(), "7.0");
    }

    #[test]
    fn an_invalid_tool_is_refused_with_its_member() {
        let code = |text: &str| CatalogEntry::parse(text).expect_err(text).code();
        assert_eq!(code("[]"), "invalid_json");
        assert_eq!(code(r#"{"id":"a"}"#), "no_name");
        assert_eq!(code(r#"{"name":"a","id":[]}"#), "bad_member");
        assert_eq!(code(r#"{"name":"a","parameters":[]}"#), "bad_member");
        assert_eq!(code(r#"{"name":"a","tags":"x"}"#), "bad_member");
        assert_eq!(code(r#"{"name":"a","description":7}"#), "bad_member");
    }
}
