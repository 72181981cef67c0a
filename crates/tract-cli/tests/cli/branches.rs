use crate::support::{COAT, Workspace, each};

/// Branches of several ages, and a tag.
const STREAM: &str = r#"
{"op":"user","text":"one","at":"2026-01-31T09:00:00Z"}
{"op":"tag","name":"first"}
{"op":"branch","name":"tau-1"}
{"op":"branch","name":"tau-2"}
{"op":"checkout","name":"tau-2"}
{"op":"user","text":"two, and a text that is long enough to be cut where the terminal ends, whatever its name leaves","at":"2026-01-31T11:00:00Z"}
{"op":"checkout","name":"tau-1"}
{"op":"user","text":"three","at":"2026-01-31T10:00:00Z"}
{"op":"checkout","name":"main"}
"#;

pub(crate) fn names(place: &Workspace, arguments: &[&str]) -> Vec<String> {
    let lines = place.json(&[&["branch", "--json"], arguments].concat());
    each(&lines, "branch").into_iter().map(str::to_owned).collect()
}

#[test]
fn branches_are_listed_by_pattern_and_by_date() {
    let place = Workspace::of(STREAM);
    assert_eq!(names(&place, &[]), ["main", "tau-1", "tau-2"]);
    assert_eq!(names(&place, &["--list", "tau-*"]), ["tau-1", "tau-2"]);
    assert_eq!(names(&place, &["--list", "main", "*-2"]), ["main", "tau-2"]);
    assert_eq!(names(&place, &["--sort", "date"]), ["tau-2", "tau-1", "main"]);
    assert!(place.ok(&["branch", "--list", "none-*"]).is_empty());
}

#[test]
fn a_list_of_branches_stays_within_the_width() {
    let place = Workspace::of(STREAM);
    let long = "a-branch-with-a-name-that-takes-more-than-half-of-the-columns-of-a-terminal";
    place.ok(&["branch", long]);
    for columns in ["60", "80", "100", "140"] {
        let text = place.run_with("COLUMNS", columns, &["branch"]).stdout;
        let width: usize = columns.parse().unwrap();
        assert_eq!(text.lines().count(), 4, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{columns}: {line:?}");
        }
        // A long name takes nothing from the others, and is shown whole where it fits.
        assert!(text.contains("user one"), "{text}");
        assert_eq!(text.contains(long), width >= 100, "{columns}: {text}");
    }
}

#[test]
fn a_branch_is_renamed_with_its_head_and_its_checkout() {
    let place = Workspace::of(STREAM);
    let head = place.id("main");
    place.ok(&["branch", "-m", "trunk"]);
    assert_eq!(names(&place, &[]), ["tau-1", "tau-2", "trunk"]);
    assert_eq!(place.id("trunk"), head);
    assert!(place.ok(&["status"]).starts_with("on trunk at"));
    let line = &place.json(&["branch", "--json", "--rename", "tau-1", "other"])[0];
    assert_eq!((&line["branch"], &line["renamed"]), (&"other".into(), &"tau-1".into()));
    assert!(place.ok(&["status"]).starts_with("on trunk at"), "another branch stays checked out");
    place.refused(&["branch", "-m", "other", "trunk"], 1, "exists", "trunk");
    place.refused(&["branch", "-m", "nowhere", "x"], 1, "unknown_branch", "nowhere");
    place.refused(&["branch", "-m", "other", "~x"], 1, "bad_name", "~");
    // A rename is one command: one undo reverts it.
    place.ok(&["branch", "-m", "main"]);
    place.ok(&["commit", "user", "four"]);
    assert_eq!(place.ok(&["log", "--oneline"]).lines().count(), 2);
    place.is_clean();
    // The branch of a new repository is renamed before its first commit.
    let fresh = Workspace::new();
    fresh.ok(&["branch", "-m", "trunk"]);
    fresh.ok(&["commit", "user", "Hello"]);
    assert_eq!(names(&fresh, &[]), ["trunk"]);
}

#[test]
fn several_branches_are_deleted_together_or_not_at_all() {
    let place = Workspace::of(STREAM);
    place.refused(&["branch", "--delete", "tau-1", "nowhere"], 1, "unknown_branch", "nowhere");
    place.refused(&["branch", "--delete", "tau-1", "main"], 1, "checked_out", "main");
    assert_eq!(names(&place, &[]), ["main", "tau-1", "tau-2"]);
    let head = place.id("tau-1");
    let deleted = place.ok(&["branch", "--delete", "tau-1", "tau-2"]);
    assert_eq!(deleted.lines().count(), 2, "{deleted}");
    assert_eq!(names(&place, &[]), ["main"]);
    // What it says to restore a branch can be typed.
    let restore = deleted.lines().next().and_then(|line| line.split("tract ").nth(1)).unwrap();
    place.ok(&restore.split(' ').collect::<Vec<_>>());
    assert_eq!(place.id("tau-1"), head);
}

#[test]
fn tags_are_deleted() {
    let place = Workspace::of(STREAM);
    place.ok(&["tag", "second", "tau-1"]);
    let twice = ["tag", "--delete", "first", "first"];
    place.refused(&twice, 1, "unknown_tag", "did you mean \"first\"");
    assert_eq!(place.json(&["tag", "--json"]).len(), 2);
    let lines = place.json(&["tag", "--json", "--delete", "first", "second"]);
    assert_eq!((lines.len(), &lines[1]["deleted"]), (2, &"second".into()));
    assert!(place.ok(&["tag"]).is_empty());
    place.is_clean();
}

