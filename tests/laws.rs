//! Random histories keep the laws of the fold, in every store, warm and cold.

mod checks;
mod long;
mod planted;
mod world;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use tract::engine::{ApplyOptions, Repo, RepoOptions};
use tract::{CommitId, Tract, block_on};
use tract_testkit::figure;

use self::checks::{
    Broken, Print, accepted, covered, print, reachable, reverted, same, sources, undone,
};
use self::world::{Act, World, history};
use crate::backends::{self, Backend};
use crate::support::{refs, run};
use crate::together::cases;
use crate::walks::{exported, memory};

/// The same store, read by a handle that has cached nothing.
fn cold(tract: &Tract) -> Repo {
    Repo::new(
        Arc::clone(tract.store()),
        RepoOptions { name: tract.repo().name().clone(), ..RepoOptions::default() },
    )
}

/// Applies lines; says which was refused.
fn applied(tract: &Tract, lines: &[String]) -> Result<(), Broken> {
    let (_, events) = run(
        tract.repo(),
        lines.join("\n"),
        &ApplyOptions { batch: Some(512), ..ApplyOptions::default() },
    );
    let mut refused =
        events.into_iter().filter_map(|event| Some((event.line, event.result.err()?)));
    refused.next().map_or(Ok(()), |(line, error)| Err(format!("line {line}: {error}")))
}

/// Law 14: the lines, applied elsewhere, give equal refs and equal bodies.
fn portable(from: &Tract, to: &Tract, lines: &[String]) -> Result<(), Broken> {
    applied(to, lines)?;
    let [found, expected] = [to, from].map(|tract| refs(tract.repo()));
    if found != expected {
        return Err(format!("refs {found:?} for {expected:?}"));
    }
    for branch in block_on(from.branches().list()).unwrap() {
        let [found, expected] = [to, from].map(|tract| print(&cold(tract), Some(branch.head)));
        same("elsewhere", &found?, &expected?)?;
    }
    if exported(to.repo()) != lines {
        return Err("another export".to_owned());
    }
    Ok(())
}

/// Carries out a history and holds every law against it.
fn holds(acts: &[Act], kept: Option<(&Backend, &Path)>) -> Result<(), Broken> {
    let mut stores = vec![memory()];
    stores.extend(kept.map(|(backend, folder)| backend.fast(folder, "one")));
    let mut world = World::new(stores);
    let mut prints: HashMap<CommitId, Print> = HashMap::new();
    for act in acts {
        world.act(act);
        let Some(head) = world.head() else { continue };
        let print = print(world.first().repo(), Some(head))?;
        accepted(&print).map_err(|broken| format!("after {act:?}: {broken}"))?;
        match prints.get(&head) {
            Some(before) => same("warm again", &print, before)?,
            None => drop(prints.insert(head, print)),
        }
        reverted(world.first().repo(), world.branch())
            .map_err(|broken| format!("after {act:?}: {broken}"))?;
    }

    let first = world.first().repo().clone();
    let commits = reachable(&first, &world.heads);
    let sources = sources(&first, &commits);
    for commit in &commits {
        let parent = commit.parents.first().copied();
        let before = block_on(first.fold(parent)).map_err(|error| error.to_string())?;
        let changes = block_on(first.changes(commit)).map_err(|error| error.to_string())?;
        undone(before.view(), commit, &changes, tract::compile::inverse)?;
        let history = block_on(first.fold(Some(commit.id()))).map_err(|error| error.to_string())?;
        let rows: Vec<CommitId> = history.view().rows().map(|row| row.slot).collect();
        covered(&rows, &sources)?;
    }

    // Cold, at every earlier head, in every store; then without what is derived.
    let every = |what: &str, repo: &Repo| -> Result<(), Broken> {
        prints
            .iter()
            .try_for_each(|(head, expected)| same(what, &print(repo, Some(*head))?, expected))
    };
    for tract in &world.stores {
        every("cold", &cold(tract))?;
        block_on(tract.store().drop_derived(tract.repo().name()))
            .map_err(|error| error.to_string())?;
        every("without derived data", &cold(tract))?;
        let report = block_on(tract.verify()).map_err(|error| error.to_string())?;
        if !report.clean {
            return Err(format!("verify: {:?}", report.damage));
        }
    }

    let lines = exported(&first);
    portable(world.first(), &memory(), &lines)?;
    if let Some((backend, folder)) = kept {
        portable(world.first(), &backend.fast(folder, "elsewhere"), &lines)?;
        let closing = world.stores.pop().expect("the file");
        block_on(closing.store().close()).map_err(|error| error.to_string())?;
        drop(closing);
        every("after reopening", backend.fast(folder, "one").repo())?;
    }
    Ok(())
}

/// Counts the operations that a history got done.
fn counted(seen: &mut BTreeMap<String, usize>, acts: &[Act]) {
    let mut world = World::new(vec![memory()]);
    acts.iter().for_each(|act| world.act(act));
    for commit in reachable(world.first().repo(), &world.heads) {
        *seen.entry(commit.op.name().to_owned()).or_default() += 1;
    }
}

#[test]
fn laws_hold_on_random_histories() {
    let seen = std::cell::RefCell::new(BTreeMap::new());
    cases(200, 40, &history(45), |acts| {
        counted(&mut seen.borrow_mut(), &acts);
        holds(&acts, None)
    });
    let seen = seen.into_inner();
    println!("{seen:?}");
    for op in ["append", "edit", "annotate", "compress", "revert", "merge", "tools", "note"] {
        assert!(seen.get(op).is_some_and(|count| *count > 0), "nothing of {op}: {seen:?}");
    }
}

#[test]
fn laws_hold_on_random_histories_in_every_store() {
    for backend in backends::all() {
        let done = cases(60, 4, &history(40), |acts| {
            let folder = tempfile::tempdir().expect("a folder");
            holds(&acts, Some((backend, folder.path())))
                .map_err(|broken| format!("{}: {broken}", backend.name))
        });
        figure("laws", backend.name, format!("{done} random histories keep them"));
    }
}
