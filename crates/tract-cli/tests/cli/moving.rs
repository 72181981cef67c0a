//! Conversations that move: remotes, fetch, pull, push, bundles.

use serde_json::json;

use crate::streams::MORNING;
#[cfg(unix)]
use crate::support::set_mode;
use crate::support::{Workspace, bundled, each, export, in_store, keys, stream, text};

/// A repository with a day's work, and the remote `team`, a store that is not there yet.
fn worked() -> Workspace {
    let place = Workspace::of(MORNING);
    place.ok(&["import", text(&bundled("conversations.jsonl"))]);
    place.ok(&["remote", "add", "team", "sqlite:team.db"]);
    place
}

#[test]
fn push_and_pull_move_what_is_new_between_two_stores() {
    let place = worked();
    let pushed = place.json(&["--json", "push", "--all"]).remove(0);
    assert_eq!(pushed["remote"], "team");
    assert!(pushed["commits"].as_u64().is_some_and(|commits| commits > 10), "{pushed}");
    assert_eq!(export(&place, "sqlite:team.db"), place.ok(&["export"]));
    assert_eq!(place.json(&["push", "team", "--all", "--json"])[0]["commits"], 0);

    // Another machine.
    let other = |arguments: &[&str]| place.ok(&in_store("sqlite:other.db", arguments));
    other(&["init"]);
    other(&["remote", "add", "origin", "sqlite:team.db"]);
    let pulled = other(&["pull", "--all"]);
    assert!(pulled.contains("created    branch lyon\n"), "{pulled}");
    assert_eq!(export(&place, "sqlite:other.db"), export(&place, "sqlite:team.db"));
    other(&["commit", "user", "And an umbrella?"]);
    let status = other(&["status"]);
    assert!(status.contains("1 ahead of origin/main: tract push origin"), "{status}");
    let pushed = other(&["push"]);
    assert!(pushed.contains("forwarded  branch main\norigin: 1 commit pushed"), "{pushed}");

    place.ok(&["fetch"]);
    assert!(place.ok(&["status"]).contains("1 behind team/main: tract pull team"));
    let status = place.json(&["--json", "status"]).remove(0);
    let remote = &status["remotes"][0];
    assert_eq!(*remote, json!({"remote": "team", "head": remote["head"], "ahead": 0, "behind": 1}));
    let branches = place.json(&["--json", "branch", "--list", "main"]);
    assert_eq!(branches[0]["remotes"][0]["behind"], 1);
    assert!(place.ok(&["branch"]).contains("[1 behind team]"));
    let pulled = place.ok(&["pull"]);
    assert!(pulled.contains("forwarded  branch main"), "{pulled}");
    assert!(place.ok(&["status"]).contains("as in team/main"));
    // One undo reverts the pull, and nothing else.
    let undone = place.ok(&["undo"]);
    assert!(undone.contains("(reverted: pull)"), "{undone}");
    place.ok(&["pull"]);
    assert_eq!(place.ok(&["compile"]), other(&["compile"]));
    place.is_clean();
}

/// redb locks its file, so the store of the command and that of the remote are opened once each.
#[cfg(feature = "redb")]
#[test]
fn pull_works_into_a_store_of_redb_and_from_one() {
    let place = worked();
    place.ok(&["push", "--all"]);
    let other = |arguments: &[&str]| place.ok(&in_store("redb:other.redb", arguments));
    other(&["init"]);
    other(&["remote", "add", "origin", "sqlite:team.db"]);
    other(&["pull", "--all"]);
    assert_eq!(export(&place, "redb:other.redb"), export(&place, "sqlite:team.db"));
    other(&["commit", "user", "And an umbrella?"]);
    place.ok(&["remote", "add", "other", "redb:other.redb"]);
    let pulled = place.ok(&["pull", "other"]);
    assert!(pulled.contains("forwarded  branch main"), "{pulled}");
    assert_eq!(place.ok(&["compile"]), other(&["compile"]));
}

