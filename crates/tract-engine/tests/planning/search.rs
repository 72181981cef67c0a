//! Searching: `grep` finds what contexts show, and `blame` names the commits that made them so.

use std::collections::{BTreeMap, BTreeSet};

use tract_core::{BlobId, Commit, CommitId, Op, StoreExt as _, block_on};
use tract_engine::{
    BlameAction, GrepHit, GrepOptions, GrepPattern, LostKind, Repo, blame, grep, log_all, lost,
};

use crate::fixture::{Fixture, tool};

fn hits(repo: &Repo, heads: &[CommitId], options: GrepOptions) -> Vec<GrepHit> {
    block_on(async {
        let pattern = GrepPattern::new().regex("").unwrap();
        let mut search = grep(repo, heads, pattern, options).await.unwrap();
        let mut hits = Vec::new();
        while let Some(found) = search.next_hits().await.unwrap() {
            assert!(!found.is_empty());
            hits.extend(found);
        }
        hits
    })
}

/// The contents and definitions that heads show, each with their places: by folding forward.
fn shown(repo: &Repo, heads: &[CommitId]) -> BTreeMap<BlobId, BTreeSet<usize>> {
    let mut shown: BTreeMap<BlobId, BTreeSet<usize>> = BTreeMap::new();
    for (place, head) in heads.iter().enumerate() {
        let history = block_on(repo.fold(Some(*head))).unwrap();
        let facts = history.view().rows().filter_map(|row| history.fact(row.slot));
        let contents = facts.filter(|fact| fact.is_shown()).filter_map(|fact| fact.content);
        let tools = history.toolset().map(|id| block_on(repo.require_toolset(id)).unwrap());
        let schemas = tools.iter().flat_map(|set| set.entries()).map(|entry| entry.schema);
        for id in contents.chain(schemas) {
            shown.entry(id).or_default().insert(place);
        }
    }
    shown
}

/// All that heads lead to: over parents, and what is reverted, which may be on another branch.
pub(crate) fn reached(repo: &Repo, heads: &[CommitId]) -> Vec<Commit> {
    let mut heads = heads.to_vec();
    loop {
        let commits = block_on(log_all(repo, &heads, usize::MAX)).unwrap();
        let known: BTreeSet<CommitId> = commits.iter().map(Commit::id).collect();
        let before = heads.len();
        for commit in &commits {
            if let Op::Revert { targets, .. } = &commit.op {
                heads.extend(targets.iter().filter(|target| !known.contains(target)));
            }
        }
        if heads.len() == before {
            return commits;
        }
    }
}

/// Checks a search for everything against the contexts, and against all that heads lead to.
pub(crate) fn check_grep(repo: &Repo, heads: &[CommitId]) {
    let shown = shown(repo, heads);
    let mut places: BTreeMap<BlobId, BTreeSet<usize>> = BTreeMap::new();
    for hit in hits(repo, heads, GrepOptions::default()) {
        assert!(!hit.heads.is_empty(), "hidden, and not asked for: {hit:?}");
        let before = places.insert(hit.content, hit.heads.into_iter().collect());
        assert_eq!(before, None, "a content comes once");
    }
    assert_eq!(places, shown);
    let mut all = BTreeSet::new();
    for commit in reached(repo, heads) {
        all.extend(commit.content);
        let tools = commit.toolset.map(|id| block_on(repo.require_toolset(id)).unwrap());
        all.extend(tools.iter().flat_map(|set| set.entries()).map(|entry| entry.schema));
    }
    let mut found = BTreeSet::new();
    for hit in hits(repo, heads, GrepOptions { hidden: true, ..GrepOptions::default() }) {
        let places: BTreeSet<usize> = hit.heads.into_iter().collect();
        assert_eq!(
            Some(places).filter(|places| !places.is_empty()),
            shown.get(&hit.content).cloned()
        );
        assert!(found.insert(hit.content), "a content comes once");
    }
    assert_eq!(found, all);
}

/// Checks that the commits of each message are those of the history that change it.
pub(crate) fn check_blame(repo: &Repo, head: CommitId) {
    let folded = block_on(repo.fold(Some(head))).unwrap();
    let history = block_on(repo.store().walk_all(repo.name(), head)).unwrap();
    let entries = block_on(blame(repo, head)).unwrap();
    assert_eq!(entries.len(), folded.shown_count());
    for entry in entries {
        let row = folded.view().get(entry.slot).unwrap();
        assert_eq!(row.version, entry.version);
        let named: Vec<CommitId> = entry.commits.iter().map(|known| known.commit.id()).collect();
        assert!(named.contains(&row.version), "{entry:?}");
        assert!(row.mark.is_none_or(|mark| named.contains(&mark)), "{entry:?}");
        for commit in history.iter().rev() {
            let concerns = block_on(tract_engine::concerns(repo, commit, entry.slot)).unwrap();
            assert!(!concerns || named.contains(&commit.id()), "{commit:?} of {entry:?}");
        }
    }
}

