//! Joins the requests of a batch with their answers, which are in another file of the same import.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use tract::import::{self, BatchLine, Dialect, batch_line, join_batch_lines};

use crate::failure::Outcome;
use crate::input::{self, Document, Documents};

/// The answers of batches that belong to a request in another file. They are in memory until their
/// requests are read.
#[derive(Default)]
pub(super) struct BatchAnswers {
    /// The lines with the answers, by the id of the request.
    answers: HashMap<String, Document>,
    /// The requests that have their answers.
    joined: HashSet<String>,
    /// The ids that are there twice.
    ambiguous: HashSet<String>,
}

/// Returns the JSON files of a folder, by name; none if no file in it is one of a batch.
pub(super) fn folder_files(folder: &Path) -> Vec<PathBuf> {
    let is_json = |path: &PathBuf| {
        let end = path.extension().and_then(|end| end.to_str());
        matches!(end, Some("json" | "jsonl")) && path.is_file()
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut files: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_json).collect();
    files.sort_unstable();
    let is_of_batch = |path: &PathBuf| {
        let documents = input::open(path).and_then(Documents::new);
        documents.is_ok_and(|documents| {
            documents.first().is_some_and(|document| batch_line(&document.text).is_some())
        })
    };
    if files.iter().any(is_of_batch) { files } else { Vec::new() }
}

/// How a line of a batch is imported.
pub(super) enum BatchStep {
    /// As it is.
    Import(Document),
    /// Not at all: the answer was imported with its request.
    Skip,
}

impl BatchAnswers {
    /// Finds the answers among the files of an import, and moves their files to the end, after those
    /// of the requests. An id that is there twice identifies neither a request nor an answer.
    pub(super) fn find(inputs: &mut [(PathBuf, Documents)]) -> Outcome<Self> {
        let first = |documents: &Documents| {
            batch_line(documents.first().map_or("", |document| document.text.as_str()))
        };
        let is_request =
            |documents: &Documents| matches!(first(documents), Some(BatchLine::Request(_)));
        let is_result = |documents: &Documents| {
            matches!(first(documents), Some(BatchLine::Answer(_) | BatchLine::Failure(_)))
        };
        let has = |is: &dyn Fn(&Documents) -> bool| inputs.iter().any(|(_, input)| is(input));
        if !has(&is_request) || !has(&is_result) {
            return Ok(Self::default());
        }
        let (mut requests, mut answers) = (HashMap::new(), HashMap::new());
        for (path, documents) in inputs.iter() {
            // Standard input cannot be read twice.
            if input::is_stdin(path) || !(is_request(documents) || is_result(documents)) {
                continue;
            }
            let mut documents = Documents::new(input::open(path)?)?;
            while let Some(document) = documents.next()? {
                match batch_line(&document.text) {
                    Some(BatchLine::Request(id)) => *requests.entry(id).or_insert(0) += 1,
                    Some(BatchLine::Answer(id)) => {
                        answers.entry(id).or_insert_with(Vec::new).push(document);
                    }
                    Some(BatchLine::Failure(_)) | None => {}
                }
            }
        }
        inputs.sort_by_key(|(_, documents)| is_result(documents));
        let single = |(id, mut lines): (String, Vec<Document>)| {
            let document = lines.pop().filter(|_| lines.is_empty())?;
            (requests.get(&id) == Some(&1)).then_some((id, document))
        };
        let repeated = requests.iter().filter(|(_, count)| **count > 1).map(|(id, _)| id);
        let answered_twice = answers.iter().filter(|(_, lines)| lines.len() > 1).map(|(id, _)| id);
        let ambiguous = repeated.chain(answered_twice).cloned().collect();
        let answers = answers.into_iter().filter_map(single).collect();
        Ok(Self { answers, joined: HashSet::new(), ambiguous })
    }

    /// Returns whether a line is an answer that may belong to a request of an earlier import.
    pub(super) fn may_continue(&self, line: &str) -> bool {
        matches!(batch_line(line), Some(BatchLine::Answer(id)) if !self.ambiguous.contains(&id))
    }

    /// Joins a request with its answer, and skips an answer that was joined.
    pub(super) fn step(&mut self, document: Document, format: Option<Dialect>) -> BatchStep {
        if self.answers.is_empty() && self.joined.is_empty() {
            return BatchStep::Import(document);
        }
        match batch_line(&document.text) {
            Some(BatchLine::Answer(id)) if self.joined.contains(&id) => BatchStep::Skip,
            Some(BatchLine::Request(id)) => {
                let Some(answer) = self.answers.remove(&id) else {
                    return BatchStep::Import(document);
                };
                let Document { line, text, mut replaced } = document;
                let joined = join_batch_lines(&text, &answer.text);
                // If they cannot be read together, each is imported or refused alone.
                let joined = joined.filter(|joined| import::read(joined, format, "").is_ok());
                if joined.is_some() {
                    replaced.extend(answer.replaced);
                    self.joined.insert(id);
                }
                let text = joined.unwrap_or(text);
                BatchStep::Import(Document { line, text, replaced })
            }
            _ => BatchStep::Import(document),
        }
    }
}
