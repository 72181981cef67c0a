//! A run that works on calls is waited for while it renews its lease, in this process or another.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tract_core::{Draft, DynTool, ToolError, ToolResult, ToolSpec, block_on};
use tract_engine::Repo;
use tract_run::{Agent, Stop};
use tract_tools::Registry;
use tract_tools::typed::ClosureTool;

use crate::support::{
    agent_on, call, fresh, move_to_another_machine, noting_holders, opened, poll_until, reopened,
    run, sqlite, texts, tool_of,
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

fn agent(repo: &Repo, folder: &Path, says: impl IntoIterator<Item = Draft>) -> Agent {
    let tools = Registry::builder().dyn_tool(pay_in_file(folder.to_owned())).build().unwrap();
    agent_on(repo, says, tools)
}

fn pays() -> Draft {
    call("c1", "pay", "{}")
}

/// No test of its own: the process that the others start, which works on a call.
#[test]
fn a_run_in_a_process_of_its_own() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let lease = std::env::var(LEASE).unwrap().parse().unwrap();
    let repo = opened(&sqlite(folder));
    let says = [pays(), Draft::assistant("done"), Draft::assistant("done")];
    let agent = agent(&repo, folder, says).lease(Duration::from_millis(lease));
    // Another run may have spoken meanwhile.
    let _ = block_on(agent.run("go"));
    block_on(repo.store().close()).unwrap();
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
fn waited_for(agent: Agent) -> Vec<String> {
    let (agent, holders) = noting_holders(agent);
    assert_eq!(run(&agent, None).stop, Stop::Answered);
    holders.lock().unwrap().clone()
}

#[cfg(unix)]
#[test]
fn a_stopped_holder_is_taken_over_and_its_late_answer_corrects_what_was_made_up() {
    let mut holder = OtherRun::start(Duration::from_millis(300));
    let repo = opened(&sqlite(holder.folder.path()));
    holder.stop(&repo);
    let waited = waited_for(agent(&repo, holder.folder.path(), [Draft::assistant("sorry")]));
    assert!(matches!(&waited[..], [by] if by.starts_with(&holder.name())), "{waited:?}");
    let before = texts(&repo);
    assert!(before[2].contains("may have run"), "{before:?}");
    assert_eq!(holder.paid(), "", "it is stopped");
    holder.signal("CONT");
    holder.finish();
    let after = texts(&repo);
    assert!(after.contains(&"tool: paid at last <c1 pay>".to_owned()), "{after:?}");
    assert!(!after.iter().any(|line| line.contains("may have run")), "{after:?}");
    assert_eq!(holder.paid(), "once ");
}

#[test]
fn a_living_holder_is_waited_for_beyond_its_lease() {
    let mut holder = OtherRun::start(Duration::from_secs(4));
    let repo = opened(&sqlite(holder.folder.path()));
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let agent = agent(&reopened(&repo), holder.folder.path(), [Draft::assistant("done")]);
            // One of the two records what the model says next.
            let _ = block_on(agent.run(None));
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
    let texts = texts(&repo);
    assert_eq!(texts[2], "tool: paid at last <c1 pay>", "{texts:?}");
    assert_eq!(holder.paid(), "once ");
}

#[test]
fn a_holder_that_was_killed_on_another_machine_is_taken_over_when_its_lease_ends() {
    let (repo, folder) = (fresh(), tempfile::tempdir().unwrap());
    // It begins, and never comes back.
    let hang = |_, _| std::future::pending::<Result<ToolResult<()>, ToolError>>();
    let tools = Registry::builder().tool(ClosureTool::new(pay_spec(), hang)).build().unwrap();
    let first = agent_on(&repo, [pays()], tools).lease(Duration::from_millis(500));
    let mut run_of_first = Box::pin(first.run("go"));
    block_on(poll_until(run_of_first.as_mut(), || true));
    drop(run_of_first);
    move_to_another_machine(&repo, false);
    let waited = waited_for(agent(&reopened(&repo), folder.path(), [Draft::assistant("sorry")]));
    assert_eq!(waited.len(), 1, "its lease was waited for: {waited:?}");
    let texts = texts(&repo);
    assert!(texts[2].contains("may have run"), "{texts:?}");
}
