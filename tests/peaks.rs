//! T12: the memory that a huge result takes on its way into a store, and out of it again, of a
//! process that does nothing else.

use tract::core::StoreExt as _;
use tract::engine::{EraseRequest, EraseTarget, erase};
use tract::import::{ImportOptions, Importer, LargeConversation};
use tract::{Draft, Limits, OpenOptions, Part, Tract, block_on};
use tract_testkit::{figure, scaled};

use crate::backends;
use crate::child::test_command;

/// Tell the child where its store is, what to do with it, and how much of it.
const URL: &str = "TRACT_TEST_PEAK_URL";
const WAY: &str = "TRACT_TEST_PEAK_WAY";
const SIZE: &str = "TRACT_TEST_PEAK_SIZE";

/// The most memory that this process ever had, in bytes; only Linux tells.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<usize>().ok().map(|kib| kib * 1024)
}

/// Runs a child; gives the memory that it took, and the bytes of the text that it read. `None` where
/// the system does not tell how much memory a process had, which is said.
fn measured(url: &str, way: &str, size: usize) -> Option<[usize; 2]> {
    if peak().is_none() {
        println!("left out: this system does not tell how much memory a process had");
        return None;
    }
    let mut command = test_command("peaks::the_child_tells_its_peak");
    let output = command.env(URL, url).env(WAY, way).env(SIZE, size.to_string()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let line = stdout.lines().find_map(|line| line.strip_prefix("peak ")?.split_once(' '));
    let (taken, text) = line.unwrap_or_else(|| {
        panic!("{way} {size} {url}: {stdout}{}", String::from_utf8_lossy(&output.stderr))
    });
    Some([taken, text].map(|number| number.parse().unwrap()))
}

#[test]
fn the_child_tells_its_peak() {
    let variable = |name| std::env::var(name).ok();
    let (Some(url), Some(way), Some(size)) = (variable(URL), variable(WAY), variable(SIZE)) else {
        return;
    };
    let size: usize = size.parse().unwrap();
    let limits = Limits { blob_bytes: 256 << 20, ..Limits::default() };
    let tract = block_on(OpenOptions::new().limits(limits).open(&url)).unwrap();
    if way == "in" {
        block_on(tract.commit(Draft::assistant("").call("c", "cat", "{}"))).unwrap();
    }
    let before = peak().unwrap();
    let text = match way.as_str() {
        "in" => {
            let line = "a line of a log, with \"quotes\", of which there are very many\n";
            let mut result = String::with_capacity(size + line.len());
            while result.len() < size {
                result.push_str(line);
            }
            block_on(tract.tool_result("c", result)).unwrap();
            size
        }
        "out" => {
            let compiled = block_on(tract.compile()).unwrap();
            let parts = compiled.messages().flat_map(|message| message.content.parts());
            let large = |part: &Part| matches!(part, Part::Text { text } if text.len() >= size);
            assert_eq!(parts.filter(|part| large(part)).count(), 1);
            size
        }
        "verify" => {
            let report = block_on(tract.verify()).unwrap();
            assert!(report.clean, "{:?}", report.damage);
            assert_eq!(report.commits, size);
            0
        }
        "wipe" => {
            let repo = tract.repo();
            let head = block_on(repo.branches()).unwrap()[0].head;
            let history = block_on(repo.store().walk_all(repo.name(), head)).unwrap();
            let first = EraseTarget::Commit(history.last().unwrap().id());
            let request = EraseRequest::targets(vec![first], "a leak");
            let report = block_on(erase(repo, &request)).unwrap();
            assert!(report.wiped.is_ok() && report.blobs.len() == 1, "{report:?}");
            0
        }
        "import" => import_large(&tract, &recording(size)),
        shape => import_large(&tract, &large_text(shape, size)),
    };
    println!("\npeak {} {text}", peak().unwrap() - before);
}

#[test]
fn a_huge_result_takes_a_few_times_its_size() {
    let megabytes = scaled(100, 0.3, 30);
    let mut too_much = Vec::new();
    for backend in backends::all() {
        let folder = tempfile::tempdir().unwrap();
        let (url, bytes) = (backend.url(folder.path(), "agent"), megabytes * 1_000_000);
        let times = |way| Some(measured(&url, way, bytes)?[0] as f64 / bytes as f64);
        let (Some(taken_in), Some(given_out)) = (times("in"), times("out")) else { return };
        // Three times its size, the result as it was given and its canonical text among them. sled,
        // experimental, copies what it writes into its own memory and from there into its log.
        let most_in = if backend.name == "sled" { 4.0 } else { 3.0 };
        figure(
            "T12 memory",
            backend.name,
            format!("a result of {megabytes} MB takes {taken_in:.2} × in and {given_out:.2} × out"),
        );
        if taken_in >= most_in || given_out >= 3.0 {
            too_much.push(format!("{}: {taken_in:.2}, {given_out:.2}", backend.name));
        }
    }
    assert!(too_much.is_empty(), "{too_much:?}");
}

/// What an import may take in addition to the text: what is collected for one write, as commits and
/// as the store writes it, and the pages that the store keeps.
const FLAT_BYTES: usize = 96 << 20;

/// A recorded conversation of so many short messages.
fn recording(messages: usize) -> String {
    let mut text = String::from("{\"id\":\"c\",\"messages\":[");
    for place in 0..messages {
        let comma = if place > 0 { "," } else { "" };
        let role = if place % 2 == 0 { "user" } else { "assistant" };
        text += &format!("{comma}{{\"role\":\"{role}\",\"content\":\"{place}\"}}");
    }
    text + "]}"
}

/// Imports one conversation, a message at a time; gives its bytes.
fn import_large(tract: &Tract, text: &str) -> usize {
    let mut importer = Importer::new(tract.repo(), ImportOptions::default()).unwrap();
    let read = LargeConversation::open(text, None, "c").unwrap();
    let LargeConversation { id, tools, meta, mut messages, .. } = read;
    let next = || messages.next_draft().map_err(tract::Error::from);
    assert_eq!(block_on(importer.add_large(id, &tools, Some(meta), next)).unwrap().len(), 1);
    text.len()
}

#[test]
fn an_import_of_many_messages_takes_three_times_its_text() {
    let messages = scaled(1_000_000, 0.1, 100_000);
    let folder = tempfile::tempdir().unwrap();
    let url = backends::named("sqlite").url(folder.path(), "agent");
    let Some([taken, text]) = measured(&url, "import", messages) else { return };
    let line = format!("{messages} messages in {text} bytes take {taken} bytes");
    figure("T12 memory", "import", line.clone());
    assert!(taken < 3 * text + FLAT_BYTES, "{line}");
}

/// What a commit with a content of its own may take while it is verified. Its id, half of the id of
/// its content, its links and its row are some 110 bytes; the rest is for tables that have just
/// grown.
const VERIFIED_BYTES: usize = 180;

#[test]
fn verify_takes_few_bytes_for_each_commit() {
    let most = scaled(300_000, 0.4, 120_000);
    // The pages that redb keeps grow with the file up to its cache, and would hide the rest.
    let backend = backends::named("sqlite");
    let folder = tempfile::tempdir().unwrap();
    let verified = [most / 4, most].map(|messages| {
        let url = backend.url(folder.path(), &format!("of{messages}"));
        measured(&url, "import", messages)?;
        measured(&url, "verify", messages)
    });
    let [Some([less, _]), Some([more, _])] = verified else { return };
    let each = more.saturating_sub(less) / (most - most / 4);
    let line = format!("verifying {most} messages takes {more} bytes, {each} for each");
    figure("T12 memory", backend.name, line.clone());
    assert!(each < VERIFIED_BYTES, "{}: {line}", backend.name);
}

/// What the wipe of a file may take, however large it is: the pages of two connections, and the
/// messages that are searched together. It is less than the smallest file of the test takes when the
/// wipe keeps a copy in memory.
const WIPED_BYTES: usize = 96 << 20;

#[test]
fn a_wipe_takes_the_same_memory_for_a_file_of_any_size() {
    let megabytes = scaled(1000, 0.12, 120);
    let folder = tempfile::tempdir().unwrap();
    let sqlite = backends::named("sqlite");
    let url = sqlite.url(folder.path(), "agent");
    {
        let tract = sqlite.open(folder.path(), "agent");
        block_on(tract.commit(Draft::user("what leaked"))).unwrap();
        // Words that do not come again, so that compression does not make the file small.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..megabytes {
            let mut text = String::with_capacity(1_000_020);
            while text.len() < 1_000_000 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Characters that JSON does not escape: six bits in each byte.
                let letters = (0..10).map(|n| char::from(b'0' + ((state >> (6 * n)) & 63) as u8));
                text.extend(letters.map(|letter| if letter == '\\' { '_' } else { letter }));
            }
            block_on(tract.commit(Draft::user(text))).unwrap();
        }
        block_on(tract.store().close()).unwrap();
    }
    let file = std::fs::metadata(sqlite.path(folder.path(), "agent")).unwrap().len();
    let Some([taken, _]) = measured(&url, "wipe", 0) else { return };
    let line = format!("wiping a file of {file} bytes takes {taken} bytes");
    figure("T12 memory", "sqlite", line.clone());
    assert!(taken < WIPED_BYTES, "{line}");
}

