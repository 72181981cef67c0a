//! Recordings as tools damage them or number them oddly: nothing is lost, exchanged or read as
//! something else, and what is unusual is reported.

mod support;

use std::path::Path;

use serde_json::{Value, json};
use tract_core::block_on;
use tract_engine::{ImportConversation, ImportOptions, Importer, Repo};
use tract_import::{AnomalyKind, BranchStart, FileKind, SessionReport, Source, detect, recognize};
use tract_providers::{Dialect, Form, FormOptions, ProviderConversation, compile_form};
use tract_testkit::data;

use self::support::{bundled, compiled, files, import, import_all, new_repo, write};

/// What a branch says, one message a line; a result names the arguments of its call.
fn transcript(repo: &Repo, branch: &str) -> Vec<String> {
    let compiled = compiled(repo, branch);
    let messages: Vec<&tract_core::Message> = compiled.messages().collect();
    let line = |message: &&tract_core::Message| {
        let calls: Vec<String> =
            message.content.calls().map(|call| format!("[{}]", call.arguments)).collect();
        let call = message.answers.and_then(|of| {
            let caller = messages.iter().find(|other| other.slot == of.slot)?;
            caller.content.calls().nth(of.index as usize)
        });
        let call = call.map(|call| format!(" <{}>", call.arguments)).unwrap_or_default();
        let (role, text) = (message.role.as_str(), message.content.text());
        format!("{role} {}{}{call}", text.trim(), calls.join("")).trim().to_owned()
    };
    messages.iter().map(line).collect()
}

fn kinds(report: &SessionReport) -> Vec<(AnomalyKind, usize)> {
    report.anomalies.counts.iter().map(|(kind, count)| (*kind, *count)).collect()
}

const SESSION: &str = "00000000-0000-4000-8000-0000000000aa";

/// A line of a session of Claude Code: `more` are further members.
fn line(uuid: &str, parent: &str, second: u32, kind: &str, content: &str, more: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("{parent:?}") };
    let id = if kind == "assistant" {
        format!(r#""id":"msg_{uuid}","model":"m","#)
    } else {
        String::new()
    };
    format!(
        r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"{SESSION}","timestamp":"2026-05-04T10:00:{second:02}.000Z"{more},"message":{{{id}"role":"{kind}","content":{content}}}}}"#
    )
}

/// A boundary of a compaction without a parent of its own.
fn boundary(uuid: &str, logical: &str, second: u32, metadata: &str) -> String {
    format!(
        r#"{{"type":"system","subtype":"compact_boundary","uuid":"{uuid}","parentUuid":null,"logicalParentUuid":"{logical}","sessionId":"{SESSION}","timestamp":"2026-05-04T10:00:{second:02}.000Z","content":"Conversation compacted","compactMetadata":{metadata}}}"#
    )
}

fn session(bytes: impl AsRef<[u8]>) -> (Repo, SessionReport) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(Source::ClaudeCode, folder.path().join("s.jsonl"), bytes);
    assert_eq!(detect(file.path()).expect("it is read"), Some(Source::ClaudeCode));
    let repo = new_repo();
    let report = import(&repo, &[file]).pop().expect("a report");
    (repo, report)
}

fn main_branch() -> String {
    format!("claude-code/{SESSION}")
}

