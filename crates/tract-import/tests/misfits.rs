//! Members of unexpected types, in every format: for each member of the bundled sessions and each other
//! type, nothing else is lost, and what is not read is reported by name or kept.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tract_core::store::Walk;
use tract_core::{RefTarget, block_on};
use tract_import::{RecordingOptions, SessionFile, SessionReport, Source};

use self::support::{bundled, files, import, new_repo, refs};

/// The texts of a recording that contain its members, and how they are stored.
#[derive(Clone, Copy)]
enum Layout {
    Document,
    Lines,
    /// The cells of a column with JSON, of the rows with this condition.
    Cells {
        table: &'static str,
        column: &'static str,
        rows: &'static str,
    },
    /// The largest checkpoint of a database of LangGraph, in msgpack.
    Checkpoint,
    /// The entries of an archive.
    Zip,
}

/// The member that represents the dump of a class in msgpack, with its code and its fields.
const CLASS: &str = "$class";

/// Reads msgpack as JSON, with a member for the dump of a class.
fn unpack(value: rmpv::Value) -> Value {
    match value {
        rmpv::Value::Map(members) => {
            let member = |(key, value): (rmpv::Value, _)| {
                (key.as_str().expect("a name").to_owned(), unpack(value))
            };
            Value::Object(members.into_iter().map(member).collect())
        }
        rmpv::Value::Array(values) => values.into_iter().map(unpack).collect(),
        rmpv::Value::Ext(code, bytes) => {
            let fields = rmpv::decode::read_value(&mut &bytes[..]).expect("msgpack");
            json!({ CLASS: { "code": code, "fields": unpack(fields) } })
        }
        rmpv::Value::Integer(number) => json!(number.as_i64()),
        rmpv::Value::String(text) => json!(text.as_str()),
        other => serde_json::from_str(&other.to_string()).expect("it is JSON"),
    }
}

fn pack(value: &Value) -> rmpv::Value {
    let class = value.get(CLASS).and_then(|class| {
        let code = i8::try_from(class.get("code")?.as_i64()?).ok()?;
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &pack(class.get("fields")?)).expect("written");
        Some(rmpv::Value::Ext(code, bytes))
    });
    match value {
        _ if class.is_some() => class.expect("a class"),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| (name.as_str().into(), pack(value));
            rmpv::Value::Map(members.iter().map(member).collect())
        }
        Value::Array(values) => rmpv::Value::Array(values.iter().map(pack).collect()),
        Value::Null => rmpv::Value::Nil,
        Value::Bool(value) => (*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => number.as_f64().expect("a number").into(),
        },
        Value::String(text) => text.as_str().into(),
    }
}

struct Recording {
    source: Source,
    path: PathBuf,
    layout: Layout,
    units: Vec<Value>,
}

/// Members that select the kind of a record; their values tell two records apart.
const KINDS: [&str; 9] =
    ["type", "kind", "role", "part_kind", "event", "from", "source", "action", "subtype"];

/// Members of schemas, which are stored as they are.
const OPAQUE: [&str; 2] = ["properties", "required"];

fn kind_of(value: &Value) -> String {
    let members = value.as_object().into_iter().flatten();
    let kinds = members.filter(|(name, _)| KINDS.contains(&name.as_str()));
    let kinds: Vec<&str> = kinds.filter_map(|(_, value)| value.as_str()).collect();
    kinds.join("/")
}

/// The place of a value: the names and positions that lead to it.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    Name(String),
    At(usize),
}

/// Lists the members of a value, one of each kind.
fn members(
    value: &Value,
    path: &mut Vec<Step>,
    shape: &str,
    seen: &mut BTreeSet<String>,
    all: &mut Vec<Vec<Step>>,
) {
    let mut one = |step: Step, shape: String, value: &Value| {
        path.push(step);
        if seen.insert(shape.clone()) {
            all.push(path.clone());
        }
        members(value, path, &shape, seen, all);
        path.pop();
    };
    match value {
        Value::Object(object) => {
            let kind = kind_of(value);
            for (name, value) in object.iter().filter(|(name, _)| !OPAQUE.contains(&name.as_str()))
            {
                one(Step::Name(name.clone()), format!("{shape}{kind}.{name}"), value);
            }
        }
        Value::Array(list) => {
            for (n, value) in list.iter().enumerate() {
                one(Step::At(n), format!("{shape}[{}]", kind_of(value)), value);
            }
        }
        _ => {}
    }
}

