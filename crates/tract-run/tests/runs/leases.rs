//! A run that works on calls is waited for while it renews its lease, in this process or another.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tract_core::{Draft, DynTool, Store, ToolError, ToolResult, ToolSpec, block_on};
use tract_engine::Repo;
use tract_run::{Agent, Progress, Stop};
use tract_tools::Registry;
use tract_tools::typed::ClosureTool;

use crate::support::{
    Script, main_branch, memory, messages, move_to_another_machine, poll_until, repo_on, sqlite,
    texts, tool_of,
};

/// Where the process that works on the call has its files.
const FOLDER: &str = "TRACT_TEST_HOLDER";
/// How long it is believed to live, in milliseconds.
const LEASE: &str = "TRACT_TEST_LEASE_MS";

fn pay_spec() -> ToolSpec {
    ToolSpec::new("pay", "Pays.", r#"{"type":"object"}"#)
}

/// Pays by adding to a file, once another file is there.
fn pay_in_file(folder: std::path::PathBuf) -> Arc<dyn DynTool> {
    tool_of(pay_spec(), move |_, _| {
        std::fs::write(folder.join("begun"), "").unwrap();
        while !folder.join("go").exists() {
            // It blocks its thread, as a tool may.
            std::thread::sleep(Duration::from_millis(5));
        }
        let paid = std::fs::read_to_string(folder.join("paid")).unwrap_or_default();
        std::fs::write(folder.join("paid"), paid + "once ").unwrap();
        Ok("paid at last".to_owned())
    })
}

async fn agent(store: &Arc<dyn Store>, folder: &Path, says: Vec<Draft>) -> Agent {
    let tools = Registry::builder().dyn_tool(pay_in_file(folder.to_owned())).build().unwrap();
    Agent::new(repo_on(store).await, main_branch(), Script::new(says), tools)
}

fn pays() -> Draft {
    Draft::assistant("").call("c1", "pay", "{}")
}

/// No test of its own: the process that the others start, which works on a call.
#[test]
fn a_run_in_a_process_of_its_own() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let lease = std::env::var(LEASE).unwrap().parse().unwrap();
    let store = sqlite(folder);
    block_on(async {
        let says = vec![pays(), Draft::assistant("done"), Draft::assistant("done")];
        let agent = agent(&store, folder, says).await.lease(Duration::from_millis(lease));
        // Another run may have spoken meanwhile.
        let _ = agent.run(Some(Draft::user("go"))).await;
        store.close().await.unwrap();
    });
}

/// A run that works on a call in another process.
struct OtherRun {
    folder: tempfile::TempDir,
    child: std::process::Child,
}

