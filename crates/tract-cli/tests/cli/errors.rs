#[cfg(unix)]
use crate::support::set_mode;
use crate::support::{RunOutput, Workspace, bundled, each, list, text, user_says};

#[test]
fn no_store_at_all() {
    let place = Workspace::empty();
    for verb in ["status", "log", "verify", "compile", "export", "stats", "undo"] {
        place.refused(&[verb], 3, "no_store", "tract init");
    }
    place.write("stream.jsonl", r#"{"op":"user","text":"Hi"}"#);
    place.refused(&["apply", "stream.jsonl"], 3, "no_store", "tract init");
    place.refused(&["--store", "sqlite:absent.db", "log"], 3, "no_store", "tract init");
    assert!(!place.path("absent.db").exists(), "a refused command makes no file");
    // These make the store that is named.
    place.write("chat.jsonl", r#"{"messages":[{"role":"user","content":"Hi"}]}"#);
    place.ok(&["--store", "sqlite:named.db", "import", "chat.jsonl"]);
    assert!(place.path("named.db").exists());
}

#[test]
fn the_store_is_found_upwards_and_named_by_the_environment() {
    let place = Workspace::new();
    place.ok(&["commit", "user", "Hi"]);
    place.write("deep/er/file", "");
    let below = RunOutput::after(place.command(&["log"]).current_dir(place.path("deep/er")));
    assert!(below.stdout.contains("Hi"), "{below:?}");
    let url = format!("sqlite:{}", text(&place.store()));
    let named = Workspace::empty().run_with("TRACT_STORE", url, &["log"]);
    assert!(named.stdout.contains("Hi"), "{named:?}");
}

#[test]
fn urls_that_this_build_cannot_open() {
    let place = Workspace::empty();
    place.refused(&["--store", "mysql:a", "log"], 3, "no_such_store", "it has memory, redb");
    place.refused(&["--store", "a.db", "log"], 3, "no_such_store", "sqlite:a.db");
    // An empty store in memory has no repository to look at.
    place.refused(&["--store", "memory:", "log"], 3, "no_repo", "init");
}

#[test]
fn other_repositories_are_made_on_demand_only() {
    let place = Workspace::new();
    place.refused(&["--repo", "other", "log"], 3, "no_repo", "tract --repo other init");
    place.ok(&["init", "--repo", "other"]);
    place.ok(&["commit", "user", "apart", "--repo", "other"]);
    assert_eq!(place.json(&["--json", "log"]).len(), 0);
    assert_eq!(place.json(&["--json", "log", "--repo", "other"]).len(), 1);
    place.refused(&["--repo", "", "log"], 1, "bad_name", "empty");
}

#[test]
fn wrong_command_lines() {
    let place = Workspace::new();
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
            let ran = place.run(&[&["--json"], arguments].concat()).expect(2);
            assert_eq!(ran.lines()[0]["error"]["code"], "usage", "{ran:?}");
        }
    }
    place.refused(&["commit", "user", "Hi", "--call", "c1", "grep", "{}"], 2, "usage", "assistant");
    place.refused(&["import", "nowhere.jsonl"], 2, "file", "nowhere.jsonl");
    place.refused(&["apply", "."], 2, "file", "directory");
}

#[test]
fn revisions_that_name_nothing_or_too_much() {
    let place = Workspace::new();
    place.refused(&["show", "main"], 1, "no_commits", "main");
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
    let mut heads = each(&log, "commit");
    heads.sort_unstable();
    let twins = heads.windows(2).find(|pair| pair[0][..4] == pair[1][..4]).expect("two alike");
    place.refused(&["show", &twins[0][..4]], 1, "ambiguous_revision", &twins[1][..12]);
    assert_eq!(place.id(twins[0]), twins[0]);
    place.refused(&["show", "mian"], 1, "unknown_revision", "did you mean \"main\"?");
    place.refused(&["show", "ffff0000ffff"], 1, "unknown_revision", "ffff0000ffff");
    place.refused(&["show", "main~5000"], 1, "bad_revision", "1,500 commits");
    place.refused(&["show", "main#1"], 1, "bad_revision", "0 messages");
    place.refused(&["show", "main@{yesterday}"], 1, "bad_revision", "");
    place.refused(&["checkout", "mian"], 1, "unknown_branch", "did you mean \"main\"?");
    place.refused(&["branch", "two words"], 1, "bad_name", "white space");
}

