//! Sessions of Claude Code: what becomes of them, and what holds however a file is cut or damaged.

mod damage;
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::Value;
use tract_core::{RefName, block_on};
use tract_engine::Repo;
use tract_import::{
    AnomalyKind, BranchStart, RecordingAnomaly, SessionFile, SessionFilter, SessionReport, Source,
    session_files,
};
use tract_testkit::data;

use self::damage::{damage, damaged};
use self::support::{
    branches, bundled, check_forms, compiled, cuts, files, import, import_all, import_bundled,
    new_repo, refs,
};

/// The sessions of the repository.
fn sessions() -> Vec<SessionFile> {
    files(Source::ClaudeCode, &bundled("claude-code"))
}

/// What a branch says, one message a line.
fn transcript(repo: &Repo, branch: &str) -> Vec<String> {
    let line = |message: &tract_core::Message| {
        let calls = message.content.calls().map(|call| format!("[{}]", call.name));
        let calls: Vec<String> = calls.collect();
        format!("{} {}{}", message.role.as_str(), message.content.text().trim(), calls.join(""))
    };
    compiled(repo, branch).messages().map(line).collect()
}

fn session_with(reports: &[SessionReport], start: usize) -> &SessionReport {
    reports.iter().find(|report| report.branches.len() == start).expect("a session")
}

#[test]
fn a_session_is_its_conversation_with_rewinds_as_branches_and_parallel_calls_as_none() {
    let (repo, reports) = import_bundled(Source::ClaudeCode, "claude-code");
    assert_eq!(reports.len(), 4);
    let tides = session_with(&reports, 2);
    assert_eq!(tides.title.as_deref(), Some("Which gauge reads too high"));
    assert_eq!((tides.pairs, tides.compactions, tides.repeated), (4, 0, 0));
    assert_eq!(tides.anomalies.count(), 0, "{:?}", tides.anomalies);
    let starts: Vec<_> = tides.branches.iter().map(|branch| branch.start.clone()).collect();
    assert_eq!(starts, [BranchStart::Conversation, BranchStart::Rewind]);
    let skipped: Vec<(&str, usize)> =
        tides.skipped.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(
        skipped,
        [
            ("attachment:hook_success", 1),
            ("custom-title", 1),
            ("file-history-snapshot", 1),
            ("permission-mode", 1),
            ("progress", 1),
            ("system:turn_duration", 1),
        ]
    );
    let [main, rewind] = [1, 0].map(|n| transcript(&repo, &tides.branches[n].branch));
    let shared = [
        "user Caveat: the messages below were made by the user while running local commands.",
        "user Which of our two gauges reads too high?",
        "assistant ",
        "assistant I read both gauges.",
        "assistant [Read]",
        "tool day,metres\n1,2.31\n2,2.34",
        "assistant [Read]",
        "tool day,metres\n1,2.28\n2,2.30",
        "assistant [Task]",
        "tool It uses the chart datum of 1992.\nagentId: a1b2c3d",
        "assistant The north gauge reads 3 to 4 cm too high: its datum is of 1992.",
    ];
    assert_eq!(main[..shared.len()], shared);
    assert_eq!(rewind[..shared.len()], shared);
    assert_eq!(
        main[shared.len()..],
        [
            "user Correct the north gauge by hand.",
            "assistant [Edit]",
            "tool File has not been read yet.",
            "assistant The edit failed; the file has to be read again.",
        ]
    );
    assert_eq!(
        rewind[shared.len()..],
        [
            "user Do not edit it. Write the correction into datum.md.",
            "assistant I write it down: subtract 3.5 cm from the north gauge.",
            "user And mention the year.",
            "assistant It is the datum of 1992.",
        ]
    );
}

#[test]
fn usage_counts_once_per_answer_and_an_api_error_is_no_answer() {
    let (_, reports) = import_bundled(Source::ClaudeCode, "claude-code");
    let tides = session_with(&reports, 2);
    assert_eq!(tides.models, BTreeMap::from([("claude-sonnet-4-20250514".to_owned(), 7)]));
    let tokens = tides.tokens;
    assert_eq!(tokens.output, 48 + 22 + 27 + 30 + 14 + 19 + 11);
    assert_eq!((tokens.input, tokens.cache_write), (7 * 12, 7 * 300));
    assert_eq!(tokens.cache_read, 900 + 1200 + 1300 + 1350);
}

