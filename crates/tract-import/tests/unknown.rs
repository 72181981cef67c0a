//! Files that no reader takes: each is described in one message.

mod support;

use std::path::Path;

use serde_json::json;
use tract_import::{
    AnomalyKind, FileKind, SessionFilter, Source, UnknownFile, recognize, session_files,
};
use tract_testkit::data;

use self::support::{bundled, files, import, import_all, new_repo, write};

fn unknown(path: &Path) -> UnknownFile {
    match recognize(path).expect("it reads") {
        FileKind::Unknown(unknown) => unknown,
        kind => panic!("{} is {kind:?}", path.display()),
    }
}

#[test]
fn a_file_that_no_reader_takes_is_described() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let many: serde_json::Map<_, _> = (0..30).map(|n| (format!("m{n:02}"), json!(n))).collect();
    let cases = [
        (
            "parts.json",
            json!([{"parts": [{"kind": "boat"}]}]),
            "first element has the member \"parts\"",
        ),
        (
            "blocks.json",
            json!([{"role": "user", "additional_kwargs": {}, "blocks": []}]),
            "LlamaIndex",
        ),
        ("spans.json", json!({"resourceSpans": []}), "OpenTelemetry"),
        (
            "traces.json",
            json!([{"id": 1, "timestamp": "", "input": 1, "observations": []}]),
            "Langfuse",
        ),
        (
            "prices.json",
            json!({"m-1": {"input_cost": 1}, "m-2": {}}),
            "the members \"m-1\", \"m-2\"",
        ),
        ("many.json", json!(many), "and 22 more"),
        ("numbers.json", json!([1, 2]), "not an object"),
        ("empty.json", json!({}), "no members"),
    ];
    for (name, value, expected) in cases {
        for (name, text) in [
            (name.to_owned(), value.to_string()),
            (format!("pretty-{name}"), serde_json::to_string_pretty(&value).expect("JSON")),
            (format!("{name}l"), format!("{value}\n{value}\n")),
        ] {
            std::fs::write(at(&name), text).expect("it is written");
            let unknown = unknown(&at(&name));
            assert!(unknown.what.contains(expected), "{name}: {}", unknown.what);
            assert!(unknown.notes[0].contains("claude-code"), "{name}: {:?}", unknown.notes);
        }
    }
    for (name, table) in [
        ("own.json", json!({"date": "2026-01-31", "models": {"m": {"input": 3, "output": 15}}})),
        (
            "litellm.json",
            json!({
                "sample_spec": {"input_cost_per_token": 0, "mode": "one of: chat"},
                "m-1": {"input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05},
                "m-image": {"output_cost_per_image": 0.04},
            }),
        ),
    ] {
        let pretty = serde_json::to_string_pretty(&table).expect("JSON");
        for text in [table.to_string(), pretty] {
            std::fs::write(at(name), text).expect("it is written");
            let UnknownFile { what, notes } = unknown(&at(name));
            assert_eq!(what, "a table of prices", "{name}");
            assert!(notes[0].contains("--prices"), "{name}: {notes:?}");
        }
    }
    // A damaged document is described once, not line by line.
    let whole = json!({"messages": [{"role": "user", "content": "Hi"}], "model": "m"});
    let whole = serde_json::to_string_pretty(&whole).expect("JSON");
    std::fs::write(at("whole.json"), &whole).expect("it is written");
    assert_eq!(recognize(&at("whole.json")).expect("it reads"), FileKind::Conversations);
    std::fs::write(at("cut.json"), &whole[..whole.len() / 2]).expect("it is written");
    assert_eq!(unknown(&at("cut.json")).what, "a JSON document that ends too early");
    let damaged = whole.replace("\"role\":", "\"role\"");
    std::fs::write(at("damaged.json"), format!("\n{damaged}")).expect("it is written");
    let line = 2 + whole.lines().position(|line| line.contains("\"role\"")).expect("a line");
    let expected = format!("a JSON document with an error in line {line}");
    assert_eq!(unknown(&at("damaged.json")).what, expected);
    std::fs::write(at("a.txt"), "Dear Ada,\n\nhello.\n").expect("it is written");
    assert_eq!(unknown(&at("a.txt")).what, "a text that is not JSON");
    std::fs::write(at("b.gz"), b"\x1f\x8b\x08\x00").expect("it is written");
    assert_eq!(unknown(&at("b.gz")).what, "a gzip file");
    std::fs::write(at("c.zip"), b"PK\x03\x04....").expect("it is written");
    assert_eq!(unknown(&at("c.zip")).what, "a zip file");
    std::fs::write(at("d.png"), b"\x89PNG\r\n\x1a\n\0\0\0").expect("it is written");
    assert!(unknown(&at("d.png")).what.contains("binary"));
}

