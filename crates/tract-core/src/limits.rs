//! Configurable limits on input.

/// Error of input that exceeds a limit. Nothing was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is too large: {found} (limit {limit})")]
pub struct TooLarge {
    /// The kind of input and the unit, such as `blob (bytes)`.
    pub what: &'static str,
    /// The limit.
    pub limit: u64,
    /// The actual value.
    pub found: u64,
}

/// The limits checked by writes.
///
/// ```
/// let limits = tract_core::Limits { blob_bytes: 10, ..Default::default() };
/// assert!(limits.check_blob(11).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a blob in bytes; 64 MiB by default.
    pub blob_bytes: u64,
    /// Maximum size of a tool schema in bytes; 1 MiB by default.
    pub schema_bytes: u64,
    /// Maximum number of tools in a set; 4,096 by default.
    pub toolset_tools: u64,
    /// Maximum length of a tool's name in characters; 255 by default.
    pub tool_name_chars: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            blob_bytes: 64 << 20,
            schema_bytes: 1 << 20,
            toolset_tools: 4096,
            tool_name_chars: 255,
        }
    }
}

fn check(what: &'static str, limit: u64, found: usize) -> Result<(), TooLarge> {
    let found = found as u64;
    if found > limit { Err(TooLarge { what, limit, found }) } else { Ok(()) }
}

impl Limits {
    /// Checks the size of a blob in bytes.
    ///
    /// # Errors
    /// [`TooLarge`] if it exceeds [`blob_bytes`](Self::blob_bytes).
    pub fn check_blob(&self, bytes: usize) -> Result<(), TooLarge> {
        check("blob (bytes)", self.blob_bytes, bytes)
    }

    /// Checks the size of a tool schema in bytes.
    ///
    /// # Errors
    /// [`TooLarge`] if it exceeds [`schema_bytes`](Self::schema_bytes).
    pub fn check_schema(&self, bytes: usize) -> Result<(), TooLarge> {
        check("tool schema (bytes)", self.schema_bytes, bytes)
    }

    /// Checks the number of tools in a set.
    ///
    /// # Errors
    /// [`TooLarge`] if it exceeds [`toolset_tools`](Self::toolset_tools).
    pub fn check_toolset(&self, tools: usize) -> Result<(), TooLarge> {
        check("tool set (tools)", self.toolset_tools, tools)
    }

    /// Checks the length of a tool's name in characters.
    ///
    /// # Errors
    /// [`TooLarge`] if it exceeds [`tool_name_chars`](Self::tool_name_chars).
    pub fn check_tool_name(&self, name: &str) -> Result<(), TooLarge> {
        check("tool name (characters)", self.tool_name_chars, name.chars().count())
    }
}
