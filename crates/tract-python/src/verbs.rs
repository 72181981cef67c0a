//! The verbs: a call as JSON, carried out on a handle, answered as JSON.

use std::fs::File;
use std::io::Write;
use std::pin::Pin;

use serde::Deserialize;
use serde_json::{Value, json};
use tract::core::stream::StreamOp;
use tract::engine::{
    ApplyBundleOptions, BundleOptions, EraseRequest, EraseTarget, FetchOptions, GrepOptions,
    GrepPattern, Merged, MessageChange, PullBranches, PushOptions, RecordedDecision, Remote,
    SearchOptions, ToolChange, ToolDiff, TransferredRef, UndoReport, apply_bundle, create_bundle,
};
use tract::import::{ImportOptions, Importer};
use tract::{Commit, CommitId, Draft, Error, Kind, Message, Priority, Result, Tract};

use crate::operation::Outcome;
use crate::record::{self, Items, Record};

/// A verb with its arguments, as in `{"log":{"revision":"HEAD","limit":10}}`. Lines and tools are
/// JSON texts, so that they are stored as given.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Call {
    Head {},
    Resolve {
        revision: String,
    },
    Show {
        revision: String,
    },
    /// Adds messages, in one durable write.
    Commit {
        lines: Vec<String>,
        expect: Option<Expected>,
    },
    /// Carries out stream operations: all of them, or none.
    Apply {
        lines: Vec<String>,
    },
    Compile {
        revision: Option<String>,
    },
    Log {
        revision: String,
        limit: usize,
    },
    Edit {
        message: String,
        text: String,
    },
    Annotate {
        message: String,
        priority: String,
    },
    Compress {
        first: String,
        last: String,
        summary: String,
    },
    Diff {
        before: String,
        after: String,
    },
    Blame {
        revision: String,
    },
    Search {
        query: String,
        heads: Vec<String>,
        limit: usize,
        hidden: bool,
    },
    Grep {
        pattern: String,
        heads: Vec<String>,
        regex: bool,
        ignore_case: bool,
        word: bool,
    },
    Usage {},
    Branches {},
    CreateBranch {
        name: String,
        from: String,
    },
    RenameBranch {
        name: String,
        to: String,
    },
    DeleteBranch {
        name: String,
    },
    Checkout {
        name: String,
    },
    Tags {},
    CreateTag {
        name: String,
        revision: String,
    },
    DeleteTags {
        names: Vec<String>,
    },
    Merge {
        from: String,
    },
    CherryPick {
        commits: Vec<String>,
    },
    Rebase {
        onto: String,
    },
    Drop {
        commits: Vec<String>,
    },
    Revert {
        revision: String,
    },
    Reset {
        to: String,
    },
    Undo {},
    Redo {},
    SetTools {
        tools: Vec<String>,
    },
    ToolsAt {
        revision: Option<String>,
    },
    OwnTools {
        revision: String,
    },
    ToolHistory {
        name: String,
    },
    ToolDiff {
        before: String,
        after: String,
    },
    OpenCalls {},
    Pending {},
    Approve {
        id: String,
    },
    Reject {
        id: String,
        reason: String,
    },
    EditPending {
        id: String,
        text: String,
    },
    Remotes {},
    AddRemote {
        name: String,
        url: String,
        repo: Option<String>,
    },
    RemoveRemote {
        name: String,
    },
    Push {
        remote: String,
        branches: Option<Vec<String>>,
    },
    Fetch {
        remote: String,
        pull: Option<Vec<String>>,
        pull_all: bool,
    },
    CreateBundle {
        path: String,
    },
    ApplyBundle {
        path: String,
    },
    ImportText {
        text: String,
        name: String,
    },
    Record(Record),
    Items(Items),
    Documents {
        prefix: String,
    },
    Document {
        name: String,
    },
    Verify {},
    Erase {
        targets: Vec<String>,
        reason: String,
        everywhere: bool,
        ban: bool,
    },
}