#[test]
fn a_database_is_described_by_its_tables_and_a_folder_by_its_tools() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cookies.db");
    let database = rusqlite::Connection::open(&path).expect("a database");
    database.execute_batch("CREATE TABLE jar(a); CREATE TABLE meta(b);").expect("tables");
    drop(database);
    let described = unknown(&path);
    assert!(described.what.contains("the tables \"jar\", \"meta\""), "{}", described.what);
    let described = unknown(folder.path());
    assert!(described.notes[0].contains("claude-code"), "{described:?}");
    let described = unknown(&bundled("codex"));
    assert!(described.what.contains("1 of Codex CLI"), "{}", described.what);
    assert!(described.notes[0].starts_with("tract import codex "), "{:?}", described.notes);
}

#[test]
fn requests_of_providers_are_conversations_with_and_without_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    let message = r#"{"messages":[{"role":"user","content":"Hi"}]}"#;
    let contents = r#"[{"role":"user","parts":[{"text":"Hi"}]}]"#;
    for (name, text) in [
        ("a.jsonl", format!("{message}\n{message}\n")),
        ("b.jsonl", format!("{{\"odd\":1}}\n{message}\n")),
        ("c.jsonl", format!("{{\"torn\n{message}\n")),
        ("d.json", contents.to_owned()),
        (
            "e.json",
            r#"[{"role":"user","content":[{"type":"text","text":"Hi"}],"ts":1}]"#.to_owned(),
        ),
        ("f.jsonl", String::new()),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it is written");
        assert_eq!(recognize(&path).expect("it reads"), FileKind::Conversations, "{name}");
    }
}

/// Inputs made after public reports: read whole, or refused with what they seem to be.
#[test]
fn inputs_of_reports_are_read_or_described() {
    let Some(folder) = data::full("reports") else { return };
    let kinds = [
        ("files/pyai.json", Source::PydanticAi),
        ("pydantic-ai-history/history.json", Source::PydanticAi),
        ("files/oc.json", Source::OpenCode),
        ("files/aider.md", Source::Aider),
        ("files/chatgpt.json", Source::ChatGpt),
        ("files/claudeai.json", Source::ClaudeAi),
        ("files/sharegpt.json", Source::Dataset),
        ("files/xlam.json", Source::Dataset),
        ("files/langsmith.jsonl", Source::LangChain),
        ("files/mini.traj.json", Source::MiniSweAgent),
        ("files/state.sqlite", Source::LangGraph),
    ];
    for (name, source) in kinds {
        let path = folder.join(name);
        assert_eq!(recognize(&path).expect("it reads"), FileKind::Source(source), "{name}");
        if name.ends_with("state.sqlite") {
            continue;
        }
        let repo = new_repo();
        let reports = import(&repo, &files(source, &path));
        for report in &reports {
            // Queries of xLAM end with calls.
            let mut odd = report.anomalies.counts.clone();
            odd.remove(&AnomalyKind::Unanswered);
            assert!(odd.is_empty(), "{name}: {report:?}");
            assert!(!report.branches.is_empty(), "{name}: {report:?}");
        }
        let messages: usize = reports.iter().map(|report| report.messages).sum();
        assert!(messages >= 2, "{name}: {messages}");
    }
    for name in ["files/parts.json", "files/langfuse.json", "files/otel.json", "files/lp.json"] {
        unknown(&folder.join(name));
    }
    assert_eq!(unknown(&folder.join("files/lp.json")).what, "a table of prices");
    assert!(unknown(&folder.join("llamaindex-history/history.json")).what.contains("LlamaIndex"));
    for name in
        ["files/cline.json", "files/an.json", "files/lite.json", "unknown-members/conv.json"]
    {
        let kind = recognize(&folder.join(name)).expect("it reads");
        assert_eq!(kind, FileKind::Conversations, "{name}");
    }
}

