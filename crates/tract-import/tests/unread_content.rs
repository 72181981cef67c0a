//! Content that a reader does not understand: it is reported with its line, and nothing is left
//! out or empty without a report.

mod support;

use serde_json::{Value, json};
use tract_engine::Repo;
use tract_import::{AnomalyKind, SessionReport, Source};

use self::support::{compiled, import, new_repo, write};

/// Imports one file with these bytes.
fn imported(source: Source, name: &str, bytes: &str) -> (Repo, SessionReport) {
    let repo = new_repo();
    let report = into(&repo, source, name, bytes);
    (repo, report)
}

fn into(repo: &Repo, source: Source, name: &str, bytes: &str) -> SessionReport {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(source, folder.path().join(name), bytes);
    import(repo, &[file]).pop().expect("a report")
}

/// The texts of the conversation, as a model sees them.
fn texts(repo: &Repo, report: &SessionReport) -> Vec<String> {
    let compiled = compiled(repo, &report.branches[0].branch);
    compiled.messages().map(|message| message.content.text()).collect()
}

fn unread(report: &SessionReport) -> Vec<(usize, &str)> {
    let listed = report.anomalies.listed.iter();
    let listed = listed.filter(|anomaly| anomaly.kind == AnomalyKind::UnreadableMessage);
    listed.map(|anomaly| (anomaly.line, anomaly.what.as_str())).collect()
}

const UNKNOWN: &str = "an element of an unknown kind, kept as its JSON";
const NEITHER: &str = "content: neither a text nor a list, kept as its JSON";
const EMPTY: &str = "a message without content";

/// A file of a tool whose first user message has this content, and the reader's word for its place.
fn with_content(source: Source, content: Value) -> (&'static str, String) {
    let lines = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    match source {
        Source::MiniSweAgent => (
            "a.traj.json",
            json!({"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": [
                {"role": "user", "content": content}, {"role": "assistant", "content": "Yes."},
            ]})
            .to_string(),
        ),
        Source::SweAgent => (
            "a.traj",
            json!({"trajectory": [], "info": {}, "history": [
                {"role": "user", "content": content}, {"role": "assistant", "content": "Yes."},
            ]})
            .to_string(),
        ),
        Source::Atif => (
            "a.json",
            json!({"schema_version": "ATIF-v1.5", "session_id": "s", "agent": {"name": "a"}, "steps": [
                {"step_id": 1, "source": "user", "message": content},
                {"step_id": 2, "source": "agent", "message": "Yes."},
            ]})
            .to_string(),
        ),
        Source::OpenHands => (
            "a.jsonl",
            lines(&[
                json!({"kind": "MessageEvent", "id": "e1", "source": "user", "timestamp": "2026-01-01T10:00:00",
                    "llm_message": {"role": "user", "content": content}}),
                json!({"kind": "MessageEvent", "id": "e2", "source": "agent", "timestamp": "2026-01-01T10:00:01",
                    "llm_message": {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}}),
            ]),
        ),
        source => panic!("no file of {source:?}"),
    }
}

