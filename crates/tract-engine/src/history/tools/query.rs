//! Queries for the tools in force at a commit, and for the versions of a name.

use tract_core::store::StoreErrorKind;
use tract_core::{
    ActiveTool, CommitId, IdPrefix, ObjectId, StoreError, ToolDefinition, ToolId, ToolSchema,
};

use super::{SchemaDiff, ToolDiff, tool_diff};
use crate::history::reach::damage;
use crate::repo::Repo;
use crate::repo::error::Result;

impl Repo {
    /// Reads the tools in force after a commit: in order, with repeats, each with its original
    /// bytes. A point read, for any length of history. They may have been given to an earlier
    /// commit: [`get_commit_tools`](Self::get_commit_tools) reads only those of the commit itself.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) of kind `Missing` when the commit is not stored;
    /// [`Error::Erased`](crate::Error::Erased) when a definition was erased;
    /// [`Error::Json`](crate::Error::Json) when a schema is not valid.
    pub async fn tools_of(&self, commit: CommitId) -> Result<Vec<ActiveTool>> {
        let blobs = match self.store().tools_of(self.name(), commit).await {
            Err(StoreError {
                kind: StoreErrorKind::Missing { object: ObjectId::Blob(id) },
                ..
            }) => {
                return Err(self.absent_blob(id).await);
            }
            found => found?,
        };
        let tool = |blob: tract_core::Blob| {
            let what = "a tool schema that is not UTF-8";
            let damaged = || damage(ObjectId::Blob(blob.id()), what);
            let text = blob.text().ok_or_else(damaged)?;
            let schema = ToolSchema::parse(text)?;
            let name = schema.name().to_owned();
            Ok(ActiveTool { name, id: schema.id(), schema: text.into() })
        };
        blobs.into_iter().map(tool).collect()
    }

    /// Reads the ids of the tools in force after a commit, in order, with repeats.
    ///
    /// # Errors
    /// As [`tools_of`](Self::tools_of).
    pub async fn tool_ids_of(&self, commit: CommitId) -> Result<Vec<ToolId>> {
        Ok(self.store().tool_ids_of(self.name(), commit).await?)
    }

    /// Reads all versions of a tool's name in order of first use: by the time of the first commit
    /// with each, then by that commit's id.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tool_history(&self, name: &str) -> Result<Vec<ToolDefinition>> {
        Ok(self.store().tools_by_name(self.name(), name).await?)
    }

    /// Finds the definitions whose id starts with these digits, up to 64.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tools_by_prefix(&self, digits: &str) -> Result<Vec<ToolDefinition>> {
        let Some(prefix) = IdPrefix::new(digits) else { return Ok(Vec::new()) };
        let found = self.store().resolve_prefix(self.name(), &prefix, 64).await?;
        let tool = |object| match object {
            ObjectId::Tool(id) => Some(id),
            _ => None,
        };
        let ids: Vec<ToolId> = found.into_iter().filter_map(tool).collect();
        Ok(self.store().tools(self.name(), &ids).await?.into_iter().flatten().collect())
    }

    /// Lists the names of all tools that were ever in force, sorted.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn tool_names(&self) -> Result<Vec<String>> {
        Ok(self.store().tool_names(self.name()).await?)
    }

    /// Compares the tools in force at two commits. `schemas` describes the difference between two
    /// schemas of one name.
    ///
    /// # Errors
    /// As [`tools_of`](Self::tools_of).
    pub async fn tools_between(
        &self,
        before: CommitId,
        after: CommitId,
        schemas: SchemaDiff<'_>,
    ) -> Result<ToolDiff> {
        let (before, after) = (self.tools_of(before).await?, self.tools_of(after).await?);
        Ok(tool_diff(&before, &after, schemas))
    }
}
