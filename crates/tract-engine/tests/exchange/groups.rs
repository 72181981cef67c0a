//! Lines that share a durable write, and lines of which all are done or none.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::Read;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use tract_core::{Batch, StoreError, StoreErrorKind, block_on};
use tract_engine::{ApplyEvent, ApplyOptions, CopyOptions, Repo, apply_stream, copy, read_lines};
use tract_kv::memory;
use tract_testkit::{Call, WatchedStore};

use crate::support::{done, is_clean, moves_main, others_write, refs, repo, repo_in, run, texts};

type Batches = Arc<Mutex<Vec<Batch>>>;

/// A repository that notes the batches that its store is given, and refuses a commit with this
/// message as too large.
fn counted(refused: Option<&'static str>) -> (Repo, Batches) {
    let batches = Batches::default();
    let notes = batches.clone();
    let watched = WatchedStore::new(Arc::new(memory()), move |call: Call<'_>| {
        let Call::Apply { batch, .. } = call else { return Ok(()) };
        let has =
            |text: &str| batch.blobs.iter().any(|b| b.text().is_some_and(|t| t.contains(text)));
        if refused.is_some_and(has) {
            let kind = StoreErrorKind::TooLarge;
            return Err(StoreError::new(kind, "watched", "apply", "a test's own limit"));
        }
        notes.lock().expect("no panic").push(batch.clone());
        Ok(())
    });
    (repo_in(Arc::new(watched)), batches)
}

fn given(batches: &Batches) -> Vec<Batch> {
    batches.lock().expect("no panic").clone()
}

fn line(text: &str) -> String {
    format!("{{\"op\":\"user\",\"text\":\"{text}\"}}\n")
}

/// A source that gives one piece at a time, and only once the lines of those before are answered.
struct SlowSource {
    /// Each piece, and how many lines must be answered before it is asked for.
    pieces: VecDeque<(&'static str, usize)>,
    answered: Rc<Cell<usize>>,
}

impl Read for SlowSource {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some((piece, answered)) = self.pieces.pop_front() else { return Ok(0) };
        assert_eq!(self.answered.get(), answered, "before {piece:?} is waited for");
        buffer[..piece.len()].copy_from_slice(piece.as_bytes());
        Ok(piece.len())
    }
}

#[test]
fn a_line_is_answered_before_the_next_one_is_waited_for() {
    let pieces = [
        ("{\"op\":\"user\",\"text\":\"alone\"}\n", 0),
        // Two that come together, and the beginning of a third.
        ("{\"op\":\"user\",\"text\":\"a\"}\n{\"op\":\"user\",\"text\":\"b\"}\n{\"op\":\"us", 1),
        ("er\",\"text\":\"c\"}\n", 3),
        // Blank lines are no reason to wait.
        ("{\"op\":\"user\",\"text\":\"d\"}\n\n  \n", 4),
        ("{\"op\":\"user\",\"text\":\"the last has no end\"}", 5),
    ];
    let (repo, batches) = counted(None);
    let answered = Rc::new(Cell::new(0));
    let source = SlowSource { pieces: pieces.into(), answered: answered.clone() };
    let mut lines = Vec::new();
    let events = |event: ApplyEvent| {
        answered.set(answered.get() + 1);
        lines.push(event.line);
    };
    let options = ApplyOptions::default();
    let stream = apply_stream(&repo, read_lines(source), &options, events);
    assert_eq!(block_on(stream).expect("it ends").done, 6);
    assert_eq!(lines, [1, 2, 3, 4, 5, 8]);
    let commits: Vec<usize> = given(&batches).iter().map(|batch| batch.commits.len()).collect();
    assert_eq!(commits, [1, 2, 1, 1, 1]);
}

#[test]
fn lines_that_arrive_together_share_few_writes() {
    let (repo, batches) = counted(None);
    let lines: String = (0..2_000).map(|n| line(&format!("line {n}"))).collect();
    let (report, events) = run(&repo, &lines, &ApplyOptions::default());
    assert_eq!((report.done, report.refused), (2_000, 0));
    assert!(events.iter().map(|event| event.line).eq(1..=2_000), "in order");
    assert!(given(&batches).len() <= 5, "{} batches", given(&batches).len());
    is_clean(&repo);
}

#[test]
fn a_refused_line_in_a_group_takes_no_other_with_it() {
    let lines = [line("one"), "nonsense\n".to_owned(), line("two"), line("three")].concat();
    for keep_going in [false, true] {
        let (repo, batches) = counted(None);
        let options = ApplyOptions { keep_going, ..ApplyOptions::default() };
        let (report, events) = run(&repo, &lines, &options);
        assert_eq!((report.done, report.refused), if keep_going { (3, 1) } else { (1, 1) });
        assert!(events[0].result.is_ok() && events[1].result.is_err(), "{events:?}");
        assert_eq!(given(&batches).len(), 1);
    }
}

