//! What the walks share: stores, imports, and bodies as JSON values.

use std::path::Path;

use serde_json::Value;
use tract::engine::Repo;
use tract::forms::{Form, FormOptions};
use tract::import::{Dialect, ImportOptions, Imported, Importer};
use tract::{Compiled, Params, Tract, block_on};

use crate::{backends, support};

/// Opens a fresh repository in memory.
pub(crate) fn memory() -> Tract {
    block_on(tract::open("memory:")).unwrap()
}

/// Opens the SQLite store in a folder, and makes it when it is missing.
pub(crate) fn sqlite(folder: &Path) -> Tract {
    backends::named("sqlite").open(folder, "agent")
}

/// A recording: its name, also where the text has none, and its text.
pub(crate) type Recording = (String, String);

/// Imports recordings, several to a durable write.
pub(crate) fn import(tract: &Tract, of: Option<Dialect>, texts: &[Recording]) -> Vec<Imported> {
    block_on(async {
        let mut importer = Importer::new(tract.repo(), ImportOptions::default()).unwrap();
        let mut done = Vec::new();
        for (name, text) in texts {
            let read = tract::import::read(text, of, name)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
            done.extend(importer.add(read.conversation).await.unwrap());
        }
        done.extend(importer.finish().await.unwrap());
        assert_eq!(done.len(), texts.len());
        done
    })
}

/// Imports one recording into a store of its own, and compiles it.
pub(crate) fn compiled(of: Option<Dialect>, name: &str, text: &str) -> Compiled {
    let tract = memory();
    let done = import(&tract, of, &[(name.to_owned(), text.to_owned())]);
    block_on(tract.repo().compile(done[0].head)).unwrap()
}

/// Brings a context into a form.
pub(crate) fn form(compiled: &Compiled, form: Form) -> Params {
    tract::forms::compile_form(compiled, form, &FormOptions::default())
        .unwrap_or_else(|error| panic!("{form}: {error}"))
}

/// Returns the texts of the messages that a branch shows.
pub(crate) fn texts(tract: &Tract) -> Vec<String> {
    let compiled = block_on(tract.compile()).unwrap();
    compiled.messages().map(|message| message.content.text()).collect()
}

/// Returns the text of the last of them.
pub(crate) fn last(tract: &Tract) -> String {
    texts(tract).pop().unwrap()
}

/// Returns the lines of an export.
pub(crate) fn exported(repo: &Repo) -> Vec<String> {
    support::exported(repo).lines().map(str::to_owned).collect()
}

#[track_caller]
pub(crate) fn assert_clean(tract: &Tract, what: &str) {
    let report = block_on(tract.verify()).unwrap();
    assert!(report.clean, "{what}: {:?}", report.damage);
}

/// Reads a body as JSON.
pub(crate) fn body(params: &Params) -> Value {
    params.to().expect("a body is JSON")
}

/// Reads JSON that a recording holds.
pub(crate) fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("a recording is JSON")
}

/// A member, where absent, null and empty are alike.
pub(crate) fn some(value: &Value, key: &str) -> Option<Value> {
    let found = value.get(key)?;
    let empty = found.is_null()
        || found.as_array().is_some_and(Vec::is_empty)
        || found.as_str().is_some_and(str::is_empty);
    (!empty).then(|| found.clone())
}

/// The conversations of the trajectories, each with its line's number as a fallback name.
pub(crate) fn trajectories() -> Vec<Recording> {
    let lines = crate::data::trajectories().into_iter();
    lines.enumerate().map(|(n, line)| (format!("line-{n}"), line)).collect()
}

/// The exchanges of a provider that the provider accepted.
pub(crate) fn accepted(provider: &str) -> Vec<Recording> {
    let mut all = crate::data::cassettes(provider);
    all.retain(|(_, text)| value(text)["status"] == 200);
    all
}

/// Lists what is wrong, and fails when anything is.
#[track_caller]
pub(crate) fn none(of: &str, wrong: &[String]) {
    let first: Vec<&str> = wrong.iter().take(12).map(String::as_str).collect();
    assert!(wrong.is_empty(), "{of}: {} wrong, such as\n{}", wrong.len(), first.join("\n"));
}
