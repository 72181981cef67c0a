//! Processes of this binary, each of which runs one of its tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::backends::{self, Backend};
use crate::server;

const TASK: &str = "TRACT_CHILD_TASK";
const BACKEND: &str = "TRACT_CHILD_BACKEND";
const FOLDER: &str = "TRACT_CHILD_FOLDER";

/// Makes the command of a process that runs this test alone.
pub(crate) fn test_command(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command
}

/// The same, for a test that does a [`task`] on the store in a folder.
pub(crate) fn task_command(test: &str, task: &str, backend: &Backend, folder: &Path) -> Command {
    let mut command = test_command(test);
    command.env(TASK, task).env(BACKEND, backend.name).env(FOLDER, folder);
    if backend.name == "postgres" {
        command.env("TRACT_POSTGRES_URL", server::shared().unwrap());
    }
    command
}

/// Returns the task, the backend and the folder that this process was started with; `None` in a
/// process that has no task.
pub(crate) fn task() -> Option<(String, &'static Backend, PathBuf)> {
    let variable = |name| std::env::var(name).ok();
    let backend = backends::named(&variable(BACKEND)?);
    Some((variable(TASK)?, backend, variable(FOLDER)?.into()))
}
