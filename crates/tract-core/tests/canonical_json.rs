//! Canonical JSON against CPython: a recorded table, a live comparison, and properties.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use proptest::prelude::*;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tract_core::json::{
    self, Escapes, JsonError, canonical, canonical_bytes, check, equal, is_canonical, split_array,
    split_object, write_f64, write_string,
};

const RULES: [Escapes; 2] = [Escapes::Ascii, Escapes::Raw];

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file)
}

/// A line of `canonical.jsonl`; `make_canonical.py` says what the fields mean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Golden {
    name: String,
    text: Option<String>,
    base64: Option<String>,
    ascii_sha256: Option<String>,
    raw_sha256: Option<String>,
    refused: Option<String>,
}

impl Golden {
    fn table() -> Vec<Self> {
        let table = std::fs::read_to_string(golden("canonical.jsonl")).expect("the table is there");
        assert!(table.is_ascii());
        table.lines().map(|line| serde_json::from_str(line).expect("a line of the table")).collect()
    }

    fn document(&self) -> Vec<u8> {
        match (&self.text, &self.base64) {
            (Some(text), None) => text.clone().into_bytes(),
            (None, Some(text)) => BASE64_STANDARD.decode(text).expect("base64"),
            _ => panic!("{}: expected either text or base64", self.name),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

fn reason(error: &JsonError) -> &'static str {
    match error {
        JsonError::Syntax { .. } => "syntax",
        JsonError::InvalidUtf8 { .. } => "utf8",
        JsonError::LoneSurrogate { .. } => "surrogate",
        JsonError::NotFinite { .. } => "not_finite",
        JsonError::TooDeep { .. } => "depth",
        other => panic!("unexpected error: {other}"),
    }
}

#[test]
fn golden_table() {
    let table = Golden::table();
    assert!(table.len() >= 600);
    for line in table {
        let document = line.document();
        let digest = |escapes| {
            let text = canonical_bytes(&document, escapes);
            text.map(|text| hex(&Sha256::digest(text))).map_err(|error| reason(&error).to_owned())
        };
        let expected = |digest: Option<String>| match (&line.refused, digest) {
            (Some(reason), None) => Err(reason.clone()),
            (None, Some(digest)) => Ok(digest),
            _ => panic!("{}: expected either digests or a reason", line.name),
        };
        let expected = (expected(line.ascii_sha256.clone()), expected(line.raw_sha256.clone()));
        assert_eq!((digest(Escapes::Ascii), digest(Escapes::Raw)), expected, "{}", line.name);
        if let Ok(text) = std::str::from_utf8(&document) {
            let checked = check(text).map_err(|error| reason(&error).to_owned());
            assert_eq!(checked.err(), expected.0.err(), "{}", line.name);
        }
    }
}

/// Documents by the thousand, of which Python says what they are.
#[test]
fn python_agrees() {
    let mut documents = generated_documents(4000);
    let table: Vec<_> = Golden::table().iter().map(Golden::document).collect();
    let mut random = Random(7);
    for document in table.iter().filter(|document| document.len() < 3000).cycle().take(4000) {
        documents.push(mutated(document, &mut random));
    }
    let Some(answers) = ask_python(&documents) else { return };
    assert_eq!(answers.len(), documents.len());
    let mut refused = 0;
    for (document, answer) in documents.iter().zip(&answers) {
        if let Some(reason) = answer.strip_prefix("refused ") {
            refused += 1;
            let ours = RULES.map(|escapes| canonical_bytes(document, escapes));
            let shown = String::from_utf8_lossy(document);
            assert!(ours.iter().all(Result::is_err), "Python: {reason}, for {shown}");
        } else {
            check_alike(document, answer);
        }
    }
    assert!((500..documents.len() - 4000).contains(&refused), "{refused} documents were refused");
}

/// Every tool and message of the recordings, where they are: Python writes them alike.
#[test]
fn python_agrees_on_recordings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = std::env::var_os("TRACT_DATA").map_or(root.join("../shared/data"), PathBuf::from);
    let data = if data.is_dir() { data } else { root.join("tests/data") };
    let mut documents = Vec::new();
    for file in std::fs::read_dir(data.join("trajectories")).expect("a folder") {
        let text = std::fs::read_to_string(file.expect("a file").path()).expect("text");
        for (_, list) in text.lines().flat_map(|line| split_object(line).expect("an object")) {
            let items = if list.starts_with('[') { split_array(list) } else { Ok(Vec::new()) };
            documents
                .extend(items.expect("a list").into_iter().map(|item| item.as_bytes().to_vec()));
        }
    }
    assert!(documents.len() > 100, "{} documents", documents.len());
    let Some(answers) = ask_python(&documents) else { return };
    for (document, answer) in documents.iter().zip(&answers) {
        check_alike(document, answer);
    }
    println!("{} documents", documents.len());
}

/// Compares the canonical texts of a document with those that Python answered.
fn check_alike(document: &[u8], answer: &str) {
    let (ascii, raw) = answer.split_once(' ').expect("two texts");
    for (escapes, python) in RULES.into_iter().zip([ascii, raw]) {
        let ours = canonical_bytes(document, escapes);
        let python = String::from_utf8(unhex(python)).expect("UTF-8");
        let shown = String::from_utf8_lossy(document);
        assert_eq!(ours.as_deref(), Ok(python.as_str()), "for {shown}");
    }
}

/// `None` when there is no Python, which is an error where `CI` is set.
fn ask_python(documents: &[Vec<u8>]) -> Option<Vec<String>> {
    let child = Command::new("python3")
        .arg(golden("make_canonical.py"))
        .arg("--answer")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            assert!(std::env::var_os("CI").is_none(), "python3 is needed here");
            println!("left out: there is no python3 to compare with");
            return None;
        }
        Err(error) => panic!("python3: {error}"),
    };
    let mut stdin = child.stdin.take().expect("piped");
    let stdout = child.stdout.take().expect("piped");
    let answers = std::thread::scope(|scope| {
        scope.spawn(move || {
            for document in documents {
                writeln!(stdin, "{}", hex(document)).expect("Python reads every document");
            }
        });
        BufReader::new(stdout).lines().collect::<io::Result<_>>().expect("lines of text")
    });
    assert!(child.wait().expect("Python ends").success());
    Some(answers)
}

