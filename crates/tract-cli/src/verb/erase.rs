//! `tract erase` and `tract redact`

use std::io::{self, BufRead, IsTerminal};

use clap::Args;
use serde::Serialize;
use tract::Tract;
use tract::core::{IdPrefix, ObjectId};
use tract::engine::secrets::Scanner;
use tract::engine::{ErasePlace, EraseReport, EraseRequest, EraseTarget, ErasedBlob, Erasure};
use tract::store::WipeReport;

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render::{bytes, count};
use crate::style::{BOLD, ID, REF, Styled};
use crate::verb::import::forget_cache;

/// Delete the text of a message for good, on every branch.
///
/// Lists every message of every branch that has the same content, and asks. Then each branch that
/// shows the message gets an edit to `[erased: REASON]`, all versions of it are deleted, and an
/// erasure is recorded: compiling an older head that needs them is an error that names it, `verify`
/// counts them as erased, and copies, pushes and pulls carry the erasure. Finally the files of the
/// store are wiped. `undo` moves branches back but does not restore the bytes.
///
/// Bytes that another message has too stay, and are reported; --everywhere erases the text in every
/// message that has or quotes it. The same bytes can be stored again later, unless --ban is given.
#[derive(Debug, Args)]
#[command(after_help = "\
Commits stay, with their ids. Text in a commit's own record (its log line, its metadata) or in the
ref log cannot be removed and is listed: delete the branch and run `tract gc`, or copy the other
branches to a new store. Copies, exports and backups that were made before still have the bytes.
On PostgreSQL the role must own the tables, and the server's write-ahead log keeps the bytes for a
while; a note says so.
Examples:
  tract erase main~2 --reason 'leaked key' --dry-run    lists the places
  tract erase main~2 --reason 'leaked key' --yes
  tract erase main~2 --reason 'leaked key' --everywhere also where other messages have the text
  tract erase 3f2a9c --reason 'asked for by a user'     a blob, by the digits of its id
  tract erase --list                                    past erasures, and pending ones
  tract erase --lift 3f2a9c                             allows banned bytes again
  tract erase --finish                                  wipes the files again, as after a crash")]
pub(crate) struct Erase {
    /// What to erase: revisions, or ids of blobs.
    #[arg(value_name = "REV|BLOB", required_unless_present_any = ["list", "finish", "lift"])]
    targets: Vec<String>,
    /// Record this reason, which messages show too.
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["list", "finish", "lift"])]
    reason: Option<String>,
    /// Erase the text in every message that has or quotes it, not only in the named ones.
    #[arg(long)]
    everywhere: bool,
    /// Refuse the same bytes when they are stored again, in this store.
    #[arg(long)]
    ban: bool,
    /// List the places, and erase nothing.
    #[arg(long)]
    dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// List what was erased, and the erasures from other stores that wait for confirmation.
    #[arg(long, conflicts_with_all = ["targets", "reason", "dry_run", "yes", "finish", "lift"])]
    list: bool,
    /// Wipe the files of the store once more; nothing else is erased.
    #[arg(long, conflicts_with_all = ["targets", "reason", "dry_run", "yes", "lift"])]
    finish: bool,
    /// Let banned bytes be stored again, or discard a pending erasure; may be given several times.
    #[arg(
        long,
        value_name = "BLOB",
        conflicts_with_all = ["targets", "reason", "dry_run", "yes", "everywhere", "ban"]
    )]
    lift: Vec<String>,
}

impl Erase {
    /// Returns whether the command writes.
    pub(crate) fn writes(&self) -> bool {
        !self.dry_run && !self.list
    }
}

/// Replace keys and passwords by marks, everywhere in the repository.
///
/// Finds secrets by patterns of high precision: keys of well-known services, private keys,
/// passwords in urls, `Authorization` headers, and random-looking values of names such as
/// `api_key`. Each becomes `[redacted:KIND:HASH]` where a branch shows it, and the bytes are
/// deleted as `tract erase` does. Signatures and encrypted content of providers are left as they
/// are.
#[derive(Debug, Args)]
#[command(after_help = "\
Revoke a leaked key where it was issued first; then redact it.
Examples:
  tract redact --dry-run                     lists what it found, by kind and place
  tract redact --yes
  tract redact --pattern 'ACME-[0-9]{8}'     a pattern of your own, and nothing else
  tract redact --secrets --pattern 'Jane Doe'
  tract redact --all                         every repository of the store")]
