//! Instructions and the tools that belong to them, as a tree of sections.
//!
//! Sections are rendered depth-first, in the order in which they were added, with the tools of the
//! enabled sections. A section may be shown as a summary, until the model calls a tool to open it.
//!
//! ```
//! use serde::Serialize;
//! use tract_tools::prompt::{Bindings, Prompt, Section};
//!
//! #[derive(Serialize, schemars::JsonSchema)]
//! struct Desk { city: String }
//!
//! let prompt = Prompt::builder("examples", "desk")
//!     .section(
//!         Section::new("role", "Role", "You sit at the desk of ${city}.")
//!             .params::<Desk>()
//!             .child(Section::new("tone", "Tone", "Be brief.")),
//!     )
//!     .build()?;
//! let rendered = prompt.render(&Bindings::new().bind(&Desk { city: "Bern".into() })?)?;
//! assert_eq!(
//!     rendered.text(),
//!     "## 1. Role (role)\n\nYou sit at the desk of Bern.\n\n### 1.1. Tone (role.tone)\n\nBe brief.",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bindings;
mod error;
mod expand;
mod overrides;
mod render;
mod section;
mod template;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use tract_core::DynTool;

pub use self::bindings::{BindError, Bindings};
pub use self::error::{PromptError, PromptFault, RenderError};
pub use self::expand::{OPEN_SECTIONS, OpenedSections};
pub use self::overrides::{OverrideFault, Overrides, SectionOverride, StaleOverride, ToolOverride};
pub use self::render::RenderedPrompt;
use self::section::SectionTool;
pub use self::section::{ExampleText, Section, Visibility};
use self::template::Template;

/// A tree of sections that has been checked as a whole.
#[derive(Clone)]
pub struct Prompt {
    namespace: String,
    key: String,
    sections: Vec<Checked>,
}

/// A section whose texts have been parsed.
#[derive(Clone)]
pub(crate) struct Checked {
    path: String,
    body: Template,
    summary: Option<Template>,
    children: Vec<Checked>,
    given: Arc<Section>,
    tools: Vec<SectionTool>,
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<&str> = self.walk().map(|section| section.path.as_str()).collect();
        write!(f, "{}/{} {paths:?}", self.namespace, self.key)
    }
}

/// Collects sections. [`build`](Self::build) checks them and reports all errors at once.
#[must_use]
#[derive(Debug)]
pub struct PromptBuilder {
    namespace: String,
    key: String,
    sections: Vec<Section>,
    strict: bool,
}

impl Prompt {
    /// Returns a builder.
    pub fn builder(namespace: impl Into<String>, key: impl Into<String>) -> PromptBuilder {
        PromptBuilder {
            namespace: namespace.into(),
            key: key.into(),
            sections: Vec::new(),
            strict: false,
        }
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the paths of all sections, depth first: keys joined by dots.
    pub fn paths(&self) -> Vec<&str> {
        self.walk().map(|section| section.path.as_str()).collect()
    }

    /// Returns all tools of all sections, enabled or not, depth first.
    pub fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        self.walk().flat_map(|section| &section.tools).map(|tool| Arc::clone(&tool.tool)).collect()
    }

    fn walk(&self) -> impl Iterator<Item = &Checked> {
        let mut stack: Vec<&Checked> = self.sections.iter().rev().collect();
        std::iter::from_fn(move || {
            let next = stack.pop()?;
            stack.extend(next.children.iter().rev());
            Some(next)
        })
    }

    fn find(&self, path: &str) -> Option<&Checked> {
        self.walk().find(|section| section.path == path)
    }
}

impl PromptBuilder {
    /// Adds a section.
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Checks the tools of all sections, and their examples, against the strict profile: see
    /// [`RegistryBuilder::strict`](crate::RegistryBuilder::strict).
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Checks the whole tree, including disabled sections.
    ///
    /// # Errors
    /// [`PromptError`] with all errors.
    pub fn build(self) -> Result<Prompt, PromptError> {
        let mut faults = Vec::new();
        for (what, name) in [("namespace", &self.namespace), ("key", &self.key)] {
            if name.trim().is_empty() {
                faults.push(PromptFault::Empty { what });
            }
        }
        let sections = checked_all(self.sections, "", &mut faults);
        let prompt = Prompt { namespace: self.namespace, key: self.key, sections };
        let mut paths = BTreeSet::new();
        for path in prompt.paths() {
            if !paths.insert(path) {
                faults.push(PromptFault::DuplicateSection { path: path.to_owned() });
            }
        }
        let mut named: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for section in prompt.walk() {
            for tool in &section.tools {
                if self.strict {
                    faults.extend(tool.strict_faults(&section.path));
                }
                named.entry(tool.tool.spec().name).or_default().push(&section.path);
            }
        }
        for (name, sections) in named {
            if sections.len() > 1 || name == OPEN_SECTIONS {
                let sections = sections.into_iter().map(str::to_owned).collect();
                faults.push(PromptFault::DuplicateTool { name, sections });
            }
        }
        if faults.is_empty() { Ok(prompt) } else { Err(PromptError(faults)) }
    }
}

fn checked_all(sections: Vec<Section>, above: &str, faults: &mut Vec<PromptFault>) -> Vec<Checked> {
    sections.into_iter().map(|section| checked(section, above, faults)).collect()
}

fn checked(mut section: Section, above: &str, faults: &mut Vec<PromptFault>) -> Checked {
    let path = match above {
        "" => section.key.clone(),
        above => format!("{above}.{}", section.key),
    };
    if !section::is_key(&section.key) {
        faults.push(PromptFault::BadKey { key: section.key.clone() });
    }
    if section.title.trim().is_empty() {
        faults.push(PromptFault::NoTitle { path: path.clone() });
    }
    if section.visibility == Visibility::Summary && section.summary.is_none() {
        faults.push(PromptFault::NoSummary { path: path.clone() });
    }
    let body = read(&section, &path, &section.template, faults);
    let summary = section.summary.as_deref().map(|text| read(&section, &path, text, faults));
    if section.stray_examples > 0 {
        faults.push(PromptFault::StrayExample { path: path.clone() });
    }
    for tool in &section.tools {
        faults.extend(tool.faults(&path));
    }
    let children = checked_all(std::mem::take(&mut section.children), &path, faults);
    let tools = std::mem::take(&mut section.tools);
    Checked { path, body, summary, children, tools, given: Arc::new(section) }
}

fn read(section: &Section, path: &str, text: &str, faults: &mut Vec<PromptFault>) -> Template {
    let template = Template::read(text);
    faults.extend(template.faults(path, section.params.as_ref()));
    template
}

#[cfg(test)]
mod tests;
