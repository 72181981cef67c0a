use crate::support::{Place, bundled, text};

#[test]
fn no_store_at_all() {
    let place = Place::empty();
    for verb in ["status", "log", "verify", "compile", "export", "stats", "undo"] {
        place.refused(&[verb], 3, "no_store", "tract init");
    }
    place.write("chat.jsonl", r#"{"messages":[{"role":"user","content":"Hi"}]}"#);
    place.refused(&["import", "chat.jsonl"], 3, "no_store", "tract init");
    place.refused(&["--store", "sqlite:absent.db", "log"], 3, "no_store", "tract init");
    assert!(!place.path("absent.db").exists(), "a refused command makes no file");
    // These make the store that is named.
    place.ok(&["--store", "sqlite:named.db", "import", "chat.jsonl"]);
    assert!(place.path("named.db").exists());
}

#[test]
fn the_store_is_found_upwards_and_named_by_the_environment() {
    let place = Place::new();
    place.ok(&["commit", "user", "Hi"]);
    std::fs::create_dir_all(place.path("deep/er")).expect("a folder");
    let below = place.command(&["log"]).current_dir(place.path("deep/er")).output().expect("runs");
    assert!(String::from_utf8_lossy(&below.stdout).contains("Hi"), "{below:?}");
    let elsewhere = Place::empty();
    let url = format!("sqlite:{}", text(&place.store()));
    let named = elsewhere.command(&["log"]).env("TRACT_STORE", url).output().expect("runs");
    assert!(String::from_utf8_lossy(&named.stdout).contains("Hi"), "{named:?}");
}

#[test]
fn urls_that_this_build_cannot_open() {
    let place = Place::empty();
    place.refused(&["--store", "mysql:a", "log"], 3, "no_such_store", "it has memory, redb");
    place.refused(&["--store", "a.db", "log"], 3, "no_such_store", "sqlite:a.db");
    // An empty store in memory has no repository to look at.
    place.refused(&["--store", "memory:", "log"], 3, "no_repo", "init");
}

#[test]
fn other_repositories_are_made_on_demand_only() {
    let place = Place::new();
    place.refused(&["--repo", "other", "log"], 3, "no_repo", "tract --repo other init");
    place.ok(&["init", "--repo", "other"]);
    place.ok(&["commit", "user", "apart", "--repo", "other"]);
    assert_eq!(place.json(&["--json", "log"]).len(), 0);
    assert_eq!(place.json(&["--json", "log", "--repo", "other"]).len(), 1);
    place.refused(&["--repo", "", "log"], 1, "bad_name", "empty");
}

#[test]
fn wrong_command_lines() {
    let place = Place::new();
    for arguments in [
        &["frobnicate"][..],
        &["log", "--limit", "many"],
        &["commit", "poem", "Hi"],
        &["commit", "tool-result", "Hi"],
        &["compile", "--to", "gpt"],
        &["compile", "--at", "yesterday"],
        &["compile", "--set", "model"],
        &["annotate", "HEAD"],
        &[],
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.stdout.is_empty(), "{ran:?}");
        if !arguments.is_empty() {
            let mut json = vec!["--json"];
            json.extend(arguments);
            let ran = place.run(&json).expect(2);
            assert_eq!(ran.lines()[0]["error"]["code"], "usage", "{ran:?}");
        }
    }
    place.refused(&["commit", "user", "Hi", "--call", "c1", "grep", "{}"], 2, "usage", "assistant");
    place.refused(&["import", "nowhere.jsonl"], 2, "file", "nowhere.jsonl");
    place.refused(&["apply", "."], 2, "file", "directory");
}

#[test]
fn revisions_that_name_nothing_or_too_much() {
    let place = Place::new();
    place.refused(&["show", "main"], 1, "unknown_revision", "main");
    // Times are stated, so these are always the same ids; some of them begin alike.
    let stream: String = (0..1500)
        .map(|n| {
            let (minute, second) = (n / 60, n % 60);
            format!(
                "{{\"op\":\"note\",\"text\":\"{n}\",\"at\":\"2026-01-31T09:{minute:02}:{second:02}Z\"}}\n"
            )
        })
        .collect();
    place.feed(&["apply", "--batch", "5000", "-"], stream.as_bytes()).expect(0);
    let log = place.json(&["--json", "log", "--limit", "0"]);
    let mut heads: Vec<&str> = log.iter().filter_map(|line| line["commit"].as_str()).collect();
    heads.sort_unstable();
    let twins = heads.windows(2).find(|pair| pair[0][..4] == pair[1][..4]).expect("two alike");
    place.refused(&["show", &twins[0][..4]], 1, "ambiguous_revision", &twins[1][..12]);
    assert_eq!(place.id(twins[0]), twins[0]);
    place.refused(&["show", "mian"], 1, "unknown_revision", "did you mean \"main\"?");
    place.refused(&["show", "ffff0000ffff"], 1, "unknown_revision", "ffff0000ffff");
    place.refused(&["show", "main~5000"], 1, "bad_revision", "1500");
    place.refused(&["show", "main#1"], 1, "bad_revision", "0 messages");
    place.refused(&["show", "main@{yesterday}"], 1, "bad_revision", "");
    place.refused(&["checkout", "mian"], 1, "unknown_branch", "did you mean \"main\"?");
    place.refused(&["branch", "two words"], 1, "bad_name", "white space");
}

