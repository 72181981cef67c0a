use std::collections::HashMap;
use std::fmt::Write as _;

use tract_core::{Change, CommitId, CommitRef, RowFields, block_on};
use tract_engine::Refusal;
use tract_engine::plan::Request;

use crate::fixture::{Fixture, rows};

const GOLDEN: &str = include_str!("worked_example.txt");

fn change(change: &Change, this: CommitId, names: &HashMap<CommitId, &str>) -> String {
    let id = |id: &CommitRef| match id {
        CommitRef::This => ".".to_owned(),
        CommitRef::Id(id) if *id == this => "self".to_owned(),
        CommitRef::Id(id) => names.get(id).copied().unwrap_or("?").to_owned(),
    };
    let mark = |mark: &Option<CommitRef>| mark.as_ref().map_or("none".to_owned(), &id);
    let row = |row: &RowFields| {
        assert!(row.answers.is_none());
        format!("[{},{},{},none]", row.key, id(&row.version), mark(&row.mark))
    };
    match change {
        Change::Add { slot, row: added } => format!("[row,{},none,{}]", id(slot), row(added)),
        Change::Remove { slot, row: gone } => format!("[row,{},{},none]", id(slot), row(gone)),
        Change::Version { slot, from, to } => {
            format!("[version,{},{},{}]", id(slot), id(from), id(to))
        }
        Change::Mark { slot, from, to } => {
            format!("[mark,{},{},{}]", id(slot), mark(from), mark(to))
        }
    }
}

#[test]
fn worked_example() {
    let desk = Fixture::new();
    let mut names = HashMap::new();
    let mut table = String::new();
    let mut note = |desk: &Fixture, name: &'static str, id: CommitId| {
        names.insert(id, name);
        let commit = desk.commit(id);
        let changes = block_on(desk.repo.changes(&commit)).unwrap();
        let changes: Vec<String> = changes.iter().map(|item| change(item, id, &names)).collect();
        let changes = if changes.is_empty() { "-".to_owned() } else { changes.join(" ") };
        let rows = rows(&desk.history(), &names);
        writeln!(table, "{name} | {} | {changes} | {rows}", commit.op.name()).unwrap();
        id
    };
    let a = note(&desk, "A", desk.user("A"));
    let b = note(&desk, "B", desk.says("B"));
    note(&desk, "C", desk.user("C"));
    let e = note(&desk, "E", desk.edit(b, "E"));
    let view_of_e = desk.view_id();
    let s = note(&desk, "S", desk.compress(&[a, b], "S"));
    let f = note(&desk, "F", desk.edit(s, "F"));
    let view_of_f = desk.view_id();

    let refused = [
        (
            desk.refused(Request::edit_text(b, "x")),
            Refusal::NotVisible { target: b, hidden_by: Some(s) },
        ),
        (desk.refused(Request::revert([e])), Refusal::Superseded { target: e, by: vec![s] }),
        (desk.refused(Request::revert([s])), Refusal::Superseded { target: s, by: vec![f] }),
        (desk.refused(Request::revert([a])), Refusal::Superseded { target: a, by: vec![s] }),
    ];
    for (found, expected) in refused {
        assert_eq!(found, expected);
    }

    let r = note(&desk, "R", desk.revert(&[f, s]));
    assert_eq!(desk.view_id(), view_of_e);
    note(&desk, "Q", desk.revert(&[r]));
    assert_eq!(desk.view_id(), view_of_f);
    note(&desk, "D", desk.user("D"));
    assert_eq!(table, GOLDEN);
    assert_eq!(desk.shown(), ["assistant: F", "user: C", "user: D"]);
}
