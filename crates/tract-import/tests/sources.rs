//! Recordings of agent tools: what becomes of them, and what holds however a file is cut or damaged.

#[allow(dead_code, reason = "the whole walks use the rest")]
#[path = "../../../tests/rules.rs"]
mod rules;

mod damage;
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;
use tract_core::block_on;
use tract_engine::{ImportStatus, Repo};
use tract_import::{
    AnomalyKind, BranchStart, RecordingOptions, SessionFile, SessionFilter, SessionReport, Source,
    session_files,
};
use tract_providers::{Dialect, Form, FormOptions, compile_form};
use tract_testkit::data;

use self::damage::{damage, damaged};
use self::support::{
    branches, bundled, check_forms, compiled, cuts, files, import, import_all, import_bundled,
    new_repo, refs, write,
};

/// What a branch says, one message a line.
fn transcript(repo: &Repo, branch: &str) -> Vec<String> {
    let line = |message: &tract_core::Message| {
        let calls: Vec<_> =
            message.content.calls().map(|call| format!("[{} {}]", call.name, call.id)).collect();
        let text = message.content.text();
        let text = text.trim().replace('\n', " ");
        let parts = [message.role.as_str(), text.as_str(), &calls.join("")];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    };
    compiled(repo, branch).messages().map(line).collect()
}

/// What the rules of all providers have against what is compiled of a branch.
fn broken_rules(repo: &Repo, branch: &str) -> Vec<String> {
    let compiled = compiled(repo, branch);
    let mut broken = Vec::new();
    if compiled.messages().next().is_none() {
        return broken;
    }
    for dialect in Dialect::ALL {
        let form = compile_form(&compiled, Form::Params(dialect), &FormOptions::default());
        let form = form.unwrap_or_else(|error| panic!("{branch} as {dialect}: {error}"));
        let body: Value = serde_json::from_str(&form.to_json()).expect("a request is JSON");
        let rules = rules::broken(dialect, rules::Accepted::Blocks, &body);
        broken.extend(rules.into_iter().map(|rule| format!("{branch} as {dialect}: {rule}")));
    }
    broken
}

fn branch<'a>(reports: &'a [SessionReport], start: &BranchStart) -> &'a str {
    let all = reports.iter().flat_map(|report| &report.branches);
    let mut found = all.filter(|branch| branch.start == *start);
    &found.next().expect("such a branch").branch
}

#[test]
fn a_thread_of_codex_shows_its_newest_replacement_history_and_what_followed() {
    let (repo, reports) = import_bundled(Source::Codex, "codex");
    let report = &reports[0];
    assert_eq!((report.pairs, report.compactions, report.anomalies.count()), (4, 2, 0));
    assert_eq!(
        (report.tokens.input, report.tokens.cache_read, report.tokens.output),
        (300, 2200, 52)
    );
    assert_eq!(
        report.models,
        BTreeMap::from([("gpt-5.1-codex".to_owned(), 2)]),
        "a repeat is none"
    );
    let rewind = transcript(&repo, branch(&reports, &BranchStart::Conversation));
    assert_eq!(
        rewind,
        ["system You keep a boat yard's books.", "user And the tern?", "assistant", "user Thanks.",]
    );
    let main = transcript(&repo, branch(&reports, &BranchStart::Rewind));
    assert_eq!(main.len(), 12, "{main:?}");
    assert_eq!(main[main.len() - 3..][0], "user Paint it red.");
    assert!(main.last().is_some_and(|last| last.contains("Done")), "{main:?}");
    // What the compactions hid is still in the log.
    let log = tract_engine::stats(&repo);
    assert!(block_on(log).expect("counted").store.commits > report.messages as u64);
}

#[test]
fn a_compressed_rollout_is_the_same_and_gives_way_to_the_plain_one() {
    let (repo, _) = import_bundled(Source::Codex, "codex");
    let file = &files(Source::Codex, &bundled("codex"))[0];
    let bytes = std::fs::read(file.path()).expect("it reads");
    let scratch = tempfile::tempdir().expect("a folder");
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    let packed = ruzstd::encoding::compress_to_vec(&bytes[..], level);
    let path = scratch.path().join("rollout-a.jsonl.zst");
    std::fs::write(&path, &packed).expect("it is written");
    assert_eq!(tract_import::detect(&path).expect("it reads"), Some(Source::Codex));
    let again = new_repo();
    import(&again, &files(Source::Codex, scratch.path()));
    assert_eq!(refs(&again), refs(&repo));
    std::fs::write(&path, &packed[..packed.len() / 2]).expect("it is written");
    let reports = import_all(&new_repo(), &files(Source::Codex, scratch.path()));
    assert!(reports[0].1.as_ref().map_or(true, |report| report.anomalies.count() > 0));
    std::fs::write(scratch.path().join("rollout-a.jsonl"), &bytes).expect("it is written");
    let both = files(Source::Codex, scratch.path());
    assert_eq!(both.len(), 1);
    assert!(both[0].path().ends_with("rollout-a.jsonl"));
}

