//! `tract view`

use std::process::{Command, Stdio};

use clap::Args;
use serde::Serialize;
use tract::view::Viewer;

use crate::context::Context;
use crate::failure::{Failure, Outcome};

/// Show the recorded conversations in a browser.
///
/// Serves pages on this machine alone, read-only, until it is interrupted. Only the printed url opens
/// them; it changes with every start. A page that shows a branch follows what is written to it.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: j k messages, [ ] pages, g G top and end, / search.
Examples:
  tract view --open
  tract view --port 8080                     the same port each time
  tract export --html talk.html main         a page that needs no server")]
pub(crate) struct View {
    /// Listen on this port [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the browser.
    #[arg(long)]
    open: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    url: &'a str,
}

impl From<tract::view::Error> for Failure {
    fn from(error: tract::view::Error) -> Self {
        match error {
            tract::view::Error::Engine(error) => tract::Error::from(error).into(),
            tract::view::Error::Listen { .. } => {
                Self::no("port_in_use", error.to_string()).note("leave out --port for a free one")
            }
            other => Self::no("view", other.to_string()),
        }
    }
}

pub(crate) async fn run(context: &mut Context<'_>, view: View) -> Outcome<()> {
    let tract = context.open_to_serve("view").await?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::no("runtime", error.to_string()))?;
    let viewer = runtime.block_on(Viewer::bind(tract.repo().clone(), view.port))?;
    if context.out.is_json() {
        context.out.json(&Document { url: viewer.url() })?;
    } else {
        context.out.line(viewer.url())?;
        context.out.say("Ctrl-C ends it");
    }
    context.out.flush()?;
    if view.open {
        open(viewer.url());
    }
    let stop = async {
        // Without signals it is ended by the system alone.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let served = runtime.block_on(viewer.run(stop));
    runtime.shutdown_background();
    Ok(served?)
}

/// Asks the desktop to open a url; the url was printed for where there is none.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        anstream::eprintln!("cannot open a browser: {program}: {error}");
    }
}