#[test]
fn a_packed_file_is_refused_by_every_reader_with_the_command_that_unpacks_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for (start, name, command) in [
        (&b"\x1f\x8b\x08\x00\x01\x02\x03\x04"[..], "gzip", "gunzip"),
        (b"PK\x03\x04\x14\x00\x00\x00", "zip", "unzip"),
        (b"BZh91AY&SY\x00\x01", "bzip2", "bunzip2"),
        (b"\xfd7zXZ\x00\x00\x04", "xz", "unxz"),
    ] {
        for end in ["jsonl", "json", "gz", "md", "traj"] {
            let path = folder.path().join(format!("a.{end}"));
            for source in Source::ALL {
                let file = write(*source, path.clone(), start);
                let (_, report) = import_all(&new_repo(), &[file]).pop().expect("a report");
                let error = report.expect_err("it is not read");
                let reads_packed =
                    [Source::OpenAiAgents, Source::LangGraph, Source::Cursor, Source::Inspect];
                if !reads_packed.contains(source) {
                    assert!(error.contains(name) && error.contains(command), "{source}: {error}");
                }
            }
            let UnknownFile { what, notes } = unknown(&path);
            assert!(what.contains(name) && notes[0].contains(command), "{what} {notes:?}");
        }
    }
}

#[test]
fn documents_and_lines_that_are_compressed_with_zstd_are_recognized_and_read() {
    let folder = tempfile::tempdir().expect("a folder");
    for (source, path, end) in [
        (Source::ChatGpt, "chatgpt", "conversations.json"),
        (Source::ClaudeCode, "claude-code", "0c50.jsonl"),
        (Source::Codex, "codex", ".jsonl"),
        (Source::Dataset, "dataset", ".jsonl"),
    ] {
        let plain = files(source, &bundled(path))
            .into_iter()
            .find(|file| file.path().to_string_lossy().ends_with(end))
            .expect("a file");
        let bytes = std::fs::read(plain.path()).expect("it reads");
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let packed = ruzstd::encoding::compress_to_vec(&bytes[..], level);
        let file = write(source, folder.path().join("packed.zst"), packed);
        assert_eq!(recognize(file.path()).expect("it reads"), FileKind::Source(source));
        let messages = |reports: Vec<tract_import::SessionReport>| -> usize {
            reports.iter().map(|report| report.messages).sum()
        };
        let expected = messages(import(&new_repo(), &[plain]));
        assert_eq!(messages(import(&new_repo(), &[file])), expected, "{source}");
    }
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let other = ruzstd::encoding::compress_to_vec(&br#"{"boats":[]}"#[..], level);
    std::fs::write(folder.path().join("other.zst"), other).expect("it is written");
    let UnknownFile { what, notes } = unknown(&folder.path().join("other.zst"));
    assert!(what == "a zstd file" && notes[0].contains("unzstd"), "{what} {notes:?}");
}

#[test]
fn a_folder_lists_its_packed_sessions_unless_they_are_there_unpacked() {
    let folder = tempfile::tempdir().expect("a folder");
    let sessions = folder.path().join("projects").join("-quay");
    std::fs::create_dir_all(&sessions).expect("a folder");
    for name in ["a.jsonl", "a.jsonl.gz", "b.jsonl.gz", "c.jsonl.xz", "d.png.gz"] {
        std::fs::write(sessions.join(name), "\u{1f}").expect("it is written");
    }
    let listed =
        session_files(Source::ClaudeCode, &[folder.path().to_owned()], &SessionFilter::new());
    let names: Vec<String> = listed
        .expect("it is listed")
        .iter()
        .map(|file| file.path().file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["a.jsonl", "b.jsonl.gz", "c.jsonl.xz"]);
}