#[test]
fn a_diverged_branch_is_merged_and_pushed() {
    let place = worked();
    place.ok(&["push"]);
    place.ok(&in_store("sqlite:team.db", &["commit", "user", "They said this."]));
    place.ok(&["commit", "user", "We said that."]);
    let ran = place.run(&["push"]).expect(1);
    assert!(ran.stdout.contains("diverged   branch main"), "{ran:?}");
    assert!(ran.stderr.contains("tract merge remotes/team/main, then push again"), "{ran:?}");
    let ran = place.run(&["pull"]).expect(1);
    assert!(ran.stderr.contains("merge theirs: tract merge remotes/team/main"), "{ran:?}");
    let both = "1 ahead, 1 behind team/main: tract merge remotes/team/main";
    assert!(place.ok(&["status"]).contains(both));
    place.ok(&["merge", "remotes/team/main"]);
    place.ok(&["push"]);
    let there = place.json(&in_store("sqlite:team.db", &["--json", "log", "main"]));
    assert_eq!(place.id("main"), there[0]["commit"]);
    // A branch that is further there is not pushed back.
    place.ok(&in_store("sqlite:team.db", &["commit", "user", "And more."]));
    place.ok(&["fetch"]);
    let ran = place.run(&["push"]).expect(1);
    assert!(ran.stderr.contains("tract pull team --branch main"), "{ran:?}");
}

#[test]
fn a_bundle_moves_as_a_file_and_through_a_pipe() {
    let place = worked();
    let made = place.ok(&["bundle", "create", "all.bundle"]);
    assert!(made.contains("in all.bundle\n"), "{made}");
    let at = place.id("main");
    place.ok(&["commit", "user", "And an umbrella?"]);
    let made = place.ok(&["bundle", "create", "new.bundle", "main", "--since", &at]);
    let says = format!("1 commit and 1 ref in new.bundle\ncontinues {}\n", &at[..8]);
    assert!(made.contains(&says), "{made}");

    let verify = in_store("sqlite:other.db", &["bundle", "verify", "new.bundle"]);
    place.refused(&verify, 3, "no_store", "");
    place.ok(&in_store("sqlite:other.db", &["init"]));
    let ran = place.run(&verify).expect(1);
    assert!(ran.stdout.contains("not here: "), "{ran:?}");
    let apply = in_store("sqlite:other.db", &["bundle", "apply", "new.bundle"]);
    place.refused(&apply, 1, "missing_prerequisites", "apply the earlier bundles first");
    place.ok(&in_store("sqlite:other.db", &["bundle", "apply", "all.bundle"]));
    place.ok(&verify);
    let applied = place.json(&[&["--json"], &apply[..]].concat());
    assert_eq!((&applied[0]["commits"], &applied[0]["reused"]), (&1.into(), &0.into()));
    assert_eq!(export(&place, "sqlite:other.db"), place.ok(&["export"]));

    let bytes = place.ok(&["bundle", "create", "-"]);
    let apply = in_store("sqlite:piped.db", &["bundle", "apply", "-"]);
    place.feed(&apply, bytes.as_bytes()).expect(0);
    assert_eq!(export(&place, "sqlite:piped.db"), place.ok(&["export"]));

    // As a remote it is fetched, and never pushed to.
    let third = |arguments: &[&str]| place.ok(&in_store("sqlite:third.db", arguments));
    third(&["init"]);
    third(&["remote", "add", "mail", "all.bundle"]);
    third(&["fetch"]);
    assert!(third(&["--json", "log", "mail/lyon", "--limit", "1"]).contains(&place.id("lyon")));
    place.refused(&in_store("sqlite:third.db", &["push"]), 1, "invalid", "bundle create");
}