#[test]
fn checkout_goes_back_makes_branches_and_hints() {
    let place = Workspace::of(STREAM);
    let on = || place.json(&["status", "--json"])[0]["branch"].as_str().unwrap().to_owned();
    place.ok(&["checkout", "tau-2"]);
    place.ok(&["checkout", "tau-1"]);
    place.ok(&["checkout", "-"]);
    assert_eq!(on(), "tau-2");
    place.ok(&["checkout", "-"]);
    assert_eq!(on(), "tau-1");
    // A branch that is gone is passed over.
    place.ok(&["branch", "--delete", "tau-2"]);
    place.ok(&["checkout", "-"]);
    assert_eq!(on(), "main");
    place.ok(&["checkout", "-b", "again", "first"]);
    assert_eq!((on(), place.id("again")), ("again".to_owned(), place.id("first")));
    place.refused(&["checkout", "first"], 1, "unknown_branch", "tract checkout -b NAME first");
    let id = place.id("main");
    place.refused(&["checkout", &id[..8]], 1, "unknown_branch", "tract checkout -b NAME");
    // Messages name branches and tags as people do, and plurals are right.
    let at = format!("branch \"again\" already exists at {}", &place.id("again")[..8]);
    place.refused(&["branch", "again"], 1, "exists", &at);
    place.refused(&["tag", "first"], 1, "exists", "tag \"first\" already exists at ");
    place.refused(&["show", "first~9"], 1, "bad_revision", "the history has ");
    let ran = place.run(&["checkout", "x", "main"]).expect(2);
    assert!(ran.stderr.contains("--create"), "{ran:?}");
    Workspace::new().refused(&["checkout", "-"], 1, "no_previous_branch", "no other branch");
}

#[test]
fn repositories_of_a_store_are_listed() {
    let place = Workspace::of(STREAM);
    place.ok(&["--repo", "customer-42", "init"]);
    let lines = place.json(&["repos", "--json"]);
    assert_eq!(each(&lines, "repo"), ["customer-42", "default"]);
    assert_eq!([&lines[0]["current"], &lines[1]["current"]], [false, true]);
    assert_eq!(place.ok(&["repos", "--repo", "customer-42"]), "* customer-42\n  default\n");
    Workspace::empty().refused(&["repos"], 3, "no_store", "tract init");
}

#[test]
fn names_that_look_alike_are_one_name() {
    let place = Workspace::of(r#"{"op":"user","text":"one"}"#);
    let (composed, decomposed) = ("caf\u{e9}", "cafe\u{301}");
    place.ok(&["branch", composed]);
    place.refused(&["branch", decomposed], 1, "exists", composed);
    place.ok(&["checkout", decomposed]);
    assert_eq!(place.json(&["status", "--json"])[0]["branch"], composed);
    assert_eq!(place.id(decomposed), place.id("main"));
    place.ok(&["checkout", "main"]);
    place.ok(&["branch", "-m", decomposed, "the\u{301}"]);
    place.ok(&["branch", "--delete", "th\u{e9}"]);
    assert_eq!(place.json(&["branch", "--json"]).len(), 1);
}

#[test]
fn names_of_the_maximum_length_are_accepted_everywhere_and_longer_ones_nowhere() {
    let place = Workspace::of(COAT);
    let (branch, tag, remote) = ("b".repeat(850), "t".repeat(850), "r".repeat(140));
    let too_long = |name: &str| format!("{name}x");
    for (arguments, what) in [
        (&["branch", &too_long(&branch)][..], "850 bytes"),
        (&["tag", &too_long(&tag)], "850 bytes"),
        (&["remote", "add", &too_long(&remote), "sqlite:other.db"], "140 bytes"),
    ] {
        let ran = place.run(arguments);
        assert!(ran.code != Some(0) && ran.stderr.contains(what), "{ran:?}");
    }
    place.ok(&["branch", &branch]);
    place.ok(&["tag", &tag]);
    place.ok(&["remote", "add", &remote, "sqlite:other.db"]);
    // A merge whose conflicts are kept is a document with the names of both branches.
    place.ok(&["edit", "HEAD", "ours"]);
    place.ok(&["checkout", &branch]);
    place.ok(&["edit", "HEAD", "theirs"]);
    place.ok(&["push", &remote, "--all"]);
    place.ok(&["merge", "main", "--keep"]);
    place.ok(&["fetch", &remote]);
    let listed = place.ok(&["branch", "--json"]);
    assert!(listed.contains(&remote) && listed.contains(&branch), "{listed}");
    // Another store that has fetched such names moves forward, and sends them back.
    let other =
        |arguments: &[&str]| place.ok(&[&["--store", "sqlite:third.db"], arguments].concat());
    other(&["init"]);
    other(&["remote", "add", &remote, "sqlite:other.db"]);
    other(&["pull", &remote, "--all"]);
    other(&["checkout", &branch]);
    other(&["commit", "user", "more"]);
    other(&["push", &remote, "--all"]);
    other(&["fetch", &remote, "--prune"]);
    other(&["copy", "--to", "sqlite:copy.db"]);
    place.ok(&["--store", "sqlite:copy.db", "verify"]);
    other(&["branch", "--rename", &branch, &"c".repeat(850)]);
    other(&["branch", "--delete", "main"]);
    other(&["undo"]);
    place.ok(&["verify"]);
}
