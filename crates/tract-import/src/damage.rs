//! Damaged lines, and the intact records that they contain.

use std::io;

use serde::de::IgnoredAny;
use tract_core::json::{self, DecodedText};

use crate::misfits;
use crate::object::Object;
use crate::report::AnomalyKind;
use crate::values::has_members;

/// Maximum number of times that the bytes of a line are read in search of records.
const MAX_PASSES: usize = 16;

/// The records of a damaged line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered<'a> {
    pub(crate) records: Vec<&'a str>,
    /// Number of bytes outside of records.
    pub(crate) lost: usize,
    /// Whether the file ends within the last record.
    pub(crate) is_torn: bool,
}

impl Recovered<'_> {
    /// Describes the damage.
    pub(crate) fn describe(&self) -> String {
        let records = match self.records.len() {
            0 => "no record in the line".to_owned(),
            1 => "1 record in the line".to_owned(),
            count => format!("{count} records in one line"),
        };
        match self.lost {
            0 => records,
            lost => format!("{records}, {lost} bytes that are part of none"),
        }
    }
}

/// Finds the intact records of a line that is not one record: two records in one line, or one after
/// a record that breaks off. After damage, only an object that `is_record` accepts is used, and
/// only if it ends where the line ends or another object starts: a value inside a broken record is
/// not a record. `ended` is whether the line is complete; otherwise the tool may still be writing
/// it.
///
/// # Complexity
/// Linear in the length of the line.
pub(crate) fn recover(text: &str, ended: bool, is_record: impl Fn(&str) -> bool) -> Recovered<'_> {
    let mut recovered = Recovered::default();
    let mut budget = text.len().saturating_mul(MAX_PASSES);
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if rest.starts_with('{') {
            match value_end(rest, &mut budget) {
                Ok(end) => {
                    let (record, after) = rest.split_at(end);
                    recovered.records.push(record);
                    rest = after.trim_start();
                    continue;
                }
                Err(is_eof) if is_eof && !ended => {
                    recovered.is_torn = true;
                    return recovered;
                }
                Err(_) => {}
            }
        }
        let next = next_element(rest, &mut budget, &is_record)
            .or_else(|| next_record(rest, &mut budget, &is_record));
        recovered.lost += next.unwrap_or(rest.len());
        rest = next.and_then(|next| rest.get(next..)).unwrap_or_default();
    }
    recovered
}

/// Returns the end of the value at the start of a text; otherwise, whether the text ends too early.
fn value_end(text: &str, budget: &mut usize) -> Result<usize, bool> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let value = values.next();
    let read = values.byte_offset();
    match value {
        Some(Ok(_)) => {
            *budget = budget.saturating_sub(read);
            Ok(read)
        }
        Some(Err(error)) => {
            // Lines contain no line ends, so the column is the number of bytes read.
            *budget = budget.saturating_sub(error.column());
            Err(error.is_eof())
        }
        None => Err(true),
    }
}

/// Returns the start of the record after the brackets and commas that a text begins with, as in
/// a file whose lines were made a list.
fn next_element(text: &str, budget: &mut usize, is_record: impl Fn(&str) -> bool) -> Option<usize> {
    let element = text.trim_start_matches(|c: char| matches!(c, '[' | ',') || c.is_whitespace());
    let at = text.len().checked_sub(element.len()).filter(|at| *at > 0)?;
    if !element.starts_with('{') {
        return None;
    }
    let end = value_end(element, budget).ok()?;
    element.get(..end).is_some_and(is_record).then_some(at)
}

/// Returns the start of the next record after the first byte of a text.
fn next_record(text: &str, budget: &mut usize, is_record: impl Fn(&str) -> bool) -> Option<usize> {
    let starts = text.match_indices("{\"").map(|(at, _)| at).filter(|at| *at > 0);
    for at in starts {
        if *budget == 0 {
            return None;
        }
        let candidate = text.get(at..)?;
        let Ok(end) = value_end(candidate, budget) else { continue };
        let (record, after) = candidate.split_at(end);
        let after = after.trim_start();
        // An object within a record is followed by a comma or a bracket; a record of its own by
        // another one or by the end.
        if (after.is_empty() || after.starts_with('{')) && is_record(record) {
            return Some(at);
        }
    }
    None
}

