use tract::core::{RefName, RefTarget};
use tract::engine::{Txn, WriteOptions};

use crate::support::{RunOutput, Workspace};

const STREAM: &str = r#"
{"op":"set_tools","tools":[{"name":"grep","input_schema":{"type":"object"}},{"name":"find","input_schema":{"type":"object"}}]}
{"op":"user","text":"Hello"}
{"op":"tag","name":"first"}
{"op":"branch","name":"draft"}
{"op":"branch","name":"terse"}
"#;

/// What a shell offers after these words, the last of which is being typed.
pub(crate) fn completed(place: &Workspace, words: &[&str]) -> Vec<String> {
    let mut command = place.command(&["--", "tract"]);
    command.args(words).env("TRACT_COMPLETE", "bash").env("_CLAP_IFS", "\n");
    let ran =
        RunOutput::after(command.env("_CLAP_COMPLETE_INDEX", words.len().to_string())).expect(0);
    assert!(ran.stderr.is_empty(), "{ran:?}");
    ran.stdout.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn completions_know_branches_revisions_tools_and_forms() {
    let place = Workspace::of(STREAM);
    let offered = |words: &[&str]| {
        let mut found = completed(&place, words);
        found.retain(|word| !word.starts_with('-'));
        found.sort_unstable();
        found
    };
    assert_eq!(offered(&["checkout", ""]), ["draft", "main", "terse"]);
    assert_eq!(offered(&["checkout", "te"]), ["terse"]);
    assert_eq!(offered(&["branch", "--delete", "d"]), ["draft"]);
    assert_eq!(offered(&["copy", "--branch", "te"]), ["terse"]);
    assert_eq!(offered(&["show", ""]), ["HEAD", "draft", "first", "main", "terse"]);
    assert_eq!(offered(&["diff", "main", "dr"]), ["draft"]);
    assert_eq!(offered(&["tag", "--delete", ""]), ["first"]);
    assert_eq!(offered(&["log", "--tool", ""]), ["find", "grep"]);
    assert_eq!(offered(&["compile", "--to", "openai"]), ["openai", "openai-params"],);
    assert_eq!(offered(&["comp"]), ["compile", "completions", "compress", "compress-tool-calls"]);
    // The store that the command line names, wherever the shell is.
    let elsewhere = Workspace::empty();
    let url = format!("sqlite:{}", place.store().display());
    assert_eq!(completed(&elsewhere, &["--store", &url, "checkout", "t"]), ["terse"]);
    // Without a store there is nothing to offer, nothing is said, and none is made.
    assert!(completed(&elsewhere, &["checkout", "t"]).is_empty());
    let missing = format!("sqlite:{}", elsewhere.path("none.db").display());
    assert!(completed(&elsewhere, &["--store", &missing, "checkout", "t"]).is_empty());
    assert!(!elsewhere.path("none.db").exists());
}

/// Names as another store may send them, with what a shell would run.
const HOSTILE: &str = "ev;touch${IFS}PWN;x`id`$(id)'&|<>!";

#[test]
fn a_completed_name_is_one_word_for_the_shell() {
    let place = Workspace::of(STREAM);
    // The name is refused here; another store may have it.
    let url = format!("sqlite:{}", place.store().display());
    tract::block_on(async {
        let tract = tract::open(&url).await.expect("a store");
        let repo = tract.repo();
        let name = RefName::branch(HOSTILE).expect("a name of older versions");
        let head = repo.resolve("main").await.expect("a head");
        let mut txn = Txn::new(repo).expect("a write");
        txn.move_ref(&name, Some(RefTarget::Commit(head))).await.expect("a ref");
        let _applied = txn.apply("test", &WriteOptions::default()).await.expect("it is written");
    });
    let other = place;
    let offered = completed(&other, &["checkout", "ev"]);
    assert_eq!(offered.len(), 1, "{offered:?}");
    let words = shlex::split(&offered[0]).expect("words of a shell");
    assert_eq!(words, [HOSTILE]);
    // Bash itself reads it as one word, and runs nothing.
    let script = format!("printf %s {}", offered[0]);
    let ran = std::process::Command::new("bash")
        .arg("-c")
        .arg(&script)
        .current_dir(other.path(""))
        .output();
    assert_eq!(String::from_utf8_lossy(&ran.expect("bash").stdout), HOSTILE);
    assert!(!other.path("PWN").exists());
}

#[test]
fn names_that_a_shell_would_run_are_not_created_here() {
    let place = Workspace::of(STREAM);
    for name in ["x;touch", "a$(id)", "a`id`", "a|b", "a&b", "a>b", "it's", "{a,b}"] {
        place.refused(&["branch", name], 1, "bad_name", "shells interpret");
        place.refused(&["tag", name], 1, "bad_name", "shells interpret");
        place.refused(&["branch", "--rename", "draft", name], 1, "bad_name", "shells interpret");
    }
}

#[test]
fn every_shell_has_a_script() {
    let place = Workspace::empty();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.ok(&["completions", shell]);
        assert!(script.contains("TRACT_COMPLETE") && script.contains("tract"), "{shell}: {script}");
    }
}

#[test]
fn every_verb_has_a_manual_page() {
    let place = Workspace::empty();
    std::fs::create_dir(place.path("man1")).expect("a folder");
    place.ok(&["man", "man1"]);
    let verbs = completed(&place, &[""]);
    for verb in verbs.iter().filter(|verb| !verb.starts_with('-') && *verb != "help") {
        let page = std::fs::read_to_string(place.path(&format!("man1/tract-{verb}.1")));
        assert!(page.is_ok_and(|page| page.contains("tract")), "{verb}");
    }
    let page = place.read("man1/tract.1");
    assert!(page.contains("\\-\\-store") && page.contains("checkout"), "{page}");
    place.refused(&["man", "missing"], 2, "file", "missing");
}
