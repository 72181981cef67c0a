//! `export --html`: conversations as one file, and what it must not contain.

use serde_json::json;

use crate::support::{COAT, Workspace, key, sessions, stream};
use crate::viewing::{hostile, is_inert};

#[test]
fn a_file_holds_conversations_without_a_server() {
    let place = Workspace::of(COAT);
    place.ok(&["branch", "lyon", "--from", "main#2"]);
    place.ok(&["export", "--html", "one.html", "main"]);
    let one = place.read("one.html");
    assert!(one.contains("umbrella") && one.contains("11 degrees, rain"));
    place.ok(&["export", "--html", "all.html", "--all"]);
    let all = place.read("all.html");
    assert!(all.contains("<b>lyon</b>") && all.contains("<b>main</b>"));
    for page in [&one, &all] {
        for outside in ["src=", "href=\"/", "http://", "https://", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
    }
    is_inert(&hostile().ok(&["export", "--html", "-"]), 1);
    let key = key();
    place.ok(&["commit", "user", &format!("the key is {key}")]);
    place.ok(&["export", "--html", "key.html"]);
    let redacted = place.read("key.html");
    assert!(!redacted.contains(&key) && redacted.contains("[redacted:github-token:"));
    place.ok(&["export", "--html", "key.html", "--no-redact"]);
    assert!(place.read("key.html").contains(&key));
    place.refused(&["export", "--html", "x.html", "mian"], 1, "unknown_revision", "mian");
    assert!(!place.path("x.html").exists(), "half a file is none");
}

#[test]
fn a_secret_in_the_arguments_of_a_call_is_redacted() {
    let place = Workspace::new();
    // In two halves, so that this file has no secret.
    let key = format!("{}{}", "q7Zp2Lx9Vb4N", "t8Rw3Kd6Ys1Hf5Gm");
    let call = json!([{"id": "c1", "name": "login", "arguments": {"api_key": key}}]);
    let answer = json!({"op": "assistant", "text": "", "tool_calls": call});
    place.feed(&["apply", "-"], stream([answer]).as_bytes()).expect(0);
    let ran = place.run(&["export", "--html", "key.html"]).expect(0);
    assert!(ran.stderr.contains("1 secret replaced"), "{ran:?}");
    let page = place.read("key.html");
    assert!(!page.contains(&key), "the key is on the page");
    assert!(page.contains("api_key") && page.contains("[redacted:"), "{page}");
    place.ok(&["export", "--html", "key.html", "--no-redact"]);
    assert!(place.read("key.html").contains(&key));
}

#[test]
fn a_link_is_followed_and_a_device_is_written_to() {
    let place = Workspace::of(COAT);
    place.write("real.html", "before");
    std::os::unix::fs::symlink("real.html", place.path("link.html")).expect("a link");
    place.ok(&["export", "--html", "link.html"]);
    let link = std::fs::symlink_metadata(place.path("link.html")).expect("the link");
    assert!(link.file_type().is_symlink(), "the link stays one");
    let page = place.read("real.html");
    assert!(page.contains("umbrella"), "{page}");
    place.ok(&["export", "--html", "/dev/null"]);
    let device = std::fs::metadata("/dev/null").expect("the device");
    assert!(!device.is_file(), "the device stays one");
    let ran = place.run(&["export", "--html", "/dev/stdout"]).expect(0);
    assert!(ran.stdout.contains("umbrella"), "{ran:?}");
    let ran = place.run(&["export", "--html", "-"]).expect(0);
    assert!(ran.stdout.starts_with("<!DOCTYPE html>"), "{ran:?}");
    // A link without a target stays a link.
    std::os::unix::fs::symlink("new.html", place.path("open.html")).expect("a link");
    place.ok(&["export", "--html", "open.html"]);
    assert!(place.path("open.html").is_symlink() && place.read("new.html").contains("umbrella"));
    // So does one whose target cannot be named any more.
    #[cfg(target_os = "linux")]
    {
        let unlinked = std::fs::File::create(place.path("unlinked")).expect("a file");
        std::fs::remove_file(place.path("unlinked")).expect("it is removed");
        std::os::unix::fs::symlink("/proc/self/fd/1", place.path("out.html")).expect("a link");
        let mut command = place.command(&["export", "--html", "out.html"]);
        let status = command.stdout(unlinked.try_clone().expect("a copy")).status();
        assert!(status.expect("it runs").success());
        assert!(place.path("out.html").is_symlink());
        assert!(unlinked.metadata().expect("a file").len() > 1000);
    }
}

#[test]
fn an_export_never_overwrites_a_store() {
    let place = Workspace::of(COAT);
    let before = place.ok(&["export"]);
    for arguments in [
        ["export", "--html", ".tract/tract.db"],
        ["export", "--output", ".tract/tract.db"],
        ["bundle", "create", ".tract/tract.db"],
        // SQLite would read such a file as a part of the store.
        ["export", "--output", ".tract/tract.db-wal"],
        ["export", "--html", ".tract/tract.db-journal"],
    ] {
        place.refused(&arguments, 2, "usage", "is a store");
    }
    assert_eq!(place.ok(&["export"]), before);
}

#[test]
fn a_subagent_is_next_to_the_call_that_started_it() {
    let place = Workspace::new();
    let import = ["import", "claude-code"];
    place.run_with("CLAUDE_CONFIG_DIR", sessions("claude-code"), &import).expect(0);
    let listed = place.json(&["sessions", "--json"]);
    let agent = listed.iter().find(|one| one["parent"]["kind"] == "subagent").expect("a subagent");
    let title = agent["title"].as_str().expect("a title");
    assert!(agent["parent"]["call"].is_string(), "{agent}");
    let of_parent = agent["parent"]["branch"].as_str().expect("its session");
    place.ok(&["export", "--html", "session.html", of_parent]);
    let page = place.read("session.html");
    let call = page.split("<p class=\"subagent\">").nth(1).expect("a subagent in the page");
    assert!(call.contains(title) && call.contains("4 messages"), "{title}");
}
