//! Ids and names of the calls of one request, as they are sent.

use std::collections::{HashMap, HashSet};

use tract_compile::{Item, PlaceholderResult, Repair, RepairKind, Speaker, speaker};
use tract_core::{CallRef, CommitId, Message};
use tract_schema::Aliases;

use crate::format::MessageFormat;

/// A call as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Whether the sent id differs from the recorded one.
    pub(crate) renamed: bool,
}

/// The calls of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids(HashMap<CallRef, SentCall>);

impl Ids {
    pub(crate) fn call(&self, slot: CommitId, index: u32) -> Option<&SentCall> {
        self.0.get(&CallRef { slot, index })
    }

    /// Returns the sent id and tool name of the call that a placeholder answers.
    pub(crate) fn of_placeholder<'a>(
        &'a self,
        answer: &'a PlaceholderResult,
    ) -> (&'a str, &'a str) {
        match self.call(answer.answers.slot, answer.answers.index) {
            Some(sent) => (&sent.id, &sent.name),
            None => (&answer.call_id, &answer.name),
        }
    }

    /// Returns whether a message contains or answers a call whose id was replaced, so that its
    /// recorded bytes cannot be sent.
    pub(crate) fn touches(&self, message: &Message) -> bool {
        let renamed = |of: CallRef| self.0.get(&of).is_some_and(|sent| sent.renamed);
        message.answers.is_some_and(renamed)
            || (0u32..)
                .zip(message.content.calls())
                .any(|(index, _)| renamed(CallRef { slot: message.slot, index }))
    }

    /// Chooses ids and names. When repairing, an id that the provider rejects or that the request
    /// already uses is replaced, in calls and results alike.
    pub(crate) fn settle(
        items: &[Item<'_>],
        format: &MessageFormat,
        repairing: Repairing,
        aliases: Option<&Aliases>,
        repairs: &mut Vec<Repair>,
    ) -> Self {
        let longest = format.longest_id;
        let mut ids = Self::default();
        let mut used = UsedIds::default();
        let stood_in: HashSet<CallRef> = items
            .iter()
            .filter_map(|item| match item {
                Item::StandIn(answer) => Some(answer.answers),
                Item::Message(_) => None,
            })
            .collect();
        for item in items {
            let message = match item {
                Item::Message(message) if speaker(message) == Speaker::Assistant => message,
                Item::Message(_) | Item::StandIn(_) => continue,
            };
            let own = format.owns(message.form.as_deref());
            for (index, call) in (0u32..).zip(message.content.calls()) {
                let mut id = call.id.clone();
                if repairing != Repairing::Nothing {
                    // A legacy call has no id, but needs one if its placeholder is in the new
                    // format.
                    let of = CallRef { slot: message.slot, index };
                    let is_rejected =
                        own && repairing == Repairing::All && is_always_rejected(format, &id);
                    if !own || is_rejected || (id.is_empty() && stood_in.contains(&of)) {
                        id = accepted(longest, &id);
                    }
                    let is_ambiguous = format.has_ids && (longest.is_some() || !own);
                    if is_ambiguous && used.contains(&id) {
                        id = used.fresh(&id);
                    }
                }
                let name =
                    aliases.map_or(call.name.clone(), |all| all.sent(&call.name).into_owned());
                let mut replaced = |kind, what: &str, from: &str, to: &str| {
                    let text = format!("{what} {from:?} is sent as {to:?}");
                    repairs.push(Repair::new(kind, Some(message.slot), text));
                };
                if id != call.id {
                    replaced(RepairKind::CallId, "call id", &call.id, &id);
                }
                if name != call.name {
                    replaced(RepairKind::ToolName, "tool name", &call.name, &name);
                }
                used.insert(&id);
                let renamed = id != call.id;
                ids.0.insert(CallRef { slot: message.slot, index }, SentCall { id, name, renamed });
            }
        }
        ids
    }
}

/// The ids that are replaced if a provider rejects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repairing {
    /// None.
    Nothing,
    /// Those of other providers.
    Foreign,
    /// Those of the provider's own recordings, too. Servers with the same API accept other ids.
    All,
}

/// Returns whether a provider rejects an id of a recording in its own format. Anthropic rejects other
/// characters. OpenAI rejects long ids, but servers with its API make and accept them, so those of
/// their recordings are sent as they are.
fn is_always_rejected(format: &MessageFormat, id: &str) -> bool {
    format.has_plain_ids && (id.is_empty() || !id.chars().all(is_plain))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns the call id, shortened and cleaned to the form that the provider accepts.
fn accepted(longest: Option<usize>, id: &str) -> String {
    let Some(longest) = longest else { return id.to_owned() };
    if id.len() <= longest && id.chars().all(is_plain) && !id.is_empty() {
        return id.to_owned();
    }
    let kept: String = id.chars().map(|c| if is_plain(c) { c } else { '_' }).take(28).collect();
    let hash = tract_core::hash::blob(id.as_bytes()).short();
    if kept.is_empty() { format!("call_{hash}") } else { format!("{kept}_{hash}") }
}

/// The ids that a request uses so far.
#[derive(Debug, Default)]
struct UsedIds {
    ids: HashSet<String>,
    /// The next number to try for each beginning of a new id. All smaller ones are used.
    next: HashMap<String, u64>,
}

impl UsedIds {
    fn contains(&self, id: &str) -> bool {
        self.ids.contains(id)
    }

    fn insert(&mut self, id: &str) {
        self.ids.insert(id.to_owned());
    }

    /// Returns an unused id that resembles a used one.
    fn fresh(&mut self, id: &str) -> String {
        let stem: String = id.chars().take(32).collect();
        let next = self.next.entry(stem.clone()).or_insert(2);
        loop {
            let id = format!("{stem}_{next}");
            *next += 1;
            if !self.ids.contains(&id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_new_ids_are_tried_once() {
        let mut used = UsedIds::default();
        for id in ["call", "call_3"] {
            used.insert(id);
        }
        let mut fresh = |id: &str| {
            let id = used.fresh(id);
            used.insert(&id);
            (id, used.next["call"])
        };
        assert_eq!(fresh("call"), ("call_2".to_owned(), 3));
        assert_eq!(fresh("call"), ("call_4".to_owned(), 5));
        // Every number below the next one was tried, so the tries add up to the number of ids.
        for n in 5..1_000 {
            assert_eq!(fresh("call"), (format!("call_{n}"), n + 1));
        }
    }
}