pub(crate) struct Redact {
    /// Search for secrets; this is so unless --pattern is given.
    #[arg(long)]
    secrets: bool,
    /// Search for a regular expression; its first group is what is replaced. May be given several
    /// times.
    #[arg(long, value_name = "REGEX")]
    pattern: Vec<String>,
    /// Redact in every repository of the store.
    #[arg(long)]
    all: bool,
    /// Record this reason.
    #[arg(long, value_name = "TEXT", default_value = "redacted")]
    reason: String,
    /// List the places, and redact nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    repo: &'a str,
    dry_run: bool,
    blobs: Vec<BlobLine>,
    shared: Vec<BlobLine>,
    places: Vec<PlaceLine>,
    edits: usize,
    wiped: Option<bool>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct BlobLine {
    id: String,
    bytes: u64,
    kinds: Vec<&'static str>,
}

#[derive(Serialize)]
struct PlaceLine {
    kind: &'static str,
    commit: Option<String>,
    name: Option<String>,
    branches: Vec<String>,
    other: bool,
    unreferenced: bool,
    stays: bool,
}

#[derive(Serialize)]
struct ErasureLine<'a> {
    blob: String,
    reason: &'a str,
    who: &'a str,
    at: Option<String>,
    bytes: u64,
    banned: bool,
    pending: bool,
}

pub(crate) async fn erase(context: &mut Context<'_>, args: Erase) -> Outcome<()> {
    let tract = context.open().await?;
    if args.list {
        return list(context, &tract).await;
    }
    if args.finish {
        let wiped = tract.finish_erasures().await?;
        return finished(context, &wiped);
    }
    if !args.lift.is_empty() {
        return lift(context, &tract, &args.lift).await;
    }
    let mut targets = Vec::with_capacity(args.targets.len());
    for target in &args.targets {
        targets.push(find(&tract, target).await?);
    }
    let request = EraseRequest {
        everywhere: args.everywhere,
        ban: args.ban,
        ..EraseRequest::targets(targets, args.reason.unwrap_or_default())
    };
    carry_out(context, &tract, request, args.dry_run, args.yes).await
}

pub(crate) async fn redact(context: &mut Context<'_>, args: Redact) -> Outcome<()> {
    let mut scanner = if args.secrets || args.pattern.is_empty() {
        Scanner::builtin().clone()
    } else {
        Scanner::empty()
    };
    for pattern in &args.pattern {
        scanner = scanner
            .with_pattern(pattern)
            .map_err(|error| Failure::no("bad_pattern", error.to_string()))?;
    }
    let store = context.open_named_store().await?;
    for repo in context.repos(&store, args.all).await? {
        context.global.repo = repo.as_str().to_owned();
        let tract = context.open_repo(store.clone(), false).await?;
        let request =
            EraseRequest { reason: args.reason.clone(), ..EraseRequest::secrets(scanner.clone()) };
        carry_out(context, &tract, request, args.dry_run, args.yes).await?;
    }
    Ok(())
}

/// Finds a commit, or a blob by the first digits of its id.
async fn find(tract: &Tract, text: &str) -> Outcome<EraseTarget> {
    let unknown = match tract.resolve(text).await {
        Ok(commit) => return Ok(EraseTarget::Commit(commit)),
        Err(error) if error.code() == "unknown_revision" => error,
        Err(error) => return Err(error.into()),
    };
    let Some(prefix) = IdPrefix::new(text) else { return Err(unknown.into()) };
    let found = tract.store().resolve_prefix(tract.repo().name(), &prefix, 21).await?;
    let blobs: Vec<_> = found
        .into_iter()
        .filter_map(|object| match object {
            ObjectId::Blob(id) => Some(id),
            ObjectId::Commit(_) | ObjectId::Toolset(_) | ObjectId::Tool(_) => None,
        })
        .collect();
    match blobs.as_slice() {
        [blob] => Ok(EraseTarget::Blob(*blob)),
        // Its bytes may be left in the files of the store.
        [] => match tract.erasures().await?.keys().find(|id| id.to_hex().starts_with(text)) {
            Some(erased) => Ok(EraseTarget::Blob(*erased)),
            None => Err(unknown.into()),
        },
        several => {
            let message = format!("ambiguous blob {text:?}: {} start with it", several.len());
            Err(Failure::no("ambiguous_revision", message).note("more digits tell them apart"))
        }
    }
}

