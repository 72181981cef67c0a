//! Handles: opening, closing, calling verbs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use tract::OpenOptions;
use tract::hooks::{Hooks, ToolResultAction, ToolResultReceived};

use crate::operation::{Operation, Outcome};
use crate::verbs::Call;
use crate::{error, ledger, process};

/// A repository and a branch. Handles of one `open` share their store.
#[pyclass(frozen, module = "tract_context._native")]
pub(crate) struct Handle {
    tract: process::Owned<tract::Tract>,
    closed: Arc<AtomicBool>,
}

impl Handle {
    pub(crate) fn new(tract: tract::Tract) -> Self {
        Self { tract: process::Owned::new(tract), closed: Arc::default() }
    }

    fn sibling(&self, tract: tract::Tract) -> Self {
        Self { tract: process::Owned::new(tract), closed: Arc::clone(&self.closed) }
    }

    fn usable(&self) -> PyResult<&tract::Tract> {
        let tract = self.tract.get()?;
        if self.closed.load(Ordering::Acquire) {
            let note = "open the store again".to_owned();
            return Err(error::plain("closed", "this handle is closed", &[note]));
        }
        Ok(tract)
    }
}

/// Opens the store of a URL.
#[pyfunction]
#[pyo3(signature = (url, *, create, repo, branch, who))]
pub(crate) fn open(
    url: String,
    create: bool,
    repo: Option<String>,
    branch: Option<String>,
    who: Option<String>,
) -> Operation {
    let mut options = OpenOptions::new().create(create);
    if let Some(repo) = repo {
        options = options.repo(repo);
    }
    if let Some(branch) = branch {
        options = options.branch(branch);
    }
    if let Some(who) = who {
        options = options.who(who);
    }
    Operation::new(async move {
        let tract = options.open(&url).await.map_err(|error| error::of(&error))?;
        Ok(Outcome::Handle(tract))
    })
}

#[pymethods]
impl Handle {
    /// Calls a verb. `call` is a JSON object: the member `verb`, and its arguments.
    fn call(&self, call: &str) -> PyResult<Operation> {
        let tract = self.usable()?.clone();
        let call: Call = serde_json::from_str(call).map_err(error::invalid)?;
        Ok(Operation::new(async move { call.run(&tract).await.map_err(|error| error::of(&error)) }))
    }

    /// Lists the refs of a prefix with the commits that they point to.
    fn ledgers(&self, prefix: String) -> PyResult<Operation> {
        Ok(ledger::list(self.usable()?.clone(), prefix))
    }

    /// Reads the entries of a ledger after a commit, or the newest ones up to an index, or all.
    fn ledger_entries(
        &self,
        name: String,
        after: Option<String>,
        all: bool,
    ) -> PyResult<Operation> {
        Ok(ledger::read(self.usable()?.clone(), name, after, all))
    }

    /// Adds entries to a ledger.
    fn ledger_write(&self, call: &str, blobs: Vec<Vec<u8>>) -> PyResult<Operation> {
        ledger::write(self.usable()?.clone(), call, blobs)
    }

    /// Reads the blobs of entries.
    fn ledger_blobs(&self, ids: Vec<[u8; 32]>) -> PyResult<Operation> {
        Ok(ledger::read_blobs(self.usable()?.clone(), ids))
    }

    /// Reads values whose texts are stored apart.
    fn ledger_values(&self, frames: Vec<Vec<u8>>) -> PyResult<Operation> {
        Ok(ledger::read_frames(self.usable()?.clone(), frames))
    }

    /// Moves, creates and deletes refs.
    fn ledger_refs(&self, moves: &str) -> PyResult<Operation> {
        ledger::move_refs(self.usable()?.clone(), moves)
    }

    /// Returns a handle on another branch.
    fn on(&self, branch: &str) -> PyResult<Self> {
        let tract = self.usable()?.on(branch).map_err(|error| error::of(&error))?;
        Ok(self.sibling(tract))
    }

    /// Returns a handle whose writes are one operation.
    fn one_operation(&self) -> PyResult<Self> {
        let tract = self.usable()?.one_operation().map_err(|error| error::of(&error))?;
        Ok(self.sibling(tract))
    }

    /// Returns a handle that asks a Python callable about each tool result. It gets the event as
    /// JSON, and returns the name of an action and a text.
    fn on_tool_result(&self, name: String, ask: Py<PyAny>) -> PyResult<Self> {
        let hook = move |event: &ToolResultReceived| decide(&ask, event);
        let tract = self.usable()?.with_hooks(Hooks::new().on(name, hook));
        Ok(self.sibling(tract))
    }

    #[getter]
    fn branch(&self) -> PyResult<String> {
        Ok(self.usable()?.branch_name().to_owned())
    }

    /// Closes the store for all handles that share it. A second call does nothing.
    fn close(&self) -> PyResult<Option<Operation>> {
        let tract = self.tract.get()?.clone();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(None);
        }
        Ok(Some(Operation::new(async move {
            let closed = tract.store().close().await;
            closed.map_err(|error| error::of(&error.into()))?;
            Ok(Outcome::Json("null".to_owned()))
        })))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyTypeError::new_err(
            "a handle cannot be pickled: it holds an open store; pass the URL and open it there",
        ))
    }
}

/// Asks a Python hook. One that raises rejects the result, so that an unchecked result is never
/// committed.
fn decide(ask: &Py<PyAny>, event: &ToolResultReceived) -> ToolResultAction {
    let text: String = event.parts.iter().filter_map(part_text).collect();
    let json = serde_json::json!({
        "branch": event.branch.branch_name(),
        "call_id": event.call_id,
        "tool_name": event.tool_name,
        "text": text,
        "is_error": event.is_error,
        "token_count": event.token_count,
    });
    let answer =
        process::attach(|py| ask.call1(py, (json.to_string(),))?.extract::<(String, String)>(py));
    match answer {
        Some(Ok((action, text))) => match action.as_str() {
            "pass" => ToolResultAction::Pass,
            "approve" => ToolResultAction::Approve,
            "edit" => ToolResultAction::edit(text),
            "defer" => ToolResultAction::Defer(text),
            _ => ToolResultAction::Reject(text),
        },
        Some(Err(error)) => ToolResultAction::Reject(format!("the hook raised {error}")),
        None => ToolResultAction::Reject("the interpreter has ended".to_owned()),
    }
}

fn part_text(part: &tract::Part) -> Option<String> {
    match part {
        tract::Part::Text { text, .. } => Some(text.to_string()),
        _ => None,
    }
}
