//! The program of a server, with all that it starts itself.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use crate::error::{McpError, Result};
use crate::options::ServerCommand;

/// How long a program may take to leave after its input ended, and again after it was asked to.
const LEAVING: Duration = Duration::from_secs(2);

/// A running program. Dropping it ends the program and its process group.
#[derive(Debug)]
pub(crate) struct Program {
    // Dropped before the child: until the child is waited for, its id is not used again.
    group: Group,
    child: Child,
}

/// The standard streams of a program.
pub(crate) struct Streams {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl Program {
    pub(crate) fn start(command: &ServerCommand) -> Result<(Self, Streams)> {
        let mut program = Command::new(&command.program);
        program
            .args(&command.args)
            .env_clear()
            .envs(command.environment())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        // Servers are started through `npx`, `uvx` or a shell, and the real one is a grandchild.
        #[cfg(unix)]
        program.process_group(0);
        if let Some(folder) = &command.folder {
            program.current_dir(folder);
        }
        let mut child = program.spawn().map_err(|source| McpError::Start {
            program: command.program.to_string_lossy().into_owned(),
            source,
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three streams are piped")
        };
        let group = Group::of(&child);
        Ok((Self { group, child }, Streams { stdin, stdout, stderr }))
    }

    /// Waits for the program to leave, whose input has ended; asks one that stays, then kills it.
    pub(crate) async fn wait_for_exit(mut self) {
        if tokio::time::timeout(LEAVING, self.child.wait()).await.is_ok() {
            return;
        }
        self.group.terminate();
        if tokio::time::timeout(LEAVING, self.child.wait()).await.is_err() {
            self.group.kill();
            let _ = self.child.kill().await;
        }
    }
}

/// The process group of a program.
#[cfg(unix)]
#[derive(Debug)]
struct Group(Option<rustix::process::Pid>);

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(rustix::process::Pid::from_raw))
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(id) = self.0 {
            // A group without processes is what is wanted.
            let _ = rustix::process::kill_process_group(id, signal);
        }
    }

    fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn kill(&self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Without process groups, only the program itself is ended.
#[cfg(not(unix))]
#[derive(Debug)]
struct Group;

#[cfg(not(unix))]
impl Group {
    fn of(_: &Child) -> Self {
        Self
    }

    fn terminate(&self) {}

    fn kill(&self) {}
}
