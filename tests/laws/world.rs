//! Random histories, carried out alike in several stores.

use proptest::prelude::*;
use proptest::sample::Index;
use tract::core::Blob;
use tract::engine::{
    Error, MergeOptions, Merged, Rebase, Request, Resolution, Selection, Txn, WriteOptions,
    merge_in, rebase_in,
};
use tract::{CommitId, Content, Draft, JsonText, Priority, RefName, ToolSchema, Tract, block_on};

/// One thing that may happen to a history. What it is done to is chosen among what is there.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Say(u8),
    /// An assistant's message with calls; ids come from a small stock, so they come again.
    Call(u8, u8),
    /// An answer to an open call, if there is one.
    Answer(Index, bool),
    /// A broken recording: an answer that may answer nothing, or answer again.
    Orphan(u8),
    Edit(Index),
    Mark(Vec<Index>, Priority),
    Squeeze(Index, u8),
    Revert(Index, bool),
    Tools(u8),
    /// A message with tools of its own.
    TurnTools(u8),
    Note,
    Fork(Index),
    Switch(Index),
    Merge(Index),
    /// A merge in which their side wins.
    MergeTheirs(Index),
    Rebase(Index),
    Pick(Index),
    Drop(Index),
    Undo,
}

fn priority() -> impl Strategy<Value = Priority> {
    use Priority::{Important, Normal, Pinned, Skip};
    prop::sample::select(vec![Skip, Skip, Normal, Important, Pinned])
}

fn act() -> impl Strategy<Value = Act> {
    let index = any::<Index>;
    prop_oneof![
        5 => (0u8..7).prop_map(Act::Say),
        4 => (1u8..4, 0u8..5).prop_map(|(count, id)| Act::Call(count, id)),
        6 => (index(), any::<bool>()).prop_map(|(at, failed)| Act::Answer(at, failed)),
        1 => (0u8..6).prop_map(Act::Orphan),
        3 => index().prop_map(Act::Edit),
        3 => (prop::collection::vec(index(), 1..3), priority()).prop_map(|(at, to)| Act::Mark(at, to)),
        2 => (index(), 1u8..5).prop_map(|(at, rows)| Act::Squeeze(at, rows)),
        3 => (index(), any::<bool>()).prop_map(|(at, cascade)| Act::Revert(at, cascade)),
        1 => (0u8..4).prop_map(Act::Tools),
        1 => (0u8..4).prop_map(Act::TurnTools),
        1 => Just(Act::Note),
        3 => index().prop_map(Act::Fork),
        4 => index().prop_map(Act::Switch),
        6 => index().prop_map(Act::Merge),
        2 => index().prop_map(Act::MergeTheirs),
        3 => index().prop_map(Act::Rebase),
        3 => index().prop_map(Act::Pick),
        1 => index().prop_map(Act::Drop),
        1 => Just(Act::Undo),
    ]
}

/// Histories of up to so many acts.
pub(crate) fn history(most: usize) -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(act(), 6..most)
}

pub(crate) fn tools(count: u8) -> Vec<ToolSchema> {
    let text = |n: u8| match n % 2 {
        0 => format!(
            r#"{{"type":"function","function":{{"name":"tool.{n}","parameters":{{"type":"object"}}}}}}"#
        ),
        _ => format!(
            r#"{{"name":"t{n}","description":"x","input_schema":{{"type":"object","properties":{{}}}}}}"#
        ),
    };
    (0..count).map(|n| ToolSchema::parse(&text(n)).expect("a schema")).collect()
}

/// The same history in several stores, and all heads that it ever had.
pub(crate) struct World {
    pub(crate) stores: Vec<Tract>,
    pub(crate) branches: Vec<RefName>,
    pub(crate) heads: Vec<CommitId>,
    branch: usize,
    n: usize,
}

impl World {
    pub(crate) fn new(stores: Vec<Tract>) -> Self {
        let branches = vec![RefName::branch("main").expect("a name")];
        let mut world = Self { stores, branches, heads: Vec::new(), branch: 0, n: 0 };
        world.go(&Request::Append(Draft::system("Be brief.")));
        world.go(&Request::Append(Draft::user("Begin.")));
        world
    }

    pub(crate) fn first(&self) -> &Tract {
        &self.stores[0]
    }

    pub(crate) fn branch(&self) -> &RefName {
        &self.branches[self.branch]
    }

    pub(crate) fn head(&self) -> Option<CommitId> {
        block_on(self.first().repo().head_of(self.branch())).expect("a head")
    }

