use std::sync::Arc;
use std::sync::atomic::Ordering;

use tract_core::{Store, block_on};
use tract_engine::{FetchOptions, PullBranches, PushOptions, fetch, push};
use tract_kv::memory;

use crate::fixture::{chain, commits, counted, is_clean, read, repo_in, says, with_everything};

#[test]
fn a_push_that_is_cut_at_any_call_continues_where_it_was() {
    let from = with_everything();
    chain(&from, "long", 300);
    let options = PushOptions { all: true, ..PushOptions::default() };
    let total = commits(&from) as usize;
    for last in 0.. {
        let store: Arc<dyn Store> = Arc::new(memory());
        let (cut, counts) = counted(&store, last);
        let result = block_on(push(&from, &repo_in(cut), "team", &options));
        let to = repo_in(store);
        is_clean(&to);
        let brought = commits(&to) as usize;
        if result.is_err() {
            // No ref leads anywhere that is not whole.
            let report = block_on(push(&from, &to, "team", &options)).expect("it continues");
            assert_eq!(report.commits, total - brought, "cut at call {last}");
        }
        assert!(says(&to) == says(&from), "cut at call {last}");
        assert_eq!(commits(&to) as usize, total);
        is_clean(&to);
        if result.is_ok() {
            assert!(last > 6, "{counts:?}");
            assert!(read(&counts.applied) == total);
            break;
        }
    }
}

#[test]
fn a_pull_that_is_cut_at_any_call_of_either_side_continues_where_it_was() {
    let from = with_everything();
    chain(&from, "long", 300);
    let options = FetchOptions { pull: PullBranches::All, ..FetchOptions::default() };
    let total = commits(&from) as usize;
    for theirs in [false, true] {
        for last in 0.. {
            let store: Arc<dyn Store> = Arc::new(memory());
            let (source, counts) = counted(from.store(), usize::MAX);
            let (target, cut) = counted(&store, usize::MAX);
            if theirs { &counts } else { &cut }.last.store(last, Ordering::SeqCst);
            let result = block_on(fetch(&repo_in(target), &repo_in(source), "team", &options));
            let to = repo_in(store);
            is_clean(&to);
            let brought = commits(&to) as usize;
            if result.is_err() {
                let report = block_on(fetch(&to, &from, "team", &options)).expect("it continues");
                assert_eq!(report.commits, total - brought, "cut at call {last}");
            }
            assert!(says(&to) == says(&from), "cut at call {last}");
            is_clean(&to);
            if result.is_ok() {
                assert!(last > 6, "{counts:?}");
                break;
            }
        }
    }
}
