//! Conversations, as people recognize them.

use tract_engine::{SessionQuery, SessionSummary};

use crate::branches::Branches;
use crate::error::Result;
use crate::handle::Tract;

impl Tract {
    /// Lists the conversations of the repository with their titles, projects, models, times and
    /// parents, those with the latest activity first.
    /// [`session_tree`](tract_engine::session_tree) orders them with their subagents, forks and
    /// rewinds.
    ///
    /// ```
    /// # tract::block_on(async {
    /// use tract::engine::SessionQuery;
    /// let tract = tract::open("memory:").await?;
    /// tract.user("Do I need a coat in Paris?").await?;
    /// let sessions = tract.sessions(&SessionQuery::default()).await?;
    /// assert_eq!(sessions[0].title.as_deref(), Some("Do I need a coat in Paris?"));
    /// tract.branches().set_title("main", Some("Packing for Paris")).await?;
    /// let named = SessionQuery { text: Some("packing".to_owned()), ..SessionQuery::default() };
    /// assert_eq!(tract.sessions(&named).await?.len(), 1);
    /// # Ok::<(), tract::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn sessions(&self, query: &SessionQuery) -> Result<Vec<SessionSummary>> {
        Ok(tract_engine::sessions(self.repo(), query).await?)
    }
}

impl Branches<'_> {
    /// Sets the title of a branch, or removes it with `None`. No commit changes.
    ///
    /// # Errors
    /// `unknown_branch`; `bad_name` for a title that is empty, too long or not one line.
    pub async fn set_title(&self, branch: &str, title: Option<&str>) -> Result<()> {
        Ok(self.tract.repo().set_title(branch, title).await?)
    }
}