#[test]
fn messages_that_do_not_fit() {
    let place = Workspace::new();
    place.refused(&["commit", "tool-result", "ok", "--call-id", "c9"], 1, "no_open_call", "c9");
    place.ok(&["commit", "user", "Hi"]);
    place.ok(&["commit", "assistant", "", "--call", "c1", "grep", "{\"pattern\":\"x\"}"]);
    let other = ["commit", "tool-result", "?", "--call-id", "c9"];
    place.refused(&other, 1, "no_open_call", "\"c1\" grep");
    let answer = ["commit", "tool-result", "ok", "--call-id", "c1"];
    place.ok(&answer);
    place.refused(&answer, 1, "already_answered", "edit the answer");
    place.ok(&["compress", "--from", "HEAD#1", "--to", "HEAD#3", "--content", "They grepped."]);
    place.refused(&["edit", "HEAD~3", "Hello"], 1, "not_visible", "revert");
    place.refused(&["annotate", "HEAD~3", "--priority", "skip"], 1, "not_visible", "hidden by");
    place.ok(&["undo"]);
    place.ok(&["undo", "--redo"]);
    place.refused(&["undo", "--redo"], 1, "nothing_to_undo", "nothing to redo on main");
    place.is_clean();
}

impl Workspace {
    /// Runs what is refused, and sees that it left no trace.
    #[track_caller]
    fn unchanged_by(&self, arguments: &[&str], stdin: &[u8], code: &str, says: &str) {
        let before = self.json(&["stats", "--json"]);
        self.complains(arguments, stdin, 1, code, says);
        assert_eq!(before, self.json(&["stats", "--json"]), "the store is unchanged");
    }
}