fn at<'a>(value: &'a mut Value, path: &[Step]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match step {
        Step::Name(name) => &mut value[name.as_str()],
        Step::At(n) => &mut value[*n],
    })
}

/// Removes a member, or the element of a list.
fn without(value: &Value, path: &[Step]) -> Value {
    let mut value = value.clone();
    let end = path.len() - 1;
    let inner = at(&mut value, &path[..end]);
    match &path[end] {
        Step::Name(name) => drop(inner.as_object_mut().expect("an object").remove(name)),
        Step::At(n) => drop(inner.as_array_mut().expect("a list").remove(*n)),
    }
    value
}

impl Recording {
    fn read(source: Source, path: &Path, layout: Layout) -> Self {
        let parse = |text: &str| serde_json::from_str(text).expect("JSON");
        let text = || std::fs::read_to_string(path).expect("it reads");
        let units = match layout {
            Layout::Document => vec![parse(&text())],
            Layout::Lines => text().lines().map(parse).collect(),
            Layout::Cells { table, column, rows } => {
                let database = rusqlite::Connection::open(path).expect("a database");
                let query = format!("SELECT {column} FROM {table} WHERE {rows} ORDER BY rowid");
                let mut query = database.prepare(&query).expect("a query");
                let cells = query.query_map([], |row| {
                    Ok(match row.get_ref(0)? {
                        rusqlite::types::ValueRef::Text(bytes)
                        | rusqlite::types::ValueRef::Blob(bytes) => {
                            String::from_utf8_lossy(bytes).into_owned()
                        }
                        _ => "null".to_owned(),
                    })
                });
                cells.expect("rows").map(|cell| parse(&cell.expect("a cell"))).collect()
            }
            Layout::Checkpoint => {
                let database = rusqlite::Connection::open(path).expect("a database");
                let query = "SELECT checkpoint FROM checkpoints WHERE type = 'msgpack' \
                             ORDER BY length(checkpoint) DESC LIMIT 1";
                let bytes: Vec<u8> =
                    database.query_row(query, [], |row| row.get(0)).expect("a checkpoint");
                let value = rmpv::decode::read_value(&mut &bytes[..]).expect("msgpack");
                vec![unpack(value)]
            }
            Layout::Zip => {
                let mut archive = zip::ZipArchive::new(std::fs::File::open(path).expect("a file"))
                    .expect("a zip");
                let names: Vec<usize> = (0..archive.len()).collect();
                let mut units = Vec::new();
                for n in names {
                    use std::io::Read as _;
                    let mut entry = archive.by_index(n).expect("an entry");
                    let mut text = String::new();
                    entry.read_to_string(&mut text).expect("it reads");
                    units.push(parse(&text));
                }
                units
            }
        };
        Self { source, path: path.to_owned(), layout, units }
    }

