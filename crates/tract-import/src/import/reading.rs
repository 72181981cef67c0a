//! A file by the reader of its tool, as steps for the writer of all of them.

use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::path::Path;

use tract_core::RefName;
#[cfg(feature = "langgraph-postgres")]
use tract_core::block_on;
use tract_core::json::{self, DecodedText};

use super::LineReader;
use super::steps::{FileReader, ReadError};
#[cfg(feature = "databases")]
use crate::cursor;
use crate::damage::{LineRules, read_line, reject_utf16, replacements};
#[cfg(feature = "langgraph-postgres")]
use crate::document::Conversation;
use crate::document::{Document, MAX_DOCUMENT_BYTES, unreadable};
use crate::error::damaged;
use crate::facts::Facts;
#[cfg(feature = "inspect")]
use crate::inspect;
#[cfg(any(feature = "databases", feature = "langgraph-postgres"))]
use crate::langgraph;
use crate::lines::{Line, Lines, open_text};
#[cfg(feature = "databases")]
use crate::openai_agents;
use crate::recording::Recording;
use crate::report::AnomalyKind;
use crate::source::{SessionFile, Source};
use crate::{
    ai_sdk, aider, atif, chatgpt, claude_ai, claude_code, codex, copilot_cli, dataset, detect,
    gemini_cli, goose, langchain, mini_swe_agent, open_hands, opencode, pydantic_ai, qwen_code,
    swe_agent, vscode_chat,
};

impl FileReader {
    /// Reads a file, and says what it has.
    pub(super) fn read_file(&mut self, file: &SessionFile) -> Result<(), ReadError> {
        if let Some(url) = file.url() {
            return self.database(file, url);
        }
        let path = file.path();
        match file.source() {
            Source::ClaudeCode => claude_code::read_session(self, open_text(path)?, path),
            Source::Codex => {
                let reader = open_text(path)?;
                self.lines(file, reader, codex::CodexReader::default())
            }
            Source::GeminiCli => {
                let mut reader = gemini_cli::GeminiReader::default();
                if path.extension().is_some_and(|extension| extension == "jsonl") {
                    return self.lines(file, open_text(path)?, reader);
                }
                let bytes = whole(path)?;
                let decoded = json::decode(&bytes);
                let text = decoded.text.as_bytes();
                reader.document(text).map_err(|error| unreadable(&error))?;
                note_replaced(reader.recording(), &bytes, &decoded);
                let facts = reader.finish();
                let recording = std::mem::take(reader.recording());
                self.end(file, recording, &facts)
            }
            Source::OpenHands => self.open_hands(file),
            Source::AiSdk => self.document(file, ai_sdk::read),
            Source::Atif => self.document(file, atif::read),
            Source::SweAgent => self.document(file, swe_agent::read),
            Source::ChatGpt => self.document(file, chatgpt::read),
            Source::ClaudeAi => self.document(file, claude_ai::read),
            Source::PydanticAi => self.document(file, pydantic_ai::read),
            Source::LangChain => self.document(file, langchain::read),
            Source::MiniSweAgent => self.document(file, mini_swe_agent::read),
            Source::VsCodeChat => self.document(file, vscode_chat::read),
            Source::Aider => {
                let bytes = whole(path)?;
                let decoded = json::decode(&bytes);
                let mut document = aider::read(&decoded.text);
                if let Some(first) = document.first_mut() {
                    note_replaced(&mut first.recording, &bytes, &decoded);
                }
                self.conversations(file, document)
            }
            Source::CopilotCli => {
                self.lines(file, open_text(path)?, copilot_cli::CopilotReader::default())
            }
            Source::QwenCode => {
                self.lines(file, open_text(path)?, qwen_code::QwenReader::default())
            }
            Source::Goose if !detect::is_database(path)? => {
                self.lines(file, open_text(path)?, goose::GooseReader::default())
            }
            Source::OpenCode if !detect::is_database(path)? => {
                match opencode::tree::is_session_file(path) {
                    true => self.conversations(file, opencode::tree::read(path)?.into()),
                    false => self.document(file, opencode::read),
                }
            }
            #[cfg(feature = "databases")]
            Source::Goose => goose::sqlite::read(path, |conversation| {
                self.end(file, conversation.recording, &conversation.facts)
            }),
            #[cfg(feature = "databases")]
            Source::OpenCode => opencode::sqlite::read(path, |conversation| {
                self.end(file, conversation.recording, &conversation.facts)
            }),
            #[cfg(feature = "databases")]
            Source::Cursor => cursor::read(path, |conversation| {
                self.end(file, conversation.recording, &conversation.facts)
            }),
            Source::Dataset => {
                let stem = file.stem();
                self.document(file, |bytes| dataset::read(bytes, &stem))
            }
            #[cfg(feature = "databases")]
            Source::OpenAiAgents => self.conversations(file, openai_agents::read(path)?),
            #[cfg(feature = "databases")]
            Source::LangGraph => {
                self.conversations(file, langgraph::sqlite::read(path, file.channels())?)
            }
            #[cfg(feature = "inspect")]
            Source::Inspect => self.conversations(file, inspect::read(path)?),
            #[cfg(not(all(feature = "databases", feature = "inspect")))]
            source => {
                let what = format!("this build does not read {}", source.title());
                Err(ReadError::File(io::Error::new(io::ErrorKind::Unsupported, what)))
            }
        }
    }

