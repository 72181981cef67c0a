//! Verbs that import data, and that copy it between stores.

use std::io::Cursor;
use std::sync::PoisonError;
use std::time::Duration;

use tract_core::Draft;
use tract_engine::{
    ApplyBundleOptions, ApplyOptions, Attempts, BundleOptions, CopyOptions, Error, ExportOptions,
    FetchOptions, ImportConversation, ImportOptions, Imported, Importer, PullBranches, PushOptions,
    Repo, apply_bundle, apply_stream, read_lines,
};

use super::super::session::{Acknowledged, Outcome, Session};

/// Makes one of several versions of a conversation. Some versions share a prefix, also with the
/// initial conversations of a schedule.
fn conversation(session: &mut Session<'_>) -> (String, Vec<Draft>) {
    let id = format!("c{}", session.random.below(3));
    let (version, length) = (session.random.below(2), 1 + session.random.below(4));
    let shared = session.random.below(3);
    let mut drafts: Vec<Draft> = (0..length).map(|at| imported(&id, version, at)).collect();
    for (at, draft) in drafts.iter_mut().take(shared).enumerate() {
        *draft = imported("shared", 0, at);
    }
    (id, drafts)
}

/// Makes a message of a conversation.
pub(in super::super) fn imported(id: &str, version: usize, at: usize) -> Draft {
    Draft::user(format!("alpha {id}x{version}y{at}"))
}

fn acknowledged(done: &[Imported]) -> Acknowledged {
    let heads = done.iter().filter_map(|one| Some((one.status, one.head?)));
    let mut acknowledged = Acknowledged::default();
    for (status, head) in heads {
        match status {
            tract_engine::ImportStatus::Diverged => acknowledged.stored.push(head),
            _ => acknowledged.commits.push(head),
        }
    }
    acknowledged
}

pub(super) async fn import(session: &mut Session<'_>) -> Outcome {
    let mut importer = Importer::new(&session.repo, ImportOptions::default())?;
    let mut done = Vec::new();
    for _ in 0..1 + session.random.below(2) {
        let (id, drafts) = conversation(session);
        done.extend(importer.add(ImportConversation::new(id, drafts)).await?);
    }
    done.extend(importer.finish().await?);
    Ok(acknowledged(&done))
}

pub(super) async fn import_large(session: &mut Session<'_>) -> Outcome {
    let options = ImportOptions { group_bytes: 1, ..ImportOptions::default() };
    let mut importer = Importer::new(&session.repo, options)?;
    let (id, drafts) = conversation(session);
    let mut drafts = drafts.into_iter();
    let next = || Ok::<_, Error>(drafts.next());
    let mut done = importer.add_large(id, &[], None, next).await?;
    done.extend(importer.finish().await?);
    Ok(acknowledged(&done))
}

async fn apply_lines(session: &mut Session<'_>, atomic: bool) -> Outcome {
    let branch = session.branch();
    let mut lines = String::new();
    for _ in 0..1 + session.random.below(3) {
        lines.push_str(&format!("{{\"op\":\"user\",\"text\":\"{}\"}}\n", session.text()));
    }
    let mut options = ApplyOptions { branch: Some(branch), atomic, ..ApplyOptions::default() };
    if atomic && session.random.chance(50) {
        // Objects are stored before the refs move, as with a long stream.
        options.hold_bytes = Some(1);
    }
    let mut commits = Vec::new();
    let mut refused = None;
    // Some streams are slow.
    let pause = if session.random.chance(30) { session.random.below(180) as u64 } else { 0 };
    let clock = &session.world.clock;
    let lines = read_lines(Cursor::new(lines.into_bytes()))
        .inspect(|_| clock.advance(Duration::from_secs(pause)));
    apply_stream(&session.repo, lines, &options, |event| match event.result {
        Ok(commit) => commits.extend(commit),
        Err(error) => refused = Some(error),
    })
    .await?;
    match refused {
        Some(tract_engine::LineError::Engine(error)) => Err(error),
        _ => Ok(Acknowledged::commits(commits)),
    }
}

pub(super) async fn apply(session: &mut Session<'_>) -> Outcome {
    apply_lines(session, false).await
}

pub(super) async fn apply_atomic(session: &mut Session<'_>) -> Outcome {
    apply_lines(session, true).await
}

fn keep_file(session: &Session<'_>, lines: &str) {
    let mut files = session.world.files.lock().unwrap_or_else(PoisonError::into_inner);
    files.push(lines.as_bytes().to_vec());
}

/// Collects the lines of an export. Like the command line, it starts over if another client deleted
/// objects that it was about to read.
async fn keep_lines(
    session: &Session<'_>,
    read: impl AsyncFn(&Repo) -> Result<String, Error>,
) -> Outcome {
    let mut attempts = Attempts::new(&session.repo);
    loop {
        match read(&session.repo).await {
            Ok(lines) => {
                keep_file(session, &lines);
                return Ok(Acknowledged::default());
            }
            // Erased content cannot be exported, however often the export starts over.
            Err(error @ Error::Erased(_)) => return Err(error),
            Err(error) => attempts.again(error).await?,
        }
    }
}

pub(super) async fn export(session: &mut Session<'_>) -> Outcome {
    keep_lines(session, async |repo: &Repo| {
        let mut export = tract_engine::export(repo, &ExportOptions::default()).await?;
        let mut lines = String::new();
        while let Some(line) = export.next_line().await? {
            lines.push_str(&line);
            lines.push('\n');
        }
        Ok(lines)
    })
    .await
}

pub(super) async fn create_bundle(session: &mut Session<'_>) -> Outcome {
    keep_lines(session, async |repo: &Repo| {
        let mut bundle = tract_engine::create_bundle(repo, &BundleOptions::default()).await?;
        let mut lines = String::new();
        while let Some(line) = bundle.next_line().await? {
            lines.push_str(&line);
            lines.push('\n');
        }
        Ok(lines)
    })
    .await
}

pub(super) async fn apply_file(session: &mut Session<'_>) -> Outcome {
    let file = {
        let files = session.world.files.lock().unwrap_or_else(PoisonError::into_inner);
        session.random.choose(&files).cloned()
    };
    let Some(file) = file else { return Ok(Acknowledged::default()) };
    if file.starts_with(b"{\"op\":\"bundle\"") {
        apply_bundle(&session.repo, Cursor::new(file), &ApplyBundleOptions::default()).await?;
    } else {
        let lines = read_lines(Cursor::new(file));
        let options = ApplyOptions { keep_going: true, ..ApplyOptions::default() };
        apply_stream(&session.repo, lines, &options, |_| {}).await?;
    }
    Ok(Acknowledged::default())
}

/// Opens the other store.
fn other(session: &Session<'_>) -> Repo {
    session.world.open(1 - session.store, "remote")
}

pub(super) async fn push(session: &mut Session<'_>) -> Outcome {
    let options = PushOptions { all: true, ..PushOptions::default() };
    tract_engine::push(&session.repo, &other(session), "origin", &options).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn fetch(session: &mut Session<'_>) -> Outcome {
    let options = FetchOptions { prune: session.random.chance(30), ..FetchOptions::default() };
    tract_engine::fetch(&session.repo, &other(session), "origin", &options).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn pull(session: &mut Session<'_>) -> Outcome {
    let options = FetchOptions { pull: PullBranches::All, ..FetchOptions::default() };
    tract_engine::fetch(&session.repo, &other(session), "origin", &options).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn copy(session: &mut Session<'_>) -> Outcome {
    tract_engine::copy(&session.repo, &other(session), &CopyOptions::default()).await?;
    Ok(Acknowledged::default())
}