#[test]
fn a_compaction_is_a_summary_that_leaves_the_preserved_messages_visible() {
    let (repo, reports) = import_bundled(Source::ClaudeCode, "claude-code");
    let report = reports.iter().find(|report| report.compactions == 1).expect("a compaction");
    assert_eq!(report.hidden, 4);
    assert_eq!(
        transcript(&repo, &report.branches[0].branch),
        [
            "user This session continues an earlier one. Summary: moorings A2 and B7 need new chain.",
            "user Order chain for both.",
            "assistant Which length?",
            "user Twelve metres each.",
            "assistant Ordered: 2 × 12 m.",
        ]
    );
    assert_eq!(report.branches.len(), 1, "what follows a preserved message is no rewind");
}

#[test]
fn a_subagent_is_a_branch_of_its_own_whose_document_names_its_call() {
    let (repo, reports) = import_bundled(Source::ClaudeCode, "claude-code");
    let agent = reports.iter().find(|report| report.session.contains(".agent-")).expect("one");
    assert_eq!(agent.branches[0].start, BranchStart::Subagent);
    let name = RefName::new(format!("imports/{}", agent.branches[0].branch)).expect("a good name");
    let target = block_on(repo.ref_target(&name)).expect("it is read").expect("it is there");
    let blob = block_on(repo.require_blob(target.blob().expect("a document"))).expect("a blob");
    let document: Value = serde_json::from_slice(blob.bytes()).expect("it is JSON");
    assert_eq!(document["meta"]["caller"]["id"], "toolu_delegate");
    assert_eq!(agent.anomalies.count(), 0);

    let alone = new_repo();
    let agents: Vec<_> = sessions().into_iter().filter(SessionFile::is_agent).collect();
    let reports = import(&alone, &agents);
    assert_eq!(reports[0].anomalies.counts[&AnomalyKind::UnknownCaller], 1);
}

/// Writes a file as it is at some time, under any name.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> SessionFile {
    support::write(Source::ClaudeCode, folder.join(name), bytes)
}

#[test]
fn a_prefix_and_then_the_whole_is_the_whole_wherever_it_is_cut() {
    let scratch = tempfile::tempdir().expect("a folder");
    for file in sessions() {
        let bytes = std::fs::read(file.path()).expect("it reads");
        let whole = new_repo();
        import(&whole, &[write(scratch.path(), "whole.jsonl", &bytes)]);
        let expected = refs(&whole);
        for cut in cuts(&bytes, 911) {
            let repo = new_repo();
            import(&repo, &[write(scratch.path(), "growing.jsonl", &bytes[..cut])]);
            import(&repo, &[write(scratch.path(), "growing.jsonl", &bytes)]);
            assert_eq!(refs(&repo), expected, "{} cut at {cut}", file.path().display());
            // And a file that was cut short since takes nothing back.
            import(&repo, &[write(scratch.path(), "shorter.jsonl", &bytes[..cut])]);
            assert_eq!(branches(&refs(&repo)), branches(&expected), "shortened to {cut}");
        }
    }
}

/// As tools write that have taken over the format without its ids.
#[test]
fn lines_without_ids_follow_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |kind: &str, id: &str, text: &str| {
        format!(
            "{{\"type\":\"{kind}\",{id}\"sessionId\":\"short\",\"message\":\
             {{\"role\":\"{kind}\",\"content\":\"{text}\"}}}}\n"
        )
    };
    let bytes = [
        line("user", "", "inspect it"),
        line("assistant", "", "it is sound"),
        line("user", "", "and now?"),
        // An id of which nothing can be in a name, and no parent: a second beginning.
        line("user", r#""uuid":"-","#, "elsewhere"),
    ]
    .concat();
    let repo = new_repo();
    let reports = import(&repo, &[write(folder.path(), "short", bytes.as_bytes())]);
    let branches: Vec<&str> =
        reports[0].branches.iter().map(|branch| branch.branch.as_str()).collect();
    assert_eq!(branches, ["claude-code/short", "claude-code/short.branch-0"]);
    let first = ["user inspect it", "assistant it is sound", "user and now?"];
    assert_eq!(transcript(&repo, branches[1]), first);
    assert_eq!(transcript(&repo, branches[0]), ["user elsewhere"]);
}

