//! Compiling contexts, and comparing them.

use tract_compile::Compiled;
use tract_engine::Diff;

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Compiles this handle's branch: messages, tools, token count. The result depends only on the
    /// head.
    ///
    /// # Errors
    /// Errors of the store, and damage that is found while reading.
    pub async fn compile(&self) -> Result<Compiled> {
        Ok(self.repo().compile(self.head().await?).await?)
    }

    /// Compiles any revision: messages, priorities and tools as of that commit.
    /// [`Repo::compile_at_time`](tract_engine::Repo::compile_at_time) compiles a revision as of a
    /// time.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve) and [`compile`](Self::compile).
    pub async fn compile_at(&self, revision: impl Into<Revision>) -> Result<Compiled> {
        let revision = revision.into();
        // A branch without commits compiles to an empty context instead of an error.
        if revision.to_string() == "HEAD" && self.head().await?.is_none() {
            return self.compile().await;
        }
        let head = self.resolve_position(revision).await?;
        Ok(self.repo().compile(Some(head)).await?)
    }

    /// Compares the contexts of two revisions: messages, tools, tokens, configuration.
    ///
    /// # Errors
    /// As [`compile_at`](Self::compile_at).
    pub async fn diff(
        &self,
        before: impl Into<Revision>,
        after: impl Into<Revision>,
    ) -> Result<Diff> {
        let before = self.compile_at(before).await?;
        let after = self.compile_at(after).await?;
        Ok(tract_engine::diff(&before, &after, &tract_schema::diff_lines))
    }
}
