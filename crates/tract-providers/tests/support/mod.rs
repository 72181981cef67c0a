//! A compiled context without a store, and where the recordings lie.

#![allow(dead_code, clippy::unwrap_used)] // shared by test binaries that each need a part of it

pub(crate) mod streams;

use std::fs;
use std::path::Path;

use tract_compile::{Compiled, Row, TokenCount, View};
use tract_core::{ActiveTool, CallRef, CommitId, Content, Draft, Message, Priority, ToolSchema};
use tract_providers::{Dialect, Imported, RequestForms, read_request};
use tract_testkit::data;

/// Puts drafts together as the engine would: a row each, results bound to the nearest open call.
pub(crate) fn compiled(drafts: &[Draft], tools: Option<&[ToolSchema]>) -> Compiled {
    compiled_but(drafts, tools, |_| false)
}

/// The same, with the drafts at some places skipped.
pub(crate) fn compiled_but(
    drafts: &[Draft],
    tools: Option<&[ToolSchema]>,
    skipped: impl Fn(usize) -> bool,
) -> Compiled {
    let slot = |place: usize| {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&(place as u64 + 1).to_be_bytes());
        CommitId::from_bytes(bytes)
    };
    let (mut rows, mut messages) = (Vec::new(), Vec::new());
    let mut open: Vec<(String, CallRef)> = Vec::new();
    for (place, draft) in drafts.iter().enumerate() {
        let slot_id = slot(place);
        let answers = match &draft.content {
            Content::ToolResult(answer) => {
                let nearest = open.iter().rposition(|(id, _)| *id == answer.call_id);
                nearest.map(|at| open.remove(at).1)
            }
            _ => None,
        };
        for (index, call) in (0..).zip(draft.content.calls()) {
            open.push((call.id.clone(), CallRef { slot: slot_id, index }));
        }
        let row = Row { slot: slot_id, key: place as u64, version: slot_id, mark: None, answers };
        rows.push(row);
        let kind = draft.content.kind();
        if skipped(place) {
            continue;
        }
        // What is stored is the blob, so what is compiled has been through it.
        let blob = draft.content.to_blob().unwrap();
        messages.push(Message {
            commit: slot_id,
            slot: slot_id,
            content: Content::from_blob(&kind, &blob).unwrap(),
            role: draft.role.clone().unwrap_or_else(|| kind.default_role()),
            priority: draft.priority.unwrap_or(Priority::Normal),
            answers,
            joins: (draft.joins_previous && place > 0).then(|| slot(place - 1)),
            form: draft.form.clone(),
            verbatim: draft.verbatim.clone(),
            generation_config: draft.generation_config.clone(),
            token_count: 1,
        });
    }
    let tools: Vec<ActiveTool> = tools
        .unwrap_or_default()
        .iter()
        .map(|tool| ActiveTool {
            name: tool.name().to_owned(),
            id: tool.id(),
            schema: tool.text().into(),
        })
        .collect();
    let next = drafts.len() as u64;
    let head = drafts.len().checked_sub(1).map(slot);
    let count = TokenCount { count: next, source: "approx".into() };
    Compiled::new(head, View::from_parts(rows, None, next), messages, tools, count, next)
}

pub(crate) fn of(imported: &Imported) -> Compiled {
    compiled(&imported.drafts, imported.tools.as_deref())
}

/// A request of our own in the shape that a provider documents; there are few recordings.
pub(crate) fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/own").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a fixture, whose members of these keys come back as they are.
pub(crate) fn read_back(file: &str, dialect: Dialect, keys: &[&str]) -> Imported {
    let text = fixture(file);
    let imported = read_request(&text, dialect).unwrap();
    let params = of(&imported).to_params(dialect).unwrap();
    for key in keys {
        assert!(same(member(&text, key), params.get(key)), "{key}: {}", params.to_json());
    }
    assert_eq!(params.repairs, [], "{file}");
    imported
}

/// The lines of all trajectories, with their names.
pub(crate) fn trajectories() -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (name, text) in data::texts(&data::find("trajectories").0, "jsonl") {
        let named =
            (1..).zip(text.lines()).map(|(n, line)| (format!("{name}:{n}"), line.to_owned()));
        lines.extend(named);
    }
    lines
}

/// The exchanges of a provider with status 200, with their names.
pub(crate) fn cassettes(provider: &str) -> Vec<(String, String)> {
    let mut exchanges = data::texts(&data::find("cassettes").0.join(provider), "json");
    exchanges.retain(|(_, text)| member(text, "status") == Some("200"));
    exchanges
}

/// A member of an object, as written.
pub(crate) fn member<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let members = tract_core::json::split_object(text).unwrap();
    members.into_iter().rev().find(|(name, _)| name == key).map(|(_, raw)| raw)
}

pub(crate) fn same(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => tract_core::json::equal(a, b).unwrap(),
        (a, b) => a.is_none() && b.is_none(),
    }
}
