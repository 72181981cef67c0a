//! Many writers of one branch, on every store: tasks of one handle, and handles like those of as many
//! processes.

use std::collections::{HashMap, HashSet};

use tract::core::stream::StreamOp;
use tract::engine::{ApplyOptions, StreamLine, apply_stream};
use tract::store::LogQuery;
use tract::{Draft, OpenOptions, RefName, Tract, block_on};

use crate::backends;
use crate::walks::{assert_clean, texts};

const TASKS: usize = 50;
const EACH: usize = 4;

/// Counts the texts of a branch: each is stored once, as one move of its ref, and those of one writer
/// are in order.
fn count_texts(tract: &Tract) -> usize {
    assert_clean(tract, "many writers");
    let texts = texts(tract);
    let mut last: HashMap<&str, usize> = HashMap::new();
    for (writer, n) in texts.iter().filter_map(|text| text.split_once(" says ")) {
        let n = n.parse().unwrap();
        assert!(last.insert(writer, n).is_none_or(|before| before < n), "{texts:?}");
    }
    let distinct: HashSet<&String> = texts.iter().collect();
    assert_eq!(distinct.len(), texts.len());
    let name = RefName::branch(tract.branch_name()).unwrap();
    let query = LogQuery { name: Some(name), ..LogQuery::default() };
    let log = block_on(tract.store().ref_log(tract.repo().name(), &query)).unwrap();
    assert_eq!(log.len(), texts.len());
    texts.len()
}

#[test]
fn tasks_on_one_branch_are_all_stored() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    for backend in backends::all() {
        let folder = tempfile::tempdir().unwrap();
        let store = backend.grouped(folder.path(), "agent").unwrap();
        let tract = block_on(OpenOptions::new().open_store(store)).unwrap();
        let refused: Vec<String> = runtime.block_on(async {
            let mut running = tokio::task::JoinSet::new();
            for task in 0..TASKS {
                let tract = tract.clone();
                running.spawn(async move {
                    let mut refused = Vec::new();
                    for n in 0..EACH {
                        let result = tract.user(format!("{task} says {n}")).await;
                        refused.extend(result.err().map(|error| error.to_string()));
                    }
                    refused
                });
            }
            running.join_all().await.into_iter().flatten().collect()
        });
        assert!(refused.is_empty(), "{}: {} refused: {refused:?}", backend.name, refused.len());
        assert_eq!(count_texts(&tract), TASKS * EACH, "{}", backend.name);
    }
}

#[test]
fn streams_of_many_handles_to_one_branch_all_go_through() {
    // Stores that several processes may write to.
    let several = |backend: &&backends::Backend| matches!(backend.name, "sqlite" | "postgres");
    for backend in backends::all().filter(several) {
        let folder = tempfile::tempdir().unwrap();
        let first = backend.open(folder.path(), "agent");
        block_on(first.user("it begins")).unwrap();
        let (handles, lines) = (24, 6);
        let refused: Vec<String> = std::thread::scope(|scope| {
            let apply = |handle: usize| {
                let tract = backend.open(folder.path(), "agent");
                let line = |n: usize| {
                    let text = format!(r#"{{"op":"user","text":"{handle} says {n}"}}"#);
                    StreamLine::new(n, Ok(StreamOp::parse(&text).unwrap()))
                };
                let mut refused = Vec::new();
                let on_event = |event: tract::engine::ApplyEvent| {
                    refused
                        .extend(event.result.err().map(|error| format!("{}: {error}", event.line)));
                };
                let options = ApplyOptions::default();
                let stream = apply_stream(tract.repo(), (1..=lines).map(line), &options, on_event);
                let report = block_on(stream);
                refused.extend(report.err().map(|error| error.to_string()));
                refused
            };
            let threads: Vec<_> =
                (0..handles).map(|handle| scope.spawn(move || apply(handle))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(refused.is_empty(), "{}: {refused:?}", backend.name);
        assert_eq!(count_texts(&first), 1 + handles * lines, "{}", backend.name);
        let stale = block_on(first.commit_on(None, Draft::user("late"))).unwrap_err();
        assert_eq!(stale.code(), "conflict");
    }
}
