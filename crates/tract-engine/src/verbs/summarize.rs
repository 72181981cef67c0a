//! Summaries by a summarizer port: of one result, of the results of many turns, of a range.

mod range;
mod results;

use tract_core::{AuthorKind, Blob, Origin, RefName, RefTarget};
use tract_hooks::{DecisionRecord, ToolSummarization, kept_texts};

pub use self::range::{SummarizeRange, SummarizedRange};
pub use self::results::{CompressToolCalls, CompressedToolCalls};
use crate::plan::Details;
use crate::repo::Repo;
use crate::repo::error::Result;
use crate::write::hooks::SUMMARIZATION_CONFIG;
use crate::write::pending::damaged;
use crate::write::txn::{Txn, WriteOptions};

impl Repo {
    /// Configures which tool results are summarized automatically, from now on and for all users of
    /// the repository; `None` disables it. Results are summarized by the port of
    /// [`Hooks::summarizer`](tract_hooks::Hooks::summarizer), unless a handler decides first.
    ///
    /// # Errors
    /// [`Error::Summary`](crate::Error::Summary) when a pattern is not a regular expression; when the
    /// store fails.
    pub async fn configure_tool_summarization(
        &self,
        config: Option<&ToolSummarization>,
    ) -> Result<()> {
        let name = RefName::new(SUMMARIZATION_CONFIG)?;
        if let Some(config) = config {
            kept_texts("", &config.must_keep)?;
        }
        let text = config.map(serde_json::to_string).transpose();
        let blob = text.map_err(|error| damaged(error.to_string()))?.map(Blob::seal);
        let mut races = self.races();
        loop {
            let mut txn = Txn::new(self)?;
            blob.iter().try_for_each(|blob| txn.blob(blob.clone()))?;
            let to = blob.as_ref().map(|blob| RefTarget::Blob(blob.id()));
            txn.move_ref(&name, to).await?;
            if races.won(txn.apply("configure", &WriteOptions::default()).await?).await? {
                return Ok(());
            }
        }
    }
}

/// Returns the details of a commit made from a summary.
fn details_of(record: &DecisionRecord, by: AuthorKind) -> Details {
    let origin = Origin {
        id: record.model.clone(),
        triggered_by: Some(record.event.clone()),
        detail: record.to_json(),
        ..by.into()
    };
    Details { origin, ..Details::default() }
}
