//! One bit of one stored value flips: what is read is what was stored, or an error, or missing and
//! then the check says so. Whole pages are under the server's own checksums.

use tract_core::store::{BlobKey, LogQuery, Walk};
use tract_core::{CommitId, IdPrefix, RepoName, Store, StoreResult, block_on};
use tract_store_postgres::PostgresStore;
use tract_testkit::fixtures::schemas;
use tract_testkit::power::SeededRng;

use crate::damage::{TOOLS, filled};
use crate::server;
use crate::support::{self, is_sound};

/// What was asked, and what was answered, item by item.
type Answers = Vec<(String, StoreResult<Vec<String>>)>;

fn words<T: std::fmt::Debug>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    items.into_iter().map(|item| format!("{item:?}")).collect()
}

/// Asks for everything.
fn answers(store: &PostgresStore, commits: &[CommitId], blobs: &[BlobKey]) -> Answers {
    let repo = RepoName::default();
    let store: &dyn Store = store;
    let mut all: Answers = Vec::new();
    let mut add = |what: String, found| all.push((what, found));
    for id in commits {
        let found = block_on(store.commits(&repo, &[*id]));
        add(format!("commit {id}"), found.map(|found| words(found.into_iter().flatten())));
        let found = block_on(store.walk(&repo, Walk::from(*id)));
        // Hints are places, which are the store's own business.
        let steps = found.map(|page| words(page.entries.into_iter().map(|entry| entry.commit)));
        add(format!("walk from {id}"), steps);
        let found = block_on(store.tools_of(&repo, *id));
        add(format!("tools of {id}"), found.map(words));
        let prefix = IdPrefix::new(&id.to_hex()[..16]).expect("ids are hex");
        add(format!("prefix {id}"), block_on(store.resolve_prefix(&repo, &prefix, 5)).map(words));
    }
    for key in blobs {
        let found = block_on(store.blobs(&repo, std::slice::from_ref(key)));
        add(format!("blob {key:?}"), found.map(|found| words(found.into_iter().flatten())));
    }
    for name in ["t", "u"] {
        let found = block_on(store.tools_by_name(&repo, name));
        add(format!("tool {name}"), found.map(words));
    }
    add("tool names".to_owned(), block_on(store.tool_names(&repo)).map(words));
    add("refs".to_owned(), block_on(store.list_refs(&repo, "")).map(words));
    add("the log".to_owned(), block_on(store.ref_log(&repo, &LogQuery::default())).map(words));
    all
}

/// Columns that are flipped.
const COLUMNS: [(&str, &[&str]); 7] = [
    ("blobs", &["hash", "data"]),
    ("commits", &["hash", "rec", "seg", "pos"]),
    ("segments", &["seg", "parent_seg", "parent_pos"]),
    ("ref_log", &["seq", "name", "before", "after", "batch", "note", "sum"]),
    ("refs", &["name", "target", "sum"]),
    ("toolsets", &["hash", "data"]),
    // It can be rebuilt; which definitions it lists is checked with the rest.
    ("tools", &["hash", "schema", "name_key", "data"]),
];

/// Flips a bit of a value of a type as text, and gives both as SQL.
fn flipped(kind: &str, value: &str, dice: &mut SeededRng) -> (String, String) {
    match kind {
        "bytea" => {
            let at = dice.below(value.len() - 2) + 2;
            let digit = u8::from_str_radix(&value[at..=at], 16).expect("hex") ^ 1 << dice.below(4);
            let now = format!("{}{digit:x}{}", &value[..at], &value[at + 1..]);
            (format!("'{value}'::bytea"), format!("'{now}'::bytea"))
        }
        "text" => {
            let at = dice.below(value.len());
            // The lowest bit keeps a letter a letter; what has no such bit left is refused.
            let byte = char::from(value.as_bytes()[at] ^ 1);
            let now = format!("{}{byte}{}", &value[..at], &value[at + 1..]);
            (format!("'{value}'"), format!("'{now}'"))
        }
        _ => {
            let number: i64 = value.parse().expect("a number");
            (number.to_string(), (number ^ 1 << dice.below(62)).to_string())
        }
    }
}