async fn carry_out(
    context: &mut Context<'_>,
    tract: &Tract,
    request: EraseRequest,
    dry_run: bool,
    yes: bool,
) -> Outcome<()> {
    // All messages with the content are listed before anything is deleted.
    let preview = tract.erase(&EraseRequest { dry_run: true, ..request.clone() }).await?;
    if dry_run {
        return report(context, &preview, true);
    }
    // Finishing an earlier erasure needs no confirmation.
    if yes || preview.is_empty() {
        places(context, &preview)?;
    } else {
        if context.out.is_json() || !io::stdin().is_terminal() {
            let found = count(preview.blobs.len(), "blob");
            return Err(Failure::usage(format!("{found} would be deleted for good"))
                .note("--yes goes ahead without asking; --dry-run lists the places"));
        }
        report(context, &preview, true)?;
        context.out.say("delete these bytes for good? type yes");
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        if read.is_err() || answer.trim() != "yes" {
            return Err(Failure::no("not_confirmed", "nothing was erased"));
        }
    }
    // The cache contains titles of sessions, which may be the erased content.
    forget_cache(&context.url()?, &context.global.repo);
    let done = tract.erase(&request).await?;
    report(context, &done, false)?;
    match done.wiped {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::from(tract::Error::from(error)).note(
            "the messages are erased, and the files may still have the bytes: \
             `tract erase --finish` wipes them",
        )),
    }
}

/// Lists the messages that lose the bytes, and those that contain them too and keep them.
fn places(context: &mut Context<'_>, report: &EraseReport) -> Outcome<()> {
    if context.out.is_json() {
        return Ok(());
    }
    for place in report.places.iter().filter(|place| !place.stays()) {
        context.out.line(format_args!("  {}", described(place)))?;
    }
    let others: Vec<String> = report.others().map(described).collect();
    if !others.is_empty() {
        let title = "other messages have the same text, and keep it:";
        context.out.line(format_args!("{}", Styled(BOLD, title)))?;
        for place in others {
            context.out.line(format_args!("  {place}"))?;
        }
    }
    Ok(())
}

fn report(context: &mut Context<'_>, report: &EraseReport, dry_run: bool) -> Outcome<()> {
    if context.out.is_json() {
        let repo = context.global.repo.clone();
        return context.out.json(&document(&repo, report, dry_run));
    }
    if dry_run {
        places(context, report)?;
    }
    if report.was_erased {
        context.out.line("nothing to erase: it was erased already")?;
    } else if report.is_empty() {
        context.out.line("nothing to erase")?;
    } else {
        erased(context, report, dry_run)?;
    }
    let remaining: Vec<String> = report.remaining().map(described).collect();
    if !remaining.is_empty() {
        context.out.line(format_args!("{}", Styled(BOLD, "stays, and cannot be taken out:")))?;
        for place in remaining {
            context.out.line(format_args!("  {place}"))?;
        }
    }
    for note in notes(report) {
        context.out.say(format!("  note: {note}"));
    }
    Ok(())
}

/// Prints the deleted blobs with the kinds of their secrets, and the blobs that stay.
fn erased(context: &mut Context<'_>, report: &EraseReport, dry_run: bool) -> Outcome<()> {
    let size: u64 = report.blobs.iter().map(|blob| blob.bytes).sum();
    let verb = if dry_run { "would erase" } else { "erased" };
    let counted = count(report.blobs.len(), "blob");
    context.out.line(format_args!("{} {counted}, {}", Styled(BOLD, verb), bytes(size)))?;
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for kind in report.blobs.iter().flat_map(|blob| &blob.kinds) {
        match kinds.iter_mut().find(|(known, _)| *known == kind.as_str()) {
            Some((_, times)) => *times += 1,
            None => kinds.push((kind.as_str(), 1)),
        }
    }
    kinds.sort_unstable();
    for (kind, times) in kinds {
        context.out.line(format_args!("  {times} × {kind}"))?;
    }
    if !report.shared.is_empty() {
        let shared = count(report.shared.len(), "blob");
        context.out.line(format_args!("kept {shared} that other messages have too"))?;
    }
    if report.others().next().is_some() {
        context.out.say("  note: --everywhere erases the text in those messages too");
    }
    Ok(())
}

fn notes(report: &EraseReport) -> Vec<String> {
    report.wiped.as_ref().map(|wiped| wiped.notes()).unwrap_or_default()
}