#[test]
fn messages_that_do_not_fit() {
    let place = Place::new();
    place.refused(&["commit", "tool-result", "ok", "--call-id", "c9"], 1, "no_open_call", "c9");
    place.ok(&["commit", "user", "Hi"]);
    place.ok(&["commit", "assistant", "", "--call", "c1", "grep", "{\"pattern\":\"x\"}"]);
    place.refused(
        &["commit", "tool-result", "?", "--call-id", "c9"],
        1,
        "no_open_call",
        "\"c1\" grep",
    );
    place.ok(&["commit", "tool-result", "ok", "--call-id", "c1"]);
    place.refused(
        &["commit", "tool-result", "ok", "--call-id", "c1"],
        1,
        "already_answered",
        "edit the answer",
    );
    place.ok(&["compress", "--from", "HEAD#1", "--to", "HEAD#3", "--content", "They grepped."]);
    place.refused(&["edit", "HEAD~3", "Hello"], 1, "not_visible", "revert");
    place.refused(&["annotate", "HEAD~3", "--priority", "skip"], 1, "not_visible", "hidden by");
    place.ok(&["undo"]);
    place.ok(&["undo", "--redo"]);
    place.refused(&["undo", "--redo"], 1, "nothing_to_undo", "nothing to redo on main");
    place.is_clean();
}

impl Place {
    /// Runs what is refused, and sees that it left no trace.
    #[track_caller]
    fn unchanged_by(&self, arguments: &[&str], stdin: &[u8], code: &str, says: &str) {
        let before = self.json(&["stats", "--json"]);
        let ran = self.feed(arguments, stdin).expect(1);
        assert!(ran.stderr.contains(&format!("error[{code}]")), "{}", ran.stderr);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
        assert_eq!(before, self.json(&["stats", "--json"]), "the store is unchanged");
    }
}

