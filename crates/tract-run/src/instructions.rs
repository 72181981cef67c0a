//! Keeps the instructions and tools on the branch equal to the prompt.

use tract_compile::Compiled;
use tract_core::{AuthorKind, CommitId, Content, Origin, ToolId, ToolSchema};
use tract_engine::plan::{Details, NewContent, Request};
use tract_tools::prompt::{OPEN_SECTIONS, RenderedPrompt};

use crate::agent::Agent;
use crate::error::Result;

impl Agent {
    /// Renders the prompt, with the sections that the model has opened.
    pub(crate) fn rendered(&self) -> Result<Option<RenderedPrompt>> {
        let Some((prompt, bindings)) = &self.prompt else { return Ok(None) };
        Ok(Some(prompt.render(&bindings.clone().session(&self.session))?))
    }

    /// Returns the requests that bring the branch's instructions and tools up to date.
    pub(crate) async fn instruct(&self, compiled: &Compiled) -> Result<Vec<Request>> {
        let mut requests = Vec::new();
        let rendered = self.rendered()?;
        if let (Some(rendered), Some((prompt, _))) = (&rendered, &self.prompt) {
            let name = format!("prompt/{}/{}", prompt.namespace(), prompt.key());
            match self.instruction_row(compiled, &name).await? {
                Some((_, text)) if text == rendered.text() => {}
                Some((target, _)) => requests.push(Request::Edit {
                    target,
                    content: NewContent::Content(Content::system(rendered.text())),
                    details: Details { origin: origin(&name), ..Details::default() },
                }),
                None => {
                    requests.push(Request::Append(rendered.instruction().origin(origin(&name))));
                }
            }
        }
        if let Some(tools) = self.tools_to_set(compiled, rendered.as_ref())? {
            requests.push(Request::tools(tools));
        }
        Ok(requests)
    }

    /// Returns the instruction that a run has written, with its text.
    async fn instruction_row(
        &self,
        compiled: &Compiled,
        name: &str,
    ) -> Result<Option<(CommitId, String)>> {
        for message in compiled.messages() {
            if !matches!(message.content, Content::System(_)) {
                continue;
            }
            let first = self.repo.commit(message.slot).await?;
            if first.is_some_and(|commit| commit.origin.id.as_deref() == Some(name)) {
                return Ok(Some((message.slot, message.content.text())));
            }
        }
        Ok(None)
    }

    /// Returns the tools to set, if they differ from those in force.
    fn tools_to_set(
        &self,
        compiled: &Compiled,
        rendered: Option<&RenderedPrompt>,
    ) -> Result<Option<Vec<ToolSchema>>> {
        if self.keeps_tools {
            return Ok(None);
        }
        let of_prompt = rendered.map(|rendered| rendered.schemas()).transpose()?;
        let mut wanted: Vec<ToolSchema> = of_prompt.unwrap_or_default();
        let mut not_listed = self.deferred_tools();
        if let Some((prompt, _)) = &self.prompt {
            not_listed.extend(prompt.tools().iter().map(|tool| tool.spec().name));
            not_listed.insert(OPEN_SECTIONS.to_owned());
        }
        // Tools that the prompt does not list, such as those of servers, are always active.
        let others = self.registry().iter().filter(|tool| !not_listed.contains(tool.name()));
        wanted.extend(others.map(|tool| tool.definition().schema().clone()));
        let wanted_ids: Vec<ToolId> = wanted.iter().map(ToolSchema::id).collect();
        let in_force: Vec<ToolId> = compiled.tools().iter().map(|tool| tool.id).collect();
        Ok((wanted_ids != in_force).then_some(wanted))
    }
}

fn origin(name: &str) -> Origin {
    Origin { id: Some(name.to_owned()), ..AuthorKind::User.into() }
}
