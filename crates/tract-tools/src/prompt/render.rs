//! Renders a tree of sections to the text and the tools for a model.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use tract_core::json::JsonError;
use tract_core::{Draft, DynTool, ToolSchema};

use super::bindings::Bindings;
use super::error::RenderError;
use super::expand::{OPEN_SECTIONS, OpenSections};
use super::section::SectionTool;
use super::{Checked, Prompt, Visibility};
use crate::policy::Policy;
use crate::registry::{Registry, RegistryBuilder};

/// The deepest level of headings in Markdown. Sections below it use the same level.
const HEADINGS: usize = 6;

/// A rendered prompt: the instructions, and the tools of the sections that are shown.
#[derive(Clone, Default)]
pub struct RenderedPrompt {
    text: String,
    tools: Vec<Arc<dyn DynTool>>,
    policies: Vec<Arc<dyn Policy>>,
    unavailable: Vec<String>,
    collapsed: Vec<String>,
}

impl fmt::Debug for RenderedPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.tools.iter().map(|tool| tool.spec().name).collect();
        f.debug_struct("RenderedPrompt").field("text", &self.text).field("tools", &names).finish()
    }
}

impl RenderedPrompt {
    /// Returns the instructions.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the tools, in the order of their sections.
    pub fn tools(&self) -> &[Arc<dyn DynTool>] {
        &self.tools
    }

    /// Returns the names of the prompt's tools that cannot be called now, because their sections
    /// are disabled or shown as a summary.
    pub fn unavailable(&self) -> &[String] {
        &self.unavailable
    }

    /// Returns the paths of the sections that are shown as a summary.
    pub fn collapsed(&self) -> &[String] {
        &self.collapsed
    }

    /// Returns the instructions as a message to be committed.
    pub fn instruction(&self) -> Draft {
        Draft::system(&self.text)
    }

    /// Returns the definitions of the tools, to be committed with the instructions.
    ///
    /// # Errors
    /// If the schema of a tool is not a JSON object.
    pub fn schemas(&self) -> Result<Vec<ToolSchema>, JsonError> {
        self.tools.iter().map(|tool| ToolSchema::parse(&tool.spec().definition())).collect()
    }

    /// Returns the policies of the sections that are shown.
    pub fn policies(&self) -> &[Arc<dyn Policy>] {
        &self.policies
    }

    /// Returns a builder for a registry with the tools and policies of the sections that are shown.
    pub fn registry(&self) -> RegistryBuilder {
        let tools = self.tools.iter().cloned();
        let builder = tools.fold(Registry::builder(), RegistryBuilder::dyn_tool);
        self.policies.iter().cloned().fold(builder, RegistryBuilder::shared_policy)
    }
}

impl Prompt {
    /// Renders the enabled sections.
    ///
    /// # Errors
    /// [`RenderError`] if the parameters of a section are not bound, or a section to be opened does
    /// not exist.
    pub fn render(&self, bindings: &Bindings) -> Result<RenderedPrompt, RenderError> {
        if let Some(path) = bindings.opened.iter().find(|path| self.find(path).is_none()) {
            return Err(RenderError::UnknownSection { path: path.clone() });
        }
        let opened = bindings.all_opened();
        let mut work = Work { bindings, opened, rendered: RenderedPrompt::default() };
        for (place, section) in self.sections.iter().enumerate() {
            work.section(section, &format!("{}.", place + 1), 2)?;
        }
        let mut rendered = work.rendered;
        let shown: Vec<String> = rendered.tools.iter().map(|tool| tool.spec().name).collect();
        let all = self.tools().into_iter().map(|tool| tool.spec().name);
        rendered.unavailable = all.filter(|name| !shown.contains(name)).collect();
        if !rendered.collapsed.is_empty() {
            rendered.tools.push(Arc::new(self.open_sections()));
        }
        rendered.text.truncate(rendered.text.trim_end().len());
        Ok(rendered)
    }

    /// Returns the tool that opens sections.
    fn open_sections(&self) -> OpenSections {
        let summarized =
            self.walk().filter(|section| section.given.visibility == Visibility::Summary);
        OpenSections {
            summarized: summarized.map(|section| section.path.clone()).collect(),
            sections: self.paths().into_iter().map(str::to_owned).collect(),
        }
    }

    /// Returns a builder for a registry with the tools of all sections, enabled or not, and with
    /// the tool that opens sections if any is shown as a summary. The tools that can be called now
    /// are those that [`render`](Self::render) returns.
    pub fn registry(&self) -> RegistryBuilder {
        let tools = self.tools().into_iter();
        let builder = tools.fold(Registry::builder(), RegistryBuilder::dyn_tool);
        let open = self.open_sections();
        if open.summarized.is_empty() { builder } else { builder.tool(open) }
    }
}

struct Work<'a> {
    bindings: &'a Bindings,
    opened: BTreeSet<String>,
    rendered: RenderedPrompt,
}

impl Work<'_> {
    fn section(
        &mut self,
        section: &Checked,
        number: &str,
        level: usize,
    ) -> Result<(), RenderError> {
        let given = &section.given;
        if given.enabled.as_ref().is_some_and(|enabled| !enabled(self.bindings)) {
            return Ok(());
        }
        let (title, path) = (given.title.trim(), section.path.as_str());
        self.paragraph(&format!("{} {number} {title} ({path})", "#".repeat(level.min(HEADINGS))));
        let fill =
            |text: &super::Template| text.fill(path, given.params.as_ref(), &self.bindings.values);
        let as_summary = given.visibility == Visibility::Summary && !self.opens(path);
        if let (true, Some(summary)) = (as_summary, &section.summary) {
            let text = fill(summary)?;
            self.paragraph(&text);
            self.paragraph(&format!(
                "[This is a summary. Call `{OPEN_SECTIONS}` with [\"{path}\"] to read all of it.]"
            ));
            self.rendered.collapsed.push(path.to_owned());
            return Ok(());
        }
        let text = fill(&section.body)?;
        self.paragraph(&text);
        for tool in &section.tools {
            self.examples(tool);
            self.rendered.tools.push(Arc::clone(&tool.tool));
        }
        self.rendered.policies.extend(given.policies.iter().cloned());
        for (place, child) in section.children.iter().enumerate() {
            self.section(child, &format!("{number}{}.", place + 1), level + 1)?;
        }
        Ok(())
    }

    /// Returns whether a section is shown in full because it, or one below it, was opened.
    fn opens(&self, path: &str) -> bool {
        let below = |opened: &String| {
            opened.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.opened.iter().any(below)
    }

    fn paragraph(&mut self, text: &str) {
        if !text.is_empty() {
            self.rendered.text.push_str(text);
            self.rendered.text.push_str("\n\n");
        }
    }

    fn examples(&mut self, tool: &SectionTool) {
        let name = tool.tool.spec().name;
        for example in &tool.examples {
            let mut text = format!("Example of `{name}`: {}", example.description.trim());
            let fence = fence(&[example.input.as_str(), &example.output]);
            for (what, shown) in [("input", example.input.as_str()), ("output", &example.output)] {
                // Writing to a string cannot fail.
                let _ = write!(text, "\n\n{what}:\n{fence}\n{shown}\n{fence}");
            }
            self.paragraph(&text);
        }
    }
}

/// Returns a fence that none of the texts contains.
fn fence(texts: &[&str]) -> String {
    let mut fence = "```".to_owned();
    while texts.iter().any(|text| text.contains(&fence)) {
        fence.push('`');
    }
    fence
}