    /// Writes the recording with another unit.
    fn write(&self, folder: &Path, changed: usize, unit: &Value) -> SessionFile {
        let path = folder.join(self.path.file_name().expect("a name"));
        let unit = |n: usize| if n == changed { unit } else { &self.units[n] };
        let texts = (0..self.units.len()).map(|n| unit(n).to_string());
        match self.layout {
            Layout::Document => std::fs::write(&path, unit(0).to_string()).expect("written"),
            Layout::Lines => {
                let lines: String = texts.map(|line| line + "\n").collect();
                std::fs::write(&path, lines).expect("written");
            }
            Layout::Cells { table, column, rows } => {
                std::fs::copy(&self.path, &path).expect("copied");
                let database = rusqlite::Connection::open(&path).expect("a database");
                let set = format!(
                    "UPDATE {table} SET {column} = ?1 WHERE rowid = \
                     (SELECT rowid FROM {table} WHERE {rows} ORDER BY rowid LIMIT 1 OFFSET {changed})"
                );
                database.execute(&set, [unit(changed).to_string()]).expect("a row");
            }
            Layout::Checkpoint => {
                std::fs::copy(&self.path, &path).expect("copied");
                let database = rusqlite::Connection::open(&path).expect("a database");
                let mut bytes = Vec::new();
                rmpv::encode::write_value(&mut bytes, &pack(unit(0))).expect("written");
                database.execute("DELETE FROM checkpoints", []).expect("no rows");
                let insert = "INSERT INTO checkpoints (thread_id, checkpoint_id, type, checkpoint) \
                              VALUES ('tides', '1', 'msgpack', ?1)";
                database.execute(insert, [bytes]).expect("a row");
            }
            Layout::Zip => {
                use std::io::Write as _;
                let old = std::fs::File::open(&self.path).expect("a file");
                let mut old = zip::ZipArchive::new(old).expect("a zip");
                let name = |n: usize| {
                    old.by_index(n).expect("an entry").name().expect("a name").into_owned()
                };
                let names: Vec<String> = (0..self.units.len()).map(name).collect();
                let file = std::fs::File::create(&path).expect("a file");
                let mut archive = zip::ZipWriter::new(file);
                for (n, name) in names.iter().enumerate() {
                    let options = zip::write::SimpleFileOptions::default();
                    archive.start_file(name.as_str(), options).expect("an entry");
                    archive.write_all(unit(n).to_string().as_bytes()).expect("written");
                }
                archive.finish().expect("it ends");
            }
        }
        SessionFile::new(self.source, path)
    }
}

/// What an import stores and reports.
#[derive(Debug, Default)]
struct Outcome {
    /// The contents, metadata and configs of all commits, and the documents, each with its number.
    stored: BTreeMap<String, usize>,
    reported: BTreeMap<String, usize>,
    reports: Vec<SessionReport>,
}

impl Outcome {
    fn of(file: &SessionFile) -> Self {
        let mut outcome = Self::default();
        let repo = new_repo();
        let mut reports = Vec::new();
        let options = RecordingOptions { redact: false };
        let done =
            tract_import::import(&repo, std::slice::from_ref(file), &options, |_, report| {
                reports.push(report.map_err(|error| error.to_string()));
            });
        block_on(done).expect("the store works");
        for report in reports {
            match report {
                Ok(report) => {
                    for anomaly in &report.anomalies.listed {
                        *outcome.reported.entry(anomaly.what.clone()).or_default() += 1;
                    }
                    outcome.reports.push(report);
                }
                Err(error) => *outcome.reported.entry(error).or_default() += 1,
            }
        }
        let store = repo.store();
        let blob = |id| {
            let found = block_on(store.blobs(repo.name(), &[id])).expect("it is read");
            let text = found[0].as_ref().and_then(|blob| blob.text().map(str::to_owned));
            text.unwrap_or_default()
        };
        let (mut commits, mut toolsets) = (BTreeSet::new(), BTreeSet::new());
        for (_, target) in refs(&repo) {
            match target {
                RefTarget::Commit(head) => {
                    let page = block_on(store.walk(repo.name(), Walk::from(head))).expect("read");
                    for entry in page.entries {
                        if !commits.insert(entry.commit.id()) {
                            continue;
                        }
                        let record = entry.commit.record();
                        if record.toolset.is_some_and(|set| toolsets.insert(set)) {
                            let head = Some(entry.commit.id());
                            let compiled = block_on(repo.compile(head)).expect("it compiles");
                            for tool in compiled.tools() {
                                *outcome.stored.entry(tool.schema.to_string()).or_default() += 1;
                            }
                        }
                        let content = record.content.map(|id| blob(id.into())).unwrap_or_default();
                        let verbatim = record.verbatim.map(|id| blob(id.into()));
                        let text = format!(
                            "{:?} {content} {verbatim:?} {:?} {:?} {:?} {:?}",
                            record.kind,
                            record.metadata,
                            record.generation_config,
                            record.created_at,
                            record.origin,
                        );
                        *outcome.stored.entry(text).or_default() += 1;
                    }
                }
                RefTarget::Blob(id) => *outcome.stored.entry(blob(id.into())).or_default() += 1,
                _ => {}
            }
        }
        outcome
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (stored, count) in &self.stored {
            (0..*count).for_each(|_| text += &format!("{stored}\n"));
        }
        text
    }

