//! A summariser that is a program of the user's: the text on its standard input, the summary on
//! its standard output.

use std::io::Write;
use std::process::{Command, Stdio};

use tract::core::{ModelError, Summarizer, Summary, SummaryRequest};

/// Runs a command line in the shell for each summary.
pub(crate) struct CommandSummarizer {
    command: String,
}

impl CommandSummarizer {
    pub(crate) fn new(command: impl Into<String>) -> Self {
        Self { command: command.into() }
    }

    fn run(&self, request: &SummaryRequest) -> Result<Summary, ModelError> {
        let failed = |what: &str, error: std::io::Error| ModelError::Unavailable {
            message: format!("{what} {:?}: {error}", self.command),
            source: None,
        };
        let mut child = Command::new("sh")
            .args(["-c", &self.command])
            .env("TRACT_INSTRUCTIONS", request.instructions.as_deref().unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("cannot start", error))?;
        let input = child.stdin.take();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A program that has seen enough closes its end.
                input.map(|mut input| input.write_all(request.text.as_bytes()))
            });
            child.wait_with_output()
        });
        let output = output.map_err(|error| failed("cannot run", error))?;
        if !output.status.success() {
            return Err(ModelError::other(format!(
                "{:?} ended with {}",
                self.command, output.status
            )));
        }
        let text = String::from_utf8(output.stdout).map_err(|_| ModelError::InvalidReply {
            message: "the summary is not UTF-8".to_owned(),
            source: None,
        })?;
        Ok(Summary::new(text.trim_end()).by(self.command.clone()))
    }
}

#[async_trait::async_trait]
impl Summarizer for CommandSummarizer {
    async fn summarize(&self, request: &SummaryRequest) -> Result<Summary, ModelError> {
        self.run(request)
    }
}
