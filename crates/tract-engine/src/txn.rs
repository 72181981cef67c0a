//! Several steps as one write: commits on branches and moves of refs that happen together.

mod rows;

use std::collections::BTreeMap;

use tract_compile::{Changed, IdMap, IdSet};
use tract_core::{
    Applied, Batch, BatchId, Blob, CallRef, Change, Commit, CommitId, DerivedRow, Expect, Kind,
    LogNote, ObjectId, Op, OperationId, Priority, RefEdit, RefName, RefTarget, ToolRow, ToolSchema,
    Toolset, ToolsetId,
};

use crate::error::{Error, Result};
use crate::pending::{Configured, Place, Ruling};
use crate::plan::{Line, Plan, Planned, Records, Request, Stand, is_plain, plain, plan};
use crate::repo::Repo;
use crate::turns::{NewRow, says_nothing};
use crate::write::{WriteOptions, apply_once, batch_id, check_shape, expect, tell};

/// A write in the making. Nothing is stored before [`apply`](Self::apply); later steps see what
/// earlier ones did.
pub struct Txn<'a> {
    repo: &'a Repo,
    id: BatchId,
    at_us: i64,
    imports: bool,
    lines: IdMap<CommitId, Line>,
    records: Records,
    planned_on: Option<CommitId>,
    /// Where a run of plain messages stands: their line is folded once, when it is asked for.
    stand: Option<Stand>,
    /// In boxes: a node of the map has room for eleven.
    refs: BTreeMap<RefName, Box<Moved>>,
    commits: Vec<Commit>,
    made: IdSet<CommitId>,
    blobs: Vec<Blob>,
    toolsets: Vec<Toolset>,
    tools: Vec<ToolRow>,
    derived: Vec<DerivedRow>,
    requires: IdSet<CommitId>,
    /// Which results are summarised automatically, once it was asked for.
    summaries: Configured,
}

/// What a planned commit brings along beside its record.
struct Rest {
    changes: Vec<Change>,
    blobs: Vec<Blob>,
    given: Option<(Toolset, Vec<ToolSchema>)>,
    requires: Vec<CommitId>,
}

/// A request that is planned, and what it is planned on. It goes about in a box, for it is large,
/// and so would be every future that bore it.
struct Ready {
    head: Option<CommitId>,
    on: On,
    planned: Planned,
}

enum On {
    /// The end of a run of plain messages.
    Stand(Stand),
    Line(Line),
}

/// How many commits may follow a message before a snapshot can be due: what is shown makes room for
/// two and takes one.
fn room_after(room: u64, message: &Commit) -> u64 {
    let given = match message.op {
        Op::Append { priority, .. } => priority,
        _ => None,
    };
    let priority = given.or(message.kind.as_ref().map(Kind::default_priority));
    match priority.is_some_and(|priority| priority > Priority::Skip) {
        true => room.saturating_add(1),
        false => room.saturating_sub(1),
    }
}

/// A ref as it was found, and as it shall be.
struct Moved {
    found: Option<RefTarget>,
    expect: Expect,
    to: Option<RefTarget>,
}

impl<'a> Txn<'a> {
    /// Begins a write.
    ///
    /// # Errors
    /// [`Error::Random`] when the operating system has no randomness to give.
    pub fn new(repo: &'a Repo) -> Result<Self> {
        Ok(Self {
            repo,
            id: batch_id()?,
            at_us: repo.now_us(),
            imports: false,
            lines: IdMap::default(),
            records: Records::default(),
            planned_on: None,
            stand: None,
            refs: BTreeMap::new(),
            commits: Vec::new(),
            made: IdSet::default(),
            blobs: Vec::new(),
            toolsets: Vec::new(),
            tools: Vec::new(),
            derived: Vec::new(),
            requires: IdSet::default(),
            summaries: Configured::default(),
        })
    }

    /// Makes room for commits that each say something.
    pub(crate) fn reserve(&mut self, commits: usize) {
        self.commits.reserve_exact(commits);
        self.blobs.reserve_exact(commits);
        self.made.reserve(commits);
        self.records.commits.reserve(commits);
        self.records.blobs.reserve(commits);
    }

    /// Says that what is committed was recorded elsewhere: records get no time and no batch that
    /// the requests do not state, so equal input gives equal commits, and no handler is asked.
    #[must_use]
    pub fn importing(mut self) -> Self {
        self.imports = true;
        self
    }

