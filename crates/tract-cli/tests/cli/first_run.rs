//! The first commands of a new user: each verb in a new store, and after an import.

use crate::support::{RunOutput, Workspace, sessions, text};

/// The arguments of each verb that starts at `HEAD`, or works on the whole store. The others need a
/// name that a new store does not have.
const VERBS: &[(&str, &[&str])] = &[
    ("annotate", &["HEAD", "--priority", "skip"]),
    ("blame", &[]),
    ("branch", &["topic"]),
    ("bundle", &["create", "all.bundle"]),
    ("cat", &[]),
    ("checkout", &["-b", "topic"]),
    ("cherry-pick", &["HEAD"]),
    ("compile", &[]),
    ("compress", &["--from", "#1", "--to", "#2", "--content", "short"]),
    ("compress-tool-calls", &["--summarizer", "cat"]),
    ("diff", &[]),
    ("drop", &["HEAD"]),
    ("edit", &["#1", "other"]),
    ("erase", &["HEAD", "--reason", "leaked", "--yes"]),
    ("expand", &[]),
    ("export", &["--format", "openai"]),
    ("gc", &[]),
    ("grep", &["the"]),
    ("insert", &["--after", "HEAD", "user", "hi"]),
    ("log", &[]),
    ("lost", &[]),
    ("mcp", &["--help"]),
    ("pending", &[]),
    ("prune", &["--older-than", "1d", "--dry-run"]),
    ("rebase", &["--onto", "HEAD"]),
    ("redact", &["--yes"]),
    ("remote", &["list"]),
    ("replay", &[]),
    ("repos", &[]),
    ("reset", &[]),
    ("revert", &["HEAD"]),
    ("search", &["the"]),
    ("sessions", &[]),
    ("show", &[]),
    ("stats", &[]),
    ("status", &[]),
    ("summarization", &[]),
    ("tag", &["t"]),
    ("tools", &["of"]),
    ("turns", &[]),
    ("undo", &[]),
    ("usage", &[]),
    ("verify", &[]),
    ("why-miss", &["--turns"]),
];

/// Verbs that need a model, a server, a file, another store, or a person.
const OTHERS: &[&str] = &[
    "apply",
    "chat",
    "commit",
    "completions",
    "conformance",
    "copy",
    "demo",
    "fetch",
    "generate",
    "hydrate",
    "import",
    "init",
    "merge",
    "pull",
    "push",
    "record",
    "repack",
    "run",
    "select",
    "ui",
    "view",
];

/// The verbs that `tract --help` lists.
fn listed(place: &Workspace) -> Vec<String> {
    let help = place.ok(&["--help"]);
    let help = help.split_once("\nOptions:").expect("the options follow the verbs").0;
    let is_verb = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let words = help.lines().filter(is_verb).filter_map(|line| line.split_whitespace().next());
    words.map(str::to_owned).collect()
}

#[test]
fn every_verb_is_tried_here() {
    let known = |verb: &String| {
        OTHERS.contains(&verb.as_str()) || VERBS.iter().any(|(known, _)| known == verb)
    };
    let unknown: Vec<String> =
        listed(&Workspace::new()).into_iter().filter(|v| !known(v)).collect();
    assert_eq!(unknown, Vec::<String>::new(), "add a row to VERBS");
}

#[test]
fn no_verb_reports_a_revision_that_the_user_did_not_type() {
    for (verb, arguments) in VERBS {
        let place = Workspace::new();
        let run = place.run(&[&[*verb], *arguments].concat());
        let all = format!("{}{}", run.stdout, run.stderr);
        assert!(
            !all.contains("unknown revision") && !all.contains("bad revision"),
            "{verb}: {all}"
        );
        if all.contains("has no commits yet") {
            assert!(all.contains("error[no_commits]"), "{verb}: {all}");
            assert!(
                all.contains("tract commit user \"Hello\"") && all.contains("tract import"),
                "{all}"
            );
        }
    }
}

#[test]
fn a_branch_without_commits_names_the_others() {
    let place = Workspace::new();
    place.ok(&["commit", "user", "Do I need a coat?"]);
    place.ok(&["branch", "coat"]);
    place.ok(&["undo"]);
    let run = place.run(&["show"]).expect(1);
    assert!(run.stderr.contains("branches with commits: coat"), "{}", run.stderr);
    assert!(run.stderr.contains("tract checkout BRANCH"), "{}", run.stderr);
    // Searches cover every branch.
    for verb in ["search", "grep"] {
        assert!(place.ok(&[verb, "coat"]).contains("Do I need a coat?"), "{verb}");
    }
}

#[test]
fn an_import_into_a_new_store_checks_out_the_newest_conversation() {
    let place = Workspace::new();
    let folder = sessions("claude-code");
    let run = place.run(&["import", "claude-code", text(&folder)]).expect(0);
    let newest = "claude-code/bfb38461-8fc8-5582-bd81-bc1cb996f385";
    assert!(
        run.stderr.contains(&format!("on {newest}, the newest conversation")),
        "{}",
        run.stderr
    );
    for (verb, arguments) in VERBS {
        let copy = Workspace::new();
        copy.ok(&["import", "claude-code", text(&folder)]);
        let run = copy.run(&[&[*verb], *arguments].concat());
        let all = format!("{}{}", run.stdout, run.stderr);
        assert!(!all.contains("unknown revision") && !all.contains("no commits"), "{verb}: {all}");
    }
    // A later import moves nothing, and one undo reverts the import that did.
    place.ok(&["import", "codex", text(&sessions("codex"))]);
    assert!(place.ok(&["status"]).contains(newest));
}

#[test]
fn an_import_creates_the_store_when_there_is_none() {
    let place = Workspace::empty();
    let folder = sessions("claude-code");
    let missing = place.run(&["import", "claude-code", "absent"]).expect(2);
    assert!(!place.store().exists(), "a refused import creates nothing: {missing:?}");
    let run = place.run(&["import", "claude-code", text(&folder)]).expect(0);
    assert!(run.stderr.contains("created sqlite:.tract/tract.db"), "{}", run.stderr);
    place.ok(&["cat"]);
    // Below a store, the import goes into it.
    place.write("deep/file", "");
    let mut below = place.command(&["import", "codex", text(&sessions("codex"))]);
    let run = RunOutput::after(below.current_dir(place.path("deep"))).expect(0);
    assert!(!run.stderr.contains("created sqlite"), "{}", run.stderr);
    assert!(place.ok(&["branch"]).contains("codex/"));
}