impl OtherRun {
    /// Starts it, and returns once its tool runs.
    fn start(lease: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["leases::a_run_in_a_process_of_its_own", "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(LEASE, lease.as_millis().to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut elsewhere = Self { folder, child };
        while !elsewhere.path("begun").exists() {
            let ended = elsewhere.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended before its tool ran: {ended:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        elsewhere
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// What the others know it by.
    fn name(&self) -> String {
        format!("process {}", self.child.id())
    }

    #[cfg(unix)]
    fn signal(&self, signal: &str) {
        let kill = format!("kill -{signal} {}", self.child.id());
        let status = std::process::Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success(), "{kill}");
    }

    /// Stops it, but not while it writes: other writers would wait for that.
    #[cfg(unix)]
    fn stop(&self, repo: &Repo) {
        let blob = tract_core::Blob::seal("{}".to_owned());
        let name = tract_core::RefName::new("test/probe").unwrap();
        loop {
            self.signal("STOP");
            let probe = vec![(name.clone(), blob.clone())];
            match block_on(repo.set_documents("probe", probe)) {
                Ok(_) => return,
                Err(_) => self.signal("CONT"),
            }
        }
    }

    /// Lets its tool pay, and waits for its end.
    fn finish(&mut self) {
        std::fs::write(self.path("go"), "").unwrap();
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "{ended}");
    }

    fn paid(&self) -> String {
        std::fs::read_to_string(self.path("paid")).unwrap_or_default()
    }
}

impl Drop for OtherRun {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs until the model has said all; returns whom it waited for.
async fn waited_for(agent: Agent) -> Vec<String> {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let agent = agent.on_progress(move |progress| {
        if let Progress::Held { by, .. } = progress {
            sink.lock().unwrap().push((*by).to_owned());
        }
    });
    assert_eq!(agent.run(None).await.unwrap().stop, Stop::Answered);
    events.lock().unwrap().clone()
}

#[cfg(unix)]
#[test]
fn a_stopped_holder_is_taken_over_and_its_late_answer_corrects_what_was_made_up() {
    let mut holder = OtherRun::start(Duration::from_millis(300));
    let store = sqlite(holder.folder.path());
    let repo = block_on(repo_on(&store));
    holder.stop(&repo);
    let done = vec![Draft::assistant("sorry")];
    let waited =
        block_on(async { waited_for(agent(&store, holder.folder.path(), done).await).await });
    assert!(matches!(&waited[..], [by] if by.starts_with(&holder.name())), "{waited:?}");
    let before = texts(&block_on(messages(&repo)));
    assert!(before[2].contains("may have run"), "{before:?}");
    assert_eq!(holder.paid(), "", "it is stopped");
    holder.signal("CONT");
    holder.finish();
    let after = texts(&block_on(messages(&repo)));
    assert!(after.contains(&"tool: paid at last <c1 pay>".to_owned()), "{after:?}");
    assert!(!after.iter().any(|line| line.contains("may have run")), "{after:?}");
    assert_eq!(holder.paid(), "once ");
}

#[test]
fn a_living_holder_is_waited_for_beyond_its_lease() {
    let mut holder = OtherRun::start(Duration::from_secs(4));
    let store = sqlite(holder.folder.path());
    let repo = block_on(repo_on(&store));
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            block_on(async {
                let done = vec![Draft::assistant("done")];
                // One of the two records what the model says next.
                let _ = agent(&store, holder.folder.path(), done).await.run(None).await;
            });
        });
        // Four of its heartbeats are more than a lease.
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < 5 && !second.is_finished() {
            for (name, blob) in block_on(repo.documents("effects/")).unwrap() {
                if name.as_str().ends_with("/turn") {
                    seen.insert(blob.id());
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!second.is_finished(), "it took over after {} heartbeats", seen.len());
        std::fs::write(holder.path("go"), "").unwrap();
    });
    holder.finish();
    let texts = texts(&block_on(messages(&repo)));
    assert_eq!(texts[2], "tool: paid at last <c1 pay>", "{texts:?}");
    assert_eq!(holder.paid(), "once ");
}

#[test]
fn a_holder_that_was_killed_on_another_machine_is_taken_over_when_its_lease_ends() {
    let (store, folder) = (memory(), tempfile::tempdir().unwrap());
    block_on(async {
        // It begins, and never comes back.
        let hang = |_, _| std::future::pending::<Result<ToolResult<()>, ToolError>>();
        let pay = ClosureTool::new(pay_spec(), hang);
        let tools = Registry::builder().tool(pay).build().unwrap();
        let first = Agent::new(repo_on(&store).await, main_branch(), Script::new([pays()]), tools)
            .lease(Duration::from_millis(500));
        let mut run = Box::pin(first.run(Some(Draft::user("go"))));
        poll_until(run.as_mut(), || true).await;
        drop(run);
        let repo = repo_on(&store).await;
        move_to_another_machine(&repo, false).await;
        let done = vec![Draft::assistant("sorry")];
        let waited = waited_for(agent(&store, folder.path(), done).await).await;
        assert_eq!(waited.len(), 1, "its lease was waited for: {waited:?}");
        let texts = texts(&messages(&repo).await);
        assert!(texts[2].contains("may have run"), "{texts:?}");
    });
}
