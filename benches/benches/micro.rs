//! Micro figures: `cargo bench -p tract-benches`.

use divan::{Bencher, black_box};
use tract::core::json::{self, Escapes};
use tract::{Draft, Tract, block_on};

fn main() {
    divan::main();
}

fn text(n: usize) -> String {
    format!("{n} ").repeat(500 / (n.to_string().len() + 1))
}

/// A branch in memory with so many messages.
fn branch(messages: usize) -> Tract {
    let tract = block_on(tract::open("memory:")).expect("a store in memory opens");
    let drafts = (0..messages).map(|n| Draft::user(text(n)));
    block_on(tract.commit_all(drafts)).expect("messages are recorded");
    tract
}

/// The canonical text of a request's JSON, and its hash.
#[divan::bench(args = [1, 16, 256])]
fn canonical_hash(bencher: Bencher<'_, '_>, messages: usize) {
    let rows: Vec<_> = (0..messages)
        .map(|n| format!(r#"{{"role":"user","content":"{}","n":{n}.50}}"#, text(n)))
        .collect();
    let document = format!("[{}]", rows.join(","));
    bencher.counter(divan::counter::BytesCount::of_str(&document)).bench(|| {
        let canonical = json::canonical(black_box(&document), Escapes::Raw).expect("it is JSON");
        tract::core::hash::blob(canonical.as_bytes())
    });
}

/// Append in memory, one message a write.
#[divan::bench(args = [0, 1_000])]
fn append(bencher: Bencher<'_, '_>, before: usize) {
    let tract = branch(before);
    let text = text(7);
    bencher.bench(|| block_on(tract.user(text.as_str())).expect("a message is recorded"));
}

/// The fold of a history from its commits, as a process that opens the store does it.
#[divan::bench(args = [100, 1_000])]
fn fold(bencher: Bencher<'_, '_>, messages: usize) {
    let tract = branch(messages);
    bencher
        .with_inputs(|| {
            let options = tract::engine::RepoOptions {
                name: tract.repo().name().clone(),
                ..Default::default()
            };
            let repo = tract::engine::Repo::new(tract.store().clone(), options);
            let head = block_on(tract.head()).expect("a head is read");
            (repo, head)
        })
        .bench_values(|(repo, head)| block_on(repo.fold(head)).expect("it folds"));
}

/// Compile of a branch whose view is in memory.
#[divan::bench(args = [100, 1_000])]
fn compile(bencher: Bencher<'_, '_>, messages: usize) {
    let tract = branch(messages);
    bencher.bench(|| block_on(tract.compile()).expect("it compiles"));
}
