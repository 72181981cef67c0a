use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tract_core::store::{StoreError, StoreErrorKind};
use tract_record::{Reason, RecorderOptions, last_report};
use tract_testkit::{Call, WatchedStore};

use crate::support::{Answer, Bench, anthropic_request, anthropic_stream, memory_repo, stream};

/// Sends the beginning of a conversation and what follows it, and expects both answers.
async fn two_turns(bench: &Bench) {
    for texts in [&["first"][..], &["first", "One.", "second"]] {
        let got = bench.record("/v1/messages", &[], &anthropic_request(texts)).await;
        assert_eq!(got.start, "HTTP/1.1 200 OK");
        assert!(got.is_whole && got.body.ends_with(b"\"message_stop\"}\n\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_counted_and_harms_no_request() {
    let full = WatchedStore::new(Arc::new(tract_kv::memory()), |call: Call<'_>| match call {
        Call::Apply { .. } => {
            Err(StoreError::new(StoreErrorKind::Engine, "full", "apply", "no space left"))
        }
        _ => Ok(()),
    });
    let bench = Bench::over(Arc::new(full), [stream("One."), stream("Two.")]).await;
    two_turns(&bench).await;
    let report = bench.finish().await;
    assert_eq!(report.recorded, 0);
    assert_eq!(report.not_recorded, [(Reason::StoreFailed, 2)].into());
    assert!(report.last_error.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_recovers_gets_what_it_missed() {
    let tries = AtomicUsize::new(0);
    let locked =
        WatchedStore::new(Arc::new(tract_kv::memory()), move |call: Call<'_>| match call {
            Call::Apply { .. } if tries.fetch_add(1, Ordering::SeqCst) == 0 => {
                Err(StoreError::new(StoreErrorKind::Unavailable, "locked", "apply", "busy"))
            }
            _ => Ok(()),
        });
    let bench = Bench::over(Arc::new(locked), [stream("One."), stream("Two.")]).await;
    two_turns(&bench).await;
    let texts = bench.texts(&bench.only_branch().await).await;
    assert_eq!(texts, ["Be brief.", "first", "One.", "second", "Two."]);
    let repo = bench.repo.clone();
    let report = bench.finish().await;
    assert_eq!((report.recorded, report.lost()), (1, 1));
    assert_eq!(last_report(&repo).await.unwrap(), Some(report));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorder_that_panics_continues_with_the_next_exchange() {
    let tries = AtomicUsize::new(0);
    let broken = WatchedStore::new(Arc::new(tract_kv::memory()), move |call: Call<'_>| {
        let is_first =
            matches!(call, Call::Apply { .. }) && tries.fetch_add(1, Ordering::SeqCst) == 0;
        assert!(!is_first, "a defect, as a test has it");
        Ok(())
    });
    let bench = Bench::over(Arc::new(broken), [stream("One."), stream("Two.")]).await;
    two_turns(&bench).await;
    let report = bench.finish().await;
    assert_eq!(report.recorded, 1, "{report:?}");
    assert_eq!(report.not_recorded, [(Reason::RecorderFailed, 1)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn traffic_over_the_memory_limit_passes_and_is_counted() {
    let options = RecorderOptions { budget_bytes: 4000, ..RecorderOptions::default() };
    let large = "x".repeat(10_000);
    let bench =
        Bench::with(memory_repo(), &options, [stream("One."), stream(&large), stream("Two.")]);
    let bench = bench.await;
    let got = bench.post("/v1/messages", &anthropic_request(&[&large])).await;
    assert!(got.is_whole, "the request is too large for a copy");
    assert_eq!(bench.server.got()[0].body.len(), anthropic_request(&[&large]).len());
    let got = bench.post("/v1/messages", &anthropic_request(&["first"])).await;
    assert_eq!(got.body.len(), anthropic_stream(&large).len(), "the response is");
    bench.settle().await;
    let got = bench.post("/v1/messages", &anthropic_request(&["first"])).await;
    assert!(got.is_whole);
    let report = bench.settle().await;
    assert_eq!(report.not_recorded, [(Reason::OverBudget, 2)].into());
    assert_eq!(report.recorded, 1, "the memory comes back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_store_drops_recordings_and_no_request() {
    let (sender, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(Some(gate));
    let slow = WatchedStore::new(Arc::new(tract_kv::memory()), move |call: Call<'_>| {
        if matches!(call, Call::Apply { .. })
            && let Some(gate) = gate.lock().unwrap().take()
        {
            // Until the other side is dropped.
            let _ = gate.recv();
        }
        Ok(())
    });
    let repo = tract_engine::Repo::new(Arc::new(slow), tract_engine::RepoOptions::default());
    let options = RecorderOptions { queue_exchanges: 2, ..RecorderOptions::default() };
    let bench = Bench::with(repo, &options, [stream("One.")]).await;
    for n in 0..10 {
        let got = bench.post("/v1/messages", &anthropic_request(&[&format!("first {n}")])).await;
        assert!(got.is_whole);
    }
    let report = bench.recorder.report();
    assert_eq!(report.recorded, 0);
    drop(sender);
    let report = bench.settle().await;
    let dropped = report.not_recorded[&Reason::QueueFull];
    assert!((7..=8).contains(&dropped), "{report:?}");
    assert_eq!(report.recorded + dropped, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_in_mid_stream_leaves_what_came() {
    let whole = anthropic_stream("What came of it.");
    let middle = whole.find("event: content_block_stop").unwrap();
    let answer = Answer::new("text/event-stream", whole).chunk(50).hang_at(middle);
    let bench = Bench::new([answer]).await;
    let mut stream = bench.connect().await;
    let body = anthropic_request(&["first"]);
    stream.write_all(&bench.request("POST", "/v1/messages", &[], body.as_bytes())).await.unwrap();
    let mut got = Vec::new();
    while !got.windows(8).any(|window| window == b"of it.\"}") {
        let mut piece = [0; 200];
        let count = stream.read(&mut piece).await.unwrap();
        got.extend_from_slice(&piece[..count]);
    }
    drop(stream);
    while bench.recorder.report().exchanges == 0 {
        tokio::task::yield_now().await;
    }
    let report = bench.settle().await;
    assert_eq!((report.recorded, report.lost()), (1, 0), "{report:?}");
    let branches = bench.branches().await;
    let name = tract_core::RefName::branch(&branches[0]).unwrap();
    let head = bench.repo.head_of(&name).await.unwrap().unwrap();
    let note = bench.repo.require_commit(head).await.unwrap();
    let content = bench.repo.content(&note).await.unwrap().unwrap();
    assert!(content.text().contains("What came of it."), "{content:?}");
    assert_eq!(bench.transcript(&branches[0]).await.len(), 2, "and no context has it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_cut_is_a_note_and_the_conversation_continues() {
    let whole = anthropic_stream("One.");
    let cut = whole.find("event: content_block_stop").unwrap();
    let answer = Answer::new("text/event-stream", whole).cut_at(cut);
    let bench = Bench::new([answer, stream("Two.")]).await;
    let got = bench.record("/v1/messages", &[], &anthropic_request(&["first"])).await;
    assert!(!got.is_whole, "the client sees that it was cut");
    let branches = bench.branches().await;
    assert_eq!(bench.kinds(&branches[0]).await, ["system", "user"]);
    // The client keeps what came, and continues.
    bench.post("/v1/messages", &anthropic_request(&["first", "One.", "more"])).await;
    let report = bench.settle().await;
    assert_eq!(report.recorded, 2, "{report:?}");
    assert_eq!(bench.branches().await, branches);
    let expected = ["system", "user", "assistant", "user", "assistant"];
    assert_eq!(bench.kinds(&branches[0]).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_cannot_be_reached_is_said_without_its_url() {
    let bench = Bench::new([]).await;
    // The server closes the connection without an answer.
    let got = bench.post("/v1beta/models/g:generateContent?key=hunter2", "{}").await;
    assert_eq!(got.start, "HTTP/1.1 502 Bad Gateway");
    let body = String::from_utf8(got.body).unwrap();
    assert!(!body.contains("hunter2") && body.contains("tract_record"), "{body}");
    let report = bench.settle().await;
    assert_eq!(report.not_recorded, [(Reason::NoResponse, 1)].into());
    assert_eq!(report.lost(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_requests_at_once_are_answered_and_recorded() {
    let bench = Arc::new(Bench::new([stream("One.")]).await);
    let tasks = (0..500).map(|n| {
        let bench = Arc::clone(&bench);
        tokio::spawn(async move {
            let body = anthropic_request(&[&format!("question {n}")]);
            let session = n.to_string();
            let headers = [("x-session-id", session.as_str())];
            bench.send("/v1/messages", &headers, body.as_bytes(), usize::MAX).await
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for task in tasks {
        let got = task.await.unwrap();
        assert_eq!(got.body, anthropic_stream("One.").as_bytes());
    }
    let report = bench.settle().await;
    assert_eq!((report.recorded, report.lost()), (500, 0), "{report:?}");
    let counts: HashMap<u64, usize> =
        report.branches.iter().fold(HashMap::new(), |mut counts, branch| {
            *counts.entry(branch.exchanges).or_default() += 1;
            counts
        });
    assert_eq!(counts, [(1, 500)].into());
}

/// Head, bytes and the end of the connection come at once.
#[tokio::test(flavor = "multi_thread")]
async fn bytes_before_a_cut_are_forwarded() {
    let whole = anthropic_stream("One.");
    let cut = whole.find("event: content_block_stop").unwrap();
    let answer = Answer::new("text/event-stream", whole.clone()).cut_at(cut);
    let bench = Bench::new([]).await;
    for n in 0..200 {
        bench.server.next(answer.clone());
        let got = bench.post("/v1/messages", &anthropic_request(&["first"])).await;
        assert!(!got.is_whole, "{n}: the client sees that it was cut");
        assert_eq!(String::from_utf8_lossy(&got.body), whole[..cut], "{n}");
    }
}
