//! Conversations for people: each branch with its title, project, tool, models, times, counts and
//! parent.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use tract_core::words::{Language, each_word};
use tract_core::{CommitId, DerivedKind, DerivedRow};

use crate::history::facts::{HistoryFacts, ModelUsage, day_of, history_facts, stored_facts};
use crate::history::log::one_line;
use crate::repo::batch::store_derived;
use crate::repo::erasure_mark::ErasureMark;
use crate::repo::error::{Error, Result};
use crate::repo::{Branch, Repo};
use crate::write::import_document::{ImportDocument, ImportMeta};

/// Maximum length of a title that is set for a branch, in characters.
pub const MAX_TITLE_CHARS: usize = 200;
/// Number of rows that are stored together.
const ROWS: usize = 256;

/// A filter for conversations; the default selects all.
///
/// ```
/// use tract_engine::SessionQuery;
/// let filter = SessionQuery { project: Some("shop".to_owned()), ..SessionQuery::default() };
/// assert_eq!(filter.tool, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Only conversations whose project folder contains this text, regardless of case.
    pub project: Option<String>,
    /// Only conversations of a tool whose name contains this text, regardless of case.
    pub tool: Option<String>,
    /// Only conversations with an answer of a model whose name contains this text, regardless of
    /// case.
    pub model: Option<String>,
    /// Only conversations with activity at or after this time: microseconds since 1970, UTC.
    pub since: Option<i64>,
    /// Only conversations that started at or before this time: microseconds since 1970, UTC.
    pub until: Option<i64>,
    /// Only conversations with all of these words in their title, last prompt, project or branch.
    /// Other forms of a word and longer words that begin with it count too; common words such as
    /// `the` are ignored.
    pub text: Option<String>,
}

/// The source of a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TitleSource {
    /// A person set it for the branch.
    Set,
    /// The tool that recorded the conversation.
    Tool,
    /// A prompt that a person wrote.
    Prompt,
}

/// The relation of a conversation to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionParentKind {
    /// A subagent of the parent, with a separate context.
    Subagent,
    /// A branch of the parent that continues in another way.
    Fork,
    /// The messages that were abandoned when a user went back in the parent.
    Rewind,
}

impl SessionParentKind {
    /// Returns the stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Subagent => "subagent",
            Self::Fork => "fork",
            Self::Rewind => "rewind",
        }
    }
}

/// The parent of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionParent {
    /// The relation.
    pub kind: SessionParentKind,
    /// The branch of the parent; `None` if it is not in the repository.
    pub branch: Option<String>,
    /// The id of the parent's tool call that started it; only for a subagent, if it is known.
    pub call: Option<String>,
}

/// A conversation: a branch, with the facts that people recognize it by.
///
/// Counts are those of its whole history, including the part that it shares with the conversation
/// from which it was forked.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionSummary {
    /// The branch.
    pub branch: String,
    /// Its head.
    pub head: CommitId,
    /// Whether `HEAD` points to it.
    pub checked_out: bool,
    /// The title, on one line: the one that was set, else the tool's, else a shortened prompt.
    pub title: Option<String>,
    /// The source of the title.
    pub title_source: Option<TitleSource>,
    /// The last prompt of a person that is no command of the tool, shortened to one line.
    pub last_prompt: Option<String>,
    /// The folder that it ran in.
    pub project: Option<String>,
    /// The tool that recorded it, such as `claude-code`.
    pub tool: Option<String>,
    /// The id that its tool gave to the session.
    pub session: Option<String>,
    /// The id of the subagent.
    pub agent: Option<String>,
    /// The model of the last answer.
    pub model: Option<String>,
    /// All models with answers, in order of their first one.
    pub models: Vec<String>,
    /// The time of its first commit: microseconds since 1970, UTC.
    pub started_at: Option<i64>,
    /// The time of its last commit: microseconds since 1970, UTC.
    pub active_at: Option<i64>,
    /// The number of commits.
    pub commits: u64,
    /// Messages that were added, whether or not they are still shown.
    pub messages: u64,
    /// Messages of the user that no tool inserted.
    pub prompts: u64,
    /// Tokens of the last request and its answer: the size of the context.
    pub context_tokens: Option<u64>,
    /// The size of the context, in tokens, at up to 48 evenly spaced requests.
    pub window: Vec<u64>,
    /// Tokens of its answers, each answer once, in groups with one price.
    pub usage: Vec<ModelUsage>,
    /// The conversation that it belongs to.
    pub parent: Option<SessionParent>,
}