/// Finds the requests and conversations of a line that is not one JSON value, such as two records
/// without a line end between them, and describes the damage. `None` if no record is found.
///
/// # Complexity
/// Linear in the length of the line.
///
/// ```
/// # use tract_import::records_of_line;
/// let (records, damage) = records_of_line(r#"{"messages":[]} {"messages":[1]} {"mess"#).unwrap();
/// assert_eq!(records, [r#"{"messages":[]}"#, r#"{"messages":[1]}"#]);
/// assert_eq!(damage, "2 records in one line, 6 bytes that are part of none");
/// ```
pub fn records_of_line(line: &str) -> Option<(Vec<&str>, String)> {
    const MEMBERS: [&str; 5] = ["messages", "request", "contents", "input", "conversations"];
    let is_record = |text: &str| MEMBERS.iter().any(|member| has_members(text, &[member]));
    let recovered = recover(line.trim_end(), true, is_record);
    let is_whole = recovered.records.len() == 1 && recovered.lost == 0;
    let has_record = !recovered.records.is_empty() && !is_whole;
    has_record.then(|| (recovered.records.clone(), recovered.describe()))
}

/// The rules of a format for its lines.
pub(crate) struct LineRules<T> {
    /// Reads a record.
    pub(crate) line: fn(&mut T, usize, &[u8]) -> Result<(), serde_json::Error>,
    /// Records an anomaly of a line.
    pub(crate) odd: fn(&mut T, usize, AnomalyKind, String),
    /// Returns whether an object is a record, by its members.
    pub(crate) is_record: fn(&str) -> bool,
}

/// Reads a line. Damaged characters are replaced, and of a damaged line the intact records are
/// read. Both are reported.
pub(crate) fn read_line<T>(
    reader: &mut T,
    number: usize,
    bytes: &[u8],
    ended: bool,
    rules: LineRules<T>,
) {
    let LineRules { line, odd, is_record } = rules;
    // A character that the file ends within is not damage: the tool may still be writing it.
    let bytes = match std::str::from_utf8(bytes) {
        Err(error) if !ended && error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        _ => bytes,
    };
    let decoded = json::decode(bytes);
    for (kind, what) in replacements(&decoded) {
        odd(reader, number, kind, what);
    }
    let text: &str = &decoded.text;
    if text.trim().is_empty() {
        return;
    }
    let read = |reader: &mut T, text: &str| {
        let without = last_of_repeated(text);
        let text = without.as_ref().map_or(text, |(text, _)| text.as_str());
        let (read, misfits) = misfits::watch(text, || line(reader, number, text.as_bytes()));
        if read.is_ok() {
            let repeated = without.iter().map(|(_, what)| (AnomalyKind::DamagedLine, what.clone()));
            let unread =
                misfits.into_iter().map(|(_, what)| (AnomalyKind::UnreadableMessage, what));
            repeated.chain(unread).for_each(|(kind, what)| odd(reader, number, kind, what));
        }
        read
    };
    let Err(error) = read(reader, text) else { return };
    let recovered = recover(text, ended, is_record);
    let is_whole = recovered.records.len() == 1 && recovered.lost == 0 && !recovered.is_torn;
    if recovered.records.is_empty() || is_whole {
        let (kind, what) = problem(&error, ended);
        return odd(reader, number, kind, what);
    }
    for record in &recovered.records {
        if let Err(error) = read(reader, record) {
            let (kind, what) = problem(&error, true);
            odd(reader, number, kind, what);
        }
    }
    odd(reader, number, AnomalyKind::DamagedLine, recovered.describe());
    if recovered.is_torn {
        odd(reader, number, AnomalyKind::TornLine, TORN.to_owned());
    }
}

