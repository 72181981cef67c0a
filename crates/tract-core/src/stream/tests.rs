//! Lines in, lines out.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use proptest::prelude::*;

use super::*;
use crate::commit::{CommitRecord, Op};
use crate::id::CommitId;

#[track_caller]
fn parsed(line: &str) -> StreamOp {
    let operation = StreamOp::parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let again = operation.to_line().unwrap();
    assert_eq!(StreamOp::parse(&again).unwrap(), operation, "{again}");
    operation
}

#[track_caller]
fn reads(line: &str, op: StreamOpKind) {
    assert_eq!(parsed(line).op, op);
}

#[track_caller]
fn refused(line: &str, code: &str, message: &str) -> StreamOpError {
    let error =
        StreamOp::parse(line).map(|operation| panic!("{line} reads as {operation:?}")).unwrap_err();
    assert_eq!((error.code(), error.to_string().as_str()), (code, message), "{line}");
    error
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn every_line_of_the_contract_reads() {
    reads(r#"{"op":"system","text":"…"}"#, StreamOpKind::System { text: "…".into() });
    reads(r#"{"op":"user","text":""}"#, StreamOpKind::User { text: String::new() });
    reads(r#"{"op":"reasoning","text":"hm"}"#, StreamOpKind::Reasoning { text: "hm".into() });
    reads(
        r#"{"op":"tool_result","call_id":"c1","name":"grep","content":"…","is_error":false}"#,
        StreamOpKind::ToolResult {
            call_id: "c1".into(),
            name: Some("grep".into()),
            content: vec![Part::text("…")],
            is_error: false,
        },
    );
    assert_eq!(
        parsed(r#"{"op":"edit","target":":m1","text":"new"}"#).op,
        parsed(r#"{"op":"edit","target":":m1","content":"new"}"#).op,
    );
    reads(
        r#"{"op":"annotate","target":":m1","priority":"skip","reason":"old"}"#,
        StreamOpKind::Annotate {
            targets: texts(&[":m1"]),
            priority: Priority::Skip,
            reason: Some("old".into()),
            retention: None,
        },
    );
    reads(
        r#"{"op":"annotate","targets":["a","b"],"priority":"important","retention":{"keep":["ids"]}}"#,
        StreamOpKind::Annotate {
            targets: texts(&["a", "b"]),
            priority: Priority::Important,
            reason: None,
            retention: Some(JsonText::new(r#"{"keep":["ids"]}"#).unwrap()),
        },
    );
    reads(r#"{"op":"set_tools","tools":[]}"#, StreamOpKind::SetTools { tools: vec![] });
    reads(
        r#"{"op":"branch","name":"b","from":":m1"}"#,
        StreamOpKind::Branch { name: "b".into(), from: Some(":m1".into()) },
    );
    reads(r#"{"op":"checkout","name":"b"}"#, StreamOpKind::Checkout { name: "b".into() });
    reads(
        r#"{"op":"tag","name":"t","target":":m1"}"#,
        StreamOpKind::Tag { name: "t".into(), target: Some(":m1".into()) },
    );
    reads(r#"{"op":"merge","from":"b"}"#, StreamOpKind::Merge { from: "b".into() });
    reads(
        r#"{"op":"compress","from":":m1","to":":m9","content":"short"}"#,
        StreamOpKind::Compress {
            what: CompressWhat::Range { from: ":m1".into(), to: ":m9".into() },
            content: "short".into(),
            kind: None,
        },
    );
    reads(
        r#"{"op":"compress","targets":[":a",":c"],"content":"short","kind":"user"}"#,
        StreamOpKind::Compress {
            what: CompressWhat::Targets(texts(&[":a", ":c"])),
            content: "short".into(),
            kind: Some(Kind::User),
        },
    );
    reads(
        r#"{"op":"revert","target":":x","cascade":true}"#,
        StreamOpKind::Revert { targets: texts(&[":x"]), cascade: true },
    );
    reads(r#"{"op":"note","text":"n"}"#, StreamOpKind::Note { text: "n".into() });
    let content = Content::Custom { kind: "memory".into(), body: Body::text("a") };
    reads(
        r#"{"op":"commit","kind":"memory","role":"user","parts":[{"type":"text","text":"a"}]}"#,
        StreamOpKind::Commit { content, role: Some(Role::User) },
    );
}

#[test]
fn an_assistants_message_keeps_its_arguments_as_written() {
    let operation = parsed(
        r#"{"op":"assistant","text":"I look.","tool_calls":[{"id":"c1","name":"f","arguments":{"b": 1e2, "a":12345678901234567890}},{"id":"c2","name":"g","arguments":"{not json"}]}"#,
    );
    let StreamOpKind::Assistant { tool_calls, .. } = &operation.op else { panic!("{operation:?}") };
    assert_eq!(tool_calls[0].arguments, r#"{"b": 1e2, "a":12345678901234567890}"#);
    assert_eq!(tool_calls[1].arguments, "{not json");
    // An object that holds a line break is kept too, though not as an object.
    let broken = StreamOpKind::Assistant {
        text: String::new(),
        reasoning: Some("why".into()),
        tool_calls: vec![ToolCall {
            id: "c".into(),
            name: "f".into(),
            arguments: "{\n \"a\": 1}".into(),
        }],
    };
    let line = StreamOp::from(broken.clone()).to_line().unwrap();
    assert!(!line.contains('\n'));
    assert_eq!(StreamOp::parse(&line).unwrap().op, broken);
    let Content::Assistant(body) = broken.content().unwrap() else { panic!() };
    assert!(matches!(body.parts.as_slice(), [Part::Reasoning { .. }, Part::ToolCall(_)]));
}

#[test]
fn schemas_keep_their_bytes() {
    let deep = format!("{}1{}", "{\"a\":".repeat(128), "}".repeat(128));
    for schema in [
        r#"{"name":"f", "input_schema":{"type":"object"} }"#,
        "{\n  \"name\": \"f\"\n}",
        r#"{"z":1,"a":2.50}"#,
        &deep,
    ] {
        let tools = vec![ToolSchema::parse(schema).unwrap(); 2];
        assert_eq!(tools[0].text(), schema);
        let op = StreamOpKind::SetTools { tools };
        let line = StreamOp::from(op.clone()).to_line().unwrap();
        assert_eq!(StreamOp::parse(&line).unwrap().op, op);
    }
}

#[test]
fn shared_fields_become_the_draft() {
    let operation = parsed(
        r#"{"op":"assistant","text":"Hi.","mark":"m","message":"greets","metadata":{"b":1,"a":1.50},"generation_config":{"model":"x"},"tools":[{"name":"f"}],"priority":"pinned","at":"1970-01-01T00:00:01.5Z"}"#,
    );
    let draft = operation.to_draft().unwrap();
    assert_eq!(draft.content, Content::assistant("Hi."));
    assert_eq!(draft.message.as_deref(), Some("greets"));
    assert_eq!(draft.metadata.as_ref().unwrap().as_str(), r#"{"a":1.5,"b":1}"#);
    assert_eq!(draft.generation_config.as_ref().unwrap().as_str(), r#"{"model":"x"}"#);
    assert_eq!(draft.tools.as_ref().unwrap()[0].name(), "f");
    assert_eq!(draft.priority, Some(Priority::Pinned));
    assert_eq!(draft.created_at, Some(1_500_000));
    assert_eq!(draft.origin, AuthorKind::Model.into());
    assert_eq!(parsed(r#"{"op":"user","text":"a","at":-5}"#).fields.at, Some(-5));
    assert_eq!(parsed(r#"{"op":"note","text":"a"}"#).to_draft(), None);
    // The same words as the draft's own constructors.
    let result = parsed(r#"{"op":"tool_result","call_id":"c","content":"x","is_error":true}"#);
    assert_eq!(result.to_draft(), Some(Draft::tool_result("c", "x").is_error(true)));
    assert_eq!(parsed(r#"{"op":"user","text":"a"}"#).to_draft(), Some(Draft::user("a")));
    assert_eq!(parsed(r#"{"op":"reasoning","text":"a"}"#).to_draft(), Some(Draft::reasoning("a")));
    let call = parsed(r#"{"op":"assistant","tool_calls":[{"id":"c","name":"f","arguments":{}}]}"#);
    assert_eq!(call.to_draft(), Some(Draft::assistant("").call("c", "f", "{}")));
}

#[test]
fn wrong_lines_are_refused_with_what_was_expected() {
    let missing = |line: &str, op: &str, field: &str| {
        refused(line, "missing_field", &format!("op {op:?} expects a field {field:?}, found none"))
    };
    let unknown = |line: &str, op: &str, field: &str| {
        refused(line, "unknown_field", &format!("op {op:?} takes no field {field:?}"))
    };
    let wrong_type = |line: &str, field: &str, expected: &str, found: &str| {
        let message = format!("field {field:?} expects {expected}, found {found}");
        refused(line, "wrong_type", &message)
    };
    let bad_value = |line: &str, field: &str, why: &str| {
        refused(line, "bad_value", &format!("field {field:?}: {why}"))
    };
    let error = refused(r#"{"op":"asistant","text":""}"#, "unknown_op", "unknown op \"asistant\"");
    assert_eq!(error.notes(), ["did you mean \"assistant\"?"]);
    let error = refused(r#"{"op":"dance"}"#, "unknown_op", "unknown op \"dance\"");
    assert!(error.notes()[0].starts_with("the ops are system, user"));
    refused(r#"{"text":"a"}"#, "missing_op", "expected a field \"op\", found none");
    wrong_type(r#"{"op":7}"#, "op", "text", "a number");
    let error = missing(r#"{"op":"user"}"#, "user", "text");
    assert_eq!(error.notes(), [r#"an example: {"op":"user","text":"Do I need a coat?"}"#]);
    missing(r#"{"op":"user","text":null}"#, "user", "text");
    wrong_type(r#"{"op":"user","text":["a"]}"#, "text", "text", "a list");
    let error = unknown(r#"{"op":"user","text":"a","metdata":{}}"#, "user", "metdata");
    assert_eq!(error.notes(), ["did you mean \"metadata\"?"]);
    unknown(r#"{"op":"annotate","target":"a","priority":"skip","tools":[]}"#, "annotate", "tools");
    unknown(r#"{"op":"checkout","name":"a","at":"1970-01-01T00:00:00Z"}"#, "checkout", "at");
    refused(r#"{"op":"user","text":"a","text":"b"}"#, "repeated_field", "duplicate field \"text\"");
    refused(
        r#"{"op":"revert","target":"a","targets":["b"]}"#,
        "both_fields",
        "op \"revert\" takes \"target\" or \"targets\", found both",
    );
    bad_value(
        r#"{"op":"revert","targets":[]}"#,
        "targets",
        "expected at least one revision, found none",
    );
    bad_value(
        r#"{"op":"annotate","target":"a","priority":"high"}"#,
        "priority",
        "expected skip, normal, important or pinned, found \"high\"",
    );
    bad_value(
        r#"{"op":"user","text":"a","at":"yesterday"}"#,
        "at",
        "expected an RFC 3339 time such as 2026-01-31T09:30:00Z, found \"yesterday\": the year has four digits",
    );
    bad_value(
        r#"{"op":"user","text":"a","at":1.5}"#,
        "at",
        "expected an RFC 3339 time or whole microseconds since 1970, found 1.5",
    );
    wrong_type(r#"{"op":"user","text":"a","metadata":[]}"#, "metadata", "an object", "a list");
    missing(r#"{"op":"compress","from":"a","content":"s"}"#, "compress", "to");
    bad_value(
        r#"{"op":"assistant","tool_calls":[{"id":"c","name":"f","args":{}}]}"#,
        "tool_calls",
        "call 1: takes no field \"args\"",
    );
    bad_value(
        r#"{"op":"assistant","tool_calls":[{"id":"c","name":"f","arguments":[]}]}"#,
        "tool_calls",
        "call 1: field \"arguments\" expects an object or text, found []",
    );
    wrong_type(
        r#"{"op":"set_tools","tools":[{"name":"f"},3]}"#,
        "tools",
        "a list of objects",
        "a number",
    );
    bad_value(
        r#"{"op":"commit","kind":"note","parts":[]}"#,
        "parts",
        "kind note has none; use \"content\"",
    );
    bad_value(r#"{"op":"merge","from":""}"#, "from", "expected a name, found an empty text");
    assert_eq!(
        StreamOp::parse(r#"{"op":"user","text":"a","mark":"two words"}"#).unwrap_err().code(),
        "bad_value"
    );
    for line in ["", "null", "[]", "{", "{} {}", "\u{feff}{}", r#"{"op":"user","text":"\ud800"}"#] {
        assert_eq!(
            StreamOp::parse(line).unwrap_err().code(),
            if line == "{}" { "missing_op" } else { "invalid_json" },
            "{line}"
        );
    }
    let deep = format!(r#"{{"op":"user","text":"a","metadata":{}}}"#, "[".repeat(10_000));
    assert_eq!(StreamOp::parse(&deep).unwrap_err().code(), "invalid_json");
}

#[test]
fn examples_in_notes_are_true() {
    for (op, _, line) in OPS {
        assert!(line.contains(&format!("\"op\":\"{op}\"")), "{op}");
        if !line.contains('…') {
            assert_eq!(parsed(line).op.name(), op);
        }
    }
}

#[test]
fn exported_objects_must_come_out_as_they_are_named() {
    let blob = Blob::seal("hello");
    let line = StreamOp::from(StreamOpKind::Blob(blob.clone())).to_line().unwrap();
    assert_eq!(line, format!(r#"{{"op":"blob","id":"{}","text":"hello"}}"#, blob.id()));
    assert_eq!(parsed(&line).op, StreamOpKind::Blob(blob));
    assert_eq!(StreamOp::parse(&line.replace("hello", "hallo")).unwrap_err().code(), "other_id");
    let bytes = StreamOp::from(StreamOpKind::Blob(Blob::seal(vec![0xff, 0, 1])));
    assert!(bytes.to_line().unwrap().ends_with(r#""base64":"/wAB"}"#));
    assert_eq!(parsed(&bytes.to_line().unwrap()), bytes);

    let mut record = CommitRecord::new(Op::append(), AuthorKind::User);
    record.metadata = Some(JsonText::new(r#"{"n":1}"#).unwrap());
    let commit = Commit::seal(record).unwrap();
    let operation = StreamOp {
        recorded: Some(commit.clone()),
        ..StreamOp::from(StreamOpKind::User { text: "hello".into() })
    };
    let line = operation.to_line().unwrap();
    assert_eq!(parsed(&line).recorded, Some(commit.clone()));
    let error = StreamOp::parse(&line.replace("\"n\":1", "\"n\":2")).unwrap_err();
    assert_eq!(error.code(), "other_id");
    assert!(error.to_string().starts_with(&format!("commit {} comes out as ", commit.id())));
    let half = format!(r#"{{"op":"user","text":"a","commit":"{}"}}"#, commit.id());
    refused(&half, "missing_field", "op \"user\" expects a field \"record\", found none");
    let bare = StreamOp { recorded: Some(commit), ..StreamOp::from(StreamOpKind::Record) };
    assert_eq!(parsed(&bare.to_line().unwrap()), bare);
    assert_eq!(StreamOp::from(StreamOpKind::Record).to_line().unwrap_err().code(), "missing_field");
}

#[test]
fn bytes_have_one_text() {
    let line = |bytes: &[u8], text: &str| {
        let id = Blob::seal(bytes.to_vec()).id();
        StreamOp::parse(&format!(r#"{{"op":"blob","id":"{id}","base64":"{text}"}}"#))
    };
    let vectors = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
    for (length, text) in vectors.into_iter().enumerate() {
        line(&b"foobar"[..length], text).unwrap();
    }
    for text in ["Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Z===", "====", "Zm 9", "Zm9v\\n"] {
        assert_eq!(line(b"f", text).unwrap_err().code(), "bad_value", "{text}");
    }
}

#[test]
fn refs_say_what_they_point_at() {
    let (commit, blob) = (CommitId::from_bytes([1; 32]), Blob::seal("x").id());
    for (to, text) in [
        (RefTarget::Commit(commit), commit.to_hex()),
        (RefTarget::Blob(blob), format!("blob {blob}")),
        (RefTarget::Ref(RefName::branch("main").unwrap()), "heads/main".to_owned()),
        (RefTarget::Ref(RefName::new("a".repeat(64)).unwrap()), format!("ref {}", "a".repeat(64))),
    ] {
        let operation = StreamOp::from(StreamOpKind::Ref { name: RefName::head(), to });
        let line = operation.to_line().unwrap();
        assert_eq!(line, format!(r#"{{"op":"ref","name":"HEAD","to":"{text}"}}"#));
        assert_eq!(parsed(&line), operation);
    }
    let spelt = format!(r#"{{"op":"ref","name":"heads/a","to":"commit {commit}"}}"#);
    assert!(matches!(parsed(&spelt).op, StreamOpKind::Ref { to: RefTarget::Commit(_), .. }));
}

#[test]
fn an_operation_with_a_field_it_does_not_take_has_no_line() {
    let fields = StreamOpFields { priority: Some(Priority::Skip), ..StreamOpFields::default() };
    let operation = StreamOp { fields, ..StreamOp::from(StreamOpKind::Note { text: "n".into() }) };
    assert_eq!(
        operation.to_line().unwrap_err().to_string(),
        "op \"note\" takes no field \"priority\""
    );
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(line in "\\PC{0,40}|\\{\"op\":\"[a-z_]{2,12}\",\"[a-z]{2,9}\":(\"\"|\\[\\]|\\{\\}|1|null|true)\\}") {
        let _ = StreamOp::parse(&line);
    }

    #[test]
    fn bytes_of_any_base64_are_written_as_they_came(text in "[A-Za-z0-9+/=]{0,12}") {
        let bytes = BASE64_STANDARD.decode(&text);
        if let Some(bytes) = bytes.ok().filter(|bytes| std::str::from_utf8(bytes).is_err()) {
            let operation = StreamOp::from(StreamOpKind::Blob(Blob::seal(bytes)));
            let written = format!(r#""base64":"{text}"}}"#);
            prop_assert!(operation.to_line().unwrap().ends_with(&written), "{}", text);
        }
    }
}
