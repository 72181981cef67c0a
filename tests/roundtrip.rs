//! What was recorded comes back as it was.

use std::collections::HashMap;

use serde_json::Value;
use tract::forms::Form;
use tract::import::{Dialect, ImportStatus};
use tract::store::Walk;
use tract::{CommitId, Tract, block_on};

use crate::backends;
use crate::bad_input::state;
use crate::walks::{
    accepted, assert_clean, body, compiled, form, import, memory, some, trajectories, value,
};

fn tools_in_force(tract: &Tract, head: CommitId) -> Vec<Value> {
    let tools = block_on(tract.tools().at(head)).unwrap();
    tools.iter().map(|tool| value(&tool.schema)).collect()
}

/// Imports all trajectories into one store and reads each back.
fn trajectories_come_back(tract: &Tract) {
    let texts = trajectories();
    let done = import(tract, Some(Dialect::OpenAi), &texts);
    for ((_, text), done) in texts.iter().zip(&done) {
        let line = value(text);
        assert_eq!(done.status, ImportStatus::Created, "{}", done.id);
        assert_eq!(line["id"], Value::from(done.id.as_str()));
        let head = done.head.expect("a recording says something");
        let compiled = block_on(tract.compile_at(done.branch.as_str())).unwrap();
        assert_eq!(compiled.head(), Some(head));
        let params = form(&compiled, Form::Conversation(Dialect::OpenAi));
        assert!(body(&params) == line["messages"], "{}: other messages", done.id);
        assert!(params.repairs.is_empty(), "{}: openai never repairs", done.id);
        let tools = line["tools"].as_array().cloned().unwrap_or_default();
        assert_eq!(tools_in_force(tract, head), tools, "{}", done.id);
    }
    println!("{} conversations came back", texts.len());
    if tract_testkit::data::full("trajectories").is_some() {
        assert_eq!(texts.len(), 193);
    }
}

#[test]
fn trajectories_come_back_from_memory() {
    trajectories_come_back(&memory());
}

#[test]
fn trajectories_come_back_from_every_store_after_reopening() {
    for backend in backends::all() {
        let folder = tempfile::tempdir().unwrap();
        let tract = backend.open(folder.path(), "agent");
        trajectories_come_back(&tract);
        let heads = block_on(tract.branches().list()).unwrap();
        let sample: Vec<_> = heads.iter().step_by(17).collect();
        let views = |tract: &Tract| -> Vec<_> {
            let view = |head| block_on(tract.compile_at(head)).unwrap().view_id();
            sample.iter().map(|one| view(one.head)).collect()
        };
        let before = views(&tract);
        block_on(tract.store().close()).unwrap();
        drop(tract);
        let again = backend.open(folder.path(), "agent");
        assert_eq!(block_on(again.branches().list()).unwrap(), heads, "{}", backend.name);
        assert_eq!(views(&again), before, "{}", backend.name);
        assert_clean(&again, backend.name);
    }
}

#[track_caller]
fn exchanges_come_back(provider: &str, dialect: Dialect) {
    let texts = accepted(provider);
    let mut wrong = Vec::new();
    for (name, text) in &texts {
        let request = value(text)["request"].clone();
        let params = form(&compiled(Some(dialect), name, text), Form::Params(dialect));
        let found = body(&params);
        // The members that a request had besides, such as `functions` for tools, are not part of a form.
        let is_legacy = request.get("functions").is_some();
        // Anthropic refuses a conversation in which two calls have one id, so the later one gets another.
        let is_renamed = dialect == Dialect::Anthropic && uses_an_id_twice(&request);
        assert!(!is_renamed || !params.repairs.is_empty(), "{name}: renamed without a word");
        let is_other =
            |key: &&str| is_legacy && *key == "tools" || is_renamed && *key == "messages";
        for key in ["system", "messages", "tools"].into_iter().filter(|key| !is_other(key)) {
            if some(&found, key) != some(&request, key) {
                let is = found.get(key).unwrap_or(&Value::Null);
                wrong.push(format!("{name}: {key}\n  was {}\n  is  {is}", request[key]));
            }
            let empty = some(&found, key).is_none();
            assert!(!empty || found.get(key).is_none() || key == "messages", "{name}: empty {key}");
        }
        let is_repaired = !params.repairs.is_empty() && !is_renamed;
        if is_repaired && !wrong.iter().any(|line| line.starts_with(name.as_str())) {
            wrong.push(format!("{name}: repaired, {:?}", params.repairs));
        }
    }
    println!("{provider}: {} exchanges", texts.len());
    assert!(!texts.is_empty(), "{provider}");
    crate::walks::none(provider, &wrong);
}

