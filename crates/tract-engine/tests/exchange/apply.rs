use tract_core::store::LogQuery;
use tract_core::{Op, RefName, RefTarget, StoreExt, block_on};
use tract_engine::ApplyOptions;

use crate::support::{EVERYTHING, branch, done, is_clean, refs, repo, run, texts};

fn plain() -> ApplyOptions {
    ApplyOptions::default()
}

fn batches_of(lines: usize) -> ApplyOptions {
    ApplyOptions { batch: Some(lines), ..plain() }
}

fn atomic() -> ApplyOptions {
    ApplyOptions { atomic: true, ..plain() }
}

fn keep_going() -> ApplyOptions {
    ApplyOptions { keep_going: true, ..plain() }
}

#[test]
fn a_stream_runs_every_verb() {
    let repo = repo();
    let report = done(&repo, EVERYTHING, &plain());
    assert_eq!(report.done, EVERYTHING.trim().lines().count());
    assert_eq!(
        texts(&repo, "main"),
        [
            "Be brief.",
            "Where are the bugs?",
            "Let me look.",
            "src/lib.rs: bug",
            "In lib.rs.",
            "And the docs?"
        ]
    );
    assert_eq!(
        texts(&repo, "other"),
        ["Be brief.", "Where is the bug?", "Let me look.", "src/lib.rs:7: bug", "In lib.rs."]
    );
    is_clean(&repo);
}

#[test]
fn grouped_and_atomic_streams_do_the_same() {
    let states: Vec<_> = [plain(), batches_of(7), batches_of(1000), atomic()]
        .iter()
        .map(|options| {
            let repo = repo();
            done(&repo, EVERYTHING, options);
            is_clean(&repo);
            (texts(&repo, "main"), texts(&repo, "other"), refs(&repo).len())
        })
        .collect();
    assert!(states.windows(2).all(|pair| pair[0] == pair[1]), "{states:?}");
}

#[test]
fn one_durable_write_holds_a_whole_group() {
    let writes = |options: &ApplyOptions| {
        let repo = repo();
        let lines = "{\"op\":\"user\",\"text\":\"x\"}\n".repeat(10);
        done(&repo, &lines, options);
        let log = block_on(repo.store().ref_log(repo.name(), &LogQuery::default())).expect("a log");
        assert!(log.windows(2).all(|pair| pair[0].note.operation == pair[1].note.operation));
        log.len()
    };
    assert_eq!(writes(&plain()), 1);
    assert_eq!(writes(&batches_of(1)), 10);
    assert_eq!(writes(&batches_of(4)), 3);
    assert_eq!(writes(&atomic()), 1);
}

#[test]
fn a_refused_line_changes_nothing_and_ends_the_run() {
    let lines = concat!(
        "{\"op\":\"user\",\"text\":\"one\",\"mark\":\"m\"}\n",
        "\n",
        "{\"op\":\"tool_result\",\"call_id\":\"c2\",\"content\":\"ok\"}\n",
        "{\"op\":\"user\",\"text\":\"two\"}\n",
        "{\"op\":\"usr\",\"text\":\"three\"}\n",
        "{\"op\":\"edit\",\"target\":\":n\",\"text\":\"four\"}\n",
        "{\"op\":\"edit\",\"target\":\":m\",\"text\":\"five\"}\n",
    );
    let outcome = |options: &ApplyOptions| -> (Vec<(usize, String)>, Vec<String>) {
        let repo = repo();
        let (_, events) = run(&repo, lines, options);
        let events = events.into_iter().map(|event| match event.result {
            Ok(commit) => (event.line, if commit.is_some() { "commit" } else { "" }.to_owned()),
            Err(error) => (event.line, error.code().to_owned()),
        });
        (events.collect(), if refs(&repo).is_empty() { vec![] } else { texts(&repo, "main") })
    };
    let event = |line: usize, what: &str| (line, what.to_owned());
    let first = vec![event(1, "commit"), event(3, "no_open_call")];
    assert_eq!(outcome(&plain()), (first.clone(), vec!["one".to_owned()]));
    assert_eq!(outcome(&batches_of(10)), (first, vec!["one".to_owned()]));
    let all = vec![
        event(1, "commit"),
        event(3, "no_open_call"),
        event(4, "commit"),
        event(5, "unknown_op"),
        event(6, "unknown_revision"),
        event(7, "commit"),
    ];
    let after = vec!["five".to_owned(), "two".to_owned()];
    assert_eq!(outcome(&keep_going()), (all.clone(), after.clone()));
    assert_eq!(outcome(&ApplyOptions { keep_going: true, ..batches_of(3) }), (all, after));
    let none = (vec![event(3, "no_open_call")], vec![]);
    assert_eq!(outcome(&atomic()), none);
}