/// The expected head of a write. `head` is null for a branch without commits.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    pub(crate) head: Option<CommitId>,
}

impl Call {
    /// Carries out the verb.
    pub(crate) fn run(
        self,
        tract: &Tract,
    ) -> Pin<Box<dyn Future<Output = Result<Outcome>> + Send + '_>> {
        Box::pin(self.carry_out(tract))
    }

    async fn carry_out(self, tract: &Tract) -> Result<Outcome> {
        let value = match self {
            Self::Compile { revision: None } => {
                return Ok(Outcome::Compiled(Box::new(tract.compile().await?)));
            }
            Self::Compile { revision: Some(revision) } => {
                let compiled = tract.compile_at(revision).await?;
                return Ok(Outcome::Compiled(Box::new(compiled)));
            }
            Self::Show { revision } => return Ok(records(&[tract.show(revision).await?])),
            Self::Commit { lines, expect } => return commit(tract, &lines, expect).await,
            Self::Log { revision, limit } => {
                // The history of a branch without commits is empty, not an error.
                if revision == "HEAD" && tract.head().await?.is_none() {
                    return Ok(records(&[]));
                }
                return Ok(records(&tract.log(revision, limit).await?));
            }
            Self::Edit { message, text } => {
                return Ok(records(&[tract.edit(message, text).await?]));
            }
            Self::Annotate { message, priority } => {
                let priority = Priority::parse(&priority).ok_or_else(|| Error::Invalid {
                    message: format!("unknown priority {priority:?}"),
                    note: Some("known are skip, normal, important and pinned".to_owned()),
                })?;
                return Ok(records(&[tract.annotate(message, priority).await?]));
            }
            Self::Compress { first, last, summary } => {
                return Ok(records(&[tract.compress(first, last, summary).await?]));
            }
            Self::Revert { revision } => return Ok(records(&[tract.revert(revision).await?])),
            Self::SetTools { tools } => return Ok(records(&[tract.set_tools(tools).await?])),
            Self::Head {} => json!(tract.head().await?),
            Self::Resolve { revision } => json!(tract.resolve(revision).await?),
            Self::Apply { lines } => {
                let operations = operations(&lines)?;
                let tract = tract.clone();
                json!(on_thread(async move || tract.apply(&operations).await).await?)
            }
            Self::Diff { before, after } => diff(tract, before, after).await?,
            Self::Blame { revision } => blame(tract, revision).await?,
            Self::Search { query, heads, limit, hidden } => {
                let options = SearchOptions { limit, hidden, ..SearchOptions::default() };
                search(tract, &query, heads, &options).await?
            }
            Self::Grep { pattern, heads, regex, ignore_case, word } => {
                let builder = GrepPattern::new().ignore_case(ignore_case).word(word);
                let pattern =
                    if regex { builder.regex(&pattern)? } else { builder.text(&pattern)? };
                grep(tract, pattern, heads).await?
            }
            Self::Usage {} => usage(tract).await?,
            Self::Branches {} => {
                let branches = tract.branches().list().await?;
                let entry = |branch: tract::engine::Branch| {
                    json!({
                        "name": branch.name,
                        "head": branch.head,
                        "checked_out": branch.checked_out,
                    })
                };
                branches.into_iter().map(entry).collect()
            }
            Self::CreateBranch { name, from } => json!(tract.branches().create(&name, from).await?),
            Self::RenameBranch { name, to } => json!(tract.branches().rename(&name, &to).await?),
            Self::DeleteBranch { name } => json!(tract.branches().delete(&name).await?),
            Self::Checkout { name } => json!(tract.checkout(&name).await?.branch_name()),
            Self::Tags {} => {
                let tags = tract.tags().list().await?;
                tags.into_iter().map(|(name, id)| json!({"name": name, "commit": id})).collect()
            }
            Self::CreateTag { name, revision } => {
                json!(tract.tags().create(&name, revision).await?)
            }
            Self::DeleteTags { names } => json!(tract.tags().delete(&names).await?),
            Self::Merge { from } => match tract.merge(from).await? {
                Merged::NothingToMerge => json!({"result": "nothing", "head": tract.head().await?}),
                Merged::FastForward { head } => json!({"result": "fast_forward", "head": head}),
                Merged::Commit(commit) => json!({"result": "merged", "head": commit.id()}),
            },
            Self::CherryPick { commits } => rebased(&tract.cherry_pick(commits).await?),
            Self::Rebase { onto } => rebased(&tract.rebase(onto).await?),
            Self::Drop { commits } => rebased(&tract.drop_commits(commits).await?),
            Self::Reset { to } => json!(tract.reset(to).await?),
            Self::Undo {} => undone(&tract.undo().await?),
            Self::Redo {} => undone(&tract.redo().await?),
            Self::ToolsAt { revision: None } => tools(&tract.tools().in_force().await?),
            Self::ToolsAt { revision: Some(revision) } => tools(&tract.tools().at(revision).await?),
            Self::OwnTools { revision } => tools(&tract.tools().own(revision).await?),
            Self::ToolHistory { name } => {
                let versions = tract.tools().history(&name).await?;
                let entry = |tool: tract::core::ToolDefinition| {
                    json!({
                        "id": tool.id,
                        "name": tool.name,
                        "first": tool.first,
                        "created_at": tool.created_at,
                    })
                };
                versions.into_iter().map(entry).collect()
            }
            Self::ToolDiff { before, after } => {
                tool_diff(&tract.tools().diff(before, after).await?)
            }
            Self::OpenCalls {} => {
                let calls = tract.turns().open_calls().await?;
                calls.iter().map(|call| json!({"id": call.call_id, "name": call.name})).collect()
            }
            Self::Pending {} => pending(tract).await?,
            Self::Approve { id } => decided(&tract.pending().approve(&id).await?),
            Self::Reject { id, reason } => decided(&tract.pending().reject(&id, reason).await?),
            Self::EditPending { id, text } => decided(&tract.pending().edit(&id, text).await?),
            Self::Remotes {} => {
                let remotes = tract.remotes().list().await?;
                let entry = |remote: Remote| {
                    let url = tract::store::hide_passwords(&remote.url).to_string();
                    json!({"name": remote.name, "url": url, "repo": remote.repo})
                };
                remotes.into_iter().map(entry).collect()
            }
            Self::AddRemote { name, url, repo } => {
                tract.remotes().add(Remote { repo, ..Remote::new(name, url) }).await?;
                Value::Null
            }
            Self::RemoveRemote { name } => {
                tract.remotes().remove(&name).await?;
                Value::Null
            }
            Self::Push { remote, branches } => {
                let mut options = PushOptions::default();
                match branches {
                    Some(branches) => options.branches = branches,
                    None => options.all = true,
                }
                let report = {
                    let tract = tract.clone();
                    on_thread(async move || tract.remotes().push(&remote, &options).await).await?
                };
                json!({"commits": report.commits, "refs": transferred(&report.refs)})
            }
            Self::Fetch { remote, pull, pull_all } => {
                let pull = match (pull, pull_all) {
                    (_, true) => PullBranches::All,
                    (Some(names), false) => PullBranches::Named(names),
                    (None, false) => PullBranches::None,
                };
                let options = FetchOptions { pull, ..FetchOptions::default() };
                let report = {
                    let tract = tract.clone();
                    on_thread(async move || tract.remotes().fetch(&remote, &options).await).await?
                };
                json!({
                    "commits": report.commits,
                    "refs": transferred(&report.refs),
                    "branches": transferred(&report.branches),
                })
            }
            Self::CreateBundle { path } => write_bundle(tract, &path).await?,
            Self::ApplyBundle { path } => {
                let file = open_file(&path)?;
                let options = ApplyBundleOptions::default();
                let report = apply_bundle(tract.repo(), file, &options).await?;
                json!({"commits": report.commits, "refs": transferred(&report.refs)})
            }
            Self::ImportText { text, name } => import_text(tract, &text, &name).await?,
            Self::Record(write) => record::record(tract, &write).await?,
            Self::Items(query) => record::items(tract, &query).await?,
            Self::Documents { prefix } => record::documents(tract, &prefix).await?,
            Self::Document { name } => record::document(tract, &name).await?,
            Self::Verify {} => {
                let report = tract.verify().await?;
                let damage: Vec<String> =
                    report.damage.iter().map(|damage| format!("{damage:?}")).collect();
                json!({
                    "clean": report.clean,
                    "commits": report.commits,
                    "blobs": report.blobs,
                    "damage": damage,
                })
            }
            Self::Erase { targets, reason, everywhere, ban } => {
                let mut ids = Vec::with_capacity(targets.len());
                for target in targets {
                    ids.push(EraseTarget::Commit(tract.resolve(target).await?));
                }
                let request = EraseRequest { everywhere, ban, ..EraseRequest::targets(ids, reason) };
                let report = tract.erase(&request).await?;
                json!({
                    "blobs": report.blobs.iter().map(|blob| blob.id).collect::<Vec<_>>(),
                    "shared": report.shared.iter().map(|blob| blob.id).collect::<Vec<_>>(),
                    "edits": report.edits,
                })
            }
        };
        Ok(Outcome::Json(value.to_string()))
    }
}

