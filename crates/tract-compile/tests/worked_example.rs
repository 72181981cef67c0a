//! The worked example, a golden file made by another implementation: changes given, rows and view
//! ids compared.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::collections::HashMap;

use common::{Snap, TestHistory, compiler};
use serde_json::Value;
use tract_compile::{Changed, fold, shape};
use tract_core::{Change, Changes, Commit, CommitId, Content, Kind, Op, block_on};

const GOLDEN: &str = include_str!("golden/worked_example.jsonl");

/// Names in a change become ids.
fn named(value: &Value, ids: &HashMap<String, CommitId>) -> Value {
    match value {
        Value::String(name) => match ids.get(name) {
            Some(id) => Value::String(id.to_hex()),
            None => value.clone(),
        },
        Value::Array(list) => list.iter().map(|value| named(value, ids)).collect(),
        _ => value.clone(),
    }
}

fn op(words: &str, ids: &HashMap<String, CommitId>) -> Op {
    let (name, targets) = words.split_once(' ').unwrap_or((words, ""));
    let targets: Vec<CommitId> = targets.split_whitespace().map(|name| ids[name]).collect();
    match name {
        "append" => Op::append(),
        "edit" => Op::Edit { target: targets[0] },
        "compress" => Op::Compress { targets },
        "revert" => Op::Revert { targets, cascade: false },
        other => panic!("op {other} in the golden file"),
    }
}

#[test]
fn worked_example() {
    let mut history = TestHistory::new();
    let mut ids: HashMap<String, CommitId> = HashMap::new();
    let mut view_ids = HashMap::new();
    for line in GOLDEN.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let name = line["commit"].as_str().unwrap();
        let op = op(line["op"].as_str().unwrap(), &ids);
        let changes: Vec<Change> =
            serde_json::from_value(named(&line["changes"], &ids)).expect("changes");
        let (mut record, blobs) = match line["kind"].as_str() {
            Some(kind) => {
                let text = serde_json::to_string(&line["text"]).unwrap();
                let content = Content::from_blob(&Kind::parse(kind), &text).unwrap();
                history.saying(op, &content)
            }
            None => (history.record(op), Vec::new()),
        };
        record.changes = Changes::List(changes.clone());

        let commit = Commit::seal(record.clone()).unwrap();
        let targets: Vec<Commit> = match &commit.op {
            Op::Revert { targets, .. } => {
                targets.iter().map(|id| history.commits[id].clone()).collect()
            }
            _ => Vec::new(),
        };
        let lists: Vec<Vec<Change>> = targets
            .iter()
            .map(|target| block_on(history.compiler.changes(target)).unwrap())
            .collect();
        let targets: Vec<Changed<'_>> = targets
            .iter()
            .zip(&lists)
            .map(|(commit, changes)| Changed { commit, changes })
            .collect();
        shape(Changed { commit: &commit, changes: &changes }, &targets).expect("the log agrees");
        // Each change, bent, is refused by the fold.
        for n in 0..changes.len() {
            let mut bent = changes.clone();
            bent.swap_remove(n);
            let folded = fold(history.view(), &commit, &bent);
            let whole = fold(history.view(), &commit, &changes).unwrap();
            assert!(folded.is_err() || folded.unwrap() != whole, "change {n} of {name} matters");
        }

        let id = history.write(record, &blobs, &[], Snap::WhenDue);
        ids.insert(name.to_owned(), id);
        let short = |id: CommitId| {
            ids.iter().find(|(_, known)| **known == id).map(|(name, _)| name.clone()).unwrap()
        };
        let rows: Vec<String> = history
            .rows()
            .iter()
            .map(|row| format!("{}@{}={}", short(row.slot), row.key, short(row.version)))
            .collect();
        assert_eq!(rows.join(" "), line["rows"].as_str().unwrap(), "rows after {name}");
        let compiled = history.compile();
        assert_eq!(compiled.view_id().to_hex(), line["view_id"].as_str().unwrap(), "after {name}");
        assert_eq!(
            block_on(compiler(&history.store).compile(Some(id))).unwrap().view_id(),
            compiled.view_id()
        );
        view_ids.insert(name.to_owned(), compiled.view_id());
    }
    assert_eq!(view_ids["R"], view_ids["E"]);
    assert_eq!(view_ids["Q"], view_ids["F"]);
    assert_ne!(view_ids["Q"], view_ids["S"]);
}
