//! The report of a recording, for people and programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tract_core::{Blob, RefName};
use tract_engine::{Error, Repo, Result};
use tract_import::AnomalyKind;

use crate::counts::Reason;

/// The document with the report of the last recording.
pub const LAST_REPORT: &str = "records/last";

/// A branch that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenBranch {
    /// Its name.
    pub branch: String,
    /// The number of its exchanges.
    pub exchanges: u64,
    /// The number of its commits.
    pub commits: u64,
}

/// Something unusual in a recorded exchange.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordAnomaly {
    /// The branch that has it.
    pub branch: String,
    /// The kind of anomaly.
    pub kind: AnomalyKind,
    /// The details and the position in the request or response. Messages are never quoted.
    pub what: String,
}

/// The counts of recorded exchanges and of those left out, with their branches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordReport {
    /// End of the recording: microseconds since 1970, UTC.
    #[serde(default)]
    pub at_us: i64,
    /// The number of exchanges that passed through the proxy.
    pub exchanges: u64,
    /// The number of recorded exchanges.
    pub recorded: u64,
    /// The number of exchanges that were not recorded, by reason.
    pub not_recorded: BTreeMap<Reason, u64>,
    /// The branches, sorted by name.
    pub branches: Vec<WrittenBranch>,
    /// The number of redacted secrets, by kind.
    pub redacted: BTreeMap<String, u64>,
    /// The number of anomalies, by kind.
    #[serde(default)]
    pub anomalies: BTreeMap<AnomalyKind, u64>,
    /// The first anomalies.
    #[serde(default)]
    pub listed: Vec<RecordAnomaly>,
    /// The last error of the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl RecordReport {
    /// Returns the number of exchanges that are missing in conversations.
    pub fn lost(&self) -> u64 {
        let lost = self.not_recorded.iter().filter(|(reason, _)| reason.is_loss());
        lost.map(|(_, count)| count).sum()
    }

    pub(crate) async fn store(&self, repo: &Repo) -> Result<()> {
        let damaged =
            |error: serde_json::Error| Error::Damaged { object: None, what: error.to_string() };
        let blob = Blob::seal(serde_json::to_vec(self).map_err(damaged)?);
        repo.set_documents("record", vec![(RefName::new(LAST_REPORT)?, blob)]).await
    }
}

/// Reads the report of the last recording of a repository; `None` when there is none.
///
/// # Errors
/// If the store fails. A report in a newer format is treated as absent.
pub async fn last_report(repo: &Repo) -> Result<Option<RecordReport>> {
    let documents = repo.documents(LAST_REPORT).await?;
    let own = documents.into_iter().find(|(name, _)| name.as_str() == LAST_REPORT);
    Ok(own.and_then(|(_, blob)| serde_json::from_slice(blob.bytes()).ok()))
}