/// SplitMix64: the same documents in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn digits(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(b'0' + self.below(10) as u8)).collect()
    }

    fn number(&mut self) -> String {
        let sign = self.pick(&["", "", "-"]);
        match self.below(8) {
            0 => format!("{sign}{}", self.next() >> self.below(64)),
            1 => {
                let count = self.below(60);
                format!("{sign}{}{}", 1 + self.below(9), self.digits(count))
            }
            // Every double there is, in enough digits, too many, or too few.
            2 => self.finite(|value| format!("{value:e}")),
            3 => self.finite(|value| format!("{value:.20e}")),
            4 => self.finite(|value| format!("{value:.15e}")),
            // Around the places where the exponent comes and goes.
            5 => {
                let exponent = self.below(48) as i32 - 24;
                let count = 1 + self.below(20);
                format!("{sign}{}.{}e{exponent}", self.below(10), self.digits(count))
            }
            6 => {
                let (zeros, count) = (self.below(8), 1 + self.below(18));
                format!("{sign}0.{}{}", "0".repeat(zeros), self.digits(count))
            }
            _ => {
                let (whole, count) = (self.below(20), 1 + self.below(5));
                let letter = self.pick(&["e", "E", "e+", "E+", "e-", "E-"]);
                let (whole, fraction) = (self.digits(whole), self.digits(count));
                format!("{sign}1{whole}.{fraction}{letter}{}", self.below(330))
            }
        }
    }

    fn finite(&mut self, format: impl Fn(f64) -> String) -> String {
        loop {
            let value = match self.below(6) {
                0 => f64::from_bits(self.next() >> 12),
                1 => 2_f64.powi(self.below(2000) as i32 - 1000),
                // Few bits, far apart: often in the middle between two shortest forms.
                2 | 3 => {
                    let exponent = self.below(90) as i32 - 35;
                    let odd = (2 * self.below(500) + 1) as f64;
                    2_f64.powi(exponent) + odd * 2_f64.powi(exponent - 10 - self.below(43) as i32)
                }
                _ => f64::from_bits(self.next()),
            };
            if value.is_finite() {
                return format(value);
            }
        }
    }

    fn string(&mut self) -> String {
        let mut text = String::from('"');
        for _ in 0..self.below(12) {
            match self.below(7) {
                0 => text.push_str(self.pick(&[
                    "\\n", "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\r", "\\t", "/", "\\u0000",
                ])),
                1 => text.push_str(&format!("\\u{:04x}", self.next() % 0xd800)),
                2 => text.push_str(&format!("\\u{:04X}", 0xe000 + self.next() % 0x2000)),
                3 => {
                    let (high, low) = (self.next() % 0x400, self.next() % 0x400);
                    text.push_str(&format!("\\ud{:03x}\\uD{:03X}", 0x800 + high, 0xc00 + low));
                }
                4 => text.extend(char::from_u32(0x7f + (self.next() % 0x11_0000) as u32)),
                5 => text.push_str(self.pick(&["\u{7f}", "é", "中", "\u{2028}", "😀", "e\u{301}"])),
                _ => {
                    text.push_str(self.pick(&["a", "b", "plain text", " ", "key", "0", "~", "{["]))
                }
            }
        }
        text.push('"');
        text
    }

    fn space(&mut self) -> &'static str {
        self.pick(&["", "", "", " ", "\n  ", "\t", "\r\n"])
    }

    fn value(&mut self, depth: usize) -> String {
        let kind = self.below(if depth == 0 { 5 } else { 9 });
        match kind {
            0..=1 => self.number(),
            2..=3 => self.string(),
            4 => self.pick(&["null", "true", "false", "0", "-0", "-0.0"]).to_owned(),
            5..=6 => {
                let items: Vec<_> = (0..self.below(6))
                    .map(|_| format!("{}{}{}", self.space(), self.value(depth - 1), self.space()))
                    .collect();
                format!("[{}]", items.join(","))
            }
            _ => {
                let mut members = Vec::new();
                let mut key = self.string();
                for _ in 0..self.below(8) {
                    if self.below(8) > 0 {
                        key = self.string();
                    }
                    let value = self.value(depth - 1);
                    let [a, b, c, d] = [0; 4].map(|_| self.space());
                    members.push(format!("{a}{key}{b}:{c}{value}{d}"));
                }
                format!("{{{}}}", members.join(","))
            }
        }
    }
}