#[test]
fn a_rollout_that_was_rewritten_becomes_a_branch_next_to_the_old_one() {
    let file = &files(Source::Codex, &bundled("codex"))[0];
    let text = std::fs::read_to_string(file.path()).expect("it reads");
    let scratch = tempfile::tempdir().expect("a folder");
    let path = scratch.path().join("rollout.jsonl");
    let repo = new_repo();
    import(&repo, std::slice::from_ref(file));
    let before = refs(&repo);
    let (first, rest) = text.split_once('\n').expect("lines");
    let last = rest.lines().last().expect("a line");
    let short: Vec<&str> = rest.lines().filter(|line| line.contains("Thanks.")).collect();
    let text = format!("{first}\n{}\n{last}\n", short.join("\n"));
    let reports = import(&repo, &[write(Source::Codex, path, text)]);
    assert_eq!(reports[0].anomalies.counts[&AnomalyKind::Diverged], 1);
    assert!(reports[0].branches[0].branch.ends_with(".2"));
    let after = refs(&repo);
    assert!(before.iter().all(|known| after.contains(known)), "nothing was moved");
}

#[test]
fn a_session_of_gemini_cli_has_late_results_in_their_place_and_a_rewind_on_a_branch() {
    let (repo, reports) = import_bundled(Source::GeminiCli, "gemini-cli");
    assert_eq!(reports.len(), 2);
    let report = reports.iter().find(|report| report.session.starts_with("5eed")).expect("one");
    assert_eq!((report.pairs, report.repeated, report.anomalies.count()), (1, 1, 0));
    assert_eq!(
        (report.tokens.input, report.tokens.cache_read, report.tokens.output),
        (350, 1500, 33)
    );
    assert_eq!(report.title.as_deref(), Some("Free berths"));
    let shared = [
        "user How many berths are free?",
        "assistant I look it up. [read_file read_file-1]",
        "tool 7 berths, 2 free",
        "assistant Two are free.",
    ];
    let main = transcript(&repo, &report.branches[1].branch);
    assert_eq!(
        (&main[..4], &main[4..]),
        (&shared.map(String::from)[..], &["user Book one.".to_owned()][..])
    );
    let rewind = transcript(&repo, &report.branches[0].branch);
    assert_eq!(rewind[..4], shared);
    assert_eq!(rewind[4..], ["user Which ones?", "assistant Three and five."]);
    assert_eq!(report.branches[1].start, BranchStart::Rewind);
    // The generation before is one document.
    let old = reports.iter().find(|report| report.session.starts_with("01d0")).expect("one");
    assert_eq!((old.pairs, old.branches.len()), (1, 1));
}

#[test]
fn branches_of_the_agents_sdk_share_the_rows_that_they_list_alike() {
    let (repo, reports) = import_bundled(Source::OpenAiAgents, "openai-agents");
    let report = &reports[0];
    assert_eq!((report.pairs, report.branches.len(), report.anomalies.count()), (1, 2, 0));
    let names: Vec<_> = report.branches.iter().map(|branch| branch.branch.as_str()).collect();
    assert_eq!(names, ["openai-agents/crane", "openai-agents/crane.later"]);
    let [main, later] = [0, 1].map(|n| transcript(&repo, names[n]));
    assert_eq!(main[..main.len() - 1], later[..later.len() - 1]);
    assert_eq!(
        (main.last().unwrap().as_str(), later.last().unwrap().as_str()),
        ("user Book it.", "user Book it for eleven.")
    );
    assert_eq!((report.branches[0].commits, report.branches[1].new), (6, 1));
}