    fn counts(&self) -> Vec<String> {
        let of = |report: &SessionReport| {
            let names: Vec<&str> =
                report.branches.iter().map(|branch| branch.branch.as_str()).collect();
            format!(
                "{:?} {:?} {:?} {:?} {names:?}",
                report.title, report.models, report.tokens, report.session,
            )
        };
        self.reports.iter().map(of).collect()
    }

    /// The words of the stored messages.
    fn words(&self) -> BTreeSet<String> {
        let text = self.text();
        let quoted = text.split('"').filter(|word| word.contains(' ') && word.len() > 8);
        let is_plain = |word: &&str| !word.contains(['\\', '{', '}', '[', ']', ':']);
        quoted.filter(is_plain).map(str::to_owned).collect()
    }
}

fn is_same_type(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Checks all members of a recording. Returns what is wrong.
fn check(recording: &Recording) -> Vec<String> {
    let wrong_types = [
        json!(null),
        json!([]),
        json!({}),
        json!(true),
        json!(70707),
        json!("zz mark"),
        json!({"zz": [70708]}),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let first = &recording.units[0];
    let base = Outcome::of(&recording.write(folder.path(), 0, first));
    let (base_text, base_words) = (base.text(), base.words());
    let mut wrong = Vec::new();
    let unexpected = base.reported.keys().filter(|what| what.contains("unexpected type"));
    wrong.extend(unexpected.map(|what| format!("as recorded: {what}")));
    let mut seen = BTreeSet::new();
    for (n, unit) in recording.units.iter().enumerate() {
        let mut paths = Vec::new();
        members(unit, &mut Vec::new(), &kind_of(unit), &mut seen, &mut paths);
        for path in paths {
            // Null, an empty list and an empty object are like an absent member. A value of another type may also make
            // the element of the outermost list unreadable that contains it, but no other.
            let of = |path: &[Step]| {
                Outcome::of(&recording.write(folder.path(), n, &without(unit, path))).words()
            };
            let outermost = path.iter().position(|step| matches!(step, Step::At(_)));
            let outermost = outermost.map_or(&path[..], |end| &path[..=end]);
            for value in &wrong_types {
                let mut changed = unit.clone();
                let place = at(&mut changed, &path);
                if is_same_type(place, value) {
                    continue;
                }
                // The mark must not be in the value that it replaces.
                let has_mark = value.is_boolean() && place.to_string().contains("true");
                let value = if has_mark { &json!(false) } else { value };
                *place = value.clone();
                let outcome = Outcome::of(&recording.write(folder.path(), n, &changed));
                let text = outcome.text();
                let case = || {
                    let path: String = path
                        .iter()
                        .map(|step| match step {
                            Step::Name(name) => format!(".{name}"),
                            Step::At(n) => format!("[{n}]"),
                        })
                        .collect();
                    format!("{} unit {n} {path} = {value}", recording.path.display())
                };
                let is_absent = value.is_null() || *value == json!([]) || *value == json!({});
                let mut words: Vec<&String> =
                    base_words.iter().filter(|word| !text.contains(*word)).collect();
                if !words.is_empty() {
                    let rest = of(if is_absent { &path } else { outermost });
                    words.retain(|word| rest.contains(*word));
                }
                let words = words.into_iter();
                wrong.extend(words.map(|word| format!("{}: lost {word:?}", case())));
                let is_equal = outcome.stored == base.stored && outcome.counts() == base.counts();
                if is_equal || is_absent {
                    continue;
                }
                let mut names = path.iter().rev().filter_map(|step| match step {
                    Step::Name(name) => Some(name.as_str()),
                    Step::At(_) => None,
                });
                let name = names.next().unwrap_or_default();
                let is_new = |(what, count): &(&String, &usize)| {
                    base.reported.get(*what).is_none_or(|before| before < count)
                };
                let new: Vec<&String> =
                    outcome.reported.iter().filter(is_new).map(|(what, _)| what).collect();
                let is_named =
                    |what: &&String| what.contains(name) || what.contains(": unexpected");
                let mark = match value {
                    Value::Object(_) => "70708".to_owned(),
                    Value::String(text) => text.clone(),
                    value => value.to_string(),
                };
                let count = |text: &str| text.matches(&mark).count();
                let is_named = new.iter().any(is_named);
                if !is_named && count(&text) <= count(&base_text) {
                    wrong.push(format!("{}: neither named nor kept: {new:?}", case()));
                }
            }
        }
    }
    wrong
}

#[track_caller]
fn check_all(source: Source, folder: &str, name: &str, layout: Layout) {
    let file = files(source, &bundled(folder))
        .into_iter()
        .find(|file| file.path().to_string_lossy().ends_with(name))
        .expect("a file");
    let wrong = check(&Recording::read(source, file.path(), layout));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// A test for each format.
macro_rules! formats {
    ($($test:ident: $source:ident, $folder:literal, $name:literal, $layout:expr;)*) => {
        $(
            #[test]
            fn $test() {
                check_all(Source::$source, $folder, $name, $layout);
            }
        )*
    };
}

formats! {
    claude_code: ClaudeCode, "claude-code", "bfb38461-8fc8-5582-bd81-bc1cb996f385.jsonl", Layout::Lines;
    codex: Codex, "codex", ".jsonl", Layout::Lines;
    gemini_cli: GeminiCli, "gemini-cli", ".jsonl", Layout::Lines;
    gemini_cli_documents: GeminiCli, "gemini-cli", ".json", Layout::Document;
    ai_sdk: AiSdk, "ai-sdk", ".json", Layout::Document;
    atif: Atif, "atif", ".json", Layout::Document;
    swe_agent: SweAgent, "swe-agent", ".traj", Layout::Document;
    open_hands: OpenHands, "openhands", "v1.jsonl", Layout::Lines;
    open_hands_before_the_sdk: OpenHands, "openhands", "v0.json", Layout::Document;
    inspect: Inspect, "inspect", ".eval", Layout::Zip;
    chatgpt: ChatGpt, "chatgpt", ".json", Layout::Document;
    claude_ai: ClaudeAi, "claude-ai", ".json", Layout::Document;
    pydantic_ai: PydanticAi, "pydantic-ai", ".json", Layout::Document;
    langchain: LangChain, "langchain", ".json", Layout::Document;
    dataset: Dataset, "dataset", ".jsonl", Layout::Lines;
    opencode: OpenCode, "opencode", "export.json", Layout::Document;
    opencode_messages: OpenCode, "opencode", "opencode.db",
        Layout::Cells { table: "message", column: "data", rows: "1" };
    opencode_parts: OpenCode, "opencode", "opencode.db",
        Layout::Cells { table: "part", column: "data", rows: "1" };
    mini_swe_agent: MiniSweAgent, "mini-swe-agent", ".traj.json", Layout::Document;
    copilot_cli: CopilotCli, "copilot-cli", ".jsonl", Layout::Lines;
    vscode_chat: VsCodeChat, "vscode-chat", ".json", Layout::Document;
    vscode_chat_lines: VsCodeChat, "vscode-chat", ".jsonl", Layout::Lines;
    goose: Goose, "goose", ".jsonl", Layout::Lines;
    goose_database: Goose, "goose", "sessions.db",
        Layout::Cells { table: "messages", column: "content_json", rows: "1" };
    qwen_code: QwenCode, "qwen-code", ".jsonl", Layout::Lines;
    cursor: Cursor, "cursor", "state.vscdb",
        Layout::Cells { table: "cursorDiskKV", column: "value", rows: "json_valid(value)" };
    langgraph: LangGraph, "langgraph", "checkpoints.sqlite", Layout::Checkpoint;
    langgraph_in_json: LangGraph, "langgraph", "checkpoints.sqlite",
        Layout::Cells { table: "checkpoints", column: "checkpoint", rows: "type = 'json'" };
    openai_agents: OpenAiAgents, "openai-agents", "sessions.db",
        Layout::Cells { table: "agent_messages", column: "message_data", rows: "1" };
}

/// Lines that are not the expected ones, each with a mark.
const ODD_LINES: [&str; 22] = [
    "zz mark",
    " zz mark",
    "# zz mark",
    "##### zz mark",
    "####zz mark",
    "    #### zz mark",
    ">zz mark",
    ">> zz mark",
    "> zz mark",
    "> Tokens: zz mark",
    "> Tokens: zz sent, mark received.",
    "> Tokens: 1.2zz sent, 70707 mark.",
    "> Tokens: 12 zz mark, 5 received. Cost: $0.01 message, $0.01 session.",
    "> Tokens: 12 sent, 5 received. Cost: zz mark",
    "> Main model: zz mark",
    "> Main model:",
    "``` zz mark",
    "```",
    "# aider chat started at zz mark",
    "# aider chat started at",
    "#### /zz mark",
    "> ```zz mark",
];

/// Aider's file is a text, so its lines are replaced instead of members.
#[test]
fn lines_of_aider() {
    let file = files(Source::Aider, &bundled("aider")).into_iter().next().expect("a file");
    let text = std::fs::read_to_string(file.path()).expect("it reads");
    let folder = tempfile::tempdir().expect("a folder");
    let outcome_of = |lines: &[&str]| {
        let path = folder.path().join(".aider.chat.history.md");
        std::fs::write(&path, lines.join("\n") + "\n").expect("written");
        Outcome::of(&SessionFile::new(Source::Aider, path))
    };
    let lines: Vec<&str> = text.lines().collect();
    let content = |line: &str| line.trim_start_matches(['#', '>', ' ']).trim().to_owned();
    let shown = |outcome: &Outcome| {
        let reported: String = outcome.reported.keys().map(|what| format!("{what}\n")).collect();
        // A title and the names of sessions and models contain texts of the file as well.
        let skipped: Vec<_> = outcome.reports.iter().map(|report| &report.skipped).collect();
        format!("{}{reported}{:?} {skipped:?}", outcome.text(), outcome.counts())
    };
    let base = shown(&outcome_of(&lines));
    let has = |shown: &str, words: &str| {
        let quoted = serde_json::to_string(words).expect("a text");
        shown.contains(words) || shown.contains(quoted.trim_matches('"'))
    };
    // Only counted: what Aider printed before the first message of a chat, except tokens.
    let is_counted = |lines: &[&str], place: usize| {
        let is_printed = |line: &str| line.is_empty() || line.starts_with("> ") || line == ">";
        let before = lines[..place].iter().rev().take_while(|line| !line.starts_with("# aider"));
        let is_tokens = lines[place].starts_with("> Tokens: ");
        !is_tokens && before.chain([&lines[place]]).all(|line| is_printed(line))
    };
    let mut wrong = Vec::new();
    for n in 0..=lines.len() {
        for odd in ODD_LINES {
            for replaces in [true, false] {
                let mut changed = lines.clone();
                match (n < lines.len(), replaces) {
                    (true, true) => changed[n] = odd,
                    (_, false) => changed.insert(n, odd),
                    (false, true) => continue,
                }
                let outcome = outcome_of(&changed);
                let shown = shown(&outcome);
                for place in 0..changed.len() {
                    let words = content(changed[place]);
                    let is_odd = changed[place] == odd;
                    if is_counted(&changed, place) || !(is_odd || has(&base, &words)) {
                        continue;
                    }
                    // The name of the session.
                    let session = words.strip_prefix("aider chat started at ");
                    let session = session.map(|at| at.replacen(' ', "T", 1).replace(':', "-"));
                    let is_there = has(&shown, session.as_ref().unwrap_or(&words));
                    if !is_there {
                        let case = format!("line {} {odd:?} {replaces}", n + 1);
                        wrong.push(format!("{case}: lost {words:?}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_bundled_session_has_members_of_unexpected_types() {
    for source in Source::ALL {
        let folder = bundled(source.as_str());
        for report in import(&new_repo(), &files(*source, &folder)) {
            let mut listed = report.anomalies.listed.iter();
            let odd = listed.find(|anomaly| anomaly.what.contains("unexpected type"));
            assert_eq!(odd, None, "{source}");
        }
    }
}