fn generated_documents(count: usize) -> Vec<Vec<u8>> {
    let mut random = Random(1);
    (0..count)
        .map(|_| {
            let depth = random.below(6);
            random.value(depth).into_bytes()
        })
        .collect()
}

/// A few bytes replaced, dropped, doubled or put in: mostly wrong, sometimes still right.
fn mutated(document: &[u8], random: &mut Random) -> Vec<u8> {
    const BYTES: &[u8] = b"\"\\/{}[]:,0123456789eE+-. \n\tunlrtfsa\x00\x7f\xc3\xa9\xff";
    let mut document = document.to_vec();
    for _ in 0..=random.below(3) {
        let byte = BYTES[random.below(BYTES.len())];
        let at = random.below(document.len() + 1);
        match random.below(4) {
            0 => document.insert(at, byte),
            1 if at < document.len() => document[at] = byte,
            2 if at < document.len() => drop(document.remove(at)),
            _ => {
                let end = (at + random.below(20)).min(document.len());
                document.extend_from_within(at..end);
            }
        }
    }
    document
}

/// A document as a tree, so that it can be written in several ways.
#[derive(Clone, Debug)]
enum Tree {
    Scalar(String),
    Array(Vec<Tree>),
    /// The keys differ. The number says in which order they are written.
    Object(Vec<(String, Tree)>, usize),
}

impl Tree {
    fn write(&self, shuffled: bool, space: &str) -> String {
        match self {
            Self::Scalar(text) => text.clone(),
            Self::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| item.write(shuffled, space)).collect();
                format!("[{space}{}]", items.join(&format!("{space},")))
            }
            Self::Object(members, turn) => {
                let mut members: Vec<_> = members
                    .iter()
                    .map(|(key, value)| {
                        let mut member = String::new();
                        write_string(&mut member, key, RULES[usize::from(shuffled)]);
                        format!("{member}{space}:{}", value.write(shuffled, space))
                    })
                    .collect();
                if shuffled && !members.is_empty() {
                    let turn = turn % members.len();
                    members.rotate_left(turn);
                    members[turn..].reverse();
                }
                format!("{{{}{space}}}", members.join(&format!(",{space}")))
            }
        }
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        "-?(0|[1-9][0-9]{0,30})",
        "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,20}([eE][+-]?[0-9]{1,2})?",
        "\"([^\"\\\\\\x00-\\x1f]|\\\\[bfnrt/\"\\\\]|\\\\u[0-9a-cA-C][0-9a-fA-F]{3})*\"",
    ];
    scalar.prop_map(Tree::Scalar).prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Tree::Array),
            (
                prop::collection::btree_map("[a-d\"\\\\é\u{1f600}\u{ffff}\n]{0,4}", inner, 0..8),
                0..8_usize
            )
                .prop_map(|(members, turn)| Tree::Object(members.into_iter().collect(), turn)),
        ]
    })
}