#[test]
fn checkpoints_of_langgraph_fork_edit_and_remove_and_no_pickle_is_read() {
    let (repo, reports) = import_bundled(Source::LangGraph, "langgraph");
    assert_eq!(reports.len(), 3);
    let tides = reports.iter().find(|report| report.session == "tides").expect("a thread");
    assert_eq!((tides.pairs, tides.edited, tides.removed, tides.branches.len()), (2, 1, 1, 2));
    assert_eq!((tides.tokens.input, tides.tokens.cache_read), (20, 30));
    assert_eq!(
        transcript(&repo, &tides.branches[0].branch),
        [
            "system You know the tides.",
            "user When is high water?",
            "assistant [tide call_1][tide call_2]",
            "tool 6 o'clock",
            "tool 7 o'clock",
            "assistant At six and at seven.",
        ]
    );
    let fork = transcript(&repo, &tides.branches[1].branch);
    assert_eq!(fork, ["system You know the tides.", "user When is low water?"]);
    assert_eq!(tides.branches[1].start, BranchStart::Fork);
    let old = reports.iter().find(|report| report.session == "old").expect("a thread");
    assert_eq!(transcript(&repo, &old.branches[0].branch), ["user Hello"]);
    let pickled = reports.iter().find(|report| report.session == "pickled").expect("a thread");
    assert_eq!((pickled.branches.len(), pickled.anomalies.count()), (0, 1));
}

#[test]
fn one_message_of_the_ai_sdk_is_an_answer_for_each_step() {
    let (repo, reports) = import_bundled(Source::AiSdk, "ai-sdk");
    assert_eq!((reports[0].pairs, reports[0].anomalies.count()), (2, 0));
    let skipped = &reports[0].skipped;
    assert_eq!((skipped["source-url"], skipped["tool:input-streaming"]), (1, 1));
    assert_eq!(
        transcript(&repo, "ai-sdk/chat-dock"),
        [
            "user Is dock two open?",
            "assistant [gate c1][lamp c2]",
            "tool {\"open\":true}",
            "tool no lamp",
            "assistant It is open, and dark.",
        ]
    );
}

#[test]
fn a_trajectory_in_atif_has_its_tools_and_its_subagents_on_branches() {
    let (repo, reports) = import_bundled(Source::Atif, "atif");
    assert_eq!((reports.len(), reports[0].pairs, reports[0].anomalies.count()), (2, 2, 0));
    let lines = transcript(&repo, "atif/atif-gauge");
    assert_eq!(lines[2], "assistant [gauge c1][gauge c2]");
    assert_eq!((lines.len(), lines[5].as_str()), (6, "assistant About 2.3 m."));
    assert_eq!(compiled(&repo, "atif/atif-gauge").tools().len(), 1);
    assert_eq!(transcript(&repo, "atif/atif-gauge.agent-helper").len(), 2);
    assert_eq!(reports[1].branches[0].start, BranchStart::Subagent);
}

#[test]
fn a_trajectory_of_swe_agent_is_its_history() {
    let (repo, reports) = import_bundled(Source::SweAgent, "swe-agent");
    assert_eq!((reports[0].pairs, reports[0].anomalies.count()), (1, 0));
    let lines = transcript(&repo, "swe-agent/hull");
    assert_eq!(lines[2..], ["assistant I open it. [open c1]", "tool def hull(): pass"]);
}

#[test]
fn actions_of_one_answer_of_openhands_are_one_answer() {
    let (repo, reports) = import_bundled(Source::OpenHands, "openhands/v0.json");
    assert_eq!((reports[0].pairs, reports[0].repeated, reports[0].anomalies.count()), (2, 1, 0));
    assert_eq!(
        transcript(&repo, "openhands/v0"),
        [
            "user Which buoy is adrift?",
            "assistant I look at both. [look c1][look c2]",
            "tool at its place",
            "tool gone",
            "assistant The second.",
        ]
    );
    for path in ["openhands/v1.jsonl", "openhands/conversations"] {
        let (repo, reports) = import_bundled(Source::OpenHands, path);
        assert_eq!(reports.len(), 1);
        assert_eq!(
            (reports[0].pairs, reports[0].compactions, reports[0].hidden),
            (2, 1, 4),
            "{path}"
        );
        let main = transcript(&repo, &reports[0].branches[0].branch);
        assert_eq!(
            main,
            [
                "system You watch buoys.",
                "user Look at both.",
                "user Both buoys were seen.",
                "assistant Both are there.",
                "user And at night?",
            ]
        );
        let fork = transcript(&repo, &reports[0].branches[1].branch);
        assert_eq!((fork.len(), fork.last().unwrap().as_str()), (8, "user Look again."));
    }
}