    /// Whether what is committed was recorded elsewhere.
    pub(crate) fn imports(&self) -> bool {
        self.imports
    }

    /// Returns the repository.
    pub fn repo(&self) -> &'a Repo {
        self.repo
    }

    /// Returns the id that the ref log will know this write by.
    pub fn id(&self) -> BatchId {
        self.id
    }

    /// Returns the commits made so far, in order.
    pub fn commits(&self) -> &[Commit] {
        &self.commits
    }

    /// Whether some ref will point elsewhere than it was found to.
    pub fn moves_refs(&self) -> bool {
        self.refs.values().any(|moved| moved.to != moved.found)
    }

    /// Returns a commit that this write makes.
    pub fn made_here(&self, id: CommitId) -> Option<&Commit> {
        match self.made.contains(&id) {
            true => self.records.commits.get(&id).and_then(Option::as_ref),
            false => None,
        }
    }

    /// Returns where a ref points, with what this write does to it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn target(&mut self, name: &RefName) -> Result<Option<RefTarget>> {
        if let Some(moved) = self.refs.get(name) {
            return Ok(moved.to.clone());
        }
        let found = self.repo.ref_target(name).await?;
        self.found(name, found.clone());
        Ok(found)
    }

    /// Returns the head of a branch, with what this write adds to it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn head(&mut self, branch: &RefName) -> Result<Option<CommitId>> {
        Ok(self.target(branch).await?.and_then(|target| target.commit()))
    }

    /// Says where a ref must be when this write happens.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it is known to be elsewhere already.
    pub async fn expect(&mut self, name: &RefName, at: Option<RefTarget>) -> Result<()> {
        let found = self.target(name).await?;
        match found == at {
            true => Ok(()),
            false => {
                Err(Error::Conflict { name: name.clone(), expected: expect(at.as_ref()), found })
            }
        }
    }

    /// Moves, makes or deletes a ref; it must not have moved since this write first looked at it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn move_ref(&mut self, name: &RefName, to: Option<RefTarget>) -> Result<()> {
        self.target(name).await?;
        if let Some(moved) = self.refs.get_mut(name) {
            moved.to = to;
        }
        Ok(())
    }

    /// Moves a ref whose present value is known from elsewhere, and must still hold.
    pub fn move_from(&mut self, name: &RefName, from: Option<RefTarget>, to: Option<RefTarget>) {
        self.found(name, from);
        if let Some(moved) = self.refs.get_mut(name) {
            moved.to = to;
        }
    }

    /// Takes a branch to be where this handle left it: the write is refused when it is not.
    pub(crate) fn believe(&mut self, branch: &RefName, stand: Stand) {
        self.found(branch, stand.head.map(RefTarget::Commit));
        self.stand = Some(stand);
    }

    fn found(&mut self, name: &RefName, found: Option<RefTarget>) {
        let expect = expect(found.as_ref());
        let moved = Moved { to: found.clone(), found, expect };
        self.refs.entry(name.clone()).or_insert_with(|| Box::new(moved));
    }

    /// Adds a blob that some ref will point at.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when it exceeds the limit.
    pub fn blob(&mut self, blob: Blob) -> Result<()> {
        self.repo.limits().check_blob(blob.bytes().len())?;
        self.records.insert_blob(blob.clone());
        self.blobs.push(blob);
        Ok(())
    }

    /// Returns the line at a head, made here or stored.
    ///
    /// # Errors
    /// When a commit of the line is missing or does not fit.
    pub async fn line(&self, head: Option<CommitId>) -> Result<Line> {
        // Only heads keep their line here; others are folded again from the nearest one known.
        let mut made = Vec::new();
        let mut next = head;
        let base = loop {
            match next.map(|id| (self.lines.get(&id), self.made_here(id))) {
                Some((Some(line), _)) => break line.clone(),
                Some((None, Some(commit))) => {
                    made.push(commit.clone());
                    next = commit.parent();
                }
                Some((None, None)) | None => break Box::pin(self.repo.line(next)).await?,
            }
        };
        if made.is_empty() {
            return Ok(base);
        }
        made.reverse();
        let blobs: Vec<Blob> = made
            .iter()
            .flat_map(|commit| commit.linked_blobs())
            .filter_map(|id| self.records.blobs.get(&id)?.clone())
            .collect();
        Ok(Box::pin(self.repo.compiler().advance(&base, &made, &blobs)).await?)
    }

    /// Calls a planner, reading for it what it asks for.
    pub(crate) async fn plan_with<T>(
        &mut self,
        head: Option<CommitId>,
        planner: impl FnMut(&Records) -> Plan<T>,
    ) -> Result<T> {
        if self.planned_on != head {
            self.records.restart_chain();
            self.planned_on = head;
        }
        self.repo.plan_with(head, &mut self.records, planner).await
    }

    /// Carries out a request on a branch and moves the branch to the new commit.
    ///
    /// # Errors
    /// [`Error::Refused`] when the planner refuses; [`Error::Rejected`] and [`Error::Deferred`]
    /// when a handler does. This write is as it was before then.
    pub async fn add(&mut self, branch: &RefName, request: &Request) -> Result<Commit> {
        Ok(self.add_asking(branch, request).await?.0)
    }

    /// Carries out a request, and returns what was written instead when a handler changed it.
    pub(crate) async fn add_asking(
        &mut self,
        branch: &RefName,
        request: &Request,
    ) -> Result<(Commit, Option<Box<Request>>)> {
        let ready = self.ready(branch, request).await?;
        if !self.imports {
            match self.ask(branch, request, &ready).await? {
                Ruling::AsAsked => {}
                Ruling::Instead(request) => {
                    let commit = Box::pin(self.add_decided(branch, &request)).await?;
                    return Ok((commit, Some(request)));
                }
                Ruling::Rejected(rejected, document) => {
                    Box::pin(document.store(self.repo, "reject")).await?;
                    return Err(Error::Rejected(rejected));
                }
                Ruling::Deferred(deferred, document) => {
                    Box::pin(document.store(self.repo, "defer")).await?;
                    return Err(Error::Deferred(Box::new(deferred)));
                }
            }
        }
        Ok((self.write(branch, ready).await?, None))
    }

    /// Carries out a request that handlers were asked about already.
    pub(crate) async fn add_decided(
        &mut self,
        branch: &RefName,
        request: &Request,
    ) -> Result<Commit> {
        let ready = self.ready(branch, request).await?;
        self.write(branch, ready).await
    }

    /// Asks about a request that could be carried out, and carries nothing out.
    pub(crate) async fn rule(&mut self, branch: &RefName, request: &Request) -> Result<Ruling> {
        let ready = self.ready(branch, request).await?;
        self.ask(branch, request, &ready).await
    }

    /// Plans a request on the branch as it is in this write.
    async fn ready(&mut self, branch: &RefName, request: &Request) -> Result<Box<Ready>> {
        let head = self.head(branch).await?;
        if let Request::Append(draft) | Request::Import(draft) = request
            && is_plain(draft)
        {
            let stand = match self.stand {
                Some(stand) if stand.head == head => stand,
                _ => Stand::from(&self.line(head).await?),
            };
            let planned = self.plan_with(head, |_| plain(stand, draft)).await?;
            return Ok(Box::new(Ready { head, on: On::Stand(stand), planned }));
        }
        let line = self.line(head).await?;
        let planned = self.plan_with(head, |records| plan(request, &line, records)).await?;
        Ok(Box::new(Ready { head, on: On::Line(line), planned }))
    }

    async fn write(&mut self, branch: &RefName, ready: Box<Ready>) -> Result<Commit> {
        match ready.on {
            On::Stand(stand) => self.append(branch, stand, ready.planned),
            On::Line(line) => Box::pin(self.commit(branch, &line, ready.planned)).await,
        }
    }

    /// Asks the hooks about what is planned.
    async fn ask(&self, branch: &RefName, request: &Request, ready: &Ready) -> Result<Ruling> {
        // What is too large is refused before anybody reads it.
        self.check_limits(&ready.planned.blobs, None)?;
        let tool = match &ready.planned.record.op {
            Op::Append { answers: Some(call), .. } => self.called(call, &ready.on),
            _ => None,
        };
        let place =
            Place { summaries: Some(&self.summaries), ..Place::new(self.repo, branch, ready.head) };
        Ruling::on(place, request, &ready.planned, tool).await
    }

    /// Returns the name of the tool that a call is of, as the planner read it.
    fn called(&self, call: &CallRef, on: &On) -> Option<String> {
        let On::Line(line) = on else { return None };
        let version = line.view().get(call.slot)?.version;
        let index = usize::try_from(call.index).ok()?;
        let content = self.records.contents.get(&version)?;
        content.calls().nth(index).map(|call| call.name.clone())
    }

    /// Seals a plain message and moves the branch to it; its line is folded when it is asked for.
    fn append(&mut self, branch: &RefName, stand: Stand, planned: Planned) -> Result<Commit> {
        let (commit, rest) = self.seal(planned)?;
        self.stand = Some(Stand {
            head: Some(commit.id()),
            toolset: commit.toolset,
            active: commit.active_toolset(),
            tools_set: stand.tools_set,
            room: room_after(stand.room, &commit),
            commits: stand.commits + 1,
            silence: stand.silence.filter(|_| says_nothing(&commit, &rest.blobs)),
        });
        self.take(branch, &commit, stand.toolset, rest);
        Ok(commit)
    }

    /// Seals what was planned on a line, and moves the branch to it.
    pub(crate) async fn commit(
        &mut self,
        branch: &RefName,
        line: &Line,
        planned: Planned,
    ) -> Result<Commit> {
        let (commit, rest) = self.seal(planned)?;
        let compiler = self.repo.compiler();
        let mut next = compiler.advance(line, std::slice::from_ref(&commit), &rest.blobs).await?;
        self.derived.extend(compiler.snapshot_due(&mut next));
        self.take(branch, &commit, line.toolset(), rest);
        self.lines.insert(commit.id(), next);
        if let Some(before) = line.head().filter(|id| self.made.contains(id)) {
            let at = |moved: &Moved| moved.to.as_ref().and_then(RefTarget::commit) == Some(before);
            if !self.refs.values().any(|moved| at(moved)) {
                self.lines.remove(&before);
            }
        }
        Ok(commit)
    }

    /// Checks limits and shape, and makes a commit of what was planned.
    fn seal(&self, planned: Planned) -> Result<(Commit, Rest)> {
        let Planned { mut record, changes, blobs, given, requires } = planned;
        self.check_limits(&blobs, given.as_ref())?;
        if record.created_at.is_none() && !self.imports {
            record.created_at = Some(self.at_us);
            record.batch = Some(self.id);
        }
        let commit = Commit::seal(record)?;
        self.check(&commit, &changes)?;
        Ok((commit, Rest { changes, blobs, given, requires }))
    }

    /// Takes a commit with all that comes along, and moves the branch to it.
    fn take(&mut self, branch: &RefName, commit: &Commit, before: Option<ToolsetId>, rest: Rest) {
        self.requires.extend(rest.requires);
        if let Some((toolset, tools)) = rest.given
            && before != Some(toolset.id())
        {
            self.take_tools(commit, toolset, &tools);
        }
        for blob in rest.blobs {
            self.records.insert_blob(blob.clone());
            self.blobs.push(blob);
        }
        self.records.insert(commit.clone());
        if matches!(commit.changes, tract_core::Changes::Blob(_)) {
            self.records.changes.insert(commit.id(), rest.changes.into());
        }
        if self.made.insert(commit.id()) {
            self.commits.push(commit.clone());
        }
        if let Some(moved) = self.refs.get_mut(branch) {
            moved.to = Some(RefTarget::Commit(commit.id()));
        }
    }

    fn check_limits(
        &self,
        blobs: &[Blob],
        given: Option<&(Toolset, Vec<ToolSchema>)>,
    ) -> Result<()> {
        let limits = self.repo.limits();
        for blob in blobs {
            limits.check_blob(blob.bytes().len())?;
        }
        if let Some((_, tools)) = given {
            limits.check_toolset(tools.len())?;
            for tool in tools {
                limits.check_schema(tool.text().len())?;
                limits.check_tool_name(tool.name())?;
            }
        }
        Ok(())
    }

    /// Checks that the record says what it does.
    fn check(&self, commit: &Commit, changes: &[Change]) -> Result<()> {
        let mut targets = Vec::new();
        if let Op::Revert { targets: reverted, .. } = &commit.op {
            for id in reverted {
                let Some(Some(target)) = self.records.commits.get(id) else {
                    return Err(Error::Missing(ObjectId::Commit(*id)));
                };
                let changes = match &target.record().changes {
                    tract_core::Changes::List(list) => list.as_slice(),
                    tract_core::Changes::Blob(_) => {
                        self.records.changes.get(id).map(AsRef::as_ref).unwrap_or_default()
                    }
                };
                targets.push(Changed { commit: target, changes });
            }
        }
        check_shape(Changed { commit, changes }, &targets)
    }

    /// Takes the tools of a commit whose parent had others in force.
    fn take_tools(&mut self, commit: &Commit, toolset: Toolset, tools: &[ToolSchema]) {
        let created_at = commit.created_at.unwrap_or(0);
        for tool in tools {
            let blob = tool.blob();
            let row = ToolRow {
                id: tool.id(),
                name: tool.name().to_owned(),
                schema: blob.id(),
                commit: commit.id(),
                created_at,
            };
            if !self.tools.iter().any(|known| known.id == row.id && known.schema == row.schema) {
                self.tools.push(row);
                self.blobs.push(blob);
            }
        }
        self.toolsets.push(toolset);
    }

    /// Stores all of it, durably, or nothing.
    ///
    /// # Errors
    /// When the store fails. A race that is lost is no error but [`Applied::Conflict`].
    pub async fn apply(mut self, what: &str, options: &WriteOptions) -> Result<Applied> {
        self.apply_undoing(what, options, None).await
    }

    /// Stores all of it, and leaves nothing here to be stored.
    pub(crate) async fn apply_undoing(
        &mut self,
        what: &str,
        options: &WriteOptions,
        undoes: Option<u64>,
    ) -> Result<Applied> {
        // What is one write is known by one id, which the log keeps once.
        let alone = || OperationId::from_bytes(*self.id.as_bytes());
        let operation = options.operation.unwrap_or_else(alone);
        let note = LogNote {
            operation,
            what: what.to_owned(),
            who: self.repo.who().to_owned(),
            why: options.why.clone(),
            undoes,
            at: self.at_us,
        };
        self.fold_heads().await?;
        let rows = self.add_turn_rows().await;
        let mut batch = Batch::new(self.id, note);
        let mut requires: Vec<CommitId> = self.requires.difference(&self.made).copied().collect();
        requires.sort_unstable();
        batch.requires = requires.into_iter().map(ObjectId::Commit).collect();
        let refs = std::mem::take(&mut self.refs);
        batch.refs.reserve_exact(refs.len());
        batch.refs.extend(
            refs.into_iter()
                .filter(|(_, moved)| moved.to != moved.found)
                .map(|(name, moved)| RefEdit { name, expect: moved.expect, to: moved.to }),
        );
        batch.blobs = std::mem::take(&mut self.blobs);
        batch.toolsets = std::mem::take(&mut self.toolsets);
        batch.commits = std::mem::take(&mut self.commits);
        batch.tools = std::mem::take(&mut self.tools);
        batch.derived = std::mem::take(&mut self.derived);
        let applied = apply_once(self.repo, &batch).await?;
        if matches!(applied, Applied::Conflict(_)) {
            return Ok(applied);
        }
        let compiler = self.repo.compiler();
        compiler.remember_objects(&batch.commits, &batch.blobs, &batch.toolsets);
        for edit in &batch.refs {
            let head = edit.to.as_ref().and_then(RefTarget::commit);
            if let Some(line) = head.and_then(|head| self.lines.get(&head)) {
                compiler.remember(line);
            }
            if applied == Applied::Done && edit.name.branch_name().is_some() {
                let stand = head.and_then(|head| self.stand_at(head, &rows));
                self.repo.heads().keep(&edit.name, stand);
            }
        }
        if !batch.refs.is_empty() {
            tell(self.repo, self.id).await;
        }
        Ok(applied)
    }

    /// What a write after this one has to know of a branch that this one leaves at `head`.
    fn stand_at(&self, head: CommitId, rows: &[NewRow]) -> Option<Stand> {
        let run = self.stand.filter(|stand| stand.head == Some(head));
        let mut stand = self.lines.get(&head).map(Stand::from).or(run)?;
        stand.silence = match rows.iter().find(|row| row.at == head) {
            Some(row) => Some(row.silence()),
            None => run.and_then(|run| run.silence),
        };
        Some(stand)
    }
}