/// What has to hold for any text at all.
fn check_any(text: &str) {
    let checked = check(text);
    for escapes in RULES {
        let canonical = canonical(text, escapes);
        assert_eq!(canonical.as_ref().err(), checked.as_ref().err());
        let Ok(canonical) = canonical else { continue };
        assert!(is_canonical(&canonical, escapes), "not its own canonical form: {canonical}");
        assert_eq!(is_canonical(text, escapes), canonical == text);
        assert!(escapes == Escapes::Raw || canonical.is_ascii());
    }
    match split_object(text) {
        Ok(members) => {
            let mut joined = String::from("{");
            for (number, (key, value)) in members.iter().enumerate() {
                joined.push_str(if number == 0 { "" } else { "," });
                write_string(&mut joined, key, Escapes::Raw);
                joined.push(':');
                joined.push_str(value);
            }
            joined.push('}');
            assert_eq!(equal(&joined, text), Ok(true));
        }
        Err(JsonError::Syntax { expected: "an object", .. }) => {}
        Err(error) => assert_eq!(Err(error), checked),
    }
    match split_array(text) {
        Ok(elements) => assert_eq!(equal(&format!("[{}]", elements.join(",")), text), Ok(true)),
        Err(JsonError::Syntax { expected: "an array", .. }) => {}
        Err(error) => assert_eq!(Err(error), checked),
    }
}