#[test]
fn a_log_of_inspect_is_read_from_its_calls_of_the_model() {
    let (repo, reports) = import_bundled(Source::Inspect, "inspect");
    let report = &reports[0];
    assert_eq!((report.pairs, report.branches.len(), report.anomalies.count()), (1, 2, 0));
    assert_eq!((report.tokens.input, report.tokens.cache_read), (20, 12));
    assert_eq!(
        transcript(&repo, &report.branches[0].branch),
        ["user Which knot?", "assistant [rope c1]", "tool it holds", "assistant A bowline."]
    );
    assert_eq!(compiled(&repo, &report.branches[0].branch).tools().len(), 1);
    assert_eq!(report.branches[1].start, BranchStart::Root, "the judge has a context of its own");
}

/// All bundled files, by their sources.
fn all_bundled() -> Vec<SessionFile> {
    let folders = [
        (Source::ClaudeCode, "claude-code"),
        (Source::Codex, "codex"),
        (Source::GeminiCli, "gemini-cli"),
        (Source::OpenAiAgents, "openai-agents"),
        (Source::LangGraph, "langgraph"),
        (Source::AiSdk, "ai-sdk"),
        (Source::Atif, "atif"),
        (Source::SweAgent, "swe-agent"),
        (Source::OpenHands, "openhands"),
        (Source::Inspect, "inspect"),
        (Source::ChatGpt, "chatgpt"),
        (Source::ClaudeAi, "claude-ai"),
        (Source::PydanticAi, "pydantic-ai"),
        (Source::LangChain, "langchain"),
        (Source::Dataset, "dataset"),
        (Source::OpenCode, "opencode"),
        (Source::MiniSweAgent, "mini-swe-agent"),
        (Source::Aider, "aider"),
        (Source::CopilotCli, "copilot-cli"),
        (Source::VsCodeChat, "vscode-chat"),
        (Source::Goose, "goose"),
        (Source::QwenCode, "qwen-code"),
        (Source::Cursor, "cursor"),
    ];
    let all = folders.into_iter().flat_map(|(source, path)| files(source, &bundled(path)));
    all.collect()
}

#[test]
fn the_bytes_of_every_file_show_its_source() {
    for file in all_bundled() {
        let found = tract_import::detect(file.path()).expect("it reads");
        // A file that has nothing but a title shows little.
        assert_eq!(found, Some(file.source()), "{}", file.path().display());
    }
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tract-cli/demo");
    for name in ["conversations.jsonl", "anthropic.json"] {
        assert_eq!(tract_import::detect(&demo.join(name)).expect("it reads"), None, "{name}");
    }
}

#[test]
fn importing_all_of_it_again_writes_nothing_and_every_branch_is_valid_for_all_providers() {
    let repo = new_repo();
    let reports = import(&repo, &all_bundled());
    let stats = || block_on(tract_engine::stats(&repo)).expect("they are counted").store;
    let (before, was) = (refs(&repo), stats());
    let again = import(&repo, &all_bundled());
    assert_eq!(refs(&repo), before);
    assert_eq!(stats(), was, "not even an entry of the ref log");
    let mut branches_again = again.iter().flat_map(|report| &report.branches);
    assert!(branches_again.all(|found| (found.status, found.new) == (ImportStatus::Unchanged, 0)));
    for branch in reports.iter().flat_map(|report| &report.branches) {
        assert_eq!(broken_rules(&repo, &branch.branch), Vec::<String>::new());
    }
    // Ids depend on what is in the files alone: other folders, another order, another time.
    let scratch = tempfile::tempdir().expect("a folder");
    let other = new_repo();
    let mut moved = Vec::new();
    for (n, file) in all_bundled().iter().enumerate() {
        let folder = scratch.path().join(n.to_string());
        std::fs::create_dir(&folder).expect("a folder");
        // What is read from more than one file stays where it is.
        let is_session = file.path().ends_with("session/p1/ses_1.json");
        if file.path().is_dir() || is_session {
            moved.push(file.clone());
            continue;
        }
        let path = folder.join(file.path().file_name().expect("a name"));
        std::fs::copy(file.path(), &path).expect("it is copied");
        moved.push(SessionFile::new(file.source(), path));
    }
    moved.reverse();
    import(&other, &moved);
    assert_eq!(branches(&refs(&other)), branches(&before));
}

/// Sources whose files have a line for each thing they say.
const OF_LINES: [(Source, &str); 6] = [
    (Source::CopilotCli, "copilot-cli"),
    (Source::Goose, "goose"),
    (Source::QwenCode, "qwen-code"),
    (Source::Codex, "codex"),
    (Source::GeminiCli, "gemini-cli"),
    (Source::OpenHands, "openhands/v1.jsonl"),
];

