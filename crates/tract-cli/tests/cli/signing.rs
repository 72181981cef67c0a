use std::process::Command;

use serde_json::{Value, json};

use crate::support::{RunOutput, Workspace};

/// A store, a key of alice, and a file that trusts her; `None` where `ssh-keygen` is missing.
fn place() -> Option<Workspace> {
    if Command::new("ssh-keygen").arg("-?").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "ssh-keygen is missing");
        println!("left out: signatures, which need ssh-keygen");
        return None;
    }
    let place = Workspace::empty();
    for name in ["alice", "mallory"] {
        let key = place.path(name);
        let mut make = Command::new("ssh-keygen");
        make.args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(key);
        assert!(make.status().expect("it starts").success());
    }
    let public = place.read("alice.pub");
    place.write("signers", format!("alice@example.org {public}"));
    place.ok(&["init"]);
    place.ok(&["commit", "user", "hello"]);
    place.ok(&["commit", "assistant", "welcome"]);
    Some(place)
}

const VERIFY: [&str; 5] = ["--json", "verify", "--signatures", "--allowed-signers", "signers"];

fn checked(place: &Workspace, store: &[&str]) -> (Option<i32>, Value) {
    let ran = place.run(&[store, &VERIFY].concat());
    (ran.code, ran.lines()[0]["signatures"].clone())
}

#[test]
fn a_signed_tag_is_good_wherever_it_goes() {
    let Some(place) = place() else { return };
    place.ok(&["tag", "plain"]);
    place.ok(&["tag", "v1", "--sign", "--key", "alice"]);
    let good = json!([
        {"tag": "plain", "status": "unsigned"},
        {"tag": "v1", "status": "good", "signer": "alice@example.org"},
    ]);
    assert_eq!(checked(&place, &[]), (Some(0), good.clone()));
    let shown = place.ok(&VERIFY[1..]);
    assert!(shown.contains("tag v1: signed by alice@example.org"), "{shown}");
    place.ok(&["remote", "add", "team", "sqlite:team.db"]);
    place.ok(&["push", "team", "--all"]);
    assert_eq!(checked(&place, &["--store", "sqlite:team.db"]), (Some(0), good.clone()));
    let other = ["--store", "sqlite:other.db"];
    place.ok(&[&other[..], &["init"]].concat());
    place.ok(&[&other[..], &["remote", "add", "team", "sqlite:team.db"]].concat());
    place.ok(&[&other[..], &["pull", "team"]].concat());
    assert_eq!(checked(&place, &other), (Some(0), good.clone()));
    place.ok(&["bundle", "create", "all.bundle"]);
    let third = ["--store", "sqlite:third.db"];
    place.ok(&[&third[..], &["bundle", "apply", "all.bundle"]].concat());
    assert_eq!(checked(&place, &third), (Some(0), good));
}

#[test]
fn bad_and_unknown_signatures_are_refused() {
    let Some(place) = place() else { return };
    place.ok(&["tag", "v1", "HEAD~1"]);
    place.ok(&["tag", "v1", "--sign", "--key", "alice"]);
    place.ok(&["tag", "v2", "--sign", "--key", "mallory"]);
    let of = |report: &Value, tag: usize| report[tag]["status"].clone();
    let (code, report) = checked(&place, &[]);
    let refused = (Some(1), json!("good"), json!("unknown_signer"));
    assert_eq!((code, of(&report, 0), of(&report, 1)), refused);
    // The signature of one tag is none of another.
    let forged = place.ok(&["export"]).replace("signatures/v1", "signatures/v3");
    let forged = forged.replace("tags/v1", "tags/v3").replace("signatures/v2", "imports/none");
    place.write("forged", forged);
    let other = ["--store", "sqlite:other.db"];
    place.ok(&[&other[..], &["apply", "forged"]].concat());
    let (code, report) = checked(&place, &other);
    assert_eq!((code, of(&report, 1)), (Some(1), json!("bad")), "{report}");
    // A new tag of the name is not signed.
    place.ok(&["tag", "--delete", "v1"]);
    place.ok(&["tag", "v1"]);
    assert_eq!(of(&checked(&place, &[]).1, 0), json!("unsigned"));
}

#[test]
fn missing_keys_and_files_are_named() {
    let Some(place) = place() else { return };
    place.refused(&["tag", "v1", "--sign", "--key", "bob"], 1, "signing_failed", "bob");
    assert_eq!(place.ok(&["tag"]), "", "nothing was written");
    let mut keyless = place.command(&["tag", "v1", "--sign"]);
    keyless.env("HOME", place.path("")).env_remove("TRACT_SIGNING_KEY");
    let stderr = RunOutput::after(&mut keyless).stderr;
    assert!(stderr.contains("error[no_signing_key]") && stderr.contains("--key"), "{stderr}");
    place.refused(&["verify", "--signatures"], 2, "usage", "--allowed-signers");
    let nowhere = ["verify", "--signatures", "--allowed-signers", "nowhere"];
    place.refused(&nowhere, 2, "file", "nowhere");
    place.ok(&["tag", "v1"]);
    let elsewhere = ["tag", "v1", "HEAD~1", "--sign", "--key", "alice"];
    place.refused(&elsewhere, 1, "exists", "tags never move");
}
