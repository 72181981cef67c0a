//! The verbs over a store: what they plan, what they refuse, and what stays true after them.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue should stop")]

// Repositories, and what tests ask of them.
#[path = "../support/mod.rs"]
mod support;

// Helpers: a repository on the memory store, and views as short texts.
mod fixture;

// The worked example, through the verbs, against its golden file.
mod worked_example;

// Binding results; edits; priorities.
mod append_edit;

// Summaries and units.
mod compress;

// Summaries that lose races.
mod compress_races;

// Edits that are decided later than they were asked for.
mod deferred_edits;

// Taking back.
mod revert;

// Merges.
mod merge;

// Merges that wait until their conflicts are decided.
mod kept_merge;

// Conflicts of merges, resolved.
mod resolve;

// Commits repeated elsewhere.
mod rebase;

// Laws of merges, picks and rebases, against a model of their own.
mod history_model;

// Tools in force, by the names that the plan for them gave its tests.
mod tools;

// Branches, tags, revisions, races, undo.
mod refs;

// Undo over random commands of several processes.
mod undo;

// Undo while commands of several handles run at once.
mod undo_at_once;

// One test for each defect of the program that this one follows.
mod defects;

// Reading: search, blame, what summaries lost.
mod search;

// Ranked search, against a ranking of all messages.
mod ranked;

// Laws over random histories.
mod random;

// What finds the turns of tools, and the index of them.
mod turns;

// Many writers of one branch.
mod writers;

// The end of a long line, read without the rest.
mod ends;
