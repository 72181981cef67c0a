//! Reads inputs that the command line names: files, standard input, times, JSON.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use tract::core::{Clock as _, SystemClock, json};
use tract::forms::Dialect;
use tract::time::{DayEdge, parse_duration, parse_time};

use crate::failure::{Failure, Outcome};

/// Parses the name of a dialect.
pub(crate) fn dialect() -> impl TypedValueParser<Value = Dialect> {
    let words = PossibleValuesParser::new(Dialect::ALL.map(Dialect::as_str));
    words.try_map(|word| word.parse::<Dialect>())
}

/// Returns the names of models, for the help: `openai/NAME, … or gemini/NAME`.
#[cfg(feature = "http")]
pub(crate) fn model_names() -> String {
    let names = Dialect::ALL.map(|dialect| format!("{dialect}/NAME")).join(", ");
    let (first, last) = names.rsplit_once(", ").expect("several providers");
    format!("{first} or {last}")
}

/// Returns whether a path means standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens a file, or standard input for `-`. A byte order mark is skipped.
pub(crate) fn open(path: &Path) -> Outcome<Box<dyn BufRead>> {
    let mut reader = reader(path)?;
    // Four bytes show the encoding.
    let mut start = Vec::with_capacity(4);
    (&mut reader).take(4).read_to_end(&mut start).map_err(|error| Failure::file(path, &error))?;
    let kept = start.strip_prefix(MARK).unwrap_or(&start).to_owned();
    Ok(Box::new(io::Cursor::new(kept).chain(reader)))
}

/// The byte order mark U+FEFF in UTF-8.
const MARK: &[u8] = "\u{feff}".as_bytes();

fn reader(path: &Path) -> Outcome<Box<dyn BufRead>> {
    if is_stdin(path) {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, io::stdin())));
    }
    let file = File::open(path).map_err(|error| Failure::file(path, &error))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(Failure::file(path, &io::ErrorKind::IsADirectory.into()));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

/// A JSON document of a file, with the line where it begins.
pub(crate) struct Document {
    /// The line number, from 1.
    pub(crate) line: usize,
    /// Its text.
    pub(crate) text: String,
    /// The damage that was replaced: bytes that are not UTF-8, unpaired surrogates.
    pub(crate) replaced: Vec<String>,
}

impl Document {
    /// Decodes the bytes of a document.
    pub(crate) fn new(line: usize, bytes: Vec<u8>) -> Self {
        let joined = std::str::from_utf8(&bytes).ok().and_then(tract::import::with_joined_pieces);
        let bytes = joined.map_or(bytes, String::into_bytes);
        let decoded = json::decode(&bytes);
        let mut replaced: Vec<String> = decoded.replaced.iter().map(ToString::to_string).collect();
        if decoded.count > replaced.len() {
            replaced.push(format!("{} more places were replaced", decoded.count - replaced.len()));
        }
        // An undamaged text is not copied, because it may be large.
        let text = match decoded.text {
            Cow::Borrowed(text) if text.len() == bytes.len() => None,
            text => Some(text.into_owned()),
        };
        let text = text.unwrap_or_else(|| String::from_utf8(bytes).unwrap_or_default());
        Self { line, text, replaced }
    }

    /// Returns the text of a document in which nothing may be replaced, such as a tool definition,
    /// whose id is the hash of its text.
    ///
    /// # Errors
    /// `not_utf8` if something was replaced.
    pub(crate) fn intact(self) -> Outcome<String> {
        match self.replaced.first() {
            None => Ok(self.text),
            Some(damage) => Err(Failure::no("not_utf8", format!("expected UTF-8 text: {damage}"))),
        }
    }
}

/// The JSON documents of a file: one per line, or a single one over several lines.
pub(crate) struct Documents {
    reader: Box<dyn BufRead>,
    /// The document read ahead to find out which of the two formats it is.
    ahead: Option<Document>,
    line: usize,
}