#[test]
fn a_rewritten_file_becomes_a_branch_next_to_the_old_one() {
    let scratch = tempfile::tempdir().expect("a folder");
    let texts = sessions().into_iter().map(|file| std::fs::read_to_string(file.path()));
    let mut texts = texts.map(|text| text.expect("it reads"));
    let text = texts.find(|text| text.contains("two gauges")).expect("a session");
    let repo = new_repo();
    let old = import(&repo, &[write(scratch.path(), "a.jsonl", text.as_bytes())]);
    let changed = text.replacen("two gauges", "three gauges", 1);
    assert_ne!(changed, text);
    for _ in 0..2 {
        let new = import(&repo, &[write(scratch.path(), "a.jsonl", changed.as_bytes())]);
        let (old, new) = (&old[0].branches[0].branch, &new[0].branches[0].branch);
        assert_eq!(*new, format!("{old}.2"));
        assert_ne!(transcript(&repo, old), transcript(&repo, new));
    }
}

/// Messages that a file has as lines of their own: what a damaged file may lose at most.
fn messages(reports: &[SessionReport]) -> usize {
    reports.iter().map(|report| report.messages + report.compactions).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_read_as_far_as_it_goes_and_every_line_is_accounted_for(
        damages in proptest::collection::vec(damage(), 1..4),
        which in 0usize..4,
    ) {
        let scratch = tempfile::tempdir().expect("a folder");
        let file = &sessions()[which];
        let mut bytes = std::fs::read(file.path()).expect("it reads");
        for damage in &damages {
            bytes = damaged(&bytes, damage);
        }
        let repo = new_repo();
        let reports = import(&repo, &[write(scratch.path(), "damaged.jsonl", &bytes)]);
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let report = &reports[0];
        prop_assert_eq!(report.lines, lines.count());
        let unread: usize = [
            AnomalyKind::TornLine,
            AnomalyKind::UnreadableLine,
            AnomalyKind::UnreadableMessage,
            AnomalyKind::Replayed,
        ]
        .iter()
        .filter_map(|kind| report.anomalies.counts.get(kind))
        .sum();
        // Such a message is stored, with the block as its text.
        let is_kept = |anomaly: &&RecordingAnomaly| anomaly.what.ends_with(", kept as its JSON");
        let unread = unread - report.anomalies.listed.iter().filter(is_kept).count();
        let skipped: usize = report.skipped.values().sum();
        // The message of such a line is there, with what was not understood as its JSON.
        let listed = report.anomalies.listed.iter();
        let kept = listed.filter(|anomaly| anomaly.what.ends_with("kept as its JSON")).count();
        // A line that took in the end of another one has more than one record.
        let joined: usize = report
            .anomalies
            .listed
            .iter()
            .filter(|anomaly| anomaly.kind == AnomalyKind::DamagedLine)
            .filter_map(|anomaly| anomaly.what.split(' ').next()?.parse::<usize>().ok())
            .map(|records| records.saturating_sub(1))
            .sum();
        let lines = report.lines + joined;
        let notes = usize::from(bytes.windows(11).any(|word| word == b"<synthetic>")) * report.lines;
        let known = messages(&reports) + skipped + report.repeated + unread;
        prop_assert!(known - kept <= lines && lines <= known + notes.min(2), "{:?}", report);
        for branch in &report.branches {
            transcript(&repo, &branch.branch);
        }
        // What came of it is stable: again, nothing changes. The name of the file stays, since it is
        // that of a session whose own id is damaged.
        let before = refs(&repo);
        let elsewhere = tempfile::tempdir().expect("a folder");
        import(&repo, &[write(elsewhere.path(), "damaged.jsonl", &bytes)]);
        prop_assert_eq!(refs(&repo), before);
    }
}

/// What a file says, counted without any of the reader's rules.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    messages: usize,
    results: usize,
    answers: usize,
}

fn counted(path: &Path) -> Counted {
    let bytes = std::fs::read(path).expect("it reads");
    let (mut counted, mut seen, mut answers) =
        (Counted::default(), std::collections::HashSet::new(), std::collections::HashSet::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        let is_new = line["uuid"].as_str().is_none_or(|id| seen.insert(id.to_owned()));
        let is_message = matches!(line["type"].as_str(), Some("user" | "assistant"));
        let content = &line["message"]["content"];
        if !is_new || !is_message || content.is_null() || line["message"]["model"] == "<synthetic>"
        {
            continue;
        }
        let blocks = content.as_array().into_iter().flatten();
        let results = blocks.filter(|block| block["type"] == "tool_result").count();
        counted.results += results;
        counted.messages += 1;
        if let (Some("assistant"), Some(id)) =
            (line["type"].as_str(), line["message"]["id"].as_str())
        {
            answers.insert(id.to_owned());
        }
    }
    counted.answers = answers.len();
    counted
}

