//! Calls that were recorded without an id. They get one, so that each result belongs to its call.

use tract_core::{Content, Draft, Part};

/// The calls without an id and without a result so far.
#[derive(Debug, Default)]
pub(super) struct UnnamedCalls {
    /// The number of calls without an id.
    count: usize,
    /// The new id and the tool of each open call, oldest first.
    open: Vec<(String, String)>,
}

impl UnnamedCalls {
    /// Gives an id to each call of a message that has none, and to a result the id of its call: the
    /// oldest open one of its tool, or of any tool if it names none. Returns descriptions of the calls.
    ///
    /// A message in a provider's format is unchanged: some providers have no ids.
    pub(super) fn settle(&mut self, draft: &mut Draft) -> Vec<String> {
        let mut named = Vec::new();
        if draft.form.is_some() {
            return named;
        }
        match &mut draft.content {
            Content::Assistant(body) => {
                for part in &mut body.parts {
                    let Part::ToolCall(call) = part else { continue };
                    if call.id.is_empty() {
                        self.count += 1;
                        call.id = format!("unnamed-call-{}", self.count);
                        self.open.push((call.id.clone(), call.name.clone()));
                        named.push(format!("a call of {:?} has no id: it gets one", call.name));
                    }
                }
            }
            Content::ToolResult(answer) if answer.call_id.is_empty() => {
                let is_of = |tool: &str| answer.name.as_deref().is_none_or(|name| name == tool);
                if let Some(place) = self.open.iter().position(|(_, tool)| is_of(tool)) {
                    answer.call_id = self.open.remove(place).0;
                }
            }
            _ => {}
        }
        named
    }
}