impl Documents {
    /// Starts to read a file.
    pub(crate) fn new(mut reader: Box<dyn BufRead>) -> Outcome<Self> {
        let start = reader.fill_buf().map_err(|error| Failure::file(Path::new("input"), &error))?;
        tract::import::reject_other_encodings(start)
            .map_err(|error| Failure::no("not_utf8", error.to_string()))?;
        let mut documents = Self { reader, ahead: None, line: 0 };
        let Some(first) = documents.read_line()? else { return Ok(documents) };
        let (start, mut bytes) = first;
        if is_json(&json::decode(&bytes).text) {
            documents.ahead = Some(Document::new(start, bytes));
            return Ok(documents);
        }
        // The first line is not a document. Either the whole file is one, or its lines are read
        // again from the same bytes, so that memory contains the file only once.
        let read = documents.reader.read_to_end(&mut bytes);
        read.map_err(|error| Failure::file(Path::new("input"), &error))?;
        if is_json(&json::decode(&bytes).text) {
            documents.reader = Box::new(io::empty());
            documents.ahead = Some(Document::new(start, bytes));
        } else {
            documents.line = start - 1;
            documents.reader = Box::new(io::Cursor::new(bytes));
        }
        Ok(documents)
    }

    /// Returns the first document before it is read, if it is a line or the whole file.
    pub(crate) fn first(&self) -> Option<&Document> {
        self.ahead.as_ref()
    }

    /// Returns the next document; blank lines are skipped.
    pub(crate) fn next(&mut self) -> Outcome<Option<Document>> {
        match self.ahead.take() {
            Some(document) => Ok(Some(document)),
            None => Ok(self.read_line()?.map(|(line, bytes)| Document::new(line, bytes))),
        }
    }

    /// Reads the next line that is not blank: its number and its bytes.
    fn read_line(&mut self) -> Outcome<Option<(usize, Vec<u8>)>> {
        loop {
            let mut bytes = Vec::new();
            let read = self.reader.read_until(b'\n', &mut bytes);
            if read.map_err(|error| Failure::file(Path::new("input"), &error))? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Ok(Some((self.line, bytes)));
        }
    }
}

/// Returns whether a text is one JSON value.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Reads a file, or standard input for `-`, as text.
pub(crate) fn read_text(path: &Path) -> Outcome<String> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes).map_err(|error| Failure::file(path, &error))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::no("not_utf8", format!("{}: byte {at} is not UTF-8", path.display()))
            .note("recordings and streams are UTF-8 text")
    })
}

/// Returns a text given on the command line, or standard input if it is absent or `-`.
pub(crate) fn text_or_stdin(text: Option<String>) -> Outcome<String> {
    match text {
        Some(text) if text != "-" => Ok(text),
        _ => {
            let mut text = read_text(Path::new("-"))?;
            // Editors and `echo` end a text with a line break, which is not part of it.
            let end = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text));
            let length = end.unwrap_or(&text).len();
            text.truncate(length);
            Ok(text)
        }
    }
}

/// Returns the text of a message: given on the command line, or standard input if it is absent or
/// `-`. Empty input is rejected, because it usually means that a script failed.
///
/// # Errors
/// `empty_input` if standard input is empty.
pub(crate) fn message_text(text: Option<String>) -> Outcome<String> {
    let is_given = text.as_deref().is_some_and(|text| text != "-");
    let text = text_or_stdin(text)?;
    if text.is_empty() && !is_given {
        return Err(Failure::no("empty_input", "standard input is empty; nothing was changed")
            .note("give the text on the command line; \"\" makes the message empty"));
    }
    Ok(text)
}

/// Reads the maximum length of a listing; 0 means no limit. Clap prints the error.
pub(crate) fn limit(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Ok(usize::MAX),
        Ok(limit) => Ok(limit),
        Err(_) => Err("it is a number, or 0 for all".to_owned()),
    }
}

/// Reads a lower bound of a listing: a time, a day (its first moment, UTC), or a duration before
/// now. Clap prints the error.
pub(crate) fn since(text: &str) -> Result<i64, String> {
    moment(text, DayEdge::Start)
}

/// Reads an upper bound of a listing, as [`since`] does; a day means its last moment, UTC.
pub(crate) fn until(text: &str) -> Result<i64, String> {
    moment(text, DayEdge::End)
}

/// Reads an age: a duration, or the time since a moment (a day means its first one, UTC). Clap prints
/// the error.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    age_at(text, SystemClock.now_us())
}