#[test]
fn excessive_input_is_refused_and_changes_nothing() {
    let place = Workspace::new();
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let line = format!(r#"{{"id":"deep","messages":[{{"role":"user","content":{deep}}}]}}"#);
    place.unchanged_by(&["import", "-"], line.as_bytes(), "invalid_json", "line 1");
    let line = format!(r#"{{"op":"user","text":"x","metadata":{{"a":{deep}}}}}"#);
    place.unchanged_by(&["apply", "-"], line.as_bytes(), "invalid_json", "line 1");

    let tools: Vec<String> = (0..10_000).map(|n| format!(r#"{{"name":"t{n}"}}"#)).collect();
    let tools = format!("[{}]", tools.join(","));
    place.unchanged_by(&["tools", "set", "-"], tools.as_bytes(), "too_large", "4096");
    let line =
        format!(r#"{{"id":"many","messages":[{{"role":"user","content":"Hi"}}],"tools":{tools}}}"#);
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
    let place = Workspace::new();
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
    let place = Workspace::empty();
    place.write("notes.txt", "Dear diary, today I wrote a version control system.\n".repeat(40));
    place.refused(&["--store", "sqlite:notes.txt", "log"], 3, "not_a_store", "check the path");
    let other = rusqlite::Connection::open(place.path("other.db")).expect("a database");
    other.execute_batch("CREATE TABLE songs (title TEXT)").expect("a table");
    drop(other);
    place.refused(&["--store", "sqlite:other.db", "log"], 3, "not_a_store", "check the path");
    // Nor does a command that may make a store take over a file of another program.
    let before = std::fs::read(place.path("other.db")).expect("it is read");
    place.refused(&["--store", "sqlite:other.db", "init"], 3, "not_a_store", "");
    assert_eq!(std::fs::read(place.path("other.db")).expect("it is read"), before);
}

#[test]
fn a_store_of_a_later_version() {
    let place = Workspace::new();
    place.execute("PRAGMA user_version = 999");
    place.refused(&["log"], 3, "format_too_new", "newer tract");
}

#[test]
fn a_store_that_another_process_has_locked() {
    let place = Workspace::new();
    place.ok(&["commit", "user", "Hi"]);
    let database = rusqlite::Connection::open(place.store()).expect("a database");
    database.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
    // Reading continues meanwhile.
    assert_eq!(place.json(&["--json", "log"]).len(), 1);
    place.complains(&["commit", "user", "there"], b"", 3, "busy", "");
    drop(database);
    place.ok(&["commit", "user", "there"]);
    place.is_clean();
}

/// A store that the user who reads it may not write, in a folder that is as little theirs.
#[cfg(unix)]
struct Unwritable {
    place: Workspace,
    folder: std::path::PathBuf,
}

#[cfg(unix)]
impl Unwritable {
    /// A store with three messages, that these commands wrote to as well.
    fn new(url: &str, commands: &[&[&str]]) -> Self {
        let place = Workspace::empty();
        place.ok(&["--store", url, "init"]);
        for text in ["one", "two", "three"] {
            place.ok(&["--store", url, "commit", "user", text]);
        }
        for command in commands {
            place.ok(&[&["--store", url], *command].concat());
        }
        let folder = place.path("kept");
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            set_mode(&entry.expect("a file").path(), 0o444);
        }
        set_mode(&folder, 0o555);
        set_mode(&place.path("."), 0o755);
        Self { place, folder }
    }

    /// Runs as a user for whom permissions hold.
    fn run(&self, arguments: &[&str]) -> RunOutput {
        use std::os::unix::process::CommandExt;
        const NOBODY: u32 = 65_534;
        let mut command = self.place.command(arguments);
        let is_above = std::fs::File::create(self.folder.join("probe")).is_ok();
        if is_above {
            std::fs::remove_file(self.folder.join("probe")).expect("it is removed");
            command.uid(NOBODY).gid(NOBODY);
        }
        RunOutput::after(&mut command)
    }
}

#[cfg(unix)]
impl Drop for Unwritable {
    fn drop(&mut self) {
        set_mode(&self.folder, 0o755);
    }
}

#[cfg(unix)]
#[test]
fn verbs_that_change_history_say_that_a_store_may_only_be_read() {
    for url in ["sqlite:kept/agent.db", "redb:kept/agent.redb"] {
        let store = Unwritable::new(
            url,
            &[
                &["branch", "side"],
                &["edit", "HEAD#1", "ours"],
                &["checkout", "side"],
                &["edit", "HEAD#1", "theirs"],
                &["commit", "user", "more"],
                &["checkout", "main"],
                &["merge", "side", "--keep"],
            ],
        );
        let shown = store.run(&["--store", url, "merge", "show", "m"]).expect(0);
        for verb in [
            &["merge", "side", "--keep"][..],
            &["merge", "side", "--ours"],
            &["merge", "resolve", "m", "--ours"],
            &["merge", "resolve", "m", "#1", "both"],
            &["merge", "abort", "m"],
            &["cherry-pick", "side"],
            &["drop", "HEAD#3"],
            &["insert", "--after", "HEAD#1", "user", "x"],
            &["reset"],
        ] {
            let ran = store.run(&[&["--store", url], verb].concat());
            assert_eq!(ran.code, Some(3), "{url} {verb:?}: {ran:?}");
            assert!(ran.stderr.contains("error[read_only]"), "{url} {verb:?}: {ran:?}");
        }
        let shown_again = store.run(&["--store", url, "merge", "show", "m"]);
        assert_eq!(shown_again.stdout, shown.stdout, "{url}");
    }
}

#[cfg(unix)]
#[test]
fn a_store_that_may_only_be_read_is_read_and_not_written() {
    for url in ["sqlite:kept/agent.db", "redb:kept/agent.redb"] {
        let store = Unwritable::new(url, &[]);
        for verb in ["log", "compile", "verify", "status"] {
            let ran = store.run(&["--store", url, verb]);
            assert_eq!(ran.code, Some(0), "{url} {verb}: {ran:?}");
        }
        let ran = store.run(&["--store", url, "commit", "user", "four"]).expect(3);
        assert!(ran.stderr.contains("error[read_only]"), "{url}: {ran:?}");
        let log = store.run(&["--store", url, "--json", "log"]).lines();
        assert_eq!(log.len(), 3, "{url}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_opened_is_named() {
    for (url, file) in
        [("sqlite:kept/agent.db", "agent.db"), ("redb:kept/agent.redb", "agent.redb")]
    {
        let store = Unwritable::new(url, &[]);
        set_mode(&store.folder.join(file), 0o000);
        let stderr = store.run(&["--store", url, "log"]).expect(3).stderr;
        assert!(stderr.contains("error[unavailable]") && stderr.contains(file), "{stderr}");
    }
}

#[cfg(unix)]
#[test]
fn a_folder_whose_name_is_no_text_holds_a_store() {
    use std::os::unix::ffi::OsStrExt;
    let place = Workspace::empty();
    let folder = place.path(".").join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&folder).expect("a folder");
    for arguments in [&["init"][..], &["commit", "user", "Hi"], &["log"], &["verify"]] {
        RunOutput::after(place.command(arguments).current_dir(&folder)).expect(0);
    }
    assert!(folder.join(".tract/tract.db").exists());
}

#[test]
fn init_that_fails_does_not_advise_init() {
    let place = Workspace::empty();
    place.write("file", "no folder");
    place.write("foreign.db", "something else that is long enough to be read as a header");
    for url in [
        "sqlite:file/agent.db",
        "redb:file/agent.redb",
        "redb:/proc/none/agent.redb",
        "sqlite:/proc/none/agent.db",
        "sqlite:foreign.db",
        "redb:foreign.db",
    ] {
        let ran = place.run(&["--store", url, "init"]);
        assert_eq!(ran.code, Some(3), "{url}: {ran:?}");
        assert!(!ran.stderr.contains("tract init"), "{url}: {ran:?}");
        assert!(!ran.stderr.contains("no_store"), "{url}: {ran:?}");
    }
}

/// A text of which no part comes again, so that compression does not make room.
#[cfg(unix)]
fn noise(seed: u64, length: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut rng = tract_testkit::power::SeededRng(seed);
    (0..length).map(|_| char::from(LETTERS[rng.below(LETTERS.len())])).collect()
}

/// The size of a file is limited as a full disk or a quota limits it.
#[cfg(unix)]
#[test]
fn a_write_for_which_there_is_no_room_says_so() {
    for url in ["sqlite:agent.db", "redb:agent.redb"] {
        let place = Workspace::empty();
        place.ok(&["--store", url, "init"]);
        place.ok(&["--store", url, "commit", "user", "there is room"]);
        let texts = (0..200).map(|n| format!("{n} {}", noise(n, 20_000)));
        place.write("stream", user_says(texts));
        let tract = env!("CARGO_BIN_EXE_tract");
        let script =
            format!("trap '' XFSZ; ulimit -f 1500; exec {tract} --store {url} apply stream");
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script]).current_dir(place.path("."));
        let stderr = RunOutput::after(&mut command).expect(3).stderr;
        assert!(!stderr.contains("[poisoned]"), "{url}: {stderr}");
        match url.starts_with("redb") {
            true => assert!(stderr.contains("error[disk_full]"), "{stderr}"),
            // SQLite keeps to itself why a write fails, not that it does.
            false => assert!(stderr.contains("writing failed"), "{stderr}"),
        }
        // With room again all that was acknowledged is there.
        let clean = place.json(&["--store", url, "verify", "--json"]);
        assert_eq!(clean[0]["clean"], true, "{clean:?}");
    }
}

#[test]
fn a_command_that_did_its_work_without_room_to_write_the_log_back_succeeds() {
    let place = Workspace::empty();
    place.ok(&["--store", "sqlite:agent.db", "init"]);
    place.write("large", user_says((0..9).map(|n| noise(n, 100_000))));
    place.ok(&["--store", "sqlite:agent.db", "apply", "large"]);
    place.write("more", user_says([noise(9, 200_000)]));
    // The new pages fit into the log, but not into the file. The limit is in KiB.
    let file = std::fs::metadata(place.path("agent.db")).expect("a file").len();
    let (limit, tract) = (file / 1024 + 20, env!("CARGO_BIN_EXE_tract"));
    let script =
        format!("trap '' XFSZ; ulimit -f {limit}; exec {tract} --store sqlite:agent.db apply more");
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &script]).current_dir(place.path("."));
    let stderr = RunOutput::after(&mut command).expect(0).stderr;
    assert!(!stderr.contains("closing"), "{stderr}");
    assert!(place.path("agent.db-wal").exists(), "the log stays");
    let log = place.json(&["--store", "sqlite:agent.db", "log", "--json"]);
    assert_eq!(log.len(), 10);
}

/// A stream of so many messages that fill pages of a file.
fn many(messages: usize) -> String {
    user_says((0..messages).map(|n| format!("message {n} {}", "x".repeat(500))))
}

/// The file with a page of it damaged, for some of its pages.
fn damaged(file: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    let pages = file.len() / 4096;
    (1..pages).step_by((pages / 30).max(1)).map(move |page| {
        let mut file = file.to_vec();
        file[page * 4096..][..64].fill(0xff);
        (page, file)
    })
}

#[test]
fn verify_names_what_is_damaged_whichever_page_it_is_on() {
    let place = Workspace::new();
    place.feed(&["apply", "-"], many(120).as_bytes()).expect(0);
    place.is_clean();
    let whole = std::fs::read(place.store()).expect("it is read");
    let mut reports = 0;
    for (page, file) in damaged(&whole) {
        std::fs::write(place.store(), file).expect("it is written");
        let ran = place.run(&["verify", "--json"]);
        let lines = ran.lines();
        match ran.code {
            Some(1) => {
                assert!(!list(&lines[0]["damage"]).is_empty(), "page {page}: {lines:?}");
                reports += 1;
            }
            // A page that nothing is read from.
            Some(0) => {}
            // The tables themselves are not known any more: then there is nothing to name.
            Some(3) => {
                let error = lines[0]["error"].to_string();
                assert!(!error.contains("tract verify"), "page {page}: {error}");
            }
            other => panic!("page {page}: {other:?} {ran:?}"),
        }
    }
    assert!(reports > 20, "{reports} reports for {} bytes", whole.len());
}

#[test]
fn a_damaged_redb_file_is_an_error_and_no_panic() {
    let place = Workspace::empty();
    let url = "redb:agent.redb";
    place.ok(&["--store", url, "init"]);
    place.feed(&["--store", url, "apply", "-"], many(60).as_bytes()).expect(0);
    let whole = std::fs::read(place.path("agent.redb")).expect("it is read");
    for (page, file) in damaged(&whole) {
        place.write("agent.redb", file);
        for verb in ["log", "verify"] {
            let ran = place.run(&["--store", url, verb]);
            assert!(matches!(ran.code, Some(0 | 1 | 3)), "page {page}, {verb}: {ran:?}");
            assert!(!ran.stderr.contains("panicked at"), "page {page}, {verb}: {ran:?}");
        }
    }
}

#[test]
fn one_flipped_byte_is_an_error_and_is_named() {
    let place = Workspace::new();
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
    let objects = each(list(&report["damage"]), "object");
    assert!(objects.iter().any(|object| object.starts_with("blob ")), "{report}");
    let people = place.run(&["verify"]).expect(1);
    assert!(people.stdout.contains("not clean"), "{people:?}");
    // What is not damaged can still be read.
    place.ok(&["compile", "workshop-refund"]);
    let log = place.ok(&["log", "workshop-cargo-bike"]);
    assert_eq!(log.matches("cannot be read").count(), 1, "{log}");
    assert!(log.lines().count() > 4, "{log}");
}

#[test]
fn a_password_in_a_url_is_never_printed() {
    let place = Workspace::empty();
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
            vec!["conformance", "--store", url],
        ] {
            for json in [&[][..], &["--json"]] {
                let arguments = [&arguments[..], json].concat();
                let ran = place.run(&arguments);
                assert_ne!(ran.code, Some(0), "{arguments:?}");
                let printed = format!("{}{}", ran.stdout, ran.stderr);
                assert!(!printed.contains("SECRET"), "{arguments:?}: {printed}");
            }
        }
    }
}