/// What a store with one large text takes in addition: its page cache and what opened it.
const STORE_BYTES: usize = 24 << 20;

/// What is before and after one large text in a recording of each provider: in a message of
/// the user, and in the result of a call.
const SHAPES: [[&str; 3]; 10] = [
    ["chat text", r#"{"id":"c","messages":[{"role":"user","content":""#, r#""}]}"#],
    [
        "chat result",
        r#"{"id":"c","messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"k","content":""#,
        r#""}]}"#,
    ],
    [
        "ollama text",
        r#"{"id":"c","model":"m","stream":false,"messages":[{"role":"user","content":""#,
        r#""}]}"#,
    ],
    [
        "ollama result",
        r#"{"id":"c","messages":[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_name":"f","content":""#,
        r#""}]}"#,
    ],
    [
        "anthropic text",
        r#"{"id":"c","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":""#,
        r#""}]}]}"#,
    ],
    [
        "anthropic result",
        r#"{"id":"c","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"k","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"k","content":""#,
        r#""}]}]}"#,
    ],
    ["responses text", r#"{"id":"c","input":[{"role":"user","content":""#, r#""}]}"#],
    [
        "responses result",
        r#"{"id":"c","input":[{"type":"function_call","call_id":"k","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"k","output":""#,
        r#""}]}"#,
    ],
    ["gemini text", r#"{"id":"c","contents":[{"role":"user","parts":[{"text":""#, r#""}]}]}"#],
    [
        "gemini result",
        r#"{"id":"c","contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":""#,
        r#""}}}]}]}"#,
    ],
];

/// A recording of one text of so many bytes.
fn large_text(shape: &str, bytes: usize) -> String {
    let [_, before, after] = SHAPES.into_iter().find(|[name, ..]| *name == shape).unwrap();
    let mut text = String::with_capacity(bytes + 1000);
    text.push_str(before);
    while text.len() < bytes {
        text.push_str(&"a long line of a log ".repeat(24));
        text.push_str("with \\\"quotes\\\"\\n");
    }
    text.push_str(after);
    // Once through without storing anything, as the command line does.
    let mut checked = LargeConversation::open(&text, None, "c").unwrap();
    while checked.messages.next_draft().unwrap().is_some() {}
    drop(checked);
    text
}

#[test]
fn an_import_of_one_large_text_takes_three_times_its_line() {
    // Above 32 MiB, so that the allocator returns what is freed.
    let (sqlite, megabytes) = (backends::named("sqlite"), scaled(60, 0.5, 36));
    for [name, ..] in SHAPES {
        let folder = tempfile::tempdir().unwrap();
        let (url, bytes) = (sqlite.url(folder.path(), "agent"), megabytes * 1_000_000);
        let Some([taken, text]) = measured(&url, name, bytes) else { return };
        let times = taken as f64 / text as f64;
        let line = format!("{name}: one text in a line of {text} bytes takes {times:.2} × that");
        println!("{line}");
        figure("T12 memory", "import", line.clone());
        assert!(taken < 3 * text + STORE_BYTES, "{line}");
    }
}
