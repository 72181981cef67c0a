//! The same in processes of their own, over a store in a file: each ends itself by aborting at a
//! named point, and the next one continues.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use serde_json::{Value, json};
use tract_testkit::data::RecordedConversation;
use tract_testkit::power::SeededRng;

use super::server::Server;
use super::wire::Wire;
use super::{client, run};
use crate::recorded::kills::{LostCall, check, check_but, check_effects, points};
use crate::recorded::points::{Death, ProcessLife};
use crate::recorded::recording::{Recording, airline, scale};
use crate::recorded::simulated::{Model, Setting, SideEffects, Tools};
use crate::support::{messages, repo_on, sqlite};

const LIFE: &str = "TRACT_TEST_LIFE";

fn world(folder: &Path) -> Arc<SideEffects> {
    Arc::new(SideEffects::File(folder.join("effects")))
}

/// A conversation whose agent lives in other processes.
struct OtherProcess {
    folder: tempfile::TempDir,
    recording: Arc<Recording>,
    /// What each of them is told.
    setup: Value,
}

impl OtherProcess {
    fn new(recording: &Arc<Recording>, place: usize, server: &Server, tools: Tools) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let wire = Wire::ALL[place % 2];
        let RecordedConversation { id, messages, tools: known } = &recording.conversation;
        let written = json!([id, messages, known]).to_string();
        std::fs::write(folder.path().join("recording.json"), written).unwrap();
        let setup = json!({
            "folder": folder.path(), "wire": wire.word(), "url": server.url(place, wire),
            "streams": place % 4 > 1, "effects": tools == Tools::Effects,
        });
        Self { folder, recording: Arc::clone(recording), setup }
    }

    /// One life in a process; whether it came to the end.
    fn live(&self, at: Option<usize>) -> bool {
        let mut life = self.setup.clone();
        life["at"] = json!(at);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["loopback::processes::a_life_in_a_process_of_its_own", "--exact", "--nocapture"])
            .env(LIFE, life.to_string())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&child.stderr);
        let lived = child.status.success();
        assert!(lived || aborted(child.status), "{}: {stderr}", self.recording.id);
        lived
    }

    async fn messages(&self) -> Vec<tract_core::Message> {
        let store = sqlite(self.folder.path());
        let found = messages(&repo_on(&store).await).await;
        store.close().await.unwrap();
        found
    }
}

/// Whether a process ended itself, and did not merely fail.
fn aborted(status: ExitStatus) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        const SIGABRT: i32 = 6;
        status.signal() == Some(SIGABRT)
    }
    #[cfg(not(unix))]
    {
        status.code() != Some(101)
    }
}

/// The process that is killed. By itself it lives one life without a server.
#[test]
fn a_life_in_a_process_of_its_own() {
    let Ok(setup) = std::env::var(LIFE) else {
        let (folder, recording) = (tempfile::tempdir().unwrap(), airline(1).remove(0));
        let model = Arc::new(Model(Arc::clone(&recording)));
        let mut setting = Setting::new(sqlite(folder.path()), model, &recording);
        setting.world = world(folder.path());
        return run(async {
            setting.live_on().await;
            check(&recording, &messages(&repo_on(&setting.store).await).await);
        });
    };
    let setup: Value = serde_json::from_str(&setup).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let folder = PathBuf::from(text(&setup["folder"]));
    let read = std::fs::read_to_string(folder.join("recording.json")).unwrap();
    let (id, messages, tools) = serde_json::from_str(&read).unwrap();
    let recording = Arc::new(Recording::of(RecordedConversation { id, messages, tools }));
    let wire = Wire::ALL.into_iter().find(|wire| wire.word() == setup["wire"]).unwrap();
    let model = client(wire, &text(&setup["url"]), setup["streams"] == true);
    let mut setting = Setting::new(sqlite(&folder), model, &recording);
    setting.world = world(&folder);
    if setup["effects"] == false {
        setting.tools = Tools::Idempotent;
    }
    let at = setup["at"].as_u64().map(|at| usize::try_from(at).unwrap());
    run(async {
        let life = ProcessLife::new(at, Death::Aborts);
        setting.live(&life).await.unwrap().unwrap();
        setting.store.close().await.unwrap();
    });
}

/// Runs the processes of a test while the server runs.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

#[test]
fn processes_that_abort_at_random_points_are_continued() {
    run(async {
        let recordings = airline(if scale() > 0 { 50 } else { 8 });
        let server = Server::start(recordings.clone(), false);
        let (mut draws, mut kills) = (SeededRng(3), 0);
        for (place, recording) in recordings.iter().enumerate() {
            let most = points(recording, Tools::Idempotent).len();
            let at: Vec<usize> = (0..3).map(|_| draws.below(most)).collect();
            let agent = OtherProcess::new(recording, place, &server, Tools::Idempotent);
            let (agent, died) = run_blocking(move || {
                let died = at.into_iter().take_while(|at| !agent.live(Some(*at))).count();
                assert!(agent.live(None), "the last life comes to the end");
                (agent, died)
            })
            .await;
            kills += died;
            check(recording, &agent.messages().await);
            check_effects(recording, &world(agent.folder.path()), LostCall::Nothing);
        }
        assert_eq!(server.wrong(), Vec::<String>::new());
        println!("{kills} processes aborted in {} conversations", recordings.len());
        assert!(kills >= recordings.len(), "{kills}");
    });
}

#[test]
fn after_a_process_has_aborted_the_open_call_is_answered_as_what_became_of_it() {
    run(async {
        let recordings = airline(50);
        let server = Server::start(recordings.clone(), true);
        let mut seen = [0; 3];
        let most = if scale() > 0 { 16 } else { 2 };
        for (place, recording) in recordings.iter().enumerate() {
            let points = points(recording, Tools::Effects);
            // Before the effect was marked, after that, and after it happened.
            for (sort, seen) in seen.iter_mut().enumerate().filter(|(_, seen)| **seen < most) {
                let is_so = |lost: &LostCall| match (sort, lost) {
                    (0, LostCall::NotExecuted(_)) => true,
                    (sort, LostCall::Interrupted(_, times)) => sort == times + 1,
                    _ => false,
                };
                let at: Vec<usize> = (0..points.len()).filter(|at| is_so(&points[*at].1)).collect();
                let Some(at) = at.get(*seen % at.len().max(1)).copied() else { continue };
                *seen += 1;
                let agent = OtherProcess::new(recording, place, &server, Tools::Effects);
                let agent = run_blocking(move || {
                    assert!(!agent.live(Some(at)), "it ends at point {at}");
                    assert!(agent.live(None), "the next one comes to the end");
                    agent
                })
                .await;
                check_but(recording, &agent.messages().await, points[at].1);
                check_effects(recording, &world(agent.folder.path()), points[at].1);
            }
        }
        assert_eq!(server.wrong(), Vec::<String>::new());
        let enough = if recordings.len() < 50 { 1 } else { most };
        assert!(seen.iter().all(|seen| *seen >= enough), "{seen:?}");
    });
}
