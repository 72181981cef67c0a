//! `tract view`

use std::io::Write;
use std::process::{Command, Stdio};

use clap::Args;
use serde::Serialize;
use tempfile::NamedTempFile;
use tract::view::Viewer;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::runtime;

/// Show the recorded conversations in a browser.
///
/// Serves pages on this machine alone, read-only, until it is interrupted. Only the printed url
/// opens them; it changes with every start. A page that shows a branch follows what is written to
/// it.
#[derive(Debug, Args)]
#[command(after_help = "\
Keys: j k messages, [ ] pages, g G top and end, / search.
Examples:
  tract view --open
  tract view --port 8080                     the same port each time
  tract view --allow-decisions               approve and reject in the browser
  tract export --html talk.html main         a page that needs no server")]
pub(crate) struct View {
    /// Listen on this port [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the browser.
    #[arg(long)]
    open: bool,
    /// Let pending approvals be approved and rejected on their page
    #[arg(long)]
    pub(crate) allow_decisions: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    url: &'a str,
}

impl From<tract::view::Error> for Failure {
    fn from(error: tract::view::Error) -> Self {
        match error {
            tract::view::Error::Engine(error) => tract::Error::from(error).into(),
            tract::view::Error::Listen { ref source, .. } => {
                let in_use = source.kind() == std::io::ErrorKind::AddrInUse;
                let code = if in_use { "port_in_use" } else { "view" };
                Self::no(code, error.to_string()).note("leave out --port for a free one")
            }
            other => Self::no("view", other.to_string()),
        }
    }
}

pub(crate) async fn run(context: &mut Context<'_>, view: View) -> Outcome<()> {
    let tract = context.open_to_serve("view").await?;
    let runtime = runtime::threads(2)?;
    let viewer = runtime.block_on(Viewer::bind(tract.repo().clone(), view.port))?;
    let viewer = viewer.allow_decisions(view.allow_decisions);
    if context.out.is_json() {
        context.out.json(&Document { url: viewer.url() })?;
    } else {
        context.out.line(viewer.url())?;
        context.out.say("Ctrl-C ends it");
    }
    context.out.flush()?;
    // The file is removed when this function returns.
    let _page = view.open.then(|| open(viewer.url()));
    let served = runtime.block_on(async { viewer.run(runtime::interrupted()).await });
    runtime.shutdown_background();
    Ok(served?)
}

/// Opens a URL with the desktop. If there is none, the user has the printed URL.
///
/// All users of the machine can read the arguments of a program, and the URL grants access. So the
/// browser gets a file that only this user can read, and that redirects to the URL.
fn open(url: &str) -> Option<NamedTempFile> {
    let page = match page_to(url) {
        Ok(page) => page,
        Err(error) => {
            anstream::eprintln!("cannot open a browser: no temporary file: {error}");
            return None;
        }
    };
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(page.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        anstream::eprintln!("cannot open a browser: {program}: {error}");
    }
    Some(page)
}

/// Makes a page that redirects to a URL of the viewer. The URL contains no HTML metacharacters.
fn page_to(url: &str) -> std::io::Result<NamedTempFile> {
    // On Unix a temporary file has the mode 0600.
    let mut file = tempfile::Builder::new().prefix("tract-view-").suffix(".html").tempfile()?;
    write!(
        file,
        "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer>\
         <meta http-equiv=refresh content=\"0;url={url}\"><title>tract</title><a href=\"{url}\">tract</a>"
    )?;
    file.flush()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn only_a_port_in_use_is_reported_as_one() {
        for (kind, code) in [
            (ErrorKind::AddrInUse, "port_in_use"),
            (ErrorKind::PermissionDenied, "view"),
            (ErrorKind::OutOfMemory, "view"),
        ] {
            let address = "127.0.0.1:80".to_owned();
            let error = tract::view::Error::Listen { address, source: Error::from(kind) };
            let failure = Failure::from(error);
            let document = failure.document();
            assert_eq!(document["error"]["code"], code, "{kind}");
        }
    }
}