    fn slots(&self) -> Vec<CommitId> {
        let history = block_on(self.first().repo().fold(self.head())).expect("a line");
        history.view().rows().map(|row| row.slot).collect()
    }

    fn alike<T: PartialEq + std::fmt::Debug>(&self, mut what: impl FnMut(&Tract) -> T) -> T {
        let mut answers: Vec<T> = self.stores.iter().map(&mut what).collect();
        for answer in &answers {
            assert_eq!(*answer, answers[0], "stores differ");
        }
        answers.swap_remove(0)
    }

    /// Writes in every store what is planned on it alike; refused, which all do alike, it changes
    /// nothing.
    fn write<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        plan: impl AsyncFn(&mut Txn<'_>) -> Result<T, Error>,
    ) -> Option<T> {
        let before = self.head();
        let written = self.alike(|tract| {
            block_on(async {
                let mut txn = Txn::new(tract.repo())?.importing();
                let planned = plan(&mut txn).await?;
                let _ = txn.apply(what, &WriteOptions::default()).await?;
                Ok::<_, Error>(planned)
            })
            .map_err(|error| error.to_string())
        });
        if written.is_err() {
            assert_eq!(self.head(), before, "a refused {what} writes nothing");
        }
        written.ok()
    }

    /// Asks every store for the same.
    pub(crate) fn go(&mut self, request: &Request) {
        let branch = self.branch().clone();
        let plan = async |txn: &mut Txn<'_>| Ok(txn.add(&branch, request).await?.id());
        if let Some(id) = self.write(request.verb(), plan) {
            assert_eq!(self.head(), Some(id));
            self.heads.push(id);
        }
    }