/// Runs work whose future is not `Send` on a thread of its own. It is not cancelled.
async fn on_thread<T: Send + 'static>(
    work: impl AsyncFnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let runtime = tokio::runtime::Handle::current();
    match tokio::task::spawn_blocking(move || runtime.block_on(work())).await {
        Ok(outcome) => outcome,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

/// Returns commits as a JSON list of `{id, record}`; the record is the canonical text.
fn records(commits: &[Commit]) -> Outcome {
    let entry = |commit: &Commit| {
        format!(r#"{{"id":"{}","record":{}}}"#, commit.id(), commit.record().canonical())
    };
    let entries: Vec<String> = commits.iter().map(entry).collect();
    Outcome::Json(format!("[{}]", entries.join(",")))
}

fn operations(lines: &[String]) -> Result<Vec<StreamOp>> {
    lines.iter().map(|line| Ok(StreamOp::parse(line)?)).collect()
}

async fn commit(tract: &Tract, lines: &[String], expect: Option<Expected>) -> Result<Outcome> {
    let mut drafts: Vec<Draft> = Vec::with_capacity(lines.len());
    for operation in operations(lines)? {
        let draft = operation.into_draft().ok_or_else(|| Error::Invalid {
            message: "this operation adds no message".to_owned(),
            note: Some("`apply` carries out operations of all kinds".to_owned()),
        })?;
        drafts.push(draft);
    }
    let commits = match expect {
        None => tract.commit_all(drafts).await?,
        Some(Expected { head }) => {
            let mut drafts = drafts.into_iter();
            match (drafts.next(), drafts.next()) {
                (Some(draft), None) => vec![tract.commit_on(head, draft).await?],
                _ => {
                    return Err(Error::Invalid {
                        message: "an expected head needs exactly one message".to_owned(),
                        note: None,
                    });
                }
            }
        }
    };
    Ok(records(&commits))
}

/// Returns the heads to search: the given revisions, else the handle's branch.
async fn heads_of(tract: &Tract, revisions: Vec<String>) -> Result<Vec<CommitId>> {
    if revisions.is_empty() {
        return Ok(tract.head().await?.into_iter().collect());
    }
    let mut heads = Vec::with_capacity(revisions.len());
    for revision in revisions {
        heads.push(tract.resolve_position(revision).await?);
    }
    Ok(heads)
}

async fn search(
    tract: &Tract,
    query: &str,
    heads: Vec<String>,
    options: &SearchOptions,
) -> Result<Value> {
    let heads = heads_of(tract, heads).await?;
    let report = tract.search(&heads, query, options).await?;
    let hits = report.hits.into_iter().map(|hit| {
        json!({
            "commit": hit.commit,
            "kind": hit.kind.as_str(),
            "score": hit.score,
            "snippet": hit.snippet.text,
        })
    });
    Ok(hits.collect())
}

async fn grep(tract: &Tract, pattern: GrepPattern, heads: Vec<String>) -> Result<Value> {
    let heads = heads_of(tract, heads).await?;
    let mut grep = tract.grep(&heads, pattern, GrepOptions::default()).await?;
    let mut found = Vec::new();
    while let Some(hits) = grep.next_hits().await? {
        for hit in hits {
            let lines = hit.lines.iter().map(|line| {
                json!({"number": line.number, "text": line.text, "matches": line.matched.is_some()})
            });
            found.push(json!({
                "commit": hit.commit,
                "kind": hit.kind.as_ref().map(Kind::as_str),
                "lines": lines.collect::<Value>(),
            }));
        }
    }
    Ok(Value::Array(found))
}

async fn blame(tract: &Tract, revision: String) -> Result<Value> {
    let head = tract.resolve_position(revision).await?;
    let entries = tract.blame(head).await?;
    let entry = |entry: tract::engine::BlameEntry| {
        let commits = entry.commits.iter().map(|by| {
            json!({
                "commit": by.commit.id(),
                "action": format!("{:?}", by.action).to_lowercase(),
                "created_at": by.commit.record().created_at,
            })
        });
        json!({
            "number": entry.number,
            "slot": entry.slot,
            "version": entry.version,
            "kind": entry.kind.as_ref().map(Kind::as_str),
            "commits": commits.collect::<Value>(),
        })
    };
    Ok(entries.into_iter().map(entry).collect())
}

async fn diff(tract: &Tract, before: String, after: String) -> Result<Value> {
    let diff = tract.diff(before, after).await?;
    let changes = diff.messages.iter().map(|change| match change {
        MessageChange::Added { place, message } => {
            json!({"change": "added", "place": place, "message": message_json(message)})
        }
        MessageChange::Removed { place, message, .. } => {
            json!({"change": "removed", "place": place, "message": message_json(message)})
        }
        MessageChange::Changed { place, before, after, .. } => json!({
            "change": "changed",
            "place": place,
            "before": message_json(before),
            "message": message_json(after),
        }),
    });
    Ok(json!({
        "messages": changes.collect::<Value>(),
        "unchanged": diff.unchanged_count,
        "tools": tool_diff(&diff.tools),
        "tokens": diff.token_counts,
    }))
}

fn message_json(message: &Message) -> Value {
    json!({
        "commit": message.commit,
        "role": message.role.as_str(),
        "kind": message.content.kind().as_str(),
        "text": message.content.text(),
        "tokens": message.token_count,
    })
}

fn tool_diff(diff: &ToolDiff) -> Value {
    let changes = diff.changes.iter().map(|change| match change {
        ToolChange::Added { tool } => json!({"change": "added", "name": tool.name}),
        ToolChange::Removed { tool } => json!({"change": "removed", "name": tool.name}),
        ToolChange::Changed { name, changes, .. } => {
            json!({"change": "changed", "name": name, "changes": changes})
        }
        ToolChange::Respelled { after, .. } => json!({"change": "respelled", "name": after.name}),
    });
    json!({
        "changes": changes.collect::<Value>(),
        "unchanged": diff.unchanged_count,
        "reordered": diff.reordered,
    })
}

fn tools(tools: &[tract::core::ActiveTool]) -> Value {
    let entry = |tool: &tract::core::ActiveTool| json!({"name": tool.name, "id": tool.id, "schema": &*tool.schema});
    tools.iter().map(entry).collect()
}

async fn usage(tract: &Tract) -> Result<Value> {
    let answers = tract::import::usage(tract.repo()).await?;
    let entry = |answer: &tract::import::AnswerUsage| {
        json!({
            "branch": answer.branch,
            "model": answer.model,
            "at": answer.at,
            "requests": answer.requests,
            "tokens": answer.tokens,
        })
    };
    Ok(answers.iter().map(entry).collect())
}

async fn pending(tract: &Tract) -> Result<Value> {
    let entries = tract.pending().list().await?;
    let entry = |entry: tract::engine::Pending| {
        json!({
            "id": entry.id,
            "event": entry.event,
            "branch": entry.branch.branch_name(),
            "handler": entry.handler,
            "reason": entry.reason,
            "created_at": entry.created_at_us,
        })
    };
    Ok(entries.into_iter().map(entry).collect())
}

fn decided(decision: &RecordedDecision) -> Value {
    json!({
        "id": decision.id,
        "branch": decision.branch.branch_name(),
        "commit": decision.commit,
    })
}

fn undone(report: &UndoReport) -> Value {
    let moves = report.moves.iter().map(|moved| {
        let text = |target: &Option<tract::RefTarget>| target.as_ref().map(ToString::to_string);
        json!({
            "name": moved.name.as_str(),
            "before": text(&moved.before),
            "after": text(&moved.after),
        })
    });
    json!({"what": report.what, "moves": moves.collect::<Value>()})
}

fn rebased(rebased: &tract::engine::Rebased) -> Value {
    json!({
        "before": rebased.before,
        "head": rebased.head,
        "commits": rebased.made.iter().map(|(_, id)| *id).collect::<Vec<_>>(),
        "left_out": rebased.left_out,
    })
}

fn transferred(refs: &[TransferredRef]) -> Value {
    let entry = |at: &TransferredRef| {
        json!({
            "name": at.name.as_str(),
            "to": at.to.as_ref().map(ToString::to_string),
            "status": at.status.word(),
        })
    };
    refs.iter().map(entry).collect()
}

fn file_error(path: &str, error: &std::io::Error) -> Error {
    Error::Invalid { message: format!("{path}: {error}"), note: None }
}

fn open_file(path: &str) -> Result<File> {
    File::open(path).map_err(|error| file_error(path, &error))
}

async fn write_bundle(tract: &Tract, path: &str) -> Result<Value> {
    let mut lines = create_bundle(tract.repo(), &BundleOptions::default()).await?;
    // A new file: an existing one is not overwritten.
    let file = File::create_new(path).map_err(|error| file_error(path, &error))?;
    let mut file = std::io::BufWriter::new(file);
    while let Some(line) = lines.next_line().await? {
        writeln!(file, "{line}").map_err(|error| file_error(path, &error))?;
    }
    let file = file.into_inner().map_err(|error| file_error(path, error.error()))?;
    file.sync_all().map_err(|error| file_error(path, &error))?;
    Ok(json!({"commits": lines.commits(), "refs": lines.refs()}))
}

async fn import_text(tract: &Tract, text: &str, name: &str) -> Result<Value> {
    let read = tract::import::read(text, None, name)?;
    let mut importer = Importer::new(tract.repo(), ImportOptions::default())?;
    let mut imported = importer.add(read.conversation).await?;
    imported.extend(importer.finish().await?);
    let entry = |at: &tract::import::Imported| json!({"branch": at.branch, "head": at.head});
    let anomalies: Vec<String> = read.anomalies.iter().map(|at| format!("{at:?}")).collect();
    Ok(json!({
        "branches": imported.iter().map(entry).collect::<Value>(),
        "anomalies": anomalies,
    }))
}
