//! A file by the reader of its tool, to the writer of all of them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::Path;

use tract_core::RefName;
use tract_engine::Error;

use super::{ImportRun, LineReader, ReadError, WaitingReport};
#[cfg(feature = "langgraph-postgres")]
use crate::document::Conversation;
use crate::document::{Document, MAX_DOCUMENT_BYTES, unreadable};
use crate::facts::Facts;
#[cfg(feature = "inspect")]
use crate::inspect;
#[cfg(any(feature = "databases", feature = "langgraph-postgres"))]
use crate::langgraph;
use crate::lines::{Line, Lines, open_text};
#[cfg(feature = "databases")]
use crate::openai_agents;
use crate::recording::Recording;
use crate::report::{AnomalyKind, SessionReport};
use crate::source::{SessionFile, Source};
use crate::writer::PlacedSession;
use crate::{ai_sdk, atif, claude_code, codex, detect, gemini_cli, open_hands, swe_agent};

impl ImportRun<'_> {
    /// Reads a file, and leaves its conversations to the writer.
    pub(super) async fn file(&mut self, file: &SessionFile) -> Result<(), ReadError> {
        if let Some(url) = file.url() {
            return self.database(file, url).await;
        }
        let path = file.path();
        match file.source() {
            Source::ClaudeCode => {
                let reader = BufReader::with_capacity(1 << 16, File::open(path)?);
                let (writer, callers) = (&mut self.writer, &mut self.callers);
                let done = claude_code::read_session(writer, reader, path, callers).await?;
                self.read(path, done);
                Ok(())
            }
            Source::Codex => {
                let reader = open_text(path)?;
                self.lines(file, reader, codex::CodexReader::default()).await
            }
            Source::GeminiCli => {
                let mut reader = gemini_cli::GeminiReader::default();
                if path.extension().is_some_and(|extension| extension == "jsonl") {
                    return self.lines(file, open_text(path)?, reader).await;
                }
                reader.document(&whole(path)?).map_err(|error| unreadable(&error))?;
                let facts = reader.finish();
                let recording = std::mem::take(reader.recording());
                self.conversation(file, recording, &facts).await
            }
            Source::OpenHands => self.open_hands(file).await,
            Source::AiSdk => self.document(file, ai_sdk::read).await,
            Source::Atif => self.document(file, atif::read).await,
            Source::SweAgent => self.document(file, swe_agent::read).await,
            #[cfg(feature = "databases")]
            Source::OpenAiAgents => self.conversations(file, openai_agents::read(path)?).await,
            #[cfg(feature = "databases")]
            Source::LangGraph => self.conversations(file, langgraph::sqlite::read(path)?).await,
            #[cfg(feature = "inspect")]
            Source::Inspect => self.conversations(file, inspect::read(path)?).await,
            #[cfg(not(all(feature = "databases", feature = "inspect")))]
            source => {
                let what = format!("this build does not read {}", source.title());
                Err(ReadError::File(io::Error::new(io::ErrorKind::Unsupported, what)))
            }
        }
    }

    #[cfg(feature = "langgraph-postgres")]
    async fn database(&mut self, file: &SessionFile, url: &str) -> Result<(), ReadError> {
        if file.source() != Source::LangGraph {
            return Err(ReadError::File(no_database(file)));
        }
        let mut reader = langgraph::postgres::CheckpointReader::open(url).await?;
        let mut threads = langgraph::Threads::default();
        let mut written = SessionReport::default();
        while let Some(checkpoints) = reader.next().await? {
            for checkpoint in checkpoints {
                if let Some(thread) = threads.add(checkpoint) {
                    let Conversation { recording, facts, .. } = thread;
                    self.end(file, recording, std::mem::take(&mut written), &facts).await?;
                }
                let events = threads.current().map(|thread| thread.recording.events());
                for event in events.into_iter().flatten() {
                    self.writer.add(event, &mut written).await?;
                }
            }
        }
        if let Some(Conversation { recording, facts, .. }) = threads.finish() {
            self.end(file, recording, written, &facts).await?;
        }
        Ok(())
    }

    #[cfg(not(feature = "langgraph-postgres"))]
    #[expect(clippy::unused_async, reason = "with the feature, it waits for the server")]
    async fn database(&mut self, file: &SessionFile, _url: &str) -> Result<(), ReadError> {
        Err(ReadError::File(no_database(file)))
    }

    async fn open_hands(&mut self, file: &SessionFile) -> Result<(), ReadError> {
        let path = file.path();
        if path.is_dir() {
            let (session, events) = detect::event_files(path)?;
            let reader = open_hands::SdkReader::named(session);
            return self.lines(file, events, reader).await;
        }
        if detect::is_list(path)? {
            return self.document(file, open_hands::read).await;
        }
        let reader = open_hands::SdkReader::named(None);
        self.lines(file, open_text(path)?, reader).await
    }

    async fn document(
        &mut self,
        file: &SessionFile,
        read: fn(&[u8]) -> Result<Document, serde_json::Error>,
    ) -> Result<(), ReadError> {
        let bytes = whole(file.path())?;
        let document = read(&bytes).map_err(|error| unreadable(&error))?;
        self.conversations(file, document).await
    }

    async fn conversations(
        &mut self,
        file: &SessionFile,
        document: Document,
    ) -> Result<(), ReadError> {
        for conversation in document {
            self.conversation(file, conversation.recording, &conversation.facts).await?;
        }
        Ok(())
    }

    /// Reads a file line by line.
    async fn lines(
        &mut self,
        file: &SessionFile,
        reader: impl BufRead,
        mut session: impl LineReader,
    ) -> Result<(), ReadError> {
        let mut lines = Lines::new(reader);
        let mut written = SessionReport::default();
        let mut number = 0;
        loop {
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                // A compressed file that ends too early: what came before is read.
                Err(error) if number > 0 && error.kind() != io::ErrorKind::Interrupted => {
                    let recording = session.recording();
                    let what = format!("not read further: {error}");
                    recording.odd(number, AnomalyKind::TornLine, what);
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            number += 1;
            match line {
                Line::Whole { bytes: [], .. } => continue,
                Line::Whole { bytes, ended } => {
                    session.recording().report.lines += 1;
                    if let Err(error) = session.line(number, bytes) {
                        let (kind, what) = problem(&error, ended);
                        session.recording().odd(number, kind, what);
                    }
                }
                Line::TooLong => {
                    let recording = session.recording();
                    recording.report.lines += 1;
                    let what = "longer than any message may be";
                    recording.odd(number, AnomalyKind::LineTooLong, what);
                }
            }
            for event in session.recording().events() {
                self.writer.add(event, &mut written).await?;
            }
        }
        let facts = session.finish();
        let recording = std::mem::take(session.recording());
        self.end(file, recording, written, &facts).await
    }

    /// Takes a conversation that was read as a whole.
    async fn conversation(
        &mut self,
        file: &SessionFile,
        mut recording: Recording,
        facts: &Facts,
    ) -> Result<(), ReadError> {
        let mut written = SessionReport::default();
        for event in recording.events() {
            self.writer.add(event, &mut written).await?;
        }
        self.end(file, recording, written, facts).await
    }

    async fn end(
        &mut self,
        file: &SessionFile,
        mut recording: Recording,
        mut written: SessionReport,
        facts: &Facts,
    ) -> Result<(), ReadError> {
        for event in recording.events() {
            self.writer.add(event, &mut written).await?;
        }
        recording.finish();
        let id = facts.session.clone().unwrap_or_else(|| file.stem());
        let source = file.source().as_str();
        let mut report = recording.report;
        let documents = facts
            .documents(source, &id, &recording.starts, report.tokens)
            .map_err(|error| Error::Damaged { object: None, what: error.to_string() })?;
        let name = match &facts.agent {
            Some(agent) => format!("{id}.{agent}"),
            None => id,
        };
        report.title.clone_from(&facts.title);
        report.absorb(written);
        let branch = format!("{source}/{}", RefName::distinct(&name));
        report.session = name;
        let done = self.writer.end(branch, documents, report).await?;
        self.read(file.path(), done);
        Ok(())
    }

    /// Takes a conversation that was read, and what was placed by that.
    fn read(&mut self, path: &Path, placed: Vec<PlacedSession>) {
        let (number, path) = (self.number, path.to_owned());
        self.waiting.push_back(WaitingReport::Read { number, path });
        self.done.extend(placed);
    }
}

fn no_database(file: &SessionFile) -> io::Error {
    let what = match file.source() {
        Source::LangGraph => "this build does not read PostgreSQL".to_owned(),
        source => format!("{} is not read from PostgreSQL", source.title()),
    };
    io::Error::new(io::ErrorKind::Unsupported, what)
}

/// What is wrong with a line. serde's own text may quote what it found.
pub(crate) fn problem(error: &serde_json::Error, ended: bool) -> (AnomalyKind, String) {
    if !ended && error.is_eof() {
        return (AnomalyKind::TornLine, "the file ends in the middle of a line".to_owned());
    }
    (AnomalyKind::UnreadableLine, format!("no line of the format: column {}", error.column()))
}

/// Reads a document as a whole.
fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        let what = format!("larger than {MAX_DOCUMENT_BYTES} bytes, the most of a document");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(bytes)
}