impl SessionSummary {
    /// Returns the title. A session that was imported without one is `untitled` with its id, of which
    /// the first group identifies a UUID for people; other conversations have their branch's name.
    pub fn name(&self) -> Cow<'_, str> {
        const UUID: usize = 36;
        match (&self.title, self.agent.as_ref().or(self.session.as_ref())) {
            (Some(title), _) => Cow::Borrowed(title),
            (None, Some(id)) => {
                let group = id.split('-').next().filter(|_| id.len() == UUID);
                Cow::Owned(format!("untitled {}", group.unwrap_or(id)))
            }
            (None, None) => Cow::Borrowed(&self.branch),
        }
    }

    /// Returns whether the title has all of these words, compared as in [`SessionQuery::text`].
    pub fn title_has(&self, words: &str) -> bool {
        self.title.as_deref().is_some_and(|title| QueryWords::new(words).are_in([title]))
    }

    /// Returns the time between the first and the last commit, in microseconds.
    pub fn duration_us(&self) -> Option<i64> {
        Some(self.active_at?.saturating_sub(self.started_at?))
    }

    /// Returns the sum of all tokens of its answers.
    pub fn all_tokens(&self) -> u64 {
        self.usage.iter().map(ModelUsage::all_tokens).fold(0, u64::saturating_add)
    }
}

impl SessionQuery {
    /// Returns whether a conversation passes the filter.
    pub fn matches(&self, session: &SessionSummary) -> bool {
        let contains = |text: &str, wanted: &str| text.to_lowercase().contains(wanted);
        let passes = |wanted: &Option<String>, text: &[&str]| {
            wanted.as_ref().is_none_or(|wanted| {
                let wanted = wanted.to_lowercase();
                text.iter().any(|text| contains(text, &wanted))
            })
        };
        let project: Vec<&str> = session.project.as_deref().into_iter().collect();
        let tool: Vec<&str> = session.tool.as_deref().into_iter().collect();
        let models: Vec<&str> = session.models.iter().map(String::as_str).collect();
        let texts = [&session.title, &session.last_prompt, &session.project];
        let texts = texts.into_iter().flatten().map(String::as_str);
        let texts = texts.chain([session.branch.as_str()]);
        passes(&self.project, &project)
            && passes(&self.tool, &tool)
            && passes(&self.model, &models)
            && self.since.is_none_or(|since| session.active_at.is_some_and(|at| at >= since))
            && self.until.is_none_or(|until| session.started_at.is_some_and(|at| at <= until))
            && self.text.as_deref().is_none_or(|text| QueryWords::new(text).are_in(texts))
    }
}

/// The words that a conversation is searched for.
struct QueryWords<'a> {
    text: &'a str,
    language: Language,
    /// Each word with its stem.
    words: Vec<(String, String)>,
}

impl<'a> QueryWords<'a> {
    fn new(text: &'a str) -> Self {
        let mut words = Vec::new();
        each_word(text, |word| {
            if !word.is_compound {
                words.push(word.text.to_owned());
            }
        });
        let language = Language::of(words.iter().map(String::as_str));
        if words.iter().any(|word| !language.is_stop_word(word)) {
            words.retain(|word| !language.is_stop_word(word));
        }
        let with_stem = |word: String| {
            let stem = language.stem(&word).into_owned();
            (word, stem)
        };
        Self { text: text.trim(), language, words: words.into_iter().map(with_stem).collect() }
    }

    /// Returns whether each word, another form of it or a longer word that begins with it is in one
    /// of the texts. A query without words, such as an emoji, must be in a text as it is.
    fn are_in<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> bool {
        if self.words.is_empty() {
            return texts.into_iter().any(|text| text.contains(self.text));
        }
        let mut missing: Vec<&(String, String)> = self.words.iter().collect();
        for text in texts {
            each_word(text, |found| {
                let found_stem = self.language.stem(found.text);
                missing.retain(|(word, stem)| {
                    !found.text.starts_with(word.as_str()) && *stem != found_stem
                });
            });
        }
        missing.is_empty()
    }
}