#[test]
fn unknown_content_is_kept_and_reported() {
    let readers = [Source::MiniSweAgent, Source::SweAgent, Source::Atif, Source::OpenHands];
    for source in readers {
        for (content, text, expected) in [
            (json!(41), "41", vec![NEITHER.to_owned()]),
            (json!({"zz": "words"}), r#"{"zz":"words"}"#, vec![NEITHER.to_owned()]),
            (
                json!([{"type": "text", "text": "One"}, {"type": "sketch", "data": "x"}]),
                "One\n{\"data\":\"x\",\"type\":\"sketch\"}",
                vec![format!("content[1]: {UNKNOWN}")],
            ),
            (json!(null), "", vec![EMPTY.to_owned()]),
            (json!([{"type": "text", "text": "One"}]), "One", vec![]),
        ] {
            let (name, bytes) = with_content(source, content.clone());
            let (repo, report) = imported(source, name, &bytes);
            assert_eq!(texts(&repo, &report), [text, "Yes."], "{source:?} {content}");
            let expected: Vec<(usize, &str)> = expected.iter().map(|what| (1, &**what)).collect();
            assert_eq!(unread(&report), expected, "{source:?} {content}");
        }
    }
}

#[test]
fn a_message_whose_text_is_in_an_unknown_member_is_reported() {
    let copilot = [
        json!({"type": "session.start", "id": "1", "timestamp": "2026-01-01T10:00:00Z", "data": {"sessionId": "s"}}),
        json!({"type": "user.message", "id": "2", "timestamp": "2026-01-01T10:00:01Z", "data": {"words": "Hi"}}),
    ];
    let copilot: String = copilot.iter().map(|line| format!("{line}\n")).collect();
    let (_, report) = imported(Source::CopilotCli, "events.jsonl", &copilot);
    assert_eq!(unread(&report), [(2, EMPTY)]);

    let gemini = json!({"sessionId": "s", "startTime": "2026-01-01T10:00:00Z", "messages": [
        {"id": "1", "type": "user", "timestamp": "2026-01-01T10:00:00Z", "content": "Hi"},
        {"id": "2", "type": "gemini", "timestamp": "2026-01-01T10:00:01Z", "content": {"words": "Yes."}},
    ]});
    let (_, report) = imported(Source::GeminiCli, "session-1.json", &gemini.to_string());
    let what = r#""messages[1].content" is not read: unexpected type (object)"#;
    assert_eq!(unread(&report)[0], (1, what));
}

#[test]
fn half_an_emoji_in_arguments_that_are_a_json_text_is_reported() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": r#"{"a":"tree \ud83c"}"#}});
    let run = json!({"trajectory_format": "mini-swe-agent-1.1", "info": {}, "messages": [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
    ]});
    let (_, report) = imported(Source::MiniSweAgent, "a.traj.json", &run.to_string());
    let listed: Vec<_> = report
        .anomalies
        .listed
        .iter()
        .map(|anomaly| (anomaly.line, anomaly.kind, &*anomaly.what))
        .collect();
    let what = "arguments: a: an unpaired surrogate was replaced";
    assert_eq!(listed, [(2, AnomalyKind::ReplacedText, what)]);
}

#[test]
fn intact_records_of_damaged_lines_are_read_in_files_that_are_read_as_a_whole() {
    let start =
        json!({"kind": 0, "v": {"version": 3, "sessionId": "s", "requests": []}}).to_string();
    let request = json!({"kind": 2, "k": ["requests"], "v": [
        {"requestId": "r1", "message": {"text": "Is it in?"}, "response": [{"value": "Yes."}], "timestamp": 1_767_261_600_000_i64},
    ]})
    .to_string();
    let first = json!({"id": "a", "conversations": [{"from": "human", "value": "One"}, {"from": "gpt", "value": "1"}]}).to_string();
    let second = json!({"id": "b", "conversations": [{"from": "human", "value": "Two"}, {"from": "gpt", "value": "2"}]}).to_string();
    for (source, name, one, two, messages) in [
        (Source::VsCodeChat, "s.jsonl", &start, &request, 2),
        (Source::Dataset, "d.jsonl", &first, &second, 4),
    ] {
        for damaged in [
            format!("{one}{two}\n"),
            format!("{}{one}\n{two}\n", &one[..one.len() / 2]),
            format!("{one}\n<<<< {two}\n"),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let file = write(source, folder.path().join(name), &damaged);
            let reports = import(&new_repo(), &[file]);
            let all: usize = reports.iter().map(|report| report.messages).sum();
            assert_eq!(all, messages, "{damaged}");
            let damage = reports.iter().flat_map(|report| &report.anomalies.counts);
            let damage: Vec<_> = damage.collect();
            assert_eq!(damage, [(&AnomalyKind::DamagedLine, &1)], "{damaged}");
        }
    }
}
