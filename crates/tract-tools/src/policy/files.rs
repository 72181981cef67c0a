//! Prevents files from being overwritten without having been read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::{Decision, Policy, PolicyRequest};
use crate::fs::{Filesystem, FsPath};

/// Allows a file to be written only after it was read or written in this conversation.
///
/// Paths are compared in normal form: `./a//b` is `a/b`. With a filesystem, a file that does not
/// exist yet may be written right away. By default no tool is checked.
#[derive(Clone, Default)]
pub struct ReadBeforeWrite {
    /// The tools that read files, with the argument that contains the path.
    pub readers: BTreeMap<String, String>,
    /// The tools that write files, with the argument that contains the path.
    pub writers: BTreeMap<String, String>,
    /// The filesystem that is used to check whether a file exists.
    pub filesystem: Option<Arc<dyn Filesystem>>,
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
    /// Creates the policy for the [filesystem tools](crate::fs): `fs_read`, `fs_write`, `fs_edit`
    /// and `fs_remove`.
    pub fn of_fs_tools(filesystem: Arc<dyn Filesystem>) -> Self {
        let path_of = |tool: &str| (tool.to_owned(), "path".to_owned());
        Self {
            readers: ["fs_read"].map(path_of).into(),
            writers: ["fs_write", "fs_edit", "fs_remove"].map(path_of).into(),
            filesystem: Some(filesystem),
        }
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
