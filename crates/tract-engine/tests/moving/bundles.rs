use std::io::Cursor;

use tract_core::{Blob, CommitId, RefName, block_on};
use tract_engine::{
    ApplyBundleOptions, Bundle, BundleOptions, BundleReport, Error, FetchOptions, PullBranches,
    Repo, TransferStatus, apply_bundle, create_bundle, fetch_bundle,
};

use crate::fixture::{
    branch, chain, commits, exported, head, is_clean, one, repo, say, says, seen, with_everything,
};
use crate::support::refs;

fn bundled(repo: &Repo, options: &BundleOptions) -> String {
    block_on(async {
        let mut bundle = create_bundle(repo, options).await.expect("it is made");
        let mut lines = String::new();
        while let Some(line) = bundle.next_line().await.expect("it is read") {
            lines.push_str(&line);
            lines.push('\n');
        }
        lines
    })
}

fn taken(repo: &Repo, bundle: &[u8]) -> Result<BundleReport, Error> {
    block_on(apply_bundle(repo, Cursor::new(bundle), &ApplyBundleOptions::default()))
}

#[test]
fn a_bundle_is_the_same_repository_elsewhere() {
    let from = with_everything();
    let bundle = bundled(&from, &BundleOptions::default());
    let to = repo();
    block_on(to.init()).expect("it is made");
    let report = taken(&to, bundle.as_bytes()).expect("it is taken");
    assert_eq!((report.commits as u64, report.reused), (commits(&from), 0));
    assert!(says(&to) == says(&from));
    assert!(exported(&to) == exported(&from));
    assert!(bundled(&to, &BundleOptions::default()) == bundle, "equal repositories, equal bundles");
    is_clean(&to);
    let again = taken(&to, bundle.as_bytes()).expect("it is taken");
    assert_eq!(again.reused, again.commits);
    assert!(again.refs.iter().all(|at| at.status == TransferStatus::Unchanged));
}

#[test]
fn a_bundle_since_a_commit_holds_what_came_after_it() {
    let from = repo();
    let ids = chain(&from, "main", 40);
    let full = bundled(&from, &BundleOptions::default());
    let to = repo();
    taken(&to, full.as_bytes()).expect("it is taken");
    chain(&from, "main", 10);
    let options = BundleOptions {
        refs: Some(vec![branch("main")]),
        since: vec![ids[39]],
        ..BundleOptions::default()
    };
    let later = bundled(&from, &options);
    let bundle = Bundle::open(Cursor::new(later.as_bytes())).expect("it is whole");
    assert_eq!((bundle.commits(), bundle.prerequisites()), (10, &ids[39..40]));
    assert_eq!(taken(&to, later.as_bytes()).expect("it is taken").commits, 10);
    assert_eq!(head(&to, &branch("main")), head(&from, &branch("main")));
    is_clean(&to);

    // Without what it continues it is refused.
    let empty = repo();
    let error = taken(&empty, later.as_bytes()).expect_err("it continues something");
    assert_eq!(error.code(), "missing_prerequisites");
    assert_eq!(commits(&empty), 0);
}

#[test]
fn bundles_since_any_commits_complete_what_these_lead_to() {
    let from = with_everything();
    for since in ["before", "before~2", "other", "third", "main~1", "other~2"] {
        let id: CommitId = block_on(from.resolve(since)).expect(since);
        block_on(from.create_branch("part", id)).expect("it is made");
        let part = bundled(
            &from,
            &BundleOptions { refs: Some(vec![branch("part")]), ..BundleOptions::default() },
        );
        block_on(from.delete_branches(&["part".to_owned()])).expect("it is deleted");
        let rest = bundled(&from, &BundleOptions { since: vec![id], ..BundleOptions::default() });
        let to = repo();
        taken(&to, part.as_bytes()).expect(since);
        let before = commits(&to);
        let report = taken(&to, rest.as_bytes()).expect(since);
        assert_eq!(before + report.commits as u64, commits(&from), "since {since}");
        assert_eq!(report.reused, 0, "since {since}");
        is_clean(&to);
    }
}

