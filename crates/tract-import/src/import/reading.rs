//! Reads a file with the reader of its tool, as steps for the common writer.

use std::borrow::Cow;
use std::fs;
use std::io::{self, BufRead, Read as _};
use std::path::Path;

use tract_core::RefName;
#[cfg(feature = "langgraph-postgres")]
use tract_core::block_on;
use tract_core::json::{self, DecodedText};

use super::steps::{FileReader, ReadError};
use crate::damage::{
    LineRules, last_of_repeated_in_lines, read_line, reject_other_encodings, replacements,
};
#[cfg(any(feature = "databases", feature = "langgraph-postgres"))]
use crate::document::Conversation;
use crate::document::{Document, MAX_DOCUMENT_BYTES, leading_value, unreadable};
use crate::error::damaged;
use crate::facts::Facts;
#[cfg(feature = "langgraph-postgres")]
use crate::langgraph;
use crate::line_reader::LineReader;
use crate::lines::{Line, Lines, open_text};
use crate::misfits;
use crate::readers::Source;
use crate::recording::Recording;
use crate::report::AnomalyKind;
use crate::source::{SessionFile, head};
use crate::{gemini_cli, open_hands};

impl FileReader {
    /// Reads a file and sends its contents as steps.
    pub(super) fn read_file(&mut self, file: &SessionFile) -> Result<(), ReadError> {
        if let Some(url) = file.url() {
            return self.database(file, url);
        }
        // A tool may have created the file and not written to it yet.
        let metadata = fs::metadata(file.path())?;
        if metadata.is_file() && metadata.len() == 0 {
            return self.end(file, Recording::default(), &Facts::default());
        }
        (file.source().reader().read)(self, file)
    }

    /// Reads a document of Gemini CLI, whose reader takes lines of the same members.
    pub(crate) fn gemini_document(&mut self, file: &SessionFile) -> Result<(), ReadError> {
        let mut reader = gemini_cli::GeminiReader::default();
        let bytes = whole(file.path())?;
        let decoded = json::decode(&bytes);
        let read = read_document(&decoded.text, |text| reader.document(text));
        let (_, odd) = read.map_err(|error| unreadable(&error))?;
        note_anomalies(reader.recording(), odd);
        note_replaced(reader.recording(), &bytes, &decoded);
        let facts = reader.finish();
        let recording = std::mem::take(reader.recording());
        self.end(file, recording, &facts)
    }

    /// Reads a text that is not JSON.
    pub(crate) fn text(
        &mut self,
        file: &SessionFile,
        read: impl FnOnce(&str) -> Document,
    ) -> Result<(), ReadError> {
        let bytes = whole(file.path())?;
        let decoded = json::decode(&bytes);
        let mut document = read(&decoded.text);
        if let Some(first) = document.first_mut() {
            note_replaced(&mut first.recording, &bytes, &decoded);
        }
        self.conversations(file, document)
    }

    /// Stores a conversation that was read as a whole.
    #[cfg(feature = "databases")]
    pub(crate) fn conversation(
        &mut self,
        file: &SessionFile,
        conversation: Conversation,
    ) -> Result<(), ReadError> {
        self.end(file, conversation.recording, &conversation.facts)
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

    pub(crate) fn open_hands(&mut self, file: &SessionFile) -> Result<(), ReadError> {
        let path = file.path();
        if path.is_dir() {
            let (session, model, events) = open_hands::event_files(path)?;
            let reader = open_hands::SdkReader::named(session, model);
            return self.lines(file, events, reader);
        }
        if is_list(path)? {
            return self.document(file, open_hands::read);
        }
        let reader = open_hands::SdkReader::named(None, None);
        self.lines(file, open_text(path)?, reader)
    }

    /// Reads a JSON document.
    pub(crate) fn document(
        &mut self,
        file: &SessionFile,
        read: impl Fn(&[u8]) -> Result<Document, serde_json::Error>,
    ) -> Result<(), ReadError> {
        let bytes = whole(file.path())?;
        let decoded = json::decode(&bytes);
        let read = read_document(&decoded.text, read);
        let (mut document, odd) = read.map_err(|error| unreadable(&error))?;
        if let Some(first) = document.first_mut() {
            note_anomalies(&mut first.recording, odd);
            note_replaced(&mut first.recording, &bytes, &decoded);
        }
        self.conversations(file, document)
    }

    /// Stores the conversations of a document.
    pub(crate) fn conversations(
        &mut self,
        file: &SessionFile,
        document: Document,
    ) -> Result<(), ReadError> {
        for conversation in document {
            self.end(file, conversation.recording, &conversation.facts)?;
        }
        Ok(())
    }

    /// Reads a file line by line.
    pub(crate) fn lines<R: LineReader>(
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
                // A truncated compressed file: keep the part before the error.
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
            // After every line, so that the memory does not grow with the file.
            for event in session.recording().events() {
                self.say(event)?;
            }
        }
        let facts = session.finish();
        let recording = std::mem::take(session.recording());
        self.end(file, recording, &facts)
    }

