//! Verbs that delete, erase and check.

use std::sync::PoisonError;
use std::time::Duration;

use tract_engine::secrets::Scanner;
use tract_engine::{
    ErasePlace, EraseReport, EraseRequest, EraseTarget, GcOptions, PruneOptions, VerifyOptions,
};

use super::super::session::{Acknowledged, Outcome, Session};
use super::super::watch::Invariant;
use super::super::world::StoredWord;

pub(super) async fn gc(session: &mut Session<'_>) -> Outcome {
    let keep = Duration::from_millis(session.random.below(20) as u64);
    tract_engine::gc(&session.repo, &GcOptions { keep, ..GcOptions::default() }).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn gc_now(session: &mut Session<'_>) -> Outcome {
    tract_engine::gc(&session.repo, &GcOptions { keep: Duration::ZERO, ..GcOptions::default() })
        .await?;
    Ok(Acknowledged::default())
}

pub(super) async fn prune(session: &mut Session<'_>) -> Outcome {
    let age = Duration::from_millis(session.random.below(20) as u64);
    tract_engine::prune(&session.repo, &PruneOptions::new(age)).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn erase(session: &mut Session<'_>) -> Outcome {
    let branch = session.branch();
    let target = session.message_of(&branch).await?;
    let content = session.repo.content_of(target).await.ok();
    let request = EraseRequest::targets(vec![EraseTarget::Commit(target)], "simulation");
    let report = tract_engine::erase(&session.repo, &request).await?;
    // The unique word of the message.
    let text = content.map(|content| content.text()).unwrap_or_default();
    if let Some(word) = text.split(' ').nth(1)
        // Of a message that shows the mark of an erasure, other versions are erased; the mark stays.
        && !text.starts_with("[erased: ")
        && !report.blobs.is_empty()
        && report.shared.is_empty()
    {
        let word = StoredWord { store: session.store, word: word.to_owned() };
        erased(session, vec![word], &report);
    }
    Ok(Acknowledged::default())
}

/// Records words that an erasure deleted everywhere.
fn erased(session: &Session<'_>, words: Vec<StoredWord>, report: &EraseReport) {
    if report.wiped.is_ok() && !report.places.iter().any(ErasePlace::stays) {
        let mut erased = session.world.erased.lock().unwrap_or_else(PoisonError::into_inner);
        erased.extend(words);
    }
}

pub(super) async fn redact(session: &mut Session<'_>) -> Outcome {
    let mut secrets = {
        let secrets = session.world.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.clone()
    };
    secrets.retain(|secret| secret.store == session.store);
    let request = EraseRequest::secrets(Scanner::builtin().clone());
    let report = tract_engine::erase(&session.repo, &request).await?;
    erased(session, secrets, &report);
    Ok(Acknowledged::default())
}

pub(super) async fn repack(session: &mut Session<'_>) -> Outcome {
    tract_engine::repack(&session.repo, None).await?;
    Ok(Acknowledged::default())
}

pub(super) async fn verify(session: &mut Session<'_>) -> Outcome {
    let report = tract_engine::verify(&session.repo, &VerifyOptions::default()).await?;
    if let Some(damage) = report.damage.first() {
        session.world.report(Invariant::Verify, format!("{:?}: {}", damage.object, damage.what));
    }
    Ok(Acknowledged::default())
}