/// Lists the conversations of a repository, those with the latest activity first. Conversations
/// without a time are last; those of the same time are sorted by branch.
///
/// # Errors
/// When the store fails. A conversation that cannot be read is listed without its facts.
///
/// # Complexity
/// Reads a row per branch. A branch without a row, or with many commits after it, is read once, and
/// its row is stored unless the store is read-only.
pub async fn sessions(repo: &Repo, filter: &SessionQuery) -> Result<Vec<SessionSummary>> {
    let branches = repo.branches().await?;
    let facts = facts_of(repo, branches.iter().map(|branch| branch.head)).await?;
    let documents = documents(repo).await?;
    let mut sessions: Vec<SessionSummary> = branches
        .into_iter()
        .map(|branch| {
            let facts = facts.get(&branch.head).cloned().unwrap_or_default();
            let document = documents.get(&branch.name);
            summary(branch, facts, document)
        })
        .collect();
    add_parents(&mut sessions, &documents);
    for session in &mut sessions {
        add_title(session, &documents);
    }
    sessions.retain(|session| filter.matches(session));
    sessions.sort_by(|a, b| {
        Reverse(a.active_at).cmp(&Reverse(b.active_at)).then_with(|| a.branch.cmp(&b.branch))
    });
    Ok(sessions)
}

/// The position of a conversation in a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionNode {
    /// The position of the conversation in the list.
    pub index: usize,
    /// The number of its ancestors in the list.
    pub depth: usize,
}

/// Orders conversations as trees: each before its subagents, forks and rewinds, the oldest of these
/// first. Trees are in the order of the list. A conversation whose parent is not in the list is a
/// root.
pub fn session_tree(sessions: &[SessionSummary]) -> Vec<SessionNode> {
    let by_branch: HashMap<&str, usize> =
        sessions.iter().enumerate().map(|(index, one)| (one.branch.as_str(), index)).collect();
    let parent = |index: usize| {
        let branch = sessions.get(index)?.parent.as_ref()?.branch.as_deref()?;
        by_branch.get(branch).copied().filter(|parent| *parent != index)
    };
    // Bounded: recorded parents can form a cycle.
    let root = |index: usize| {
        let mut root = index;
        for _ in 0..sessions.len() {
            match parent(root) {
                Some(parent) if parent != index => root = parent,
                Some(_) | None => break,
            }
        }
        root
    };
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    for index in 0..sessions.len() {
        if let Some(parent) = parent(index) {
            children.entry(parent).or_default().push(index);
        }
    }
    for list in children.values_mut() {
        list.sort_by_key(|index| {
            let session = sessions.get(*index);
            // Popped from the end.
            Reverse(session.map(|session| (session.started_at, session.branch.as_str())))
        });
    }
    let mut nodes = Vec::with_capacity(sessions.len());
    let mut listed: HashSet<usize> = HashSet::new();
    for index in 0..sessions.len() {
        if listed.contains(&index) {
            continue;
        }
        let mut open = vec![SessionNode { index: root(index), depth: 0 }];
        while let Some(node) = open.pop() {
            if !listed.insert(node.index) {
                continue;
            }
            nodes.push(node);
            let below = children.get(&node.index).into_iter().flatten();
            open.extend(below.map(|index| SessionNode { index: *index, depth: node.depth + 1 }));
        }
    }
    nodes
}

/// Checks that a title can be stored.
pub(crate) fn check_title(title: &str) -> Result<()> {
    let chars = title.trim().chars().count();
    let why = match chars {
        0 => "it is empty; --title \"\" is not a title".to_owned(),
        _ if title.trim().chars().any(char::is_control) => "it is not one line of text".to_owned(),
        _ if chars > MAX_TITLE_CHARS => format!("{chars} characters (limit {MAX_TITLE_CHARS})"),
        _ => return Ok(()),
    };
    Err(Error::BadTitle { why })
}

/// Reads the facts of histories, and stores the rows that are due.
async fn facts_of(
    repo: &Repo,
    heads: impl Iterator<Item = CommitId>,
) -> Result<HashMap<CommitId, HistoryFacts>> {
    let heads: HashSet<CommitId> = heads.collect();
    let heads: Vec<CommitId> = heads.into_iter().collect();
    // Read before any message: a later erasure makes the write of the rows a conflict.
    let mark = ErasureMark::read(repo).await?;
    let stored = repo.store().derived(repo.name(), DerivedKind::History, &heads).await;
    let stored = match stored.map_err(Error::from) {
        Err(error) if is_damage(&error) => rows_of_each(repo, &heads).await?,
        stored => stored?,
    };
    let mut all = HashMap::with_capacity(heads.len());
    let mut rows = Vec::new();
    for (head, bytes) in heads.iter().zip(stored) {
        if let Some(facts) = bytes.and_then(|bytes| stored_facts(*head, &bytes)) {
            all.insert(*head, facts);
            continue;
        }
        match history_facts(repo, *head).await {
            Ok(read) => {
                all.insert(*head, read.facts);
                rows.extend(read.row);
            }
            Err(error @ Error::Store(_)) if !is_damage(&error) => return Err(error),
            // Damage is reported by `verify` and by verbs that read the conversation.
            Err(_) => {}
        }
        if rows.len() >= ROWS {
            store(repo, &mark, std::mem::take(&mut rows)).await;
        }
    }
    store(repo, &mark, rows).await;
    Ok(all)
}

