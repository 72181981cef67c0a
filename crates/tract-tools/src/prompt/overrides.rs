//! Replacement texts for sections and tools, kept outside of the program, and bound to the original
//! by its hash.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tract_core::{Blob, DynTool, RenderedValue, ToolContext, ToolError, ToolSpec};

use super::section::{ExampleText, SectionTool};
use super::template::Template;
use super::{Checked, Prompt};
use crate::typed::Answer;

/// Replacement texts for a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overrides {
    /// Texts of sections, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sections: BTreeMap<String, SectionOverride>,
    /// Texts of tools, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolOverride>,
}

/// A replacement text for a section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SectionOverride {
    /// The hash of the text that it replaces: [`Prompt::section_hash`].
    pub hash: String,
    /// The text.
    pub body: String,
}

/// Replacement texts for a tool. Its schema and its behavior stay the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOverride {
    /// The hash of the definition that it replaces: [`Prompt::tool_hash`].
    pub hash: String,
    /// The description of the tool for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The descriptions of its parameters, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Its examples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examples: Option<Vec<ExampleText>>,
}

/// The reason why an override is not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideFault {
    /// The section or tool does not exist.
    #[error("this section or tool no longer exists")]
    Unknown,
    /// The original has changed since the override was written.
    #[error("it was written for {expected}, and the present one is {found}")]
    Stale {
        /// The hash in the override.
        expected: String,
        /// The current hash.
        found: String,
    },
    /// The section or tool does not accept overrides.
    #[error("it accepts no overrides")]
    Closed,
    /// The text is invalid, for this reason.
    #[error("it does not fit: {0}")]
    Unfit(String),
}

/// An override that is not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("override of {name}: {fault}")]
pub struct StaleOverride {
    /// The section's path, or the tool's name.
    pub name: String,
    /// The reason.
    pub fault: OverrideFault,
}

fn hash_of(text: &str) -> String {
    Blob::seal(text.as_bytes().to_vec()).id().to_hex()
}

fn tool_hash(tool: &Arc<dyn DynTool>) -> String {
    let definition = tool.spec().definition();
    match tract_core::ToolSchema::parse(&definition) {
        Ok(schema) => schema.id().to_string(),
        Err(_) => hash_of(&definition),
    }
}

impl Prompt {
    /// Returns the hash of a section's text, by its path.
    pub fn section_hash(&self, path: &str) -> Option<String> {
        self.find(path).map(|section| hash_of(&section.body.given))
    }

    /// Returns the hash of a tool's definition, by its name.
    pub fn tool_hash(&self, name: &str) -> Option<String> {
        let tools = self.tools();
        tools.iter().find(|tool| tool.spec().name == name).map(tool_hash)
    }

    /// Checks overrides before they are saved.
    ///
    /// # Errors
    /// All overrides that would not be applied.
    pub fn check_overrides(&self, overrides: &Overrides) -> Result<(), Vec<StaleOverride>> {
        match self.clone().with_overrides(overrides).1 {
            faults if faults.is_empty() => Ok(()),
            faults => Err(faults),
        }
    }

    /// Applies overrides. Returns those that are not applied; the prompt keeps its own texts there.
    #[must_use]
    pub fn with_overrides(mut self, overrides: &Overrides) -> (Self, Vec<StaleOverride>) {
        let mut faults = Vec::new();
        let mut left = overrides.clone();
        for section in &mut self.sections {
            put(section, &mut left, &mut faults);
        }
        let unknown = left.sections.into_keys().chain(left.tools.into_keys());
        faults.extend(unknown.map(|name| StaleOverride { name, fault: OverrideFault::Unknown }));
        (self, faults)
    }
}

/// Applies the overrides of this section, its tools, and the sections below, and removes them from
/// `left`.
fn put(section: &mut Checked, left: &mut Overrides, faults: &mut Vec<StaleOverride>) {
    if let Some(other) = left.sections.remove(&section.path) {
        match section_text(section, &other) {
            Ok(body) => section.body = body,
            Err(fault) => faults.push(StaleOverride { name: section.path.clone(), fault }),
        }
    }
    let open = section.given.accepts_overrides;
    for tool in &mut section.tools {
        let name = tool.tool.spec().name;
        if let Some(other) = left.tools.remove(&name) {
            match tool_texts(tool, &other, &section.path, open) {
                Ok(other) => *tool = other,
                Err(fault) => faults.push(StaleOverride { name, fault }),
            }
        }
    }
    for child in &mut section.children {
        put(child, left, faults);
    }
}

fn fresh(open: bool, expected: &str, found: String) -> Result<(), OverrideFault> {
    match (open, expected == found) {
        (false, _) => Err(OverrideFault::Closed),
        (true, false) => Err(OverrideFault::Stale { expected: expected.to_owned(), found }),
        (true, true) => Ok(()),
    }
}

fn section_text(section: &Checked, other: &SectionOverride) -> Result<Template, OverrideFault> {
    fresh(section.given.accepts_overrides, &other.hash, hash_of(&section.body.given))?;
    let body = Template::read(&other.body);
    match body.faults(&section.path, section.given.params.as_ref()).first() {
        Some(fault) => Err(OverrideFault::Unfit(fault.to_string())),
        None => Ok(body),
    }
}

fn tool_texts(
    tool: &SectionTool,
    other: &ToolOverride,
    path: &str,
    open: bool,
) -> Result<SectionTool, OverrideFault> {
    fresh(open && tool.accepts_overrides, &other.hash, tool_hash(&tool.tool))?;
    let mut spec = tool.tool.spec();
    if let Some(description) = &other.description {
        if description.trim().is_empty() {
            return Err(OverrideFault::Unfit("expected a description, found none".to_owned()));
        }
        spec.description.clone_from(description);
    }
    if !other.parameters.is_empty() {
        spec.parameters = described(&spec.parameters, &other.parameters)?;
    }
    let renamed = OverriddenTool { spec, tool: Arc::clone(&tool.tool) };
    let examples = other.examples.clone().unwrap_or_else(|| tool.examples.clone());
    let section_tool = SectionTool { tool: Arc::new(renamed), examples, accepts_overrides: true };
    match section_tool.faults(path).first() {
        Some(fault) => Err(OverrideFault::Unfit(fault.to_string())),
        None => Ok(section_tool),
    }
}

/// Returns a schema with other descriptions of its properties.
fn described(schema: &str, texts: &BTreeMap<String, String>) -> Result<String, OverrideFault> {
    let unfit = |text: String| OverrideFault::Unfit(text);
    let mut schema: Value =
        serde_json::from_str(schema).map_err(|error| unfit(error.to_string()))?;
    for (name, text) in texts {
        let property = schema.pointer_mut("/properties").and_then(|all| all.get_mut(name));
        match property {
            Some(Value::Object(property)) => {
                property.insert("description".to_owned(), Value::from(text.as_str()));
            }
            _ => return Err(unfit(format!("expected a parameter of the tool, found {name:?}"))),
        }
    }
    Ok(schema.to_string())
}

/// A tool with replaced texts.
struct OverriddenTool {
    spec: ToolSpec,
    tool: Arc<dyn DynTool>,
}

#[async_trait]
impl DynTool for OverriddenTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn check_arguments(&self, arguments: &str) -> Result<(), ToolError> {
        self.tool.check_arguments(arguments)
    }

    fn result_schema(&self) -> Option<String> {
        self.tool.result_schema()
    }

    async fn run(&self, arguments: &str, context: &ToolContext) -> Answer<RenderedValue> {
        self.tool.run(arguments, context).await
    }
}