proptest! {
    #[test]
    fn canonical_is_idempotent(tree in tree()) {
        let text = tree.write(false, " ");
        prop_assert_eq!(check(&text), Ok(()));
        check_any(&text);
        let ascii = canonical(&text, Escapes::Ascii).unwrap();
        prop_assert_eq!(canonical(&ascii, Escapes::Raw), canonical(&text, Escapes::Raw));
    }

    #[test]
    fn key_order_and_space_do_not_matter(tree in tree()) {
        let (text, other) = (tree.write(false, ""), tree.write(true, "\n\t"));
        prop_assert_eq!(equal(&text, &other), Ok(true));
        for escapes in RULES {
            prop_assert_eq!(canonical(&text, escapes), canonical(&other, escapes));
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = canonical_bytes(&bytes, Escapes::Ascii);
        check_any(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_text_like_json_is_answered(text in "([\\[\\]{}:,\"0-9eE.+ \\n\u{e9}-]|\\\\u?|true|null|\"a\":){0,60}") {
        check_any(&text);
    }

    #[test]
    fn any_broken_document_is_answered(tree in tree(), seed in any::<u64>()) {
        let document = mutated(tree.write(true, "").as_bytes(), &mut Random(seed));
        check_any(&String::from_utf8_lossy(&document));
    }

    #[test]
    fn strings_are_read_back(text in "\\PC{0,20}|[\\x00-\\x7f\u{80}-\u{ff}\u{1f600}]{0,40}") {
        for escapes in RULES {
            let mut literal = String::new();
            write_string(&mut literal, &text, escapes);
            prop_assert!(is_canonical(&literal, escapes), "{}", literal);
            prop_assert_eq!(&serde_json::from_str::<String>(&literal).unwrap(), &text);
            let object = format!("{{{literal}:0}}");
            prop_assert_eq!(split_object(&object), Ok(vec![(text.clone(), "0")]));
        }
    }

    #[test]
    fn doubles_are_read_back(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        let mut text = String::new();
        match write_f64(&mut text, value) {
            Ok(()) => {
                prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), bits);
                prop_assert!(is_canonical(&text, Escapes::Raw), "{}", text);
            }
            Err(error) => {
                prop_assert!(!value.is_finite() && text.is_empty());
                prop_assert_eq!(error, JsonError::NotFinite { offset: None });
            }
        }
    }
}

#[test]
fn deep_documents_are_refused_in_a_small_stack() {
    let deep = || {
        for (open, close) in [("[", "]"), ("{\"b\":1,\"a\":", "}")] {
            let nested = |depth: usize| format!("{}0{}", open.repeat(depth), close.repeat(depth));
            let accepted = nested(json::MAX_DEPTH);
            assert_eq!(check(&accepted), Ok(()));
            assert!(canonical(&accepted, Escapes::Raw).is_ok());
            let offset = json::MAX_DEPTH * open.len();
            let error = JsonError::TooDeep { offset, limit: json::MAX_DEPTH };
            for depth in [json::MAX_DEPTH + 1, 10_000, 1_000_000] {
                let refused = nested(depth);
                assert_eq!(check(&refused), Err(error.clone()));
                assert_eq!(canonical(&refused, Escapes::Raw), Err(error.clone()));
                assert!(split_array(&refused).is_err() && split_object(&refused).is_err());
            }
            assert!(matches!(check(&open.repeat(100_000)), Err(JsonError::TooDeep { .. })));
        }
    };
    let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(deep);
    thread.unwrap().join().unwrap();
}

#[test]
fn depth_is_of_what_is_open_at_once() {
    let wide = format!("[{}]", vec!["[[]]"; 1000].join(","));
    assert_eq!(canonical(&wide, Escapes::Raw), Ok(wide));
}

#[track_caller]
fn check_error(text: &str, offset: Option<usize>, message: &str) {
    let error = check(text).expect_err("the text is refused");
    assert_eq!((error.to_string().as_str(), error.offset()), (message, offset));
    assert_eq!(canonical(text, Escapes::Ascii), Err(error));
}

#[test]
fn errors_say_where_and_what() {
    let syntax = |text: &str, at: usize, expected: &str, found: &str| {
        let message = format!("invalid JSON at byte {at}: expected {expected}, found {found}");
        check_error(text, Some(at), &message);
    };
    syntax("", 0, "a value", "the end");
    syntax("[1,]", 3, "a value", "']'");
    syntax("1 é", 2, "the end", "'é'");
    syntax("{a:1}", 1, "a key in double quotes", "'a'");
    syntax("[1 2]", 3, "`,` or `]`", "'2'");
    syntax("{\"é\" 1}", 6, "`:`", "'1'");
    syntax("01", 1, "the end", "'1'");
    syntax("-", 1, "a digit", "the end");
    syntax("\"ab", 3, "`\"`", "the end");
    syntax("\"a\nb\"", 2, "an escaped control character", "'\\n'");
    syntax(r#""\u12é4""#, 5, "an escape sequence", "'é'");
    check_error(r#"["\ud800x"]"#, Some(2), "lone surrogate escape at byte 2");
    check_error("[1e400]", Some(1), "number is not finite as a double at byte 1");
    check_error(&"[".repeat(200), Some(128), "nesting at byte 128 is deeper than 128");
    let error = canonical_bytes(b"\"\xff\"", Escapes::Raw).unwrap_err();
    assert_eq!(error.to_string(), "invalid UTF-8 at byte 1");
    let error = JsonError::TooLarge { size_bytes: 4, limit_bytes: 3 };
    assert_eq!(error.to_string(), "text has 4 bytes, expected at most 3");
    let error = write_f64(&mut String::new(), f64::NAN).unwrap_err();
    assert_eq!(error.to_string(), "number is not finite as a double");
}

#[test]
fn split_keeps_what_was_written() {
    let members = split_object(" { \"b\\n\" : [1, 2.50] ,\"a\":\n{ } , \"a\":\"\\/\"} ").unwrap();
    let expected = [("b\n", "[1, 2.50]"), ("a", "{ }"), ("a", "\"\\/\"")];
    assert_eq!(members, expected.map(|(key, value)| (key.to_owned(), value)));
    assert_eq!(split_array("[ 1e5 , [ ] ,\"a\"\t]").unwrap(), ["1e5", "[ ]", "\"a\""]);
    assert!(split_object("{}").unwrap().is_empty() && split_array("[ ]").unwrap().is_empty());
    assert_eq!(split_object("[]").unwrap_err().offset(), Some(0));
    assert_eq!(split_array(" {}").unwrap_err().offset(), Some(1));
    assert!(split_array("[1] 2").is_err());
}

#[test]
fn rules_are_named() {
    assert_eq!(RULES.map(Escapes::rule), ["pyjson-ascii-1", "pyjson-raw-1"]);
}