    pub(crate) fn act(&mut self, act: &Act) {
        self.n += 1;
        let n = self.n;
        let slots = self.slots();
        match act {
            Act::Say(kind) => {
                let draft = match kind {
                    0 | 1 => Draft::user(format!("user {n}")),
                    2 => Draft::assistant(format!("assistant {n}")),
                    3 => Draft::reasoning(format!("thought {n}")),
                    4 => Draft::system(format!("rule {n}")),
                    5 => {
                        // As a provider said it, with a signature that is bound to what came before.
                        let mut draft = Draft::assistant(format!("signed {n}"));
                        draft.form = Some("signed-1".to_owned());
                        draft.verbatim = Some(Blob::seal(br#"{"signature":"s"}"#.to_vec()));
                        draft
                    }
                    _ => Draft::note(&format!(r#"{{"n":{n}}}"#)).expect("JSON"),
                };
                self.go(&Request::Append(draft));
            }
            Act::Call(count, id) => {
                let mut draft =
                    Draft::assistant(if n.is_multiple_of(2) { "Let me see." } else { "" });
                for k in 0..*count {
                    let arguments = if n.is_multiple_of(5) { "no json" } else { r#"{"a":1}"# };
                    draft = draft.call(format!("c{}", id + k), format!("tool.{k}"), arguments);
                }
                self.go(&Request::Append(draft));
            }
            Act::Answer(at, failed) => {
                let compiled =
                    block_on(self.first().repo().compile(self.head())).expect("compiles");
                let open = tract_open_calls(&compiled);
                if !open.is_empty() {
                    let draft = Draft::tool_result(at.get(&open).clone(), format!("out {n}"));
                    self.go(&Request::Append(draft.is_error(*failed)));
                }
            }
            Act::Orphan(id) => {
                self.go(&Request::Import(Draft::tool_result(format!("c{id}"), format!("odd {n}"))));
            }
            Act::Edit(at) if !slots.is_empty() => {
                self.go(&Request::edit_text(*at.get(&slots), format!("edit {n}")));
            }
            Act::Mark(at, priority) if !slots.is_empty() => {
                let mut targets: Vec<CommitId> = at.iter().map(|at| *at.get(&slots)).collect();
                targets.sort();
                targets.dedup();
                self.go(&Request::annotate(targets, *priority));
            }
            Act::Squeeze(at, rows) if !slots.is_empty() => {
                let from = at.index(slots.len());
                let to = (from + usize::from(*rows)).min(slots.len() - 1);
                let select = Selection::Range { from: Some(slots[from]), to: Some(slots[to]) };
                self.go(&Request::compress(select, format!("sum {n}")));
            }
            Act::Revert(at, cascade) => {
                let mut request = Request::revert([*at.get(&self.heads)]);
                if let Request::Revert { cascade: cascades, .. } = &mut request {
                    *cascades = *cascade;
                }
                self.go(&request);
            }
            Act::Tools(count) => self.go(&Request::tools(tools(*count))),
            Act::TurnTools(count) => {
                let draft = Draft::user(format!("with tools {n}")).tools(tools(*count)).unwrap();
                self.go(&Request::Append(draft));
            }
            Act::Note => {
                let mut request = Request::note(format!("note {n}"));
                if let Request::Note { content, .. } = &mut request {
                    *content =
                        (n.is_multiple_of(2)).then(|| JsonText::new("{\"x\":1}").expect("JSON"));
                }
                self.go(&request);
            }
            Act::Fork(at) => {
                // Recent heads: branches that share all but little meet most of what can happen.
                let recent = &self.heads[self.heads.len().saturating_sub(6)..];
                let from = *at.get(recent);
                let name = format!("b{n}");
                let branch = self.alike(|tract| {
                    block_on(tract.repo().create_branch(&name, from))
                        .map_err(|error| error.to_string())
                });
                self.branches.push(branch.expect("a new branch"));
                self.branch = self.branches.len() - 1;
            }
            Act::Switch(at) => self.branch = at.index(self.branches.len()),
            Act::Merge(at) | Act::MergeTheirs(at) => {
                // Another branch as a rule: an older head is mostly there already.
                let other = at.get(&self.branches).clone();
                let theirs = block_on(self.first().repo().head_of(&other)).expect("a head");
                let source = theirs.filter(|_| other != *self.branch());
                let source = source.unwrap_or_else(|| *at.get(&self.heads));
                let branch = self.branch().clone();
                let theirs = matches!(act, Act::MergeTheirs(_));
                let options = match theirs {
                    true => MergeOptions::default().resolve(|_| Some(Resolution::Theirs)),
                    false => MergeOptions::default(),
                };
                let merge =
                    async |txn: &mut Txn<'_>| merge_in(txn, &branch, source, &options).await;
                if let Some(Merged::Commit(commit)) = self.write("merge", merge) {
                    self.heads.push(commit.id());
                }
            }
            Act::Rebase(at) => {
                let other = at.get(&self.branches).clone();
                let head = block_on(self.first().repo().head_of(&other)).expect("a head");
                if let Some(onto) = head.filter(|_| other != *self.branch()) {
                    self.rebase(&Rebase::Onto { onto, plan: None });
                }
            }
            Act::Pick(at) => {
                let targets = vec![(*at.get(&self.heads)).into()];
                self.rebase(&Rebase::Pick { targets, from: None });
            }
            Act::Drop(at) if !slots.is_empty() => {
                self.rebase(&Rebase::Drop { commits: vec![*at.get(&slots)] });
            }
            Act::Undo => {
                let branch = self.branch().clone();
                let moves = self.alike(|tract| {
                    let undone = block_on(tract.repo().undo(&branch));
                    // A refusal names an operation, and each store has its own.
                    undone.map(|undone| undone.moves).map_err(|error| error.code())
                });
                // A branch may be undone away; what follows starts from nothing.
                drop(moves);
            }
            Act::Edit(_) | Act::Mark(..) | Act::Squeeze(..) | Act::Drop(_) => {}
        }
    }

    /// Repeats commits in every store. What was repeated has no form of a provider any more.
    fn rebase(&mut self, rebase: &Rebase) {
        let branch = self.branch().clone();
        let plan = async |txn: &mut Txn<'_>| rebase_in(txn, &branch, rebase).await;
        let Some(rebased) = self.write(rebase.verb(), plan) else { return };
        assert_eq!(self.head(), Some(rebased.head));
        for (_, made) in &rebased.made {
            let commit = block_on(self.first().repo().require_commit(*made));
            let commit = commit.expect("a commit that was made");
            assert_eq!((&commit.form, commit.verbatim), (&None, None), "a stale signature");
        }
        self.heads.push(rebased.head);
    }
}

/// The ids of the calls that no row answers, nearest last.
fn tract_open_calls(compiled: &tract::Compiled) -> Vec<String> {
    let answered: std::collections::HashSet<_> =
        compiled.rows().filter_map(|(row, _)| row.answers).collect();
    let mut open = Vec::new();
    for message in compiled.messages() {
        if let Content::Assistant(_) = &message.content {
            for (index, call) in message.content.calls().enumerate() {
                let index = u32::try_from(index).expect("few calls");
                if !answered.contains(&tract::core::CallRef { slot: message.slot, index }) {
                    open.push(call.id.clone());
                }
            }
        }
    }
    open
}