    /// Ends a conversation: sends its remaining events, or all of them if it was read as a whole.
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
        let mut report = std::mem::take(&mut recording.report);
        let name = match &facts.agent {
            Some(agent) => format!("{id}.{agent}"),
            None => id.clone(),
        };
        let branch = format!("{source}/{}", RefName::distinct(&name));
        let facts = Facts { callers: recording.callers(&branch), ..facts.clone() };
        let documents =
            facts.documents(source, &id, &recording.starts, recording.resumed, report.tokens);
        let documents = documents.map_err(damaged)?;
        report.title.clone_from(&facts.title);
        report.session = name;
        self.end_conversation(file.path(), branch, documents, report)
    }
}

/// Reads a document, or documents on lines, and describes its anomalies, each with its line: repeated
/// members, of which the last one counts, members of an unexpected type, and bytes after the end of
/// the document, which are left out.
fn read_document<T>(
    text: &str,
    mut read: impl FnMut(&[u8]) -> Result<T, serde_json::Error>,
) -> Result<(T, Vec<Anomaly>), serde_json::Error> {
    let mut anomalies = Vec::new();
    let mut whole = |text: &str, anomalies: &mut Vec<Anomaly>| {
        let (text, repeated) = match last_of_repeated_in_lines(text) {
            Some((text, repeated)) => (Cow::Owned(text), repeated),
            None => (Cow::Borrowed(text), Vec::new()),
        };
        let (read, misfits) = misfits::watch(&text, || read(text.as_bytes()));
        let repeated =
            repeated.into_iter().map(|(line, what)| (line, AnomalyKind::DamagedLine, what));
        let unread =
            misfits.into_iter().map(|(line, what)| (line, AnomalyKind::UnreadableMessage, what));
        anomalies.extend(repeated.chain(unread));
        read
    };
    let error = match whole(text, &mut anomalies) {
        Ok(document) => return Ok((document, anomalies)),
        Err(error) => error,
    };
    anomalies.clear();
    let leading = leading_value(text.as_bytes()).map(<[u8]>::len);
    let Some((document, after)) = leading.and_then(|end| text.split_at_checked(end)) else {
        return Err(error);
    };
    let line = 1 + document.bytes().filter(|byte| *byte == b'\n').count();
    let read = whole(document, &mut anomalies)?;
    let what = format!("{} bytes after the document are left out", after.len());
    anomalies.push((line, AnomalyKind::DamagedLine, what));
    Ok((read, anomalies))
}

/// An anomaly with its line.
type Anomaly = (usize, AnomalyKind, String);

fn note_anomalies(recording: &mut Recording, anomalies: Vec<Anomaly>) {
    for (line, kind, what) in anomalies {
        recording.odd(line, kind, what);
    }
}

/// Records the replacements in a document, by line.
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

/// Whether a file is a list of JSON.
fn is_list(path: &Path) -> io::Result<bool> {
    Ok(head(path)?.trim_start().starts_with('['))
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
    open_text(path)?.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        let what = format!("larger than {MAX_DOCUMENT_BYTES} bytes, the most of a document");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    reject_other_encodings(&bytes)?;
    Ok(bytes)
}