#[test]
fn a_context_of_several_branches_shows_what_each_of_them_does() {
    let desk = Fixture::new();
    desk.go(tract_engine::plan::Request::tools([tool("t", "first")]));
    let first = desk.user("first");
    let second = desk.user("second");
    let other = desk.fork("other", second);
    other.edit(first, "first, elsewhere");
    other.go(tract_engine::plan::Request::tools([tool("t", "second")]));
    desk.compress(&[first, second], "both");
    let third = desk.fork("third", second);
    let heads = [desk.head().unwrap(), other.head().unwrap(), third.head().unwrap(), second];
    for count in 1..=heads.len() {
        check_grep(&desk.repo, &heads[..count]);
    }
    check_grep(&desk.repo, &[]);
    check_grep(&desk.repo, &[second, second]);
}

#[test]
fn the_stream_gives_the_hits_of_the_search() {
    let desk = Fixture::new();
    let ids: Vec<CommitId> = (0..100).map(|n| desk.user(&format!("text {n}"))).collect();
    let head = desk.head().unwrap();
    let expected = hits(&desk.repo, &[head], GrepOptions::default());
    assert_eq!(expected.iter().rev().map(|hit| hit.commit).collect::<Vec<_>>(), ids);
    let streamed = block_on(async {
        let pattern = GrepPattern::new().regex("").unwrap();
        let search = grep(&desk.repo, &[head], pattern, GrepOptions::default()).await.unwrap();
        let mut stream = std::pin::pin!(search.into_stream());
        let mut found = Vec::new();
        while let Some(hit) = std::future::poll_fn(|context| {
            futures_core::Stream::poll_next(stream.as_mut(), context)
        })
        .await
        {
            found.push(hit.unwrap());
        }
        found
    });
    assert_eq!(streamed, expected);
}

#[test]
fn blame_names_who_added_edited_marked_summarized_and_reverted() {
    let desk = Fixture::new();
    let first = desk.user("first");
    let second = desk.user("second");
    let third = desk.user("third");
    let edit = desk.edit(first, "first, again");
    let mark = desk.mark(first, tract_core::Priority::Pinned);
    let summary = desk.compress(&[second, third], "both");
    let back = desk.revert(&[edit]);
    let entries = block_on(blame(&desk.repo, desk.head().unwrap())).unwrap();
    let blamed: Vec<Vec<(CommitId, &str)>> = entries
        .iter()
        .map(|entry| {
            let commits = entry.commits.iter();
            commits.map(|known| (known.commit.id(), known.action.as_str())).collect()
        })
        .collect();
    let of_first = vec![(first, "added"), (edit, "edited"), (mark, "marked"), (back, "reverted")];
    assert_eq!(blamed, [of_first, vec![(summary, "summarized")]]);
    assert_eq!(entries[1].commits[0].action, BlameAction::Summarized);
    assert_eq!(block_on(tract_engine::slot_of(&desk.repo, edit)).unwrap(), first);
    assert!(block_on(tract_engine::slot_of(&desk.repo, mark)).is_err());
}

#[test]
fn lost_is_what_a_summary_hid_and_nothing_says_again() {
    let desk = Fixture::new();
    let a = desk.user("Please repair the broken login page. Use src/login.rs for that!");
    let call = desk.go(tract_core::Draft::assistant("I run the tests of version v2.1 first").call(
        "c1",
        "bash",
        r#"{"command":"cargo test  -p login"}"#,
    ));
    desk.result("c1", "failed at tests/time_out.rs:31");
    let skipped = desk.user("Completely different remarks about gardens");
    desk.mark(skipped, tract_core::Priority::Skip);
    let kept = desk.says("I looked at v2.1 and tests/time_out.rs");
    let targets = [a, call, skipped];
    let summary = desk.compress(&targets, "The login page was broken, repair asked for.");
    let entries = block_on(lost(&desk.repo, desk.head().unwrap())).unwrap();
    let items = |entries: &[tract_engine::LostEntry]| -> Vec<(LostKind, String)> {
        entries.iter().flat_map(|e| &e.items).map(|i| (i.kind, i.text.clone())).collect()
    };
    assert_eq!((entries[0].summary, entries[0].number), (summary, 1));
    assert_eq!(
        items(&entries),
        [
            (LostKind::Text, "I run the tests of version v2.1 first".to_owned()),
            (LostKind::Command, "cargo test -p login".to_owned()),
            (LostKind::Name, "src/login.rs".to_owned()),
        ]
    );
    // Said again later, it is lost no longer.
    desk.user("Run `cargo test -p login`, then open src/login.rs");
    let entries = block_on(lost(&desk.repo, desk.head().unwrap())).unwrap();
    assert!(items(&entries).iter().all(|(kind, _)| *kind == LostKind::Text), "{entries:?}");
    // What lies under a summary of summaries is hidden by it.
    let last = desk.head().unwrap();
    let outer = desk.compress(&[summary, kept, last], "Nothing of note.");
    let entries = block_on(lost(&desk.repo, outer)).unwrap();
    assert_eq!(entries.len(), 1);
    assert!(items(&entries).contains(&(LostKind::Name, "tests/time_out.rs".to_owned())));
    assert!(items(&entries).contains(&(LostKind::Command, "cargo test -p login".to_owned())));
    assert!(!format!("{entries:?}").contains("gardens"), "what was skipped was not seen");
    assert_eq!(block_on(lost(&desk.repo, a)).unwrap(), []);
}