#[test]
fn a_line_that_the_store_refuses_does_not_undo_those_before_it() {
    let lines: String = (0..20).map(|n| line(&format!("{n}"))).collect::<String>()
        + &line("too much")
        + &line("after it");
    // The store's own limit ends the stream, unless it is to continue.
    for (keep_going, done) in [(false, 20), (true, 21)] {
        let (repo, _) = counted(Some("too much"));
        let mut answered = Vec::new();
        let events = |event: ApplyEvent| answered.push((event.line, event.result.is_ok()));
        let options = ApplyOptions { keep_going, ..ApplyOptions::default() };
        let stream = apply_stream(&repo, read_lines(lines.as_bytes()), &options, events);
        let report = block_on(stream).expect("only the line is refused");
        assert_eq!((report.done, report.refused), (done, 1), "{answered:?}");
        assert!(answered.contains(&(21, false)), "{answered:?}");
        assert_eq!(texts(&repo, "main").len(), done);
        is_clean(&repo);
    }
}

#[test]
fn a_group_gets_through_between_the_writes_of_another_handle() {
    // The other handle moves the branch before every write that is to move it, 60 times.
    let repo = repo_in(others_write(60, moves_main));
    let lines: String = (0..300).map(|n| line(&format!("line {n}"))).collect();
    let (report, _) = run(&repo, &lines, &ApplyOptions::default());
    assert_eq!((report.done, report.refused), (300, 0));
    assert_eq!(texts(&repo, "main").len(), 360);
}

/// Lines of a mebibyte each.
fn long_stream(lines: usize) -> String {
    (0..lines).map(|n| line(&format!("{n} {}", "y".repeat(1 << 20)))).collect()
}

#[test]
fn an_atomic_stream_is_written_in_portions_and_its_refs_at_once() {
    let (repo, batches) = counted(None);
    let report =
        done(&repo, &long_stream(60), &ApplyOptions { atomic: true, ..ApplyOptions::default() });
    assert_eq!(report.done, 60);
    let batches = given(&batches);
    let bytes = |batch: &Batch| batch.blobs.iter().map(|blob| blob.bytes().len()).sum::<usize>();
    let largest = batches.iter().map(bytes).max().unwrap_or(0);
    assert!(largest < 16 << 20, "{largest} bytes in one batch");
    let (last, others) = batches.split_last().expect("a batch");
    assert!(others.len() > 4, "{} batches before the last one", others.len());
    let moves = |batch: &Batch| batch.refs.iter().any(|edit| !edit.name.is_lease());
    // The lease ends after the refs have moved.
    assert!(!others.iter().rev().skip(1).any(moves), "their refs come last");
    assert!(moves(last) || others.last().is_some_and(moves));
    is_clean(&repo);
}

#[test]
fn an_atomic_stream_that_is_refused_late_moves_no_ref() {
    let (repo, batches) = counted(None);
    let lines = long_stream(30) + "nonsense\n";
    let (report, events) =
        run(&repo, &lines, &ApplyOptions { atomic: true, ..ApplyOptions::default() });
    assert_eq!((report.done, report.refused), (0, 1));
    assert_eq!(events.iter().map(|event| event.line).collect::<Vec<_>>(), [31]);
    assert!(given(&batches).len() > 1, "objects were written ahead");
    assert_eq!(refs(&repo), []);
    is_clean(&repo);
    // What was written ahead does no harm.
    assert_eq!(
        done(&repo, &long_stream(30), &ApplyOptions { atomic: true, ..ApplyOptions::default() })
            .done,
        30
    );
    is_clean(&repo);
}

#[test]
fn a_long_atomic_stream_is_refused_when_its_branch_moved_meanwhile() {
    let repo = repo_in(others_write(1, moves_main));
    let (report, events) =
        run(&repo, long_stream(20), &ApplyOptions { atomic: true, ..ApplyOptions::default() });
    assert_eq!((report.done, report.refused), (0, 1));
    let code = events[0].result.as_ref().err().map(|error| error.code());
    assert_eq!(code, Some("conflict"));
    let other = repo_in(repo.store().clone());
    assert_eq!(texts(&other, "main").len(), 1);
    is_clean(&other);
}

#[test]
fn the_refs_of_a_copy_share_few_writes() {
    let from = repo();
    let mut lines = line("first").replace('}', ",\"mark\":\"m\"}");
    for n in 0..1_200 {
        lines += &format!("{{\"op\":\"branch\",\"name\":\"b{n}\",\"from\":\":m\"}}\n");
    }
    done(&from, &lines, &ApplyOptions::default());
    let (to, batches) = counted(None);
    let report = block_on(copy(&from, &to, &CopyOptions::default())).expect("it copies");
    assert_eq!(refs(&from), refs(&to));
    assert_eq!(report.refs.len(), refs(&from).len());
    assert!(given(&batches).len() < 10, "{} batches", given(&batches).len());
}
