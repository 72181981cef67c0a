//! No file is overwritten unseen.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Decision, Policy, PolicyRequest};
use crate::fs::{Filesystem, FsPath};

/// Lets a file be written only after it was read in this conversation, or written by it.
///
/// Paths are compared in their one spelling: `./a//b` is `a/b`. With a filesystem to ask, a file
/// that is not there yet may be written right away.
#[derive(Clone, Default)]
pub struct ReadBeforeWrite {
    /// The argument that holds the path, by tool.
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
    /// Makes a policy that allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the policy for the [filesystem tools](crate::fs): of `fs_read`, `fs_write`, `fs_edit`
    /// and `fs_remove`.
    pub fn of_fs_tools(filesystem: Arc<dyn Filesystem>) -> Self {
        Self::new()
            .reader("fs_read", "path")
            .writer("fs_write", "path")
            .writer("fs_edit", "path")
            .writer("fs_remove", "path")
            .filesystem(filesystem)
    }

    /// Names a tool that reads files, and the argument that holds the path.
    #[must_use]
    pub fn reader(mut self, tool: impl Into<String>, argument: impl Into<String>) -> Self {
        self.readers.insert(tool.into(), argument.into());
        self
    }

    /// Names a tool that writes files, and the argument that holds the path.
    #[must_use]
    pub fn writer(mut self, tool: impl Into<String>, argument: impl Into<String>) -> Self {
        self.writers.insert(tool.into(), argument.into());
        self
    }

    /// Sets who knows which files are there.
    #[must_use]
    pub fn filesystem(mut self, filesystem: Arc<dyn Filesystem>) -> Self {
        self.filesystem = Some(filesystem);
        self
    }
}

/// The path among the arguments, in its one spelling.
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