/// Reads the row of each head alone, so that a damaged commit does not hide the others.
async fn rows_of_each(repo: &Repo, heads: &[CommitId]) -> Result<Vec<Option<Bytes>>> {
    let mut rows = Vec::with_capacity(heads.len());
    for head in heads {
        let read = repo.store().derived(repo.name(), DerivedKind::History, &[*head]).await;
        match read.map_err(Error::from) {
            Err(error) if is_damage(&error) => rows.push(None),
            read => rows.push(read?.into_iter().next().flatten()),
        }
    }
    Ok(rows)
}

fn is_damage(error: &Error) -> bool {
    use tract_core::StoreErrorKind::{Corrupt, Missing};
    matches!(error, Error::Store(error) if matches!(error.kind, Corrupt { .. } | Missing { .. }))
}

/// Stores rows. A failure is ignored: the store may be read-only, or an erasure may have happened,
/// and the next list reads the commits again.
async fn store(repo: &Repo, mark: &ErasureMark, rows: Vec<DerivedRow>) {
    let _left_away = store_derived(repo, mark, rows).await;
}

/// Reads the documents of all branches. Unreadable ones are left out.
async fn documents(repo: &Repo) -> Result<HashMap<String, ImportDocument>> {
    let mut documents = HashMap::new();
    for (name, target) in repo.store().list_refs(repo.name(), ImportDocument::PREFIX).await? {
        let branch = name.as_str().strip_prefix(ImportDocument::PREFIX).map(str::to_owned);
        let (Some(branch), Some(id)) = (branch, target.blob()) else { continue };
        match repo.require_blob(id).await {
            Ok(blob) => documents.extend(ImportDocument::parse(&blob).map(|it| (branch, it))),
            Err(error @ Error::Store(_)) if !is_damage(&error) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(documents)
}

fn summary(
    branch: Branch,
    facts: HistoryFacts,
    document: Option<&ImportDocument>,
) -> SessionSummary {
    let meta = document.map(ImportDocument::facts).unwrap_or_default();
    let first_prompt = facts.first_prompt.map(|prompt| prompt.text);
    let last_prompt = facts.last_prompt.filter(|prompt| !prompt.is_command);
    let mut usage = facts.usage;
    usage.extend(run_usage(&meta, facts.active_at));
    let model = facts.model.or_else(|| meta.run_model().map(str::to_owned));
    let mut models = facts.models;
    if models.is_empty() {
        models.extend(model.clone());
    }
    SessionSummary {
        branch: branch.name,
        head: branch.head,
        checked_out: branch.checked_out,
        title: first_prompt,
        title_source: None,
        last_prompt: last_prompt.map(|prompt| prompt.text),
        project: meta.cwd,
        tool: meta.format,
        session: meta.session,
        agent: meta.agent,
        model,
        models,
        started_at: facts.started_at,
        active_at: facts.active_at,
        commits: facts.commits,
        messages: facts.messages,
        prompts: facts.prompts,
        context_tokens: facts.context_tokens,
        window: facts.window.sizes,
        usage,
        parent: None,
    }
}

/// Returns the tokens of a run whose tool does not record those of each answer.
fn run_usage(meta: &ImportMeta, at: Option<i64>) -> Option<ModelUsage> {
    let run = meta.run_totals()?;
    let tokens = run.tokens;
    Some(ModelUsage {
        model: run.model.map(str::to_owned),
        day_us: at.map(day_of),
        requests: run.requests,
        input: tokens.input,
        output: tokens.output,
        cache_read: tokens.cache_read,
        cache_write: tokens.cache_write,
        cache_write_1h: tokens.cache_write_1h,
    })
}

/// Replaces the first prompt by a better title, if there is one.
fn add_title(session: &mut SessionSummary, documents: &HashMap<String, ImportDocument>) {
    let document = documents.get(&session.branch);
    let meta = document.map(ImportDocument::facts).unwrap_or_default();
    let prompt = session.title.take();
    let set = document.and_then(|document| document.title.clone());
    // A tool names the whole session. Its rewinds and forks begin alike, so only their last prompt
    // distinguishes them.
    let is_part = session.parent.as_ref().is_some_and(|parent| {
        matches!(parent.kind, SessionParentKind::Fork | SessionParentKind::Rewind)
    });
    let last = session.last_prompt.clone().filter(|last| is_part && Some(last) != prompt.as_ref());
    let tool =
        meta.title.map(|title| one_line(&title, MAX_TITLE_CHARS)).filter(|title| !title.is_empty());
    let (title, source) = match (set, last, tool, prompt) {
        (Some(set), ..) => (Some(set), Some(TitleSource::Set)),
        (None, Some(last), ..) => (Some(last), Some(TitleSource::Prompt)),
        (None, None, Some(tool), _) => (Some(tool), Some(TitleSource::Tool)),
        (None, None, None, Some(prompt)) => (Some(prompt), Some(TitleSource::Prompt)),
        (None, None, None, None) => (None, None),
    };
    (session.title, session.title_source) = (title, source);
}

/// Finds the parents: by the documents of imports, by the names of recorded branches, and for other
/// branches by the conversation that begins with the same commit.
fn add_parents(sessions: &mut [SessionSummary], documents: &HashMap<String, ImportDocument>) {
    let metas: HashMap<&str, ImportMeta> =
        documents.iter().map(|(branch, one)| (branch.as_str(), one.facts())).collect();
    let names: HashSet<String> = sessions.iter().map(|one| one.branch.clone()).collect();
    type Key<'a> = (&'a str, &'a str, Option<&'a str>);
    let mut mains: HashMap<Key<'_>, &str> = HashMap::new();
    for (branch, meta) in metas.iter().filter(|(branch, _)| names.contains(**branch)) {
        let is_main = matches!(meta.start.as_deref(), Some("conversation" | "subagent"));
        if let (Some(format), Some(session), true) = (&meta.format, &meta.session, is_main) {
            mains.insert((format, session, meta.agent.as_deref()), branch);
        }
    }
    for session in sessions {
        let Some(meta) = metas.get(session.branch.as_str()) else {
            session.parent = recorded_parent(&session.branch, &names);
            continue;
        };
        let format = meta.format.as_deref().unwrap_or_default();
        let id = meta.session.as_deref().unwrap_or_default();
        let main = |id: &str, agent: Option<&str>| {
            let main = mains.get(&(format, id, agent)).map(|branch| (*branch).to_owned());
            main.filter(|branch| *branch != session.branch)
        };
        let is_fork = meta.parent.is_some();
        session.parent = match meta.start.as_deref() {
            Some("subagent") => {
                let caller = meta.caller_branch().filter(|branch| names.contains(*branch));
                let branch = caller
                    .map(str::to_owned)
                    .or_else(|| main(id, None))
                    .or_else(|| meta.parent.as_deref().and_then(|parent| main(parent, None)));
                let call = meta.caller_id().map(str::to_owned);
                Some(SessionParent { kind: SessionParentKind::Subagent, branch, call })
            }
            Some("rewind") => Some(SessionParent {
                kind: SessionParentKind::Rewind,
                branch: main(id, meta.agent.as_deref()),
                call: None,
            }),
            Some("fork" | "root") => Some(SessionParent {
                kind: SessionParentKind::Fork,
                branch: main(id, meta.agent.as_deref()),
                call: None,
            }),
            _ if is_fork => Some(SessionParent {
                kind: SessionParentKind::Fork,
                branch: meta.parent.as_deref().and_then(|parent| main(parent, None)),
                call: None,
            }),
            _ => None,
        };
    }
}

/// Returns the parent of a branch that the recording proxy named.
fn recorded_parent(branch: &str, names: &HashSet<String>) -> Option<SessionParent> {
    branch.strip_prefix("record/")?;
    let (kind, (main, _)) = match branch.rsplit_once(".agent-") {
        Some(split) => (SessionParentKind::Subagent, split),
        None => (SessionParentKind::Fork, branch.rsplit_once(".fork-")?),
    };
    let branch = names.contains(main).then(|| main.to_owned());
    Some(SessionParent { kind, branch, call: None })
}