/// Returns a JSON text in which the last of repeated members counts, as most programs read it, and
/// names them. `None` without repeated members. Otherwise it would depend on the reader which one
/// counts, and whether the message is read.
pub(crate) fn last_of_repeated(text: &str) -> Option<(String, String)> {
    const LISTED: usize = 3;
    let last = json::without_repeated_keys(text)?;
    let (mut names, mut count) = (Vec::new(), 0_usize);
    // A text that is not JSON has no repeated keys.
    let _ = json::repeated_keys(text, |at, key| {
        count += 1;
        if names.len() < LISTED {
            let separator = if at.is_empty() { "" } else { "." };
            names.push(format!("{:?}", format!("{at}{separator}{key}")));
        }
    });
    let more = match count.saturating_sub(names.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let verb = if count == 1 { "member is" } else { "members are" };
    let names = names.join(", ");
    Some((last, format!("{verb} there twice, the last one counts: {names}{more}")))
}

/// Returns a text in which the last of repeated members counts: a document, or documents on lines, also
/// several on one line. Describes the repetitions, each with its line. `None` if there are none.
pub(crate) fn last_of_repeated_in_lines(text: &str) -> Option<(String, Vec<(usize, String)>)> {
    if let Some((text, what)) = last_of_repeated(text) {
        return Some((text, vec![(1, what)]));
    }
    if serde_json::from_str::<IgnoredAny>(text).is_ok() {
        return None;
    }
    let mut damage = Vec::new();
    let mut lines = String::with_capacity(text.len());
    for (n, line) in text.split_inclusive('\n').enumerate() {
        let (mut rest, mut budget) = (line, usize::MAX);
        while let Ok(end) = value_end(rest, &mut budget) {
            let Some((value, after)) = rest.split_at_checked(end) else { break };
            match last_of_repeated(value) {
                Some((value, what)) => {
                    lines.push_str(&value);
                    damage.push((n + 1, what));
                }
                None => lines.push_str(value),
            }
            rest = after;
        }
        lines.push_str(rest);
    }
    (!damage.is_empty()).then_some((lines, damage))
}

/// Reads an object that a recording has in a text of its own, such as a row of a database. Reports
/// its repeated members, and its members of an unexpected type with their paths below `path`. A text
/// that is not an object is read as an empty one, and reported.
pub(crate) fn read_object<T>(
    path: &str,
    text: &str,
    read: impl FnOnce(&Object<'_>) -> T,
) -> (T, Vec<(AnomalyKind, String)>) {
    let without = last_of_repeated(text);
    let text = without.as_ref().map_or(text, |(text, _)| text.as_str());
    let members = Object::parse(text);
    let other = members.is_none().then(|| format!("{path}: not an object in JSON"));
    let (value, misfits) = misfits::watch_within(path, text, || read(&members.unwrap_or_default()));
    let repeated = without.iter().map(|(_, what)| (AnomalyKind::DamagedLine, what.clone()));
    let unread = other.into_iter().chain(misfits.into_iter().map(|(_, what)| what));
    let unread = unread.map(|what| (AnomalyKind::UnreadableMessage, what));
    (value, repeated.chain(unread).collect())
}

const TORN: &str = "the file ends in the middle of a line";

/// Describes the error of a line. serde's own message may quote the line.
fn problem(error: &serde_json::Error, ended: bool) -> (AnomalyKind, String) {
    if !ended && error.is_eof() {
        return (AnomalyKind::TornLine, TORN.to_owned());
    }
    (AnomalyKind::UnreadableLine, format!("no line of the format: column {}", error.column()))
}

/// Lists the places in a text that were replaced, each with its member.
pub(crate) fn replacements(decoded: &DecodedText<'_>) -> Vec<(AnomalyKind, String)> {
    let mut what: Vec<String> = decoded.replaced.iter().map(ToString::to_string).collect();
    if decoded.count > what.len() {
        what.push(format!("{} more places were replaced", decoded.count - what.len()));
    }
    what.into_iter().map(|what| (AnomalyKind::ReplacedText, what)).collect()
}

/// Decodes bytes of JSON and adds the replacements to `damage`.
pub(crate) fn decode_noting(bytes: &[u8], damage: &mut Vec<(AnomalyKind, String)>) -> String {
    let decoded = json::decode(bytes);
    damage.extend(replacements(&decoded));
    decoded.text.into_owned()
}

/// Rejects a file in UTF-16 or UTF-32, as Windows programs and spreadsheets write it, by its first
/// bytes.
///
/// # Errors
/// When the file is in UTF-16 or UTF-32; with the encoding and a remedy.
pub fn reject_other_encodings(start: &[u8]) -> io::Result<()> {
    let Some(Encoding { name, iconv, .. }) = encoding_of(start) else { return Ok(()) };
    let remedy = format!("convert it, such as with `iconv -f {iconv} -t UTF-8`");
    let what = format!("the file is {name}, not UTF-8: {remedy}");
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// An encoding of JSON other than UTF-8.
struct Encoding {
    name: &'static str,
    /// Its name for the program `iconv`.
    iconv: &'static str,
    units: Units,
}

/// Joins the bytes of one unit.
enum Units {
    Two(fn([u8; 2]) -> u16),
    Four(fn([u8; 4]) -> u32),
}

/// Returns the encoding in which a file begins, if it is not UTF-8.
fn encoding_of(start: &[u8]) -> Option<Encoding> {
    let of = |name, iconv, units| Some(Encoding { name, iconv, units });
    // The byte order mark of UTF-16 is the beginning of the one of UTF-32, which is tried first.
    match start {
        [0xff, 0xfe, 0, 0, ..] => {
            of("UTF-32 (little endian)", "UTF-32", Units::Four(u32::from_le_bytes))
        }
        [0, 0, 0xfe, 0xff, ..] => {
            of("UTF-32 (big endian)", "UTF-32", Units::Four(u32::from_be_bytes))
        }
        [b'{' | b'[', 0, 0, 0, ..] => {
            let name = "UTF-32 (little endian) without a byte order mark";
            of(name, "UTF-32LE", Units::Four(u32::from_le_bytes))
        }
        [0, 0, 0, b'{' | b'[', ..] => {
            let name = "UTF-32 (big endian) without a byte order mark";
            of(name, "UTF-32BE", Units::Four(u32::from_be_bytes))
        }
        [0xff, 0xfe, ..] => of("UTF-16 (little endian)", "UTF-16", Units::Two(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => of("UTF-16 (big endian)", "UTF-16", Units::Two(u16::from_be_bytes)),
        [b'{' | b'[', 0, ..] => {
            let name = "UTF-16 (little endian) without a byte order mark";
            of(name, "UTF-16LE", Units::Two(u16::from_le_bytes))
        }
        [0, b'{' | b'[', ..] => {
            let name = "UTF-16 (big endian) without a byte order mark";
            of(name, "UTF-16BE", Units::Two(u16::from_be_bytes))
        }
        _ => None,
    }
}

/// Converts a small document of JSON from UTF-16 or UTF-32 to UTF-8. Other bytes are returned
/// unchanged. An unpaired surrogate, or a unit that is not a character, becomes an escape, which is
/// reported when the text is decoded.
pub(crate) fn utf8_of(bytes: Vec<u8>) -> Vec<u8> {
    let Some(Encoding { units, .. }) = encoding_of(&bytes) else { return bytes };
    let mut text = String::with_capacity(bytes.len() / 2);
    match units {
        Units::Two(join) => {
            let (units, _) = bytes.as_chunks::<2>();
            let units = units.iter().map(|pair| join(*pair)).skip_while(|unit| *unit == 0xfeff);
            for decoded in char::decode_utf16(units) {
                match decoded {
                    Ok(letter) => text.push(letter),
                    Err(error) => {
                        text.push_str(&format!("\\u{:04x}", error.unpaired_surrogate()));
                    }
                }
            }
        }
        Units::Four(join) => {
            let (units, _) = bytes.as_chunks::<4>();
            let units = units.iter().map(|unit| join(*unit)).skip_while(|unit| *unit == 0xfeff);
            for unit in units {
                match char::from_u32(unit) {
                    Some(letter) => text.push(letter),
                    None => text.push_str("\\ud800"),
                }
            }
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_record(text: &str) -> bool {
        text.contains("\"id\"")
    }

    #[test]
    fn documents_in_utf16_are_converted() {
        let text = "{\"a\":\"ö 🪢\"}";
        let units: Vec<u16> = text.encode_utf16().collect();
        for mark in [&[][..], &[0xfeff]] {
            let units = || mark.iter().chain(&units);
            let little: Vec<u8> = units().flat_map(|unit| unit.to_le_bytes()).collect();
            let big: Vec<u8> = units().flat_map(|unit| unit.to_be_bytes()).collect();
            assert_eq!(utf8_of(little), text.as_bytes());
            assert_eq!(utf8_of(big), text.as_bytes());
        }
        assert_eq!(utf8_of(text.as_bytes().to_vec()), text.as_bytes());
        let half = b"\xff\xfe\"\x00\x3c\xd8\"\x00".to_vec();
        assert_eq!(utf8_of(half), b"\"\\ud83c\"");
    }

    #[track_caller]
    fn check(text: &str, ended: bool, records: &[&str], lost: usize, is_torn: bool) {
        let expected = Recovered { records: records.to_vec(), lost, is_torn };
        assert_eq!(recover(text, ended, is_record), expected, "{text}");
    }

    #[test]
    fn whole_records_are_found_in_a_damaged_line() {
        let (a, b) = (r#"{"id":1,"x":{"n":2}}"#, r#"{"id":3}"#);
        check(&format!("{a}{b}"), true, &[a, b], 0, false);
        check(&format!("  {a} {b}"), true, &[a, b], 0, false);
        check(&format!("xx{a}"), true, &[a], 2, false);
        check(&format!("{}{b}", &a[..15]), true, &[b], 15, false);
        check(&format!(r#"{{"id":1,"t":"cut of{b}{a}"#), true, &[b, a], 19, false);
        // The lines of a list.
        check(&format!("[{a},"), true, &[a], 2, false);
        check(&format!("[{a}, {b}]"), true, &[a, b], 4, false);
        check(r#"[{"x":1},"#, true, &[], 9, false);
        // A value within a record that breaks off is not a record.
        check(&a[..19], true, &[], 19, false);
        check(r#"{"id":1,"x":{"id":2},"y""#, true, &[], 24, false);
        check(&format!("{a}{}", &b[..4]), false, &[a], 0, true);
        check(&format!("{a}{}", &b[..4]), true, &[a], 4, false);
    }

    #[test]
    fn a_line_made_of_beginnings_costs_a_bounded_time() {
        let text = r#"{"a":["#.repeat(200_000);
        assert_eq!(recover(&text, true, is_record).records.len(), 0);
    }

    #[test]
    fn utf_16_is_rejected_by_name() {
        for start in [&b"\xff\xfe{\0"[..], b"\xfe\xff\0{", b"{\0\"\0", b"\0[\0\""] {
            let error = reject_other_encodings(start).expect_err("it is UTF-16").to_string();
            assert!(error.contains("UTF-16") && error.contains("iconv"), "{error}");
        }
        assert!(
            reject_other_encodings(b"\xef\xbb\xbf{}").is_ok()
                && reject_other_encodings(b"\0\0{}").is_ok()
        );
    }

    #[test]
    fn utf_32_is_rejected_by_its_own_name() {
        let starts = [&b"\xff\xfe\0\0{\0\0\0"[..], b"\0\0\xfe\xff\0\0\0{", b"{\0\0\0", b"\0\0\0["];
        for start in starts {
            let error = reject_other_encodings(start).expect_err("it is UTF-32").to_string();
            assert!(error.contains("UTF-32") && error.contains("iconv -f UTF-32"), "{error}");
        }
        let text = r#"{"a":"é😀"}"#;
        for (mark, order) in [(true, true), (true, false), (false, true), (false, false)] {
            let letters = mark.then_some('\u{feff}').into_iter().chain(text.chars());
            let unit = |letter| match order {
                true => u32::from(letter).to_le_bytes(),
                false => u32::from(letter).to_be_bytes(),
            };
            let bytes: Vec<u8> = letters.flat_map(unit).collect();
            assert_eq!(utf8_of(bytes), text.as_bytes());
        }
    }
}
