//! Runs the recorded command: its variables, signals and exit code.

use std::ffi::OsString;
use std::process::ExitStatus;

use tokio::process::{Child, Command};
use tract::recording::{Proxy, base_variables};

use crate::ending;
use crate::failure::{Failure, Outcome};

/// Variables that send requests to a forward proxy, including those to this machine.
const FORWARD_PROXIES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];

/// Runs a command behind the proxy until it ends, and returns its exit code.
pub(super) async fn run(proxy: Proxy, words: &[OsString]) -> Outcome<u8> {
    let Some((program, arguments)) = words.split_first() else { return Ok(0) };
    let mut command = Command::new(program);
    command.args(arguments);
    for base in base_variables() {
        if let Some(route) = proxy.routes().iter().find(|route| route.name == base.route) {
            command.env(base.variable, proxy.base_url(route));
        }
    }
    if FORWARD_PROXIES.iter().any(|name| std::env::var_os(name).is_some()) {
        for name in ["NO_PROXY", "no_proxy"] {
            let hosts = std::env::var(name).unwrap_or_default();
            let comma = if hosts.is_empty() { "" } else { "," };
            command.env(name, format!("{hosts}{comma}127.0.0.1"));
        }
    }
    let failed = |error: std::io::Error| {
        let program = program.to_string_lossy();
        Failure::usage(format!("cannot run {program:?}: {error}"))
    };
    let mut child = command.spawn().map_err(failed)?;
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(proxy.run(async {
        let _ = end.await;
    }));
    let status = wait(&mut child).await.map_err(failed)?;
    drop(ended);
    let _ = serving.await;
    Ok(code_of(status))
}

/// Waits for the end of a command. On Ctrl-C the terminal signals it as well, and it decides what
/// to do. A termination request is passed on.
#[cfg(unix)]
async fn wait(child: &mut Child) -> std::io::Result<ExitStatus> {
    use rustix::process::{Pid, Signal, kill_process};

    let signals = ending::claim(&[ending::SIGINT, ending::SIGTERM, ending::SIGHUP]);
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    loop {
        let signal = tokio::select! {
            status = child.wait() => return status,
            signal = signals.next() => signal,
        };
        let passed_on = match signal {
            ending::SIGTERM => Signal::TERM,
            ending::SIGHUP => Signal::HUP,
            _ => continue,
        };
        if let Some(pid) = pid {
            // A command that has ended needs no signal.
            let _ = kill_process(pid, passed_on);
        }
    }
}

#[cfg(not(unix))]
async fn wait(child: &mut Child) -> std::io::Result<ExitStatus> {
    let _interrupts = ending::claim(&[ending::SIGINT]);
    child.wait().await
}

/// Returns the exit code as a shell would.
fn code_of(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(signal) = status.signal() {
            return u8::try_from(128 + signal).unwrap_or(crate::failure::NO);
        }
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(crate::failure::NO)
}