fn age_at(text: &str, now_us: i64) -> Result<Duration, String> {
    if let Ok(duration) = parse_duration(text.trim()) {
        return Ok(duration);
    }
    let moment = parse_time(text, now_us, DayEdge::Start).map_err(|error| error.to_string())?;
    let micros = now_us.saturating_sub(moment);
    let micros = u64::try_from(micros).map_err(|_| format!("{text:?} is in the future"))?;
    // The command starts a little later, and the moment must not be left out then.
    Ok(Duration::from_micros(micros) + Duration::from_secs(1))
}

fn moment(text: &str, day: DayEdge) -> Result<i64, String> {
    parse_time(text, SystemClock.now_us(), day).map_err(|error| error.to_string())
}

/// Reads a JSON value of a flag. Clap prints the error.
pub(crate) fn json_value(text: &str) -> Result<tract::JsonText, String> {
    tract::JsonText::new(text).map_err(|error| error.to_string())
}

/// Reads `KEY=JSON`. A value that is not JSON is taken as text, so that `--set model=gpt-5` works.
/// Clap prints the error.
pub(crate) fn key_value(text: &str) -> Result<(String, tract::JsonText), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=JSON")?;
    let looks_like_json = value.starts_with(['{', '[', '"', '-'])
        || value.starts_with(|first: char| first.is_ascii_digit())
        || matches!(value, "true" | "false" | "null");
    let json = match (tract::JsonText::new(value), looks_like_json) {
        (Ok(json), _) => json,
        (Err(error), true) => return Err(format!("{value:?} is no JSON: {error}")),
        (Err(_), false) => tract::JsonText::of(value).map_err(|error| error.to_string())?,
    };
    Ok((key.to_owned(), json))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(bytes: &[u8]) -> Vec<(usize, String)> {
        let mut documents =
            Documents::new(Box::new(std::io::Cursor::new(bytes.to_vec()))).expect("it reads");
        std::iter::from_fn(|| documents.next().expect("it reads"))
            .map(|document| (document.line, document.text.trim().to_owned()))
            .collect()
    }

    #[test]
    fn a_file_is_lines_or_one_document() {
        let ok = |line, text: &str| (line, text.to_owned());
        assert_eq!(documents(b"{}\n\n[1]"), [ok(1, "{}"), ok(3, "[1]")]);
        assert_eq!(documents(b"\n{\n\"a\": 1\n}\n"), [ok(2, "{\n\"a\": 1\n}")]);
        assert_eq!(documents(b"{oops\n{}\n"), [ok(1, "{oops"), ok(2, "{}")]);
        assert_eq!(
            documents(b"{\"a\":\"\xff\"}\n{}"),
            [ok(1, "{\"a\":\"\u{fffd}\"}"), ok(2, "{}")]
        );
        assert_eq!(documents(b" \n"), []);
    }

    #[test]
    fn an_age_is_a_duration_or_the_time_since_a_moment() {
        // 1970-01-11
        let now = 10 * 86_400_000_000;
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let second = Duration::from_secs(1);
        assert_eq!(age_at("7d", now), Ok(days(7)));
        assert_eq!(age_at("0s", now), Ok(Duration::ZERO));
        assert_eq!(age_at("1970-01-08", now), Ok(days(3) + second));
        assert_eq!(age_at("1970-01-08 12:00", now), Ok(days(3) - days(1) / 2 + second));
        assert!(age_at("1970-01-12", now).is_err_and(|why| why.contains("in the future")));
        assert!(age_at("some day", now).is_err());
    }

    #[test]
    fn values_are_json_or_plain_words() {
        let value = |text: &str| key_value(text).map(|(key, json)| format!("{key} {json}"));
        assert_eq!(value("model=gpt-5.5").as_deref(), Ok("model \"gpt-5.5\""));
        assert_eq!(value("max_tokens=1024").as_deref(), Ok("max_tokens 1024"));
        assert_eq!(value("stop=[\"a\"]").as_deref(), Ok("stop [\"a\"]"));
        assert_eq!(value("a=b=c").as_deref(), Ok("a \"b=c\""));
        assert!(value("stop=[a").is_err_and(|why| why.contains("no JSON")));
        assert!(value("model").is_err_and(|why| why.contains("KEY=JSON")));
    }
}
