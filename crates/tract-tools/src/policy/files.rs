//! Prevents files from being overwritten without having been read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Decision, Policy, PolicyRequest};
use crate::fs::{Filesystem, FsPath};

/// Allows a file to be written only after it was read or written in this conversation.
///
/// Paths are compared in normal form: `./a//b` is `a/b`. With a filesystem, a file that does not
/// exist yet may be written right away.
#[derive(Clone, Default)]
pub struct ReadBeforeWrite {
    /// The argument that contains the path, by tool.
    readers: BTreeMap<String, String>,
    writers: BTreeMap<String, String>,
    filesystem: Option<Arc<dyn Filesystem>>,
}

impl fmt::Debug for ReadBeforeWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadBeforeWrite")
            .field("readers", &self.readers)
            .field("writers", &self.writers)
            .field("filesystem", &self.filesystem.is_some())
            .finish()
    }
}

impl ReadBeforeWrite {
    /// Creates a policy that allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates the policy for the [filesystem tools](crate::fs): `fs_read`, `fs_write`, `fs_edit`
    /// and `fs_remove`.
    pub fn of_fs_tools(filesystem: Arc<dyn Filesystem>) -> Self {
        Self::new()
            .reader("fs_read", "path")
            .writer("fs_write", "path")
            .writer("fs_edit", "path")
            .writer("fs_remove", "path")
            .filesystem(filesystem)
    }

    /// Adds a tool that reads files, with the argument that contains the path.
    #[must_use]
    pub fn reader(mut self, tool: impl Into<String>, argument: impl Into<String>) -> Self {
        self.readers.insert(tool.into(), argument.into());
        self
    }

    /// Adds a tool that writes files, with the argument that contains the path.
    #[must_use]
    pub fn writer(mut self, tool: impl Into<String>, argument: impl Into<String>) -> Self {
        self.writers.insert(tool.into(), argument.into());
        self
    }

    /// Sets the filesystem that is used to check whether a file exists.
    #[must_use]
    pub fn filesystem(mut self, filesystem: Arc<dyn Filesystem>) -> Self {
        self.filesystem = Some(filesystem);
        self
    }
}

/// Returns the path among the arguments, in normal form.
fn path(arguments: &str, argument: &str) -> Option<FsPath> {
    let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
    FsPath::parse(arguments.get(argument)?.as_str()?).ok()
}

impl Policy for ReadBeforeWrite {
    fn name(&self) -> &str {
        "read_before_write"
    }

    fn decide(&self, call: &PolicyRequest<'_>) -> Decision {
        let Some(argument) = self.writers.get(call.name) else { return Decision::Allow };
        let Some(wanted) = path(call.arguments, argument) else {
            return Decision::deny(format!("expected a path below the root in {argument:?}"));
        };
        if let Some(filesystem) = &self.filesystem
            && let Ok(None) = filesystem.entry(&wanted)
        {
            return Decision::Allow;
        }
        let known = call.past.iter().rev().any(|past| {
            let own = self.readers.get(&*past.name).or_else(|| self.writers.get(&*past.name));
            own.and_then(|argument| path(&past.arguments, argument)).is_some_and(|p| p == wanted)
        });
        if known {
            Decision::Allow
        } else {
            Decision::deny(format!("expected {wanted} to be read before it is changed"))
        }
    }
}