#[test]
fn what_is_too_much() {
    let place = Place::new();
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let line = format!(r#"{{"id":"deep","messages":[{{"role":"user","content":{deep}}}]}}"#);
    place.unchanged_by(&["import", "-"], line.as_bytes(), "bad_json", "line 1");
    let line = format!(r#"{{"op":"user","text":"x","metadata":{{"a":{deep}}}}}"#);
    place.unchanged_by(&["apply", "-"], line.as_bytes(), "invalid_json", "line 1");

    let tools: Vec<String> = (0..10_000).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
    let tools = format!("[{}]", tools.join(","));
    place.unchanged_by(&["tools", "set", "-"], tools.as_bytes(), "too_large", "4096");
    let line = format!(r#"{{"id":"many","messages":[],"tools":{tools}}}"#);
    place.unchanged_by(&["import", "-"], line.as_bytes(), "too_large", "4096");
    let named = format!(r#"[{{"name":"{}"}}]"#, "n".repeat(256));
    place.unchanged_by(&["tools", "set", "-"], named.as_bytes(), "too_large", "255");

    place.ok(&["commit", "assistant", "", "--call", "c1", "cat", "{}"]);
    let large = "x".repeat(100_000_000);
    let result = ["commit", "tool-result", "-", "--call-id", "c1"];
    place.unchanged_by(&result, large.as_bytes(), "too_large", "67108864");
    // Just below the limit it works.
    place.feed(&result, &large.as_bytes()[..60_000_000]).expect(0);
    let line = place.ok(&["log", "--limit", "1"]);
    assert!(line.len() < 200, "the log cuts long texts: {}", line.len());
    place.is_clean();
}

#[test]
fn odd_bytes() {
    let place = Place::new();
    place.feed(&["commit", "user", "-"], b"nul \0 and \x07 bell").expect(0);
    let compiled = place.json(&["compile", "--to", "openai"]);
    assert_eq!(compiled[0][0]["content"], "nul \0 and \u{7} bell");
    assert!(place.ok(&["show"]).contains("nul \\x00 and \\x07 bell"));
    place.unchanged_by(&["commit", "user", "-"], b"\xff\xfe", "not_utf8", "byte 0");
    let stream = b"{\"op\":\"user\",\"text\":\"\xff\"}\n";
    let ran = place.feed(&["apply", "-"], stream).expect(1);
    assert!(ran.stderr.contains("line 1: error["), "{ran:?}");
    let surrogate = br#"{"op":"user","text":"\ud800"}"#;
    place.feed(&["apply", "-"], surrogate).expect(1);
    assert_eq!(place.json(&["--json", "log"]).len(), 1);
}

#[test]
fn files_that_are_no_stores() {
    let place = Place::empty();
    place.write("notes.txt", "Dear diary, today I wrote a version control system.\n".repeat(40));
    place.refused(&["--store", "sqlite:notes.txt", "log"], 3, "not_a_store", "check the path");
    let other = rusqlite::Connection::open(place.path("other.db")).expect("a database");
    other.execute_batch("CREATE TABLE songs (title TEXT)").expect("a table");
    drop(other);
    place.refused(&["--store", "sqlite:other.db", "log"], 3, "not_a_store", "check the path");
    // Nor does a command that may make a store take over a file of somebody else's.
    let before = std::fs::read(place.path("other.db")).expect("it is read");
    place.refused(&["--store", "sqlite:other.db", "init"], 3, "not_a_store", "");
    assert_eq!(std::fs::read(place.path("other.db")).expect("it is read"), before);
}

#[test]
fn a_store_of_a_later_version() {
    let place = Place::new();
    let database = rusqlite::Connection::open(place.store()).expect("a database");
    database.pragma_update(None, "user_version", 999).expect("it is set");
    drop(database);
    place.refused(&["log"], 3, "format_too_new", "newer tract");
}

#[test]
fn a_store_that_somebody_else_has_locked() {
    let place = Place::new();
    place.ok(&["commit", "user", "Hi"]);
    let database = rusqlite::Connection::open(place.store()).expect("a database");
    database.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    // Reading goes on meanwhile.
    assert_eq!(place.json(&["--json", "log"]).len(), 1);
    let ran = place.run(&["commit", "user", "there"]).expect(3);
    assert!(ran.stderr.contains("error[busy]"), "{ran:?}");
    drop(database);
    place.ok(&["commit", "user", "there"]);
    place.is_clean();
}

#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.ok(&["commit", "user", "Hi"]);
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is set");
    };
    let folder = place.path(".tract");
    mode(&place.store(), 0o444);
    mode(&folder, 0o555);
    // Whoever is above permissions cannot see what they do.
    let above = std::fs::OpenOptions::new().append(true).open(place.store()).is_ok();
    let ran = place.run(&["commit", "user", "there"]);
    mode(&folder, 0o755);
    mode(&place.store(), 0o644);
    if above {
        eprintln!("left out: this user may write any file");
        return;
    }
    let ran = ran.expect(3);
    assert!(ran.stderr.contains("error[read_only]"), "{ran:?}");
    assert_eq!(place.json(&["--json", "log"]).len(), 1);
}

#[test]
fn one_flipped_byte_is_an_error_and_is_named() {
    let place = Place::new();
    place.ok(&["import", text(&bundled("conversations.jsonl"))]);
    place.is_clean();
    let needle = b"See you on Thursday, and please keep";
    let mut file = std::fs::read(place.store()).expect("it is read");
    let at = file.windows(needle.len()).position(|w| w == needle).expect("the text is stored");
    file[at] ^= 1;
    std::fs::write(place.store(), file).expect("it is written");
    place.refused(&["compile", "workshop-cargo-bike"], 3, "corrupt", "tract verify");
    let ran = place.run(&["verify", "--json"]).expect(1);
    let report = &ran.lines()[0];
    assert_eq!(report["clean"], false);
    let damage = report["damage"].as_array().expect("a list");
    assert!(
        damage.iter().any(|one| one["object"].as_str().is_some_and(|o| o.starts_with("blob ")))
    );
    let people = place.run(&["verify"]).expect(1);
    assert!(people.stdout.contains("not clean"), "{people:?}");
    // What is not damaged can still be read.
    place.ok(&["compile", "workshop-refund"]);
}

#[test]
fn a_password_in_a_url_is_never_printed() {
    let place = Place::empty();
    let urls = [
        // The port is one that nothing listens on, where this build has PostgreSQL at all.
        "postgres://u:SECRET@127.0.0.1:1/db?connect_timeout=1&retry_for=0",
        "postgresql://u:SECRET@127.0.0.1:1/db?connect_timeout=1&retry_for=0",
        "postgres://u:SE/CRET@SECRET@127.0.0.1:1/db?retry_for=0",
        "postgres://127.0.0.1:1/db?user=u&password=SECRET&retry_for=0",
        "postgres:u:SECRET@127.0.0.1/db",
        "u:SECRET@127.0.0.1/db",
    ];
    for url in urls {
        for arguments in [
            vec!["--store", url, "init"],
            vec![url, "init"],
            vec!["init", url],
            vec!["--store", url, "log"],
            vec!["copy", "--from", url, "--to", "sqlite:a.db"],
            vec!["bench", "--store", url],
            vec!["conformance", "--store", url],
        ] {
            for json in [&[][..], &["--json"]] {
                let mut arguments = arguments.clone();
                arguments.extend(json);
                let ran = place.run(&arguments);
                assert_ne!(ran.code, Some(0), "{arguments:?}");
                let printed = format!("{}{}", ran.stdout, ran.stderr);
                assert!(!printed.contains("SECRET"), "{arguments:?}: {printed}");
            }
        }
    }
}