    #[cfg(feature = "langgraph-postgres")]
    fn database(&mut self, file: &SessionFile, url: &str) -> Result<(), ReadError> {
        if file.source() != Source::LangGraph {
            return Err(ReadError::File(no_database(file)));
        }
        let mut reader = block_on(langgraph::postgres::CheckpointReader::open(url))?;
        let mut threads = langgraph::Threads::new(file.channels());
        while let Some(checkpoints) = block_on(reader.next())? {
            for checkpoint in checkpoints {
                if let Some(thread) = threads.add(checkpoint) {
                    let Conversation { recording, facts, .. } = thread;
                    self.end(file, recording, &facts)?;
                }
                let events = threads.current().map(|thread| thread.recording.events());
                for event in events.into_iter().flatten() {
                    self.say(event)?;
                }
            }
        }
        if let Some(Conversation { recording, facts, .. }) = threads.finish() {
            self.end(file, recording, &facts)?;
        }
        Ok(())
    }

    #[cfg(not(feature = "langgraph-postgres"))]
    #[expect(clippy::unused_self, reason = "with the feature, it reads")]
    fn database(&mut self, file: &SessionFile, _url: &str) -> Result<(), ReadError> {
        Err(ReadError::File(no_database(file)))
    }

    fn open_hands(&mut self, file: &SessionFile) -> Result<(), ReadError> {
        let path = file.path();
        if path.is_dir() {
            let (session, model, events) = detect::event_files(path)?;
            let reader = open_hands::SdkReader::named(session, model);
            return self.lines(file, events, reader);
        }
        if detect::is_list(path)? {
            return self.document(file, open_hands::read);
        }
        let reader = open_hands::SdkReader::named(None, None);
        self.lines(file, open_text(path)?, reader)
    }

    fn document(
        &mut self,
        file: &SessionFile,
        read: impl FnOnce(&[u8]) -> Result<Document, serde_json::Error>,
    ) -> Result<(), ReadError> {
        let bytes = whole(file.path())?;
        let decoded = json::decode(&bytes);
        let mut document = read(decoded.text.as_bytes()).map_err(|error| unreadable(&error))?;
        if let Some(first) = document.first_mut() {
            note_replaced(&mut first.recording, &bytes, &decoded);
        }
        self.conversations(file, document)
    }

    fn conversations(&mut self, file: &SessionFile, document: Document) -> Result<(), ReadError> {
        for conversation in document {
            self.end(file, conversation.recording, &conversation.facts)?;
        }
        Ok(())
    }

    /// Reads a file line by line.
    fn lines<R: LineReader>(
        &mut self,
        file: &SessionFile,
        reader: impl BufRead,
        mut session: R,
    ) -> Result<(), ReadError> {
        let mut lines = Lines::new(reader);
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
                    let rules = LineRules {
                        line: R::line,
                        odd: |session: &mut R, line, kind, what| {
                            session.recording().odd(line, kind, what);
                        },
                        is_record: R::is_record,
                    };
                    read_line(&mut session, number, bytes, ended, rules);
                }
                Line::TooLong => {
                    let recording = session.recording();
                    recording.report.lines += 1;
                    let what = "longer than any message may be";
                    recording.odd(number, AnomalyKind::LineTooLong, what);
                }
            }
            for event in session.recording().events() {
                self.say(event)?;
            }
        }
        let facts = session.finish();
        let recording = std::mem::take(session.recording());
        self.end(file, recording, &facts)
    }

    /// Takes what is left of a conversation, or all of one that was read as a whole.
    fn end(
        &mut self,
        file: &SessionFile,
        mut recording: Recording,
        facts: &Facts,
    ) -> Result<(), ReadError> {
        for event in recording.events() {
            self.say(event)?;
        }
        recording.finish();
        let id = facts.session.clone().unwrap_or_else(|| file.stem());
        let source = file.source().as_str();
        let mut report = recording.report;
        let documents =
            facts.documents(source, &id, &recording.starts, recording.resumed, report.tokens);
        let documents = documents.map_err(damaged)?;
        let name = match &facts.agent {
            Some(agent) => format!("{id}.{agent}"),
            None => id,
        };
        report.title.clone_from(&facts.title);
        let branch = format!("{source}/{}", RefName::distinct(&name));
        report.session = name;
        self.end_conversation(file.path(), branch, documents, report)
    }
}

/// Notes what was replaced in a document, by its lines.
fn note_replaced(recording: &mut Recording, bytes: &[u8], decoded: &DecodedText<'_>) {
    let (mut line, mut at) = (1, 0);
    let mut lines = decoded.replaced.iter().map(|place| {
        let before = bytes.get(at..place.offset).unwrap_or_default();
        line += before.iter().filter(|byte| **byte == b'\n').count();
        at = place.offset;
        line
    });
    for (kind, what) in replacements(decoded) {
        recording.odd(lines.next().unwrap_or(0), kind, what);
    }
}

fn no_database(file: &SessionFile) -> io::Error {
    let what = match file.source() {
        Source::LangGraph => "this build does not read PostgreSQL".to_owned(),
        source => format!("{} is not read from PostgreSQL", source.title()),
    };
    io::Error::new(io::ErrorKind::Unsupported, what)
}

/// Reads a document as a whole.
fn whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        let what = format!("larger than {MAX_DOCUMENT_BYTES} bytes, the most of a document");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    reject_utf16(&bytes)?;
    Ok(bytes)
}