#[test]
fn half_an_emoji_is_replaced_and_the_message_and_its_pair_stay() {
    let call = r#"[{"type":"tool_use","id":"t1","name":"read","input":{"path":"a\ud83c"}}]"#;
    let result = r#"[{"type":"tool_result","tool_use_id":"t1","content":"tree \ud83c"}]"#;
    let lines = [
        line("u1", "", 1, "user", r#""Look \udf33 up""#, ""),
        line("a1", "u1", 2, "assistant", call, ""),
        line("u2", "a1", 3, "user", result, ""),
        line("a2", "u2", 4, "assistant", r#"[{"type":"text","text":"A \ud83c\udf33."}]"#, ""),
    ];
    let (repo, report) = session(lines.join("\n") + "\n");
    let arguments = "{\"path\":\"a\u{fffd}\"}";
    assert_eq!(
        transcript(&repo, &main_branch()),
        [
            "user Look \u{fffd} up".to_owned(),
            format!("assistant [{arguments}]"),
            format!("tool tree \u{fffd} <{arguments}>"),
            "assistant A 🌳.".to_owned(),
        ]
    );
    assert_eq!(report.pairs, 1);
    let listed: Vec<(usize, &str)> =
        report.anomalies.listed.iter().map(|found| (found.line, found.what.as_str())).collect();
    assert_eq!(
        listed,
        [
            (1, "message.content: an unpaired surrogate was replaced"),
            (2, "message.content[0].input.path: an unpaired surrogate was replaced"),
            (3, "message.content[0].content: an unpaired surrogate was replaced"),
        ]
    );
    assert_eq!(kinds(&report), [(AnomalyKind::ReplacedText, 3)]);
}

#[test]
fn whole_records_of_damaged_lines_are_read_and_reported() {
    let a = line("u1", "", 1, "user", "\"One\"", "");
    let b = line("a1", "u1", 2, "assistant", r#"[{"type":"text","text":"Two"}]"#, "");
    let c = line("u2", "a1", 3, "user", "\"Three\"", "");
    let spoken = ["user One", "assistant Two", "user Three"];
    let check = |bytes: &[u8], expected: &[(AnomalyKind, usize)]| {
        let (repo, report) = session(bytes);
        assert_eq!(transcript(&repo, &main_branch()), spoken, "{}", String::from_utf8_lossy(bytes));
        assert_eq!(kinds(&report), expected, "{:?}", report.anomalies);
    };
    let damaged = (AnomalyKind::DamagedLine, 1);
    let replaced = |count| (AnomalyKind::ReplacedText, count);
    check(format!("{a}{b}\n{c}\n").as_bytes(), &[damaged]);
    check(format!("{a}\n\0\0\0{b}\n{c}\n").as_bytes(), &[replaced(1)]);
    check(format!("{a}\n{}{b}\n{c}\n", &c[..c.len() / 2]).as_bytes(), &[damaged]);
    check(format!("{a}\n{b}\n{c}{}", &a[..20]).as_bytes(), &[(AnomalyKind::TornLine, 1), damaged]);
    check(format!("\u{feff}{a}\r\n{b}\r\n{c}\r\n").as_bytes(), &[]);
    let mut bytes = format!("{a}\n{b}\n{c}\n").into_bytes();
    let at = a.find("type").expect("a member") - 1;
    bytes.insert(at, 0xff);
    check(&bytes, &[replaced(1)]);
    // The whole file in UTF-16 is named as what it is.
    let folder = tempfile::tempdir().expect("a folder");
    let wide: Vec<u8> =
        "\u{feff}".encode_utf16().chain(a.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let file = write(Source::ClaudeCode, folder.path().join("s.jsonl"), wide);
    let reports = import_all(&new_repo(), &[file]);
    assert!(reports[0].1.as_ref().is_err_and(|error| error.contains("UTF-16")), "{reports:?}");
}

#[test]
fn calls_of_one_id_get_their_own_results_in_files_of_claude_code() {
    let call = |kind: &str| {
        format!(r#"{{"type":"tool_use","id":"d","name":"count","input":{{"kind":"{kind}"}}}}"#)
    };
    let result =
        |text: &str| format!(r#"[{{"type":"tool_result","tool_use_id":"d","content":"{text}"}}]"#);
    let block = |uuid: &str, parent: &str, second, kind: &str| {
        let line = line(uuid, parent, second, "assistant", &format!("[{}]", call(kind)), "");
        line.replace(&format!("msg_{uuid}"), "msg_a1")
    };
    let pairs = ["assistant [{\"kind\":\"apple\"}]", "assistant [{\"kind\":\"pear\"}]"];
    let results = ["tool APPLE <{\"kind\":\"apple\"}>", "tool PEAR <{\"kind\":\"pear\"}>"];
    // Each block is a line.
    let lines = [
        line("u1", "", 1, "user", "\"Count\"", ""),
        block("a1", "u1", 2, "apple"),
        block("a2", "a1", 3, "pear"),
        line("u2", "a1", 4, "user", &result("APPLE"), ""),
        line("u3", "a2", 5, "user", &result("PEAR"), ""),
    ];
    let (repo, report) = session(lines.join("\n"));
    let spoken = transcript(&repo, &main_branch());
    assert_eq!(spoken, ["user Count", pairs[0], pairs[1], results[0], results[1]]);
    assert_eq!((report.pairs, kinds(&report)), (2, Vec::new()));
    // The id comes again in a later turn.
    let lines = [
        line("u1", "", 1, "user", "\"Count\"", ""),
        line("a1", "u1", 2, "assistant", &format!("[{}]", call("apple")), ""),
        line("u2", "a1", 3, "user", &result("APPLE"), ""),
        line("a2", "u2", 4, "assistant", &format!("[{}]", call("pear")), ""),
        line("u3", "a2", 5, "user", &result("PEAR"), ""),
    ];
    let (repo, report) = session(lines.join("\n"));
    let spoken = transcript(&repo, &main_branch());
    assert_eq!(spoken, ["user Count", pairs[0], results[0], pairs[1], results[1]]);
    assert_eq!((report.pairs, kinds(&report)), (2, Vec::new()));
    let compiled = compiled(&repo, &main_branch());
    let form = compile_form(&compiled, Form::Params(Dialect::Anthropic), &FormOptions::default());
    let form = form.expect("it compiles");
    assert_eq!(form.repairs.len(), 1, "{:?}", form.repairs);
    assert!(form.to_json().contains("\"d_2\""), "{}", form.to_json());
}

#[test]
fn a_detached_compaction_is_on_the_branch_that_continues() {
    let say = |uuid: &str, parent: &str, second, kind: &str, text: &str| {
        line(uuid, parent, second, kind, &format!(r#"[{{"type":"text","text":"{text}"}}]"#), "")
    };
    let summary = |uuid: &str, parent: &str, second, text: &str| {
        line(uuid, parent, second, "user", &format!("{text:?}"), r#","isCompactSummary":true"#)
    };
    let before = [
        say("u1", "", 1, "user", "One"),
        say("a1", "u1", 2, "assistant", "Two"),
        say("u2", "a1", 3, "user", "Three"),
        say("a2", "u2", 4, "assistant", "Four"),
    ];
    let manual = r#"{"trigger":"manual"}"#;
    // The conversation continues from the row before the boundary.
    let mut lines = before.to_vec();
    lines.push(boundary("c1", "a2", 5, manual));
    lines.push(summary("s1", "c1", 6, "SUMMARY"));
    lines.push(say("k1", "a2", 7, "user", "<command-name>/compact</command-name>"));
    lines.push(say("u3", "k1", 8, "user", "Five"));
    let (repo, report) = session(lines.join("\n"));
    let command = "user <command-name>/compact</command-name>";
    assert_eq!(transcript(&repo, &main_branch()), ["user SUMMARY", command, "user Five"]);
    assert_eq!((report.branches.len(), report.hidden, kinds(&report)), (1, 4, Vec::new()));
    // A second one continues from before the first.
    lines.push(boundary("c2", "u3", 9, manual));
    lines.push(summary("s2", "c2", 10, "SECOND"));
    lines.push(say("u4", "a2", 11, "user", "Six"));
    let (repo, report) = session(lines.join("\n"));
    assert_eq!(transcript(&repo, &main_branch()), ["user SECOND", "user Six"]);
    assert_eq!(report.branches.len(), 1);
    // One whose parent is before the first one keeps a segment of which only the ends are named.
    lines.truncate(8);
    lines.push(say("a3", "u3", 9, "assistant", "Kept"));
    let kept = r#"{"trigger":"manual","preservedSegment":{"headUuid":"u3","tailUuid":"a3"}}"#;
    lines.push(boundary("c2", "a1", 10, kept));
    lines.push(summary("s2", "c2", 11, "SECOND"));
    lines.push(say("u4", "a1", 12, "user", "Six"));
    let (repo, report) = session(lines.join("\n"));
    let spoken = transcript(&repo, &main_branch());
    assert_eq!(spoken, ["user SECOND", "user Five", "assistant Kept", "user Six"]);
    assert_eq!(report.branches.len(), 1);
    // The summary comes after the rows that follow it.
    let mut lines = before.to_vec();
    lines.push(boundary("c1", "a2", 5, manual));
    lines.push(say("k1", "a2", 6, "user", "After"));
    lines.push(summary("s1", "c1", 7, "SUMMARY"));
    let (repo, report) = session(lines.join("\n"));
    assert_eq!(transcript(&repo, &main_branch()), ["user SUMMARY", "user After"]);
    assert_eq!(report.branches.len(), 1);
    // Going back after the summary was continued is a rewind.
    lines.push(say("a3", "k1", 8, "assistant", "Answer"));
    lines.push(say("u9", "a1", 9, "user", "Again"));
    let (_, report) = session(lines.join("\n"));
    let starts: Vec<&BranchStart> = report.branches.iter().map(|branch| &branch.start).collect();
    assert_eq!(starts, [&BranchStart::Conversation, &BranchStart::Rewind]);
}

#[test]
fn a_compaction_hides_a_call_without_a_result() {
    let call = r#"[{"type":"tool_use","id":"t1","name":"read","input":{}}]"#;
    let lines = [
        line("u1", "", 1, "user", "\"One\"", ""),
        line("a1", "u1", 2, "assistant", call, ""),
        boundary("c1", "a1", 3, "{}"),
        line("s1", "c1", 4, "user", "\"SUMMARY\"", r#","isCompactSummary":true"#),
        line("u2", "s1", 5, "user", "\"Two\"", ""),
    ];
    let (repo, report) = session(lines.join("\n"));
    assert_eq!(transcript(&repo, &main_branch()), ["user SUMMARY", "user Two"]);
    assert_eq!(report.hidden, 2);
}

#[test]
fn a_result_that_gemini_cli_records_twice_is_there_once() {
    let head = r#"{"sessionId":"gem","projectHash":"p","startTime":"2026-06-01T10:00:00.000Z"}"#;
    let user = |id: &str, content: &str| {
        format!(
            r#"{{"id":"{id}","timestamp":"2026-06-01T10:00:01.000Z","type":"user","content":{content}}}"#
        )
    };
    let response = r#"{"functionResponse":{"id":"c1","name":"read","response":{"output":"41"}}}"#;
    let answer = |result: &str| {
        format!(
            r#"{{"id":"g1","timestamp":"2026-06-01T10:00:02.000Z","type":"gemini","content":"","toolCalls":[{{"id":"c1","name":"read","args":{{"n":1}},"status":"success"{result}}}]}}"#
        )
    };
    let whole = answer(&format!(r#","result":[{response}]"#));
    let spoken = ["user Read", "assistant [{\"n\":1}]", "tool 41 <{\"n\":1}>"];
    for lines in [
        vec![whole.clone(), user("u2", &format!("[{response}]"))],
        vec![answer(""), user("u2", &format!("[{response}]"))],
        vec![answer(""), user("u2", &format!("[{response}]")), whole.clone()],
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let text = [vec![head.to_owned(), user("u1", "\"Read\"")], lines].concat().join("\n");
        let file = write(Source::GeminiCli, folder.path().join("s.jsonl"), &text);
        let repo = new_repo();
        let report = import(&repo, &[file]).pop().expect("a report");
        assert_eq!(transcript(&repo, &report.branches[0].branch), spoken, "{text}");
        assert_eq!((report.pairs, report.branches.len()), (1, 1), "{text}");
    }
}

#[test]
fn a_document_of_gemini_cli_whose_answer_gains_its_calls_continues_its_branch() {
    let head = r#"{"sessionId":"gem","projectHash":"p","startTime":"2026-06-01T10:00:00.000Z","messages":["#;
    let user =
        r#"{"id":"u1","timestamp":"2026-06-01T10:00:01.000Z","type":"user","content":"Late?"}"#;
    let answer = |calls: &str| {
        format!(
            r#"{{"id":"g1","timestamp":"2026-06-01T10:00:02.000Z","type":"gemini","content":"I look.","model":"m"{calls}}}"#
        )
    };
    let calls = r#","toolCalls":[{"id":"c1","name":"read","args":{},"status":"success","result":[{"functionResponse":{"id":"c1","name":"read","response":{"output":"no"}}}]}]"#;
    let last =
        r#"{"id":"g2","timestamp":"2026-06-01T10:00:05.000Z","type":"gemini","content":"No."}"#;
    let states = [
        format!("{head}{user},{}]}}", answer("")),
        format!("{head}{user},{}]}}", answer(calls)),
        format!("{head}{user},{},{last}]}}", answer(calls)),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let repo = new_repo();
    for (n, state) in states.iter().enumerate() {
        let file = write(Source::GeminiCli, folder.path().join("s.json"), state);
        let report = import(&repo, &[file]).pop().expect("a report");
        let branches: Vec<&str> =
            report.branches.iter().map(|branch| branch.branch.as_str()).collect();
        assert_eq!(branches, ["gemini-cli/gem"], "state {n}");
    }
    let spoken = transcript(&repo, "gemini-cli/gem");
    let expected =
        ["user Late?", "assistant I look.", "assistant [{}]", "tool no <{}>", "assistant No."];
    assert_eq!(spoken, expected);
}

#[test]
fn calls_of_one_id_in_one_answer_get_their_own_results_in_requests() {
    for (name, text) in requests() {
        let repo = new_repo();
        let read = ProviderConversation::read(&text, None).expect("it is read");
        let conversation = ImportConversation::new("calls", read.imported.drafts);
        let mut importer = Importer::new(&repo, ImportOptions::default()).expect("an importer");
        block_on(importer.add(conversation)).expect("it is imported");
        block_on(importer.finish()).expect("it is stored");
        let spoken = transcript(&repo, "calls");
        let results: Vec<&String> = spoken.iter().filter(|line| line.starts_with("tool")).collect();
        let kinds = [r#"{"kind":"apple"}"#, r#"{"kind":"pear"}"#];
        let expected = [format!("tool APPLE <{}>", kinds[0]), format!("tool PEAR <{}>", kinds[1])];
        assert_eq!(results, expected.iter().collect::<Vec<_>>(), "{name}: {spoken:?}");
    }
}

/// A request of each provider with two calls of one id in one answer.
fn requests() -> [(&'static str, String); 3] {
    let openai = |kind: &str| {
        format!(
            r#"{{"id":"d","type":"function","function":{{"name":"count","arguments":"{{\"kind\":\"{kind}\"}}"}}}}"#
        )
    };
    let tool = |text: &str| format!(r#"{{"role":"tool","tool_call_id":"d","content":"{text}"}}"#);
    let block = |kind: &str| {
        format!(r#"{{"type":"tool_use","id":"d","name":"count","input":{{"kind":"{kind}"}}}}"#)
    };
    let result =
        |text: &str| format!(r#"{{"type":"tool_result","tool_use_id":"d","content":"{text}"}}"#);
    let item = |kind: &str| {
        format!(
            r#"{{"type":"function_call","call_id":"d","name":"count","arguments":"{{\"kind\":\"{kind}\"}}"}}"#
        )
    };
    let output = |text: &str| {
        format!(r#"{{"type":"function_call_output","call_id":"d","output":"{text}"}}"#)
    };
    let (a, b) = ("apple", "pear");
    [
        (
            "openai",
            format!(
                r#"{{"messages":[{{"role":"user","content":"Count"}},{{"role":"assistant","content":null,"tool_calls":[{},{}]}},{},{}]}}"#,
                openai(a),
                openai(b),
                tool("APPLE"),
                tool("PEAR")
            ),
        ),
        (
            "anthropic",
            format!(
                r#"{{"messages":[{{"role":"user","content":"Count"}},{{"role":"assistant","content":[{},{}]}},{{"role":"user","content":[{},{}]}}]}}"#,
                block(a),
                block(b),
                result("APPLE"),
                result("PEAR")
            ),
        ),
        (
            "responses",
            format!(
                r#"{{"input":[{{"role":"user","content":"Count"}},{},{},{},{}]}}"#,
                item(a),
                item(b),
                output("APPLE"),
                output("PEAR")
            ),
        ),
    ]
}

/// The reports of a case of the whole data, and what its main branch says.
fn case(folder: &Path, source: Source, name: &str) -> (SessionReport, Vec<String>, Repo) {
    let repo = new_repo();
    let mut reports = import(&repo, &files(source, &folder.join(name)));
    let report = reports.remove(0);
    let spoken = transcript(&repo, &report.branches[0].branch);
    (report, spoken, repo)
}

#[test]
fn inputs_after_public_reports_come_out_right() {
    let Some(folder) = data::full("reports") else { return };
    let anomaly = |report: &SessionReport, kind| report.anomalies.counts.contains_key(&kind);
    for (source, name) in [
        (Source::ClaudeCode, "lone-surrogate-claude-code"),
        (Source::Codex, "lone-surrogate-codex"),
        (Source::GeminiCli, "lone-surrogate-gemini"),
    ] {
        let (report, spoken, _) = case(&folder, source, name);
        assert!(spoken.iter().any(|line| line.contains('\u{fffd}')), "{name}: {spoken:?}");
        assert!(anomaly(&report, AnomalyKind::ReplacedText), "{name}: {:?}", report.anomalies);
        assert!(!anomaly(&report, AnomalyKind::Unanswered), "{name}: {:?}", report.anomalies);
        assert!(!anomaly(&report, AnomalyKind::UnreadableMessage), "{name}");
    }
    let (report, spoken, _) = case(&folder, Source::ClaudeCode, "cc-manual-compact-detached");
    assert_eq!(report.branches.len(), 1, "{spoken:?}");
    assert!(
        spoken[0].contains("SUMMARY") && spoken[spoken.len() - 1].contains("Sixty."),
        "{spoken:?}"
    );
    for (name, kept) in [("cc-92849-a", ""), ("cc-second-compact-replays-history", "Sixty.")] {
        let (report, spoken, _) = case(&folder, Source::ClaudeCode, name);
        assert_eq!(report.branches.len(), 1, "{name}: {spoken:?}");
        assert!(spoken[0].contains("SECOND SUMMARY"), "{name}: {spoken:?}");
        assert!(spoken[spoken.len() - 1].contains("The pears."), "{name}: {spoken:?}");
        assert!(spoken.iter().any(|line| line.contains(kept)), "{name}: {spoken:?}");
        assert!(!spoken.iter().any(|line| line.contains("FIRST SUMMARY")), "{name}: {spoken:?}");
    }
    let (report, _, _) = case(&folder, Source::ClaudeCode, "cc-reused-over-turns");
    assert!(!anomaly(&report, AnomalyKind::SecondResult), "{:?}", report.anomalies);
    let (report, spoken, _) = case(&folder, Source::GeminiCli, "gemini-result-twice");
    assert_eq!(spoken.iter().filter(|line| line.contains("41 trees")).count(), 1, "{spoken:?}");
    assert_eq!(report.pairs, 1);
    for (name, kind) in [
        ("cc-missing-newline", Some(AnomalyKind::DamagedLine)),
        ("cc-nul-run", Some(AnomalyKind::ReplacedText)),
        ("cc-invalid-utf8", Some(AnomalyKind::ReplacedText)),
        ("cc-bom-crlf", None),
    ] {
        let (report, spoken, _) = case(&folder, Source::ClaudeCode, name);
        assert!(!anomaly(&report, AnomalyKind::MissingParent), "{name}: {spoken:?}");
        assert!(!anomaly(&report, AnomalyKind::UnreadableLine), "{name}: {spoken:?}");
        assert!(kind.is_none_or(|kind| anomaly(&report, kind)), "{name}: {:?}", report.anomalies);
    }
}

#[test]
fn a_result_of_a_call_that_was_summarized_is_hidden_with_it() {
    let call =
        |id: &str| format!(r#"[{{"type":"tool_use","id":"{id}","name":"read","input":{{}}}}]"#);
    let result =
        |id: &str| format!(r#"[{{"type":"tool_result","tool_use_id":"{id}","content":"41"}}]"#);
    let one = line("u1", "", 1, "user", "\"One\"", "");
    let asks = line("a1", "u1", 2, "assistant", &call("t1"), "");
    let summary = |parent: &str, minute| {
        line("s1", parent, minute, "user", "\"SUMMARY\"", r#","isCompactSummary":true"#)
    };
    let late = |parent: &str, minute| line("r1", parent, minute, "user", &result("t1"), "");
    let goes_on = |parent: &str| line("u2", parent, 8, "user", "\"Two\"", "");
    let again = line("a2", "u2", 9, "assistant", &call("t1"), "");
    let answered = line("r2", "a2", 10, "user", &result("t1"), "");
    let shown = ["user SUMMARY", "user Two"];
    for (what, lines) in [
        (
            "after its call",
            vec![boundary("c1", "a1", 3, "{}"), summary("c1", 4), late("a1", 5), goes_on("r1")],
        ),
        (
            "after the summary",
            vec![boundary("c1", "a1", 3, "{}"), summary("c1", 4), late("s1", 5), goes_on("r1")],
        ),
        ("without a boundary", vec![summary("a1", 4), late("a1", 5), goes_on("r1")]),
        (
            "before the summary",
            vec![boundary("c1", "a1", 3, "{}"), late("a1", 4), summary("c1", 5), goes_on("s1")],
        ),
        (
            "after the next message",
            vec![boundary("c1", "a1", 3, "{}"), summary("c1", 4), goes_on("s1"), late("a1", 9)],
        ),
    ] {
        let lines = [vec![one.clone(), asks.clone()], lines].concat();
        let (repo, report) = session(lines.join("\n"));
        assert_eq!(transcript(&repo, &main_branch()), shown, "{what}");
        assert_eq!((report.pairs, report.hidden, report.branches.len()), (1, 3, 1), "{what}");
        // Another call with the id has its own result.
        if what != "after the next message" {
            let lines = [lines, vec![again.clone(), answered.clone()]].concat();
            let (repo, report) = session(lines.join("\n"));
            let pair = ["assistant [{}]", "tool 41 <{}>"];
            assert_eq!(transcript(&repo, &main_branch()), [&shown[..], &pair].concat(), "{what}");
            assert_eq!((report.pairs, report.branches.len()), (2, 1), "{what}");
        }
    }
    // What the tool keeps, stays with its result.
    let kept = r#"{"preservedMessages":{"uuids":["a1"]}}"#;
    let lines = [one, asks, boundary("c1", "a1", 3, kept), summary("c1", 4), late("a1", 5)];
    let (repo, _) = session(lines.join("\n"));
    let spoken = transcript(&repo, &main_branch());
    assert_eq!(spoken, ["user SUMMARY", "assistant [{}]", "tool 41 <{}>"]);
}

#[test]
fn a_result_that_comes_after_a_compaction_of_codex_is_hidden_with_its_call() {
    let item = |minute: usize, kind: &str, payload: &str| {
        format!(
            r#"{{"timestamp":"2026-06-01T10:{minute:02}:00.000Z","type":"{kind}","payload":{payload}}}"#
        )
    };
    let user = |text: &str| {
        format!(
            r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}"#
        )
    };
    let history = format!(r#"{{"message":"","replacement_history":[{}]}}"#, user("SUMMARY"));
    let lines = [
        item(0, "session_meta", r#"{"id":"c1","cwd":"/quay","cli_version":"0.50.0"}"#),
        item(1, "response_item", &user("One")),
        item(
            2,
            "response_item",
            r#"{"type":"function_call","call_id":"t1","name":"read","arguments":"{}"}"#,
        ),
        item(3, "compacted", &history),
        item(4, "response_item", r#"{"type":"function_call_output","call_id":"t1","output":"41"}"#),
        item(5, "response_item", &user("Two")),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(Source::Codex, folder.path().join("rollout.jsonl"), lines.join("\n"));
    let repo = new_repo();
    let report = import(&repo, &[file]).pop().expect("a report");
    assert_eq!(transcript(&repo, &report.branches[0].branch), ["user SUMMARY", "user Two"]);
    assert_eq!(report.pairs, 1);
}

/// Writes a JSON value with each member of each object twice.
fn doubled(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(key, value)| format!("{key:?}:{}", doubled(value)));
            let members: Vec<String> = members.collect();
            format!("{{{0},{0}}}", members.join(",")).replace("{,}", "{}")
        }
        Value::Array(elements) => {
            let elements: Vec<String> = elements.iter().map(doubled).collect();
            format!("[{}]", elements.join(","))
        }
        value => value.to_string(),
    }
}

#[test]
fn of_repeated_members_the_last_one_counts_in_every_format() {
    for (source, path, end) in [
        (Source::ClaudeCode, "claude-code", "0c50.jsonl"),
        (Source::Codex, "codex", ".jsonl"),
        (Source::GeminiCli, "gemini-cli", ".json"),
        (Source::GeminiCli, "gemini-cli", ".jsonl"),
        (Source::CopilotCli, "copilot-cli", ".jsonl"),
        (Source::QwenCode, "qwen-code", ".jsonl"),
        (Source::OpenHands, "openhands", "v0.json"),
        (Source::OpenHands, "openhands", "v1.jsonl"),
        (Source::AiSdk, "ai-sdk", ".json"),
        (Source::Atif, "atif", ".json"),
        (Source::SweAgent, "swe-agent", ".traj"),
        (Source::Goose, "goose", ".jsonl"),
        (Source::OpenCode, "opencode", "export.json"),
        (Source::ClaudeAi, "claude-ai", ".json"),
    ] {
        let file = files(source, &bundled(path))
            .into_iter()
            .find(|file| file.path().to_string_lossy().ends_with(end))
            .expect("a file");
        let text = std::fs::read_to_string(file.path()).expect("it reads");
        let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let text = match end.ends_with("jsonl") {
            true => text.lines().map(|line| doubled(&parse(line)) + "\n").collect(),
            false => doubled(&parse(&text)),
        };
        let folder = tempfile::tempdir().expect("a folder");
        let name = file.path().file_name().expect("a name").to_owned();
        let twice = write(source, folder.path().join(&name), text);
        let (once, repo) = (new_repo(), new_repo());
        let expected = import(&once, &[file]);
        let reports = import(&repo, &[twice]);
        for (report, expected) in reports.iter().zip(&expected) {
            assert_eq!(
                (report.messages, report.pairs),
                (expected.messages, expected.pairs),
                "{end}"
            );
            for (branch, expected) in report.branches.iter().zip(&expected.branches) {
                let spoken = transcript(&repo, &branch.branch);
                assert_eq!(spoken, transcript(&once, &expected.branch), "{path} {end}");
            }
        }
        assert_eq!(reports.len(), expected.len());
        assert!(
            reports[0].anomalies.counts.contains_key(&AnomalyKind::DamagedLine),
            "{path} {end}"
        );
        let kind = recognize(&folder.path().join(&name)).expect("it reads");
        assert_eq!(kind, FileKind::Source(source), "{path} {end}");
    }
}

#[test]
fn a_file_that_ends_within_a_character_is_torn_and_not_damaged() {
    let whole = line("u1", "", 1, "user", "\"Low tide\"", "");
    let cut = line("u2", "u1", 2, "user", "\"\u{1f30a}", "");
    let bytes = format!("{whole}\n{cut}").into_bytes();
    let end = bytes.iter().rposition(|byte| *byte == 0xf0).expect("the emoji") + 2;
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join(format!("{SESSION}.jsonl"));
    let repo = new_repo();
    let file = write(Source::ClaudeCode, place, &bytes[..end]);
    let report = import(&repo, &[file]).pop().expect("a report");
    assert_eq!((report.messages, kinds(&report)), (1, vec![(AnomalyKind::TornLine, 1)]));
}

#[test]
fn bytes_after_a_document_are_left_out_and_reported() {
    for (source, path) in [
        (Source::GeminiCli, "gemini-cli/tmp/f00d/chats/session-2025-12-01T10-00-01d00000.json"),
        (Source::SweAgent, "swe-agent/hull.traj"),
        (Source::OpenCode, "opencode/export.json"),
    ] {
        let text = std::fs::read_to_string(bundled(path)).expect("it reads");
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join(Path::new(path).file_name().expect("a name"));
        let file = write(source, place.clone(), format!("{}\n\"old\": 1}}]", text.trim_end()));
        assert_eq!(recognize(&place).expect("it reads"), FileKind::Source(source), "{path}");
        let expected = import(&new_repo(), &files(source, &bundled(path)));
        let reports = import(&new_repo(), &[file]);
        assert_eq!(reports[0].messages, expected[0].messages, "{path}");
        assert_eq!(reports[0].anomalies.counts[&AnomalyKind::DamagedLine], 1, "{path}");
    }
}

#[test]
fn an_answer_of_gemini_cli_with_members_of_other_types_keeps_its_calls_and_thoughts() {
    let head = r#"{"sessionId":"gem","projectHash":"p","startTime":"2026-06-01T10:00:00.000Z"}"#;
    let answer = |call: &str, thoughts: &str, calls: &str| {
        let result = r#""result":[{"functionResponse":{"response":{"output":"41"}}}]"#;
        let calls = calls.replace("CALL", &format!(r#"{{"args":{{}},{call},{result}}}"#));
        format!(
            r#"{{"id":"g1","timestamp":"2026-06-01T10:00:02.000Z","type":"gemini","content":"Hm.","thoughts":{thoughts},"toolCalls":{calls}}}"#
        )
    };
    let thoughts = r#"[{"subject":7,"description":"Look."}]"#;
    for call in [
        r#""id":7,"name":"read","status":"success""#,
        r#""id":"c1","name":"read","status":{}"#,
        r#""id":"c1","name":true,"status":"success""#,
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let text = format!("{head}\n{}\n", answer(call, thoughts, "[CALL]"));
        let file = write(Source::GeminiCli, folder.path().join("s.jsonl"), text);
        let repo = new_repo();
        let report = import(&repo, &[file]).pop().expect("a report");
        assert_eq!((report.messages, report.pairs), (2, 1), "{call}: {report:?}");
    }
    for (thoughts, calls) in [("\"Look.\"", "[]"), ("[]", "{\"c\":CALL}"), ("[]", "[[CALL]]")] {
        let folder = tempfile::tempdir().expect("a folder");
        let call = r#""id":"c1","name":"read","status":"success""#;
        let text = format!("{head}\n{}\n", answer(call, thoughts, calls));
        let file = write(Source::GeminiCli, folder.path().join("s.jsonl"), text);
        let report = import(&new_repo(), &[file]).pop().expect("a report");
        assert_eq!(
            report.anomalies.counts.get(&AnomalyKind::UnreadableMessage),
            Some(&1),
            "{thoughts} {calls}"
        );
    }
}

#[test]
fn repeated_members_of_lines_are_reported_in_every_format_with_lines() {
    let turn = |text: &str| json!({"from": "human", "value": text, "x": 1});
    let answer = json!({"from": "gpt", "value": "Yes.", "x": 1});
    let dataset = |text: &str| json!({"id": text, "conversations": [turn(text), answer]});
    let run = |text: &str| {
        json!({"run_type": "llm", "id": text, "inputs": {"messages": [
            {"type": "human", "data": {"content": text}},
        ]}, "outputs": {"generations": [[{"message": {"type": "ai", "data": {"content": "Yes."}}}]]}})
    };
    let chat = json!({"kind": 0, "v": {"sessionId": "s", "creationDate": 1, "requests": []}});
    let request = json!({"kind": 2, "k": ["requests"], "v": [{"requestId": "r", "message": {"text": "Two"}}]});
    for (source, name, first, second) in [
        (Source::Dataset, "a.jsonl", dataset("One"), dataset("Two")),
        (Source::LangChain, "a.jsonl", run("One"), run("Two")),
        (Source::VsCodeChat, "a.jsonl", chat, request),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let twice = second.to_string().replace(r#":"Two""#, r#":"first","zz":1,"zz":2"#);
        let key = if second.to_string().contains(r#""value":"Two""#) { "value" } else { "text" };
        let key = if source == Source::LangChain { "content" } else { key };
        let twice = twice.replacen(
            &format!(r#""{key}":"first""#),
            &format!(r#""{key}":"first","{key}":"Two""#),
            1,
        );
        // On a line of its own, and after another record on the same line.
        for (text, line) in [(format!("{first}\n{twice}\n"), 2), (format!("{first}{twice}\n"), 1)] {
            let file = write(source, folder.path().join(name), text);
            let repo = new_repo();
            let reports = import(&repo, &[file]);
            let anomalies = reports.iter().flat_map(|report| &report.anomalies.listed);
            let repeated: Vec<_> =
                anomalies.filter(|a| a.what.contains("the last one counts")).collect();
            assert_eq!(repeated.len(), 1, "{source}: {reports:?}");
            assert_eq!(repeated[0].line, line, "{source}");
            assert!(repeated[0].what.contains(key), "{source}: {}", repeated[0].what);
            let branches = reports.iter().flat_map(|report| &report.branches);
            let spoken: Vec<String> =
                branches.flat_map(|branch| transcript(&repo, &branch.branch)).collect();
            assert!(spoken.contains(&"user Two".to_owned()), "{source}: {spoken:?}");
        }
    }
}