fn described(place: &ErasePlace) -> String {
    let mut out = place.kind.as_str().to_owned();
    if let Some(commit) = place.commit {
        out.push_str(&format!(" {}", Styled(ID, commit.short())));
    }
    if let Some(name) = &place.name {
        out.push_str(&format!(" {}", escape::line(name)));
    }
    if !place.branches.is_empty() {
        let branches = escape::line(&place.branches.join(", ")).to_string();
        out.push_str(&format!(" on {}", Styled(REF, branches)));
    }
    if place.unreferenced {
        out.push_str(" on no branch: undone, or of a deleted branch");
    }
    out
}

fn document<'a>(repo: &'a str, report: &EraseReport, dry_run: bool) -> Document<'a> {
    let line = |blob: &ErasedBlob| BlobLine {
        id: blob.id.to_hex(),
        bytes: blob.bytes,
        kinds: blob.kinds.iter().map(|kind| kind.as_str()).collect(),
    };
    let places = report.places.iter().map(|place| PlaceLine {
        kind: place.kind.as_str(),
        commit: place.commit.map(|commit| commit.to_hex()),
        name: place.name.clone(),
        branches: place.branches.clone(),
        other: place.other,
        unreferenced: place.unreferenced,
        stays: place.stays(),
    });
    Document {
        repo,
        dry_run,
        blobs: report.blobs.iter().map(line).collect(),
        shared: report.shared.iter().map(line).collect(),
        places: places.collect(),
        edits: report.edits,
        wiped: (!dry_run && (report.was_erased || !report.blobs.is_empty()))
            .then_some(report.wiped.is_ok()),
        notes: notes(report),
    }
}

async fn list(context: &mut Context<'_>, tract: &Tract) -> Outcome<()> {
    let done = tract.erasures().await?.into_values().map(|erasure| (erasure, false));
    let pending = tract.pending_erasures().await?.into_values().map(|erasure| (erasure, true));
    let erasures: Vec<(Erasure, bool)> = done.chain(pending).collect();
    if context.out.is_json() {
        let lines: Vec<ErasureLine<'_>> = erasures
            .iter()
            .map(|(erasure, pending)| ErasureLine {
                blob: erasure.blob.to_hex(),
                reason: &erasure.reason,
                who: &erasure.who,
                at: tract::core::time::format_rfc3339(erasure.at_us),
                bytes: erasure.bytes,
                banned: erasure.ban,
                pending: *pending,
            })
            .collect();
        return context.out.json(&lines);
    }
    for (erasure, pending) in erasures {
        if !pending {
            context.out.line(escape::line(&erasure.to_string()))?;
            continue;
        }
        let (text, id) = (erasure.to_string(), erasure.blob.short());
        context.out.line(format_args!("pending: {}, in another store", escape::line(&text)))?;
        context.out.say(format_args!(
            "  note: messages here have the same bytes; tract erase {id} --everywhere --reason TEXT \
             erases them, tract erase --lift {id} discards this"
        ));
    }
    Ok(())
}

/// Lifts bans and discards pending erasures, by the first digits of their blobs.
async fn lift(context: &mut Context<'_>, tract: &Tract, blobs: &[String]) -> Outcome<()> {
    let mut known = tract.erasures().await?;
    known.extend(tract.pending_erasures().await?);
    for text in blobs {
        let matching: Vec<&Erasure> =
            known.values().filter(|erasure| erasure.blob.to_hex().starts_with(text)).collect();
        let [erasure] = matching.as_slice() else {
            let message = match matching.len() {
                0 => format!("no erasure of a blob {text:?}"),
                several => format!("ambiguous blob {text:?}: {several} start with it"),
            };
            return Err(
                Failure::no("unknown_erasure", message).note("`tract erase --list` lists them")
            );
        };
        let blob = erasure.blob;
        let lifted = tract.lift_erasure(blob).await?;
        if context.out.is_json() {
            let line = serde_json::json!({ "blob": blob.to_hex(), "lifted": lifted });
            context.out.json(&line)?;
        } else if lifted {
            context.out.line(format_args!("lifted {}: it can be stored", blob.short()))?;
        } else {
            context.out.line(format_args!("{} is not banned", blob.short()))?;
        }
    }
    Ok(())
}

fn finished(context: &mut Context<'_>, wiped: &WipeReport) -> Outcome<()> {
    if context.out.is_json() {
        return context.out.json(&serde_json::json!({ "wiped": true, "notes": wiped.notes() }));
    }
    context.out.line("wiped: no file of the store has deleted bytes that the store can reach")?;
    for note in wiped.notes() {
        context.out.say(format!("  note: {note}"));
    }
    Ok(())
}
