//! What a head compiles to, the plain way: fold all, look every record up, sort out, hash.

use std::collections::HashMap;

use serde_json::{Value, json};
use tract_compile::{Row, View};
use tract_core::{Commit, CommitId, Op, Priority, Role, ViewId, hash};

use super::TestHistory;

/// What one row that counts must say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub row: Row,
    pub shown: Option<ExpectedMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedMessage {
    pub role: Role,
    pub priority: Priority,
    pub joins: Option<CommitId>,
    pub content: tract_core::BlobId,
}

fn priority(row: &Row, commits: &HashMap<CommitId, Commit>) -> Priority {
    let stated = row.mark.and_then(|mark| match &commits[&mark].op {
        Op::Append { priority, .. } => *priority,
        Op::Annotate { priority, .. } => Some(*priority),
        _ => None,
    });
    let kind = commits[&row.version].kind.as_ref();
    stated.unwrap_or(kind.map_or(Priority::Skip, |kind| kind.default_priority()))
}

pub fn expected(history: &TestHistory, head: Option<CommitId>) -> (Vec<Expected>, ViewId) {
    let view: &View = &history.views[&head];
    let commits = &history.commits;
    let rows: Vec<Row> = view.rows().copied().collect();
    let is_shown = |row: &Row| priority(row, commits) > Priority::Skip;
    let by_slot: HashMap<CommitId, Row> = rows.iter().map(|row| (row.slot, *row)).collect();
    let mut expected = Vec::new();
    let mut listed: Vec<Value> = Vec::new();
    let mut places: HashMap<CommitId, usize> = HashMap::new();
    for row in rows.iter().filter(|row| is_shown(row)) {
        places.insert(row.slot, places.len());
    }
    for (n, row) in rows.iter().enumerate() {
        let version = &commits[&row.version];
        let before = n.checked_sub(1).and_then(|n| rows.get(n));
        let joins = version.joins.filter(|joins| before.is_some_and(|row| row.slot == *joins));
        if is_shown(row) {
            let content = version.content.expect("it has content");
            let kind = version.kind.as_ref().expect("it has a kind");
            let role = version.effective_role().expect("it has a kind");
            let answers = row.answers.and_then(|call| places.get(&call.slot));
            listed.push(json!([
                content.to_hex(),
                kind.as_str(),
                role.as_str(),
                joins.is_some(),
                answers
            ]));
            let shown = ExpectedMessage { role, priority: priority(row, commits), joins, content };
            expected.push(Expected { row: *row, shown: Some(shown) });
        } else {
            let call = row.answers.and_then(|call| by_slot.get(&call.slot));
            let answered = rows.iter().any(|other| {
                is_shown(other) && other.answers.is_some_and(|call| call.slot == row.slot)
            });
            if answered || call.is_some_and(is_shown) {
                expected.push(Expected { row: *row, shown: None });
            }
        }
    }
    let toolset = view.tools().map(|set| set.to_hex());
    let text = json!(["tract-view-1", toolset, listed]).to_string();
    (expected, hash::view(&text))
}