#[test]
fn a_flipped_bit_in_any_value_is_found_or_harmless() {
    let Some(url) = server::shared() else { return };
    let repo = RepoName::default();
    let (schema, store, commits) = filled(url);
    let mut blobs: Vec<BlobKey> =
        commits.iter().filter_map(|commit| Some(commit.content?.into())).collect();
    blobs.extend(schemas(&TOOLS).iter().map(|tool| BlobKey::from(tool.blob().id())));
    let ids: Vec<CommitId> = commits.iter().map(tract_core::Commit::id).collect();
    let truth = answers(&store, &ids, &blobs);
    assert!(truth.iter().all(|(what, found)| {
        found.as_ref().is_ok_and(|found| !found.is_empty() || what.starts_with("tools of"))
    }));
    is_sound(&store);

    let (runtime, client) = support::connected(url);
    let mut dice = SeededRng(23);
    let (mut found, mut harmless, mut refused) = (0, 0, 0);
    let mut rounds = tract_testkit::rounds(1000, 80);
    for round in rounds.by_ref() {
        let (table, columns) = COLUMNS[round % COLUMNS.len()];
        let column = columns[dice.below(columns.len())];
        let pick = format!(
            "SELECT tableoid::regclass::text, ctid::text, {column}::text, pg_typeof({column})::text \
             FROM {schema}.{table} WHERE {column} IS NOT NULL ORDER BY 1, 2, 3"
        );
        let rows = runtime.block_on(client.query(&pick, &[])).expect("it is read");
        let row = &rows[dice.below(rows.len())];
        let (leaf, place, value): (&str, &str, &str) = (row.get(0), row.get(1), row.get(2));
        if matches!(value, "" | "\\x") {
            refused += 1;
            continue;
        }
        let (was, now) = flipped(row.get(3), value, &mut dice);
        let set = |to: &str, at: &str| {
            format!("UPDATE {leaf} SET {column} = {to} WHERE ctid = '{at}' RETURNING ctid::text")
        };
        let what = format!("{table}.{column}: {was} becomes {now}");
        // What the server itself does not take cannot be there: such as a key twice.
        let Ok(moved) = runtime.block_on(client.query_one(&set(&now, place), &[])) else {
            refused += 1;
            continue;
        };
        let moved: &str = moved.get(0);
        let mut differs = Vec::new();
        for ((question, true_answer), (_, answer)) in
            truth.iter().zip(answers(&store, &ids, &blobs))
        {
            let right = true_answer.as_ref().expect("it was read before");
            match answer {
                Ok(answer) => {
                    let silent = answer.iter().find(|item| !right.contains(item));
                    assert!(silent.is_none(), "{what}: {question}: {silent:?}");
                    if answer.len() != right.len() {
                        differs.push(question);
                    }
                }
                Err(_) => differs.push(question),
            }
        }
        let damage = block_on(store.check(&repo, false));
        let clean = damage.is_ok_and(|damage| damage.is_empty());
        assert!(!clean || differs.is_empty(), "{what}: the check is clean, but {differs:?}");
        if clean {
            harmless += 1
        } else {
            found += 1
        }
        runtime.block_on(client.query_one(&set(&was, moved), &[])).expect("it is put back");
    }
    let again = answers(&store, &ids, &blobs);
    assert!(truth.iter().zip(&again).all(|(one, other)| {
        matches!((&one.1, &other.1), (Ok(one), Ok(other)) if one == other)
    }));
    let done = rounds.done();
    assert!(found > done / 2, "{found} of {done} found, {harmless} harmless, {refused} refused");
    let finding = format!(
        "{done} flipped bits of values: {found} found, {harmless} harmless, {refused} the server \
         does not take, 0 silent wrong reads (pages: the server's checksums)"
    );
    tract_testkit::figure("T5 damage", "postgres", finding);
}
