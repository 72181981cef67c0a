//! A summarizer that runs the user's program: the text is its standard input, and the summary its
//! standard output.

use std::fmt::Display;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use tract::core::store::off_thread;
use tract::core::{ModelError, Summarizer, Summary, SummaryRequest};

/// Runs a command line in the shell for each summary.
pub(crate) struct CommandSummarizer {
    command: String,
}

impl CommandSummarizer {
    pub(crate) fn new(command: impl Into<String>) -> Self {
        Self { command: command.into() }
    }
}

#[async_trait::async_trait]
impl Summarizer for CommandSummarizer {
    async fn summarize(&self, request: &SummaryRequest) -> Result<Summary, ModelError> {
        let failed = |what: &str, error: &(dyn Display + Sync)| ModelError::Unavailable {
            message: format!("{what} {:?}: {error}", self.command),
            source: None,
        };
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &self.command])
            .env("TRACT_INSTRUCTIONS", request.instructions.as_deref().unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // A separate process group, so that programs started by the shell end with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        let mut child = shell.spawn().map_err(|error| failed("cannot start", &error))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        // Dropped if the caller stops waiting, so that the program does not continue to run.
        let mut running = Running(Some(child));
        let text = request.text.clone();
        let spawned = thread::Builder::new().spawn(move || {
            // A program may close its input before it has read everything.
            input.map(|mut input| input.write_all(text.as_bytes()))
        });
        spawned.map_err(|error| failed("no thread for", &error))?;
        let read = off_thread("summarizer", "read", move || {
            let mut collected = Vec::new();
            let read = output.map(|mut output| output.read_to_end(&mut collected)).transpose();
            Ok(read.map(|_| collected))
        });
        let read = read.await.map_err(|error| failed("no thread for", &error))?;
        let collected = read.map_err(|error| failed("cannot read", &error))?;
        let status = running.end().map_err(|error| failed("cannot run", &error))?;
        if !status.success() {
            return Err(ModelError::other(format!("{:?} ended with {status}", self.command)));
        }
        let text = String::from_utf8(collected).map_err(|_| ModelError::InvalidReply {
            message: "the summary is not UTF-8".to_owned(),
            source: None,
        })?;
        Ok(Summary { by: Some(self.command.clone()), ..Summary::new(text.trim_end()) })
    }
}

/// A program that is killed if its caller stops waiting.
struct Running(Option<Child>);

impl Running {
    /// Waits for the end of a program whose output is complete.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        match self.0.take() {
            Some(mut child) => child.wait(),
            None => Err(std::io::ErrorKind::NotFound.into()),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        #[cfg(unix)]
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", child.id())]).status();
        // Also reaps a program that has already ended.
        let _ = child.kill();
        let _ = child.wait();
    }
}