#[test]
fn a_bundle_that_was_cut_at_any_line_is_refused_and_changes_nothing() {
    let from = with_everything();
    let bundle = bundled(&from, &BundleOptions::default());
    let to = repo();
    say(&to, "mine", "here");
    let before = (exported(&to), block_on(to.store().stats(to.name())).expect("stats"));
    let lines: Vec<&str> = bundle.split_inclusive('\n').collect();
    for kept in 0..lines.len() {
        let cut: String = lines[..kept].concat();
        let half = format!("{cut}{}", &lines[kept][..lines[kept].len() / 2]);
        for bytes in [cut, half] {
            let error = taken(&to, bytes.as_bytes()).expect_err("it is cut");
            let expected: &[&str] = if bytes.contains('\n') {
                &["bundle_cut", "bundle_changed"]
            } else {
                &["not_a_bundle", "bundle_cut"]
            };
            assert!(expected.contains(&error.code()), "{} lines: {error}", kept);
        }
    }
    let left_out = lines.iter().enumerate().filter(|(n, _)| *n > 0 && n + 1 < lines.len());
    for (n, _) in left_out {
        let bytes: String =
            lines.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, l)| *l).collect();
        let error = taken(&to, bytes.as_bytes()).expect_err("a line is missing");
        assert_eq!(error.code(), "bundle_changed", "without line {}", n + 1);
    }
    let longer = format!("{bundle}{{}}\n");
    assert_eq!(taken(&to, longer.as_bytes()).expect_err("longer").code(), "bundle_changed");
    let after = (exported(&to), block_on(to.store().stats(to.name())).expect("stats"));
    assert_eq!(after, before);
}

#[test]
fn a_flipped_bit_anywhere_is_refused_and_changes_nothing() {
    let from = with_everything();
    let bundle = bundled(&from, &BundleOptions::default()).into_bytes();
    let to = repo();
    let mut codes = std::collections::BTreeSet::new();
    for place in
        (0..bundle.len() - 1).step_by(7).chain(0..80).chain(bundle.len() - 200..bundle.len() - 1)
    {
        for bit in [0x01, 0x10] {
            let mut flipped = bundle.clone();
            flipped[place] ^= bit;
            let error = taken(&to, &flipped).expect_err("a bit was flipped");
            codes.insert(error.code());
        }
    }
    let known = ["bundle_changed", "bundle_cut", "newer_format", "not_a_bundle"];
    assert!(codes.iter().all(|code| known.contains(code)), "{codes:?}");
    assert_eq!(block_on(to.store().stats(to.name())).expect("stats").commits, 0);
}