#[test]
fn recorded_sessions_come_in_whole_with_every_result_paired() {
    let Some(folder) = data::full("sessions/claude-code") else { return };
    let repo = new_repo();
    let files = files(Source::ClaudeCode, &folder);
    let reports = import_all(&repo, &files);
    assert_eq!(reports.len(), files.len());
    let mut sum: BTreeMap<String, usize> = BTreeMap::new();
    let mut add = |name: &str, count: usize| *sum.entry(name.to_owned()).or_default() += count;
    for (path, report) in &reports {
        let (report, expected) = (report.as_ref().expect("it reads"), counted(path));
        let of = |kind| report.anomalies.counts.get(&kind).copied().unwrap_or_default();
        let unpaired = of(AnomalyKind::NoCall) + of(AnomalyKind::SecondResult);
        let name = path.strip_prefix(&folder).expect("it is in there").display().to_string();
        println!(
            "{name}: {} lines, {} messages, {} pairs, {} branches, {} repeated, {:?}, skipped {:?}",
            report.lines,
            report.messages,
            report.pairs,
            report.branches.len(),
            report.repeated,
            report.anomalies.counts,
            report.skipped
        );
        assert_eq!(report.pairs + unpaired, expected.results, "{name}");
        let lost = of(AnomalyKind::Replayed) + of(AnomalyKind::UnreadableMessage);
        let read = report.messages + report.compactions;
        assert!(read + lost >= expected.messages, "{name}: {read} of {expected:?}");
        assert!(report.models.values().sum::<usize>() >= expected.answers, "{name}");
        add("files", 1);
        add("with messages", usize::from(!report.branches.is_empty()));
        add("lines", report.lines);
        add("messages", report.messages);
        add("pairs", report.pairs);
        add("unpaired", unpaired);
        add("compactions", report.compactions);
        add("repeated", report.repeated);
        for branch in &report.branches {
            add(&format!("branches: {}", branch.start.as_str()), 1);
            check_forms(&repo, &branch.branch);
        }
        for (kind, count) in &report.anomalies.counts {
            add(&format!("anomaly: {kind}"), *count);
        }
        for (kind, count) in &report.skipped {
            add(&format!("skipped: {kind}"), *count);
        }
    }
    for (name, count) in &sum {
        println!("{count:>6} {name}");
    }
    // Counted apart from the reader: 183 results, 7 prompts next to another one under their parent
    // (3 in the real files), and 21 calls whose children are the next call and their own result.
    let of = |name: &str| sum.get(name).copied().unwrap_or_default();
    assert_eq!((of("pairs"), of("unpaired"), of("branches: rewind")), (183, 0, 7));
    assert_eq!((of("with messages"), of("compactions")), (33, 2));
    let (before, again) = (refs(&repo), import(&repo, &files));
    assert_eq!(refs(&repo), before);
    assert!(again.iter().flat_map(|report| &report.branches).all(|branch| branch.new == 0));
}

#[test]
fn files_and_folders_are_filtered_by_project_and_time() {
    let all = sessions();
    assert_eq!(all.len(), 4);
    let of = |project: &str| {
        let mut filter = SessionFilter::new();
        filter.project = Some(project.to_owned());
        session_files(Source::ClaudeCode, &[bundled("claude-code")], &filter)
            .expect("they are there")
            .len()
    };
    assert_eq!((of("tide-tables"), of("/home/ada"), of("/home/eve"), of("tide")), (3, 3, 0, 0));
    let mut filter = SessionFilter::new();
    filter.since = Some(std::time::SystemTime::now() + std::time::Duration::from_secs(86_400));
    assert!(
        session_files(Source::ClaudeCode, &[bundled("claude-code")], &filter)
            .expect("they are there")
            .is_empty()
    );
    assert_eq!(tract_import::detect(all[0].path()).expect("it reads"), Some(Source::ClaudeCode));
}