#[test]
fn passwords_of_remotes_are_never_printed_and_leave_with_no_copy() {
    let place = worked();
    let url = "postgres://me:s3cret@db/agents";
    // As a build writes it that has the engine.
    let document = tract::Blob::seal(format!(r#"{{"db":{{"url":"{url}"}}}}"#).into_bytes());
    let id = document.id().to_string();
    place.ok(&["remote", "remove", "team"]);
    let stream = stream([
        json!({"op": "blob", "id": id, "text": document.text().expect("a text")}),
        json!({"op": "ref", "name": "config/remotes", "to": format!("blob {id}")}),
    ]);
    place.complains(&["apply", "-"], stream.as_bytes(), 1, "needs_trust", "");
    let applied = place.feed(&["apply", "--trust", "-"], stream.as_bytes()).expect(0);
    let added = place.run(&["remote", "add", "other", url]);
    if cfg!(feature = "postgres") {
        let notes = &added.stderr;
        assert!(notes.contains("kept in this store") && notes.contains("PGPASSWORD"), "{added:?}");
    }
    place.ok(&["remote", "add", "team", "sqlite:team.db"]);
    let plain = place.run(&["remote", "add", "bare", "sqlite:bare.db"]).expect(0);
    assert_eq!(plain.stderr, "");
    place.ok(&["bundle", "create", "all.bundle", "--everything"]);
    place.ok(&["copy", "--to", "sqlite:copy.db"]);
    let outputs = [
        format!("{applied:?} {added:?}"),
        place.ok(&["remote", "list"]),
        place.ok(&["--json", "remote", "list"]),
        place.ok(&["export"]),
        place.ok(&["bundle", "create", "-", "--everything"]),
        place.ok(&in_store("sqlite:copy.db", &["remote", "list"])),
        format!("{:?}", place.run(&["fetch", "db"])),
    ];
    for output in outputs {
        assert!(!output.contains("s3cret"), "{output}");
    }
    let listed = place.json(&["--json", "remote", "list"]);
    let urls = each(&listed, "url");
    assert!(urls.contains(&"postgres://me:…@db/agents"), "{urls:?}");
    assert!(place.ok(&["remote", "list"]).contains("team  sqlite:team.db\n"));
}

/// Each refusal has its word and its way out, and changes neither store.
#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let place = worked();
    place.ok(&["push", "--all"]);
    place.ok(&["bundle", "create", "all.bundle"]);
    let bundle = place.read("all.bundle");
    let lines: Vec<&str> = bundle.split_inclusive('\n').collect();
    place.write("cut.bundle", lines[..lines.len() - 1].concat());
    place.write("half.bundle", &bundle[..bundle.len() / 2]);
    place.write("flipped.bundle", bundle.replacen("Paris", "Pariz", 1));
    assert!(bundle.contains("Paris"));
    place.write("newer.bundle", bundle.replacen("\"version\":1", "\"version\":9", 1));
    place.write("no.bundle", "hello\n");
    let state = || {
        let stats = |store: &str| place.ok(&in_store(store, &["--json", "stats"]));
        let log = place.ok(&["--json", "remote", "list"]);
        (place.ok(&["export"]), export(&place, "sqlite:team.db"), stats("sqlite:team.db"), log)
    };
    let before = state();
    let cases: &[(&[&str], i32, &str, &str)] = &[
        (&["fetch", "tema"], 1, "unknown_remote", "did you mean \"team\"?"),
        (&["push", "nowhere"], 1, "unknown_remote", "remote list"),
        (&["pull", "nowhere"], 1, "unknown_remote", "remote list"),
        (&["remote", "remove", "nowhere"], 1, "unknown_remote", "remote list"),
        (&["remote", "add", "team", "sqlite:x.db"], 1, "remote_exists", "another name"),
        (&["remote", "add", "a/b", "sqlite:x.db"], 1, "bad_name", "/"),
        (&["remote", "add", "x y", "sqlite:x.db"], 1, "bad_name", ""),
        (&["remote", "add", "other", "mysql:x"], 3, "no_such_store", "sqlite:PATH"),
        (&["remote", "add", "other", "no.bundle"], 3, "no_such_store", ""),
        (&["push", "team", "mian"], 1, "unknown_branch", "did you mean \"main\"?"),
        (&["pull", "--branch", "mian"], 1, "unknown_branch", "did you mean \"main\"?"),
        (&["pull", "--branch", "main", "--all"], 2, "usage", ""),
        (&["bundle", "create", "x.bundle", "mian"], 1, "unknown_branch", "did you mean \"main\"?"),
        (&["bundle", "create", "x.bundle", "--since", "nowhere"], 1, "unknown_revision", ""),
        (&["bundle", "create", "none/x.bundle"], 2, "file", ""),
        (&["bundle", "apply", "none.bundle"], 2, "file", ""),
        (&["bundle", "apply", "."], 2, "file", ""),
        (&["bundle", "apply", "no.bundle"], 1, "not_a_bundle", "bundle create"),
        (&["bundle", "apply", "cut.bundle"], 1, "bundle_cut", "nothing of it was taken"),
        (&["bundle", "apply", "half.bundle"], 1, "bundle_cut", "nothing of it was taken"),
        (&["bundle", "apply", "flipped.bundle"], 1, "bundle_changed", "nothing of it was taken"),
        (&["bundle", "apply", "newer.bundle"], 1, "newer_format", "update tract"),
        (&["bundle", "verify", "flipped.bundle"], 1, "bundle_changed", ""),
    ];
    for (arguments, exit, code, says) in cases {
        match *code {
            "usage" => drop(place.run(arguments).expect(*exit)),
            code => place.refused(arguments, *exit, code, says),
        }
    }
    assert!(!place.path("x.bundle").exists(), "half a bundle is no bundle");
    assert!(state() == before, "something was changed");
    // Without a store the file alone is checked; a store that cannot be opened is an error.
    let elsewhere = Workspace::empty();
    elsewhere.write("all.bundle", &bundle);
    let checked = elsewhere.json(&["--json", "bundle", "verify", "all.bundle"]).remove(0);
    assert!(checked["missing"].is_null(), "{checked}");
    elsewhere.write(".tract/tract.db", "no database, but more than a few bytes of text");
    elsewhere.refused(&["bundle", "verify", "all.bundle"], 3, "not_a_store", "");
    // A remote whose store is gone, or was never there.
    std::fs::remove_file(place.path("team.db")).expect("it goes");
    place.refused(&["fetch"], 3, "no_store", "");
    assert!(!place.path("team.db").exists(), "a fetch makes no store");
}

/// A store that cannot be written is fetched from; nothing is pushed to it or fetched into it.
#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_written_can_be_fetched_from() {
    let place = worked();
    std::fs::create_dir(place.path("disc")).expect("a folder");
    place.ok(&["remote", "add", "disc", "sqlite:disc/a.db"]);
    place.ok(&["push", "disc"]);
    let set = |mode: u32, folder: u32| {
        set_mode(&place.path("disc/a.db"), mode);
        set_mode(&place.path("disc"), folder);
    };
    set(0o444, 0o555);
    // The superuser writes anywhere.
    let is_root = std::fs::File::options().append(true).open(place.path("disc/a.db")).is_ok();
    place.ok(&["commit", "user", "More."]);
    if !is_root {
        let before = export(&place, "sqlite:disc/a.db");
        place.refused(&["push", "disc"], 3, "read_only", "");
        place.ok(&["fetch", "disc"]);
        assert_eq!(export(&place, "sqlite:disc/a.db"), before);
    }
    set(0o644, 0o755);
    place.ok(&["push", "disc"]);
}

#[test]
fn the_documents_of_move_verbs_have_these_members() {
    let place = worked();
    let one = |arguments: &[&str]| place.json(arguments).remove(0);
    assert_eq!(keys(&one(&["--json", "push"])), "commits refs remote");
    assert_eq!(keys(&one(&["--json", "fetch"])), "branches commits refs remote");
    let pulled = one(&["--json", "pull"]);
    assert_eq!(keys(&pulled), "branches commits refs remote");
    assert_eq!(keys(&pulled["branches"][0]), "name status to");
    assert_eq!(keys(&one(&["--json", "remote", "list"])), "remote url");
    assert_eq!(keys(&one(&["--json", "bundle", "create", "x"])), "commits prerequisites refs");
    let verified = one(&["--json", "bundle", "verify", "x"]);
    assert_eq!(keys(&verified), "commits missing prerequisites refs");
    assert_eq!(keys(&one(&["--json", "bundle", "apply", "x"])), "commits refs reused untrusted");
    assert_eq!(keys(&one(&["--json", "remote", "remove", "team"])), "removed");
}