#[test]
fn a_newer_format_and_other_files_are_named() {
    let to = repo();
    for (file, code, says) in [
        ("", "not_a_bundle", "empty"),
        ("hello\n", "not_a_bundle", "first line"),
        ("{\"op\":\"user\",\"text\":\"hi\"}\n", "not_a_bundle", "first line"),
        ("{\"op\":\"bundle\",\"version\":2,\"later\":[]}\n", "newer_format", "format 2"),
        ("{\"op\":\"bundle\",\"version\":1,\"requires\":[\"xyz\"]}\n", "not_a_bundle", "xyz"),
        ("{\"op\":\"bundle\",\"version\":1,\"requires\":[]}\n", "bundle_cut", "cut"),
    ] {
        let error = taken(&to, file.as_bytes()).expect_err(file);
        assert_eq!(error.code(), code, "{file}: {error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.notes().is_empty(), "{error}");
    }
}

/// Closes lines as a bundle, to make a wrong one by intention.
fn closed(lines: &[&str]) -> String {
    use sha2::Digest as _;
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let hash: String =
        sha2::Sha256::digest(body.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let commits = lines.iter().filter(|line| line.contains("\"record\":")).count();
    format!(
        "{body}{{\"op\":\"end\",\"lines\":{},\"commits\":{commits},\"sha256\":\"{hash}\"}}\n",
        lines.len()
    )
}

#[test]
fn a_forged_bundle_is_refused_and_moves_no_ref() {
    let from = with_everything();
    let bundle = bundled(&from, &BundleOptions::default());
    let lines: Vec<&str> = bundle.lines().collect();
    let body = &lines[..lines.len() - 1];
    assert_eq!(closed(body), bundle, "the test closes bundles as they are closed");
    let to = repo();
    let with = |at: usize, line: &'static str| {
        let mut lines = body.to_vec();
        lines.insert(at, line);
        closed(&lines)
    };
    let without = |what: &str| {
        let first = body.iter().position(|line| line.contains(what)).expect("a line");
        let lines: Vec<&str> =
            body.iter().enumerate().filter(|(n, _)| *n != first).map(|(_, line)| *line).collect();
        closed(&lines)
    };
    let nowhere = "{\"op\":\"ref\",\"name\":\"heads/x\",\"to\":\"commit 0101010101010101010101010101010101010101010101010101010101010101\"}";
    for (bundle, code) in [
        (with(1, "{\"op\":\"user\",\"text\":\"Do it.\"}"), "bad_bundle"),
        (with(1, "{\"op\":\"checkout\",\"name\":\"x\"}"), "bad_bundle"),
        (with(1, "{\"op\":\"nothing\"}"), "unknown_op"),
        (with(body.len(), nowhere), "bad_bundle"),
        (without("\"record\":"), "bad_bundle"),
        (without("\"text\":\"\\\"Be brief.\\\"\""), "missing_object"),
    ] {
        let error = taken(&to, bundle.as_bytes()).expect_err(code);
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(refs(&to), []);
    }
}

#[test]
fn approvals_travel_only_when_both_sides_ask_for_them() {
    let from = repo();
    say(&from, "main", "first");
    let pin = RefName::new("pins/one").expect("a name");
    let config = RefName::new("config/remotes").expect("a name");
    for name in [&pin, &config] {
        let blob = Blob::seal(b"{}".to_vec());
        block_on(from.set_documents("note", vec![(name.clone(), blob)])).expect("it is written");
    }
    let plain = bundled(&from, &BundleOptions::default());
    assert!(!plain.contains("pins/one"));
    let all = bundled(&from, &BundleOptions { everything: true, ..BundleOptions::default() });
    assert!(all.contains("pins/one") && !all.contains("config/remotes"));
    // The url of a remote may have a password.
    let chosen = BundleOptions {
        refs: Some(vec![branch("main"), config.clone()]),
        ..BundleOptions::default()
    };
    let error = block_on(create_bundle(&from, &chosen)).expect_err("it is refused");
    assert_eq!(error.code(), "unknown_revision");
    let to = repo();
    let report = taken(&to, all.as_bytes()).expect("it is taken");
    assert_eq!(report.untrusted, 1);
    let at = |name: &RefName| block_on(to.ref_target(name)).expect("it is read");
    assert_eq!(at(&pin), None);
    let trust = ApplyBundleOptions { trust: true, ..ApplyBundleOptions::default() };
    block_on(apply_bundle(&to, Cursor::new(all.as_bytes()), &trust)).expect("it is taken");
    assert!(at(&pin).is_some());
    is_clean(&to);
}

#[test]
fn a_bundle_is_a_remote_too() {
    let from = with_everything();
    let bundle = bundled(&from, &BundleOptions::default());
    let to = repo();
    block_on(to.init()).expect("it is made");
    let mine = say(&to, "main", "mine");
    let file = || Cursor::new(bundle.as_bytes());
    let fetched = block_on(fetch_bundle(&one(&to), file(), "disk", &FetchOptions::default()))
        .expect("fetched");
    assert_eq!(fetched.commits as u64, commits(&from));
    assert_eq!(head(&to, &branch("main")), Some(mine));
    assert_eq!(head(&to, &seen("disk", "main")), head(&from, &branch("main")));
    let options = FetchOptions { pull: PullBranches::All, ..FetchOptions::default() };
    let pulled = block_on(fetch_bundle(&one(&to), file(), "disk", &options)).expect("pulled");
    assert!(pulled.diverged());
    assert_eq!(head(&to, &branch("other")), head(&from, &branch("other")));
    is_clean(&to);
}

#[test]
fn a_branch_with_other_commits_stays() {
    let (from, to) = (repo(), repo());
    say(&from, "main", "theirs");
    let ours = say(&to, "main", "ours");
    let bundle = bundled(&from, &BundleOptions::default());
    let report = taken(&to, bundle.as_bytes()).expect("it is taken");
    assert!(report.diverged());
    assert_eq!(head(&to, &branch("main")), Some(ours));
}