#[test]
fn lines_that_are_no_text_are_refused_by_number() {
    let repo = repo();
    let lines = b"{\"op\":\"user\",\"text\":\"a\"}\n\xff\xfe\n{\"op\":\"user\"\n";
    let (report, events) = run(&repo, lines, &keep_going());
    assert_eq!((report.done, report.refused), (1, 2));
    let codes: Vec<_> = events
        .iter()
        .map(|event| (event.line, event.result.as_ref().err().map(|error| error.code())))
        .collect();
    assert_eq!(codes, [(1, None), (2, Some("unreadable_line")), (3, Some("invalid_json"))]);
}

#[test]
fn a_lost_race_is_run_again() {
    // Another writer moves the branch between two lines; each line plans on what is there.
    let repo = repo();
    done(&repo, "{\"op\":\"user\",\"text\":\"first\"}", &plain());
    let main = branch("main");
    let mut lines = vec!["mine", "also mine"].into_iter().enumerate();
    let stream = std::iter::from_fn(|| {
        let (n, text) = lines.next()?;
        // Another writer is faster while a line of the group is read.
        block_on(repo.append(&main, tract_core::Draft::user(format!("theirs {n}"))))
            .expect("it is written");
        let step =
            tract_core::stream::StreamOp::parse(&format!(r#"{{"op":"user","text":"{text}"}}"#));
        Some(tract_engine::StreamLine::new(n + 1, step.map_err(Into::into)))
    });
    let options = plain();
    let run = tract_engine::apply_stream(&repo, stream, &options, |_| {});
    assert_eq!(block_on(run).expect("it ends").done, 2);
    assert_eq!(texts(&repo, "main"), ["first", "theirs 0", "mine", "theirs 1", "also mine"]);
}

#[test]
fn checkout_moves_head_and_fork_is_one_ref() {
    let repo = repo();
    let lines = concat!(
        "{\"op\":\"user\",\"text\":\"a\",\"mark\":\"a\"}\n",
        "{\"op\":\"branch\",\"name\":\"b\",\"from\":\":a\"}\n",
        "{\"op\":\"checkout\",\"name\":\"b\"}\n",
    );
    let report = done(&repo, lines, &plain());
    assert_eq!(report.branch.as_ref().map(RefName::as_str), Some("heads/b"));
    let head = block_on(repo.ref_target(&RefName::head())).expect("it reads");
    assert_eq!(head, Some(RefTarget::Ref(branch("b"))));
    let log = block_on(repo.store().ref_log(repo.name(), &LogQuery::default())).expect("a log");
    assert_eq!(log.len(), 3);
}

#[test]
fn times_that_are_given_make_equal_ids() {
    let lines = concat!(
        "{\"op\":\"system\",\"text\":\"a\",\"at\":\"2026-01-01T00:00:00Z\"}\n",
        "{\"op\":\"user\",\"text\":\"b\",\"at\":\"2026-01-01T00:00:01Z\"}\n",
    );
    let (one, two) = (repo(), repo());
    done(&one, lines, &plain());
    done(&two, lines, &atomic());
    assert_eq!(refs(&one), refs(&two));
    let id = refs(&one)[0].1.commit().expect("a branch");
    let commit = block_on(one.store().require_commit(one.name(), id)).expect("stored");
    assert_eq!(commit.batch, None);
    assert_eq!(commit.op, Op::append());
}
