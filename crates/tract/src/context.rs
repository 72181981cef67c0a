//! Compiling, and comparing two revisions.

use tract_compile::Compiled;
use tract_engine::Diff;

use crate::error::Result;
use crate::handle::Tract;
use crate::revision::Revision;

impl Tract {
    /// Compiles this handle's branch: messages, tools, token count. The result depends on the head
    /// only.
    ///
    /// # Errors
    /// Store errors, and damage that is found while reading.
    pub async fn compile(&self) -> Result<Compiled> {
        Ok(self.repo().compile(self.head().await?).await?)
    }

    /// Compiles any revision: messages, priorities and tools as they were. As it was at a time,
    /// [`Repo::compile_at_time`](tract_engine::Repo::compile_at_time) compiles it.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve) and [`compile`](Self::compile).
    pub async fn compile_at(&self, revision: impl Into<Revision>) -> Result<Compiled> {
        let revision = revision.into();
        // A branch without commits compiles to nothing; it is not an unknown revision.
        if revision.to_string() == "HEAD" && self.head().await?.is_none() {
            return self.compile().await;
        }
        let head = self.resolve_position(revision).await?;
        Ok(self.repo().compile(Some(head)).await?)
    }

    /// Compares what two revisions compile to: messages, tools, tokens, configuration.
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