/// Whether two calls of a request of Anthropic's have the same id.
fn uses_an_id_twice(request: &Value) -> bool {
    let messages = request["messages"].as_array().into_iter().flatten();
    let blocks = messages.filter_map(|message| message["content"].as_array()).flatten();
    let mut ids = std::collections::HashSet::new();
    blocks.filter(|block| block["type"] == "tool_use").any(|block| !ids.insert(block["id"].clone()))
}

#[test]
fn exchanges_of_every_provider_come_back() {
    for (provider, dialect) in [
        ("openai", Dialect::OpenAi),
        ("anthropic", Dialect::Anthropic),
        ("ollama", Dialect::Ollama),
        ("openai_compat", Dialect::OpenAi),
        ("anthropic_compat", Dialect::Anthropic),
    ] {
        exchanges_come_back(provider, dialect);
    }
}

#[test]
fn importing_again_changes_nothing_and_logs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let kept = backends::all().map(|backend| backend.open(folder.path(), "agent"));
    for tract in std::iter::once(memory()).chain(kept) {
        let openai = [trajectories(), accepted("openai")].concat();
        let all = [(Dialect::OpenAi, openai), (Dialect::Anthropic, accepted("anthropic"))];
        let one = |(dialect, texts): &(_, Vec<_>)| import(&tract, Some(*dialect), texts);
        let run = || -> Vec<_> { all.iter().flat_map(one).collect() };
        let first = run();
        let before = state(&tract);
        let second = run();
        for (first, second) in first.iter().zip(&second) {
            assert_eq!((second.head, second.commits), (first.head, first.commits), "{}", first.id);
            assert_eq!(second.reused, second.commits, "{}", first.id);
            assert_eq!(second.status, ImportStatus::Unchanged, "{}", first.id);
        }
        assert_eq!(state(&tract), before);
    }
}

/// Equal beginnings of two conversations are equal commits, and nothing else is.
#[test]
fn equal_prefix_equal_commits() {
    let tract = memory();
    let texts = trajectories();
    let done = import(&tract, Some(Dialect::OpenAi), &texts);
    let mut by_prefix: HashMap<String, CommitId> = HashMap::new();
    let mut by_commit: HashMap<CommitId, String> = HashMap::new();
    let mut shared = 0;
    for ((_, text), done) in texts.iter().zip(&done) {
        // A schema is sent as it was given, and so is a message that the neutral form would write
        // otherwise: equal is what is equal as text. What is equal as a commit is equal as JSON.
        let members = tract::core::json::split_object(text).unwrap();
        let list = |name: &str| {
            let found = members.iter().find(|(key, _)| key == name).map_or("null", |(_, raw)| *raw);
            if found == "null" {
                Vec::new()
            } else {
                tract::core::json::split_array(found).unwrap()
            }
        };
        let mut seen: Vec<String> = Vec::new();
        if !list("tools").is_empty() {
            seen.push(list("tools").join(","));
        }
        seen.extend(list("messages").into_iter().map(str::to_owned));
        let walk = Walk::from(done.head.unwrap());
        let page = block_on(tract.store().walk(tract.repo().name(), walk)).unwrap();
        assert_eq!(
            page.entries.len(),
            seen.len(),
            "{}: one commit for tools and each message",
            done.id
        );
        let (mut prefix, mut json) = (String::new(), String::new());
        for (seen, entry) in seen.iter().zip(page.entries.iter().rev()) {
            prefix.push_str(seen);
            prefix.push('\n');
            json.push_str(&value(&format!("[{seen}]")).to_string());
            let id = entry.commit.id();
            assert_eq!(entry.commit.batch, None);
            if *by_prefix.entry(prefix.clone()).or_insert(id) != id {
                panic!("{}: an equal beginning is another commit", done.id);
            }
            match by_commit.insert(id, json.clone()) {
                Some(other) => {
                    shared += 1;
                    assert!(other == json, "{}: one commit says two things", done.id);
                }
                None => assert!(!by_commit.is_empty()),
            }
        }
    }
    let imported: usize = done.iter().map(|done| done.commits - done.reused).sum();
    assert_eq!(imported, by_commit.len());
    println!("{imported} commits, {shared} of them shared");
    if tract_testkit::data::full("trajectories").is_some() {
        assert!(shared > 100, "{shared}");
    }
}
