//! The documents under `effects/`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tract_core::{BadName, Blob, BlobId, CommitId, JsonText, RefName, RefTarget};
use tract_engine::Txn;
use tract_tools::dispatch::{CallKey, CallStart, Recorded};

use super::Claimant;
use super::holder::HolderName;
use crate::error::{Result, RunError};

const VERSION: u8 = 1;

/// Returns the name of the hold document of a message's calls.
pub(super) fn turn_ref(slot: CommitId) -> Result<RefName> {
    name(format!("{}turn", prefix(slot)))
}

/// Returns the name of the claim on one call of a message.
pub(super) fn call_ref(slot: CommitId, index: u32) -> Result<RefName> {
    name(format!("{}{index}", prefix(slot)))
}

/// Returns the prefix of the names of all documents of a message.
pub(super) fn prefix(slot: CommitId) -> String {
    format!("effects/{slot}/")
}

fn name(text: String) -> Result<RefName> {
    RefName::new(text).map_err(|error: BadName| tract_engine::Error::from(error).into())
}

/// The holder of the calls of a message. There is one at a time, over all branches.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TurnDoc {
    v: u8,
    pub(super) holder: HolderName,
    pub(super) branch: String,
    /// Times of the last renewal and of the end of the lease, in microseconds since 1970 UTC.
    pub(super) at_us: i64,
    pub(super) until_us: i64,
}

impl TurnDoc {
    /// Creates the hold document of a run, with a lease from now on.
    pub(super) fn of(run: &Claimant) -> Self {
        let lease_us = i64::try_from(run.lease.as_micros()).unwrap_or(i64::MAX);
        let at_us = run.repo.now_us();
        Self {
            v: VERSION,
            holder: run.name.clone(),
            branch: run.branch.as_str().to_owned(),
            at_us,
            until_us: at_us.saturating_add(lease_us),
        }
    }

    /// Returns the length of the lease, which the holder chooses.
    pub(super) fn lease(&self) -> Duration {
        let lease_us = self.until_us.saturating_sub(self.at_us);
        Duration::from_micros(u64::try_from(lease_us).unwrap_or(0))
    }
}

/// The effect of one call: claimed before the tool runs, and completed with the answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CallDoc {
    v: u8,
    pub(super) call_id: String,
    pub(super) tool: String,
    pub(super) key: CallKey,
    /// The run that claimed it.
    pub(super) holder: String,
    pub(super) branch: String,
    pub(super) started_at_us: i64,
    /// Whether a person approved it.
    pub(super) approved: bool,
    // Externally tagged: other representations buffer the value, and numbers in it would lose
    // digits.
    pub(super) state: CallState,
}

/// The state of an effect.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallState {
    /// The tool was started.
    Started,
    /// The run that started it ended without an answer: the tool may have run.
    Unknown {
        /// The branches on which that was recorded.
        #[serde(rename = "told")]
        branches: Vec<String>,
    },
    /// The tool answered.
    Answered { text: String, is_error: bool, value: Option<JsonText> },
}

impl CallDoc {
    /// Creates the claim on the effect of a call that a run starts now.
    pub(super) fn started(call: &CallStart, run: &Claimant) -> Self {
        Self {
            v: VERSION,
            call_id: call.call_id.clone(),
            tool: call.tool_name.clone(),
            key: call.key,
            holder: run.name.id.clone(),
            branch: run.branch.as_str().to_owned(),
            started_at_us: run.repo.now_us(),
            approved: call.approved,
            state: CallState::Started,
        }
    }

    pub(super) fn answer(&self) -> Option<Recorded> {
        match &self.state {
            CallState::Answered { text, is_error, value } => {
                Some(Recorded { is_error: *is_error, value: value.clone(), ..Recorded::new(text) })
            }
            CallState::Started | CallState::Unknown { .. } => None,
        }
    }
}

impl CallState {
    pub(super) fn answered(answer: Recorded) -> Self {
        Self::Answered { text: answer.text, is_error: answer.is_error, value: answer.value }
    }
}

/// Adds a document to a write, replacing the current one.
pub(super) fn put(
    txn: &mut Txn<'_>,
    name: &RefName,
    from: Option<RefTarget>,
    doc: &impl Serialize,
) -> Result<BlobId> {
    let blob = Blob::seal(serde_json::to_string(doc)?);
    let id = blob.id();
    txn.blob(blob)?;
    txn.move_from(name, from, Some(RefTarget::Blob(id)));
    Ok(id)
}

/// Parses a document. One of an unknown form or version is an error, because ignoring it could
/// repeat an effect.
pub(super) fn parse<T: serde::de::DeserializeOwned>(name: &RefName, blob: &Blob) -> Result<T> {
    #[derive(Deserialize)]
    struct Version {
        v: u8,
    }
    let read = || {
        let Version { v } = serde_json::from_slice(blob.bytes()).map_err(|e| e.to_string())?;
        if v != VERSION {
            return Err(format!("expected version {VERSION}, found {v}"));
        }
        serde_json::from_slice(blob.bytes()).map_err(|e| e.to_string())
    };
    read().map_err(|why| RunError::Effect { name: name.as_str().to_owned(), why })
}