#[test]
fn a_prefix_and_then_the_whole_is_the_whole_wherever_it_is_cut() {
    let scratch = tempfile::tempdir().expect("a folder");
    for (source, path) in OF_LINES {
        let found = files(source, &bundled(path));
        let file =
            found.iter().find(|file| file.path().extension().unwrap() == "jsonl").expect("one");
        let bytes = std::fs::read(file.path()).expect("it reads");
        let at = |bytes: &[u8]| [write(source, scratch.path().join("growing.jsonl"), bytes)];
        let whole = new_repo();
        import(&whole, &at(&bytes));
        let expected = refs(&whole);
        for cut in cuts(&bytes, 701) {
            let repo = new_repo();
            import(&repo, &at(&bytes[..cut]));
            import(&repo, &at(&bytes));
            assert_eq!(refs(&repo), expected, "{source} cut at {cut}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_read_as_far_as_it_goes_or_reported_and_what_came_of_it_is_stable(
        damages in proptest::collection::vec(damage(), 1..4),
        which in any::<proptest::sample::Index>(),
    ) {
        let all = all_bundled();
        let all: Vec<_> = all.iter().filter(|file| file.path().is_file()).collect();
        let file = all[which.index(all.len())];
        let mut bytes = std::fs::read(file.path()).expect("it reads");
        for damage in &damages {
            bytes = damaged(&bytes, damage);
        }
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join(file.path().file_name().expect("a name"));
        let file = write(file.source(), path.clone(), &bytes);
        let _ = tract_import::detect(&path);
        let repo = new_repo();
        let reports = import_all(&repo, std::slice::from_ref(&file));
        // Each line is a message, is counted by its type, or is an anomaly.
        if OF_LINES.iter().any(|(source, _)| *source == file.source())
            && path.extension().is_some_and(|end| end == "jsonl")
        {
            let report = reports[0].1.as_ref().expect("lines are always read");
            let count = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
            let known = report.messages + report.compactions + report.repeated
                + report.skipped.values().sum::<usize>() + report.anomalies.count();
            prop_assert_eq!(report.lines, count.count());
            prop_assert!(known >= report.lines, "{:?}", report);
        }
        for branch in reports.iter().flat_map(|(_, report)| report).flat_map(|report| &report.branches) {
            // Lines in another order may break rules that repair keeps to for rows of a provider's
            // own form.
            check_forms(&repo, &branch.branch);
        }
        let before = refs(&repo);
        import_all(&repo, std::slice::from_ref(&file));
        prop_assert_eq!(refs(&repo), before);
    }
}

#[test]
fn secrets_are_replaced_and_counted_in_every_source_and_never_in_reports() {
    let key = format!("gh{}_{}", "p", "16C7e42F292c6912E7710c838347Ae178B4a");
    let scratch = tempfile::tempdir().expect("a folder");
    for (source, path, from) in [
        (Source::Codex, "codex", "Paint it blue instead."),
        (Source::GeminiCli, "gemini-cli", "7 berths, 2 free"),
        (Source::AiSdk, "ai-sdk", "It is open, and dark."),
        (Source::SweAgent, "swe-agent", "The hull leaks."),
    ] {
        let mut seen = 0;
        for file in files(source, &bundled(path)) {
            let text = std::fs::read_to_string(file.path()).expect("it reads");
            let path = scratch.path().join(file.path().file_name().expect("a name"));
            let file = [write(source, path, text.replace(from, &format!("{from} token {key}")))];
            let repo = new_repo();
            let reports = import(&repo, &file);
            seen += reports.iter().flat_map(|report| report.redacted.values()).sum::<usize>();
            assert!(!format!("{reports:?}").contains(&key), "{source}");
            for branch in reports.iter().flat_map(|report| &report.branches) {
                assert!(!transcript(&repo, &branch.branch).join("\n").contains(&key), "{source}");
                let form = Form::Params(Dialect::Responses);
                let form =
                    compile_form(&compiled(&repo, &branch.branch), form, &FormOptions::default());
                assert!(!form.expect("it compiles").to_json().contains(&key), "no verbatim bytes");
            }
            let options = RecordingOptions { redact: false };
            let plain = new_repo();
            let done = tract_import::import(&plain, &file, &options, |_, report| {
                assert!(report.expect("it reads").redacted.is_empty());
            });
            block_on(done).expect("the store works");
        }
        assert!(seen > 0, "{source}");
    }
}

/// What the recordings outside of the repository have, counted by what was read of them.
#[test]
fn recordings_of_all_tools_come_in_and_compile() {
    let Some(folder) = data::full("sessions") else { return };
    let places = [
        (Source::Codex, &["codex", "registry/codex"][..]),
        (
            Source::GeminiCli,
            &[
                "gemini-cli/agtrace/gemini_session.json",
                "registry/gemini/session.jsonl",
                "registry/gemini/session-set-snapshot.jsonl",
            ],
        ),
        (Source::OpenAiAgents, &["openai-agents"]),
        (Source::LangGraph, &["langgraph"]),
        (
            Source::AiSdk,
            &[
                "ai-sdk/ui-messages.json",
                "ai-sdk/model-messages.json",
                "ai-sdk/response-messages.json",
            ],
        ),
        (Source::SweAgent, &["swe-agent"]),
        (Source::OpenHands, &["openhands/v0", "openhands/v1/events.jsonl"]),
        (Source::Inspect, &["inspect-ai"]),
    ];
    for (source, paths) in places {
        let repo = new_repo();
        let paths: Vec<_> = paths.iter().map(|path| folder.join(path)).collect();
        let found = session_files(source, &paths, &SessionFilter::new()).expect("they are there");
        let reports = import(&repo, &found);
        let mut sum: BTreeMap<String, usize> = BTreeMap::new();
        let mut add = |name: String, count: usize| *sum.entry(name).or_default() += count;
        add("files".to_owned(), found.len());
        for report in &reports {
            add("conversations".to_owned(), usize::from(!report.branches.is_empty()));
            add("messages".to_owned(), report.messages);
            add("pairs".to_owned(), report.pairs);
            add("branches".to_owned(), report.branches.len());
            add("edited".to_owned(), report.edited);
            add("removed".to_owned(), report.removed);
            for (kind, count) in &report.anomalies.counts {
                add(format!("anomaly {kind}"), *count);
            }
            for (kind, count) in &report.skipped {
                add(format!("skipped {kind}"), *count);
            }
            for branch in &report.branches {
                assert_eq!(broken_rules(&repo, &branch.branch), Vec::<String>::new());
            }
        }
        println!("{source}: {sum:?}");
        for path in found.iter().map(SessionFile::path) {
            println!(
                "  {}: {:?}",
                path.strip_prefix(&folder).unwrap().display(),
                tract_import::detect(path).expect("it reads")
            );
        }
        let before = refs(&repo);
        import(&repo, &found);
        assert_eq!(refs(&repo), before, "{source}: again nothing");
        let of = |name: &str| sum.get(name).copied().unwrap_or_default();
        let found = [of("conversations"), of("messages"), of("pairs"), of("branches")];
        let expected = match source {
            Source::Codex => [5, 34, 8, 5],
            // In the document of before, five answers have calls: those are a message of their own
            // after the text, so there are 5 more messages than texts and results.
            Source::GeminiCli => [3, 23, 5, 3],
            Source::OpenAiAgents => [3, 22, 4, 4],
            Source::LangGraph => [2, 14, 4, 3],
            Source::AiSdk => [3, 14, 6, 3],
            Source::SweAgent => [3, 46, 20, 3],
            Source::OpenHands => [4, 23, 6, 4],
            _ => [6, 27, 5, 6],
        };
        assert_eq!(found, expected, "{source}: conversations, messages, pairs, branches");
    }
}

#[test]
fn a_file_in_utf16_within_a_folder_is_read() {
    let bundled = bundled("openhands/conversations/watch");
    let scratch = tempfile::tempdir().expect("a folder");
    let transcript_of = |folder: &Path| {
        let repo = new_repo();
        let reports = import(&repo, &files(Source::OpenHands, folder));
        let report = &reports[0];
        assert_eq!(report.anomalies.count(), 0, "{:?}", report.anomalies.listed);
        transcript(&repo, &report.branches[0].branch)
    };
    let expected = transcript_of(&bundled);
    let copied = scratch.path().join("watch");
    std::fs::create_dir_all(copied.join("events")).expect("a folder");
    for folder in ["", "events"] {
        for entry in std::fs::read_dir(bundled.join(folder)).expect("it is read") {
            let path = entry.expect("an entry").path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            let bytes: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
            let name = path.file_name().expect("a name");
            std::fs::write(copied.join(folder).join(name), bytes).expect("written");
        }
    }
    assert_eq!(transcript_of(&copied), expected);
}
