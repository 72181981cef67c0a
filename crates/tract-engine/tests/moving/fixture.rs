use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tract_core::store::{StoreError, StoreErrorKind};
use tract_core::{CommitId, Draft, RefName, RefTarget, Store, StoreResult, block_on};
use tract_engine::{
    ApplyOptions, Operation, Repo, VerifyOptions, apply_stream, read_lines, verify,
};
use tract_testkit::{Call, WatchedStore};

pub(crate) use crate::support::{branch, exported, repo, repo_in};

/// The same repository for one command.
pub(crate) fn one(repo: &Repo) -> Repo {
    repo.within(Operation::begin().expect("randomness"))
}

pub(crate) fn seen(remote: &str, name: &str) -> RefName {
    RefName::remote_branch(remote, name).expect("a name")
}

pub(crate) fn say(repo: &Repo, name: &str, text: &str) -> CommitId {
    block_on(repo.append(&branch(name), Draft::user(text))).expect("it is written").id()
}

pub(crate) fn head(repo: &Repo, name: &RefName) -> Option<CommitId> {
    block_on(repo.head_of(name)).expect("it is read")
}

pub(crate) fn apply(repo: &Repo, lines: &str) {
    let mut refused = Vec::new();
    let options = ApplyOptions::new();
    let stream = apply_stream(repo, read_lines(lines.as_bytes()), &options, |event| {
        if let Err(error) = event.result {
            refused.push(format!("line {}: {error}", event.line));
        }
    });
    block_on(stream).expect("the stream runs to its end");
    assert_eq!(refused, Vec::<String>::new());
}

/// A history with every operation, a merge, and commits that changes alone lead to.
pub(crate) const EVERYTHING: &str = r#"
{"op":"set_tools","tools":[{"name":"grep","input_schema":{"type":"object"}},{"name":"ls"}]}
{"op":"system","text":"Be brief."}
{"op":"user","text":"Where is the bug?","mark":"q","at":"2026-01-02T03:04:05Z"}
{"op":"assistant","text":"Let me look.","tool_calls":[{"id":"c1","name":"grep","arguments":{"pattern": "bug"}}]}
{"op":"tool_result","call_id":"c1","name":"grep","content":"src/lib.rs: bug","mark":"r"}
{"op":"assistant","text":"In lib.rs.","mark":"a"}
{"op":"branch","name":"other","from":":a"}
{"op":"edit","target":":q","text":"Where are the bugs?"}
{"op":"annotate","target":":r","priority":"important","reason":"it names the file"}
{"op":"user","text":"Thanks.","tools":[{"name":"only_here"}],"priority":"skip"}
{"op":"compress","from":":q","to":":a","content":"The bug is in lib.rs.","mark":"c"}
{"op":"checkout","name":"other"}
{"op":"edit","target":":r","content":"src/lib.rs:7: bug"}
{"op":"set_tools","tools":[]}
{"op":"commit","kind":"plan","role":"assistant","parts":[{"type":"text","text":"1. fix"}],"mark":"p"}
{"op":"revert","target":":p"}
{"op":"tag","name":"before","target":":a"}
{"op":"checkout","name":"main"}
{"op":"revert","targets":[":c"]}
{"op":"branch","name":"third","from":":a"}
{"op":"checkout","name":"third"}
{"op":"user","text":"And the docs?"}
{"op":"checkout","name":"main"}
{"op":"merge","from":"third"}
"#;

/// The refs that are history, and what each of them compiles to.
pub(crate) fn says(repo: &Repo) -> Vec<(RefName, RefTarget, String)> {
    let refs = block_on(repo.store().list_refs(repo.name(), "")).expect("it is read");
    let refs = refs.into_iter().filter(|(name, _)| name.is_history());
    refs.map(|(name, target)| {
        let compiled = target.commit().map_or_else(String::new, |id| {
            let compiled = block_on(repo.compile(Some(id))).expect("it compiles");
            let tools = block_on(repo.store().tools_of(repo.name(), id)).expect("tools");
            let messages: Vec<_> = compiled.messages().collect();
            format!("{:?} {messages:?} {tools:?}", compiled.view_id())
        });
        (name, target, compiled)
    })
    .collect()
}

#[track_caller]
pub(crate) fn is_clean(repo: &Repo) {
    let report = block_on(verify(repo, &VerifyOptions::new())).expect("it is read");
    assert_eq!(report.damage, []);
}

pub(crate) fn commits(repo: &Repo) -> u64 {
    block_on(repo.store().stats(repo.name())).expect("it is read").commits
}

/// The commits that a line of messages is made of, ten at the end of which are not at the other side.
pub(crate) fn chain(repo: &Repo, name: &str, messages: usize) -> Vec<CommitId> {
    (0..messages).map(|n| say(repo, name, &format!("{name} {n}"))).collect()
}

/// Counts calls, ids that are asked for, and fails from a call on.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) calls: AtomicUsize,
    pub(crate) questions: AtomicUsize,
    pub(crate) applied: AtomicUsize,
    pub(crate) last: AtomicUsize,
}

pub(crate) fn counted(store: &Arc<dyn Store>, last: usize) -> (Arc<dyn Store>, Arc<Counts>) {
    let counts = Arc::new(Counts {
        calls: AtomicUsize::new(0),
        questions: AtomicUsize::new(0),
        applied: AtomicUsize::new(0),
        last: AtomicUsize::new(last),
    });
    let watch = Arc::clone(&counts);
    let watched = WatchedStore::new(Arc::clone(store), move |call: Call<'_>| -> StoreResult<()> {
        let number = watch.calls.fetch_add(1, Ordering::SeqCst);
        if number >= watch.last.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Engine, "cut", call.name(), "cut off"));
        }
        match call {
            Call::Commits { ids, .. } => _ = watch.questions.fetch_add(ids.len(), Ordering::SeqCst),
            Call::Apply { batch, .. } => {
                _ = watch.applied.fetch_add(batch.commits.len(), Ordering::SeqCst);
            }
            _ => {}
        }
        Ok(())
    });
    (Arc::new(watched), counts)
}

pub(crate) fn read(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}
