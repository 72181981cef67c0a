//! `tract remote`

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use tract::engine::Remote as Entry;
use tract::store::{self, hide_passwords};

use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::style::{REF, Styled};

/// Name other stores, to fetch from and push to.
#[derive(Debug, Args)]
#[command(after_help = "\
A remote is any store that --store accepts, or a bundle file. Relative paths start in this folder.
The url is kept in this store. Leave the password out of it: PGPASSWORD is used then.
Examples:
  tract remote add team postgres://me@db/agents
  tract remote add stick sqlite:/media/stick/agent.db
  tract remote add mail talk.bundle           a file that `tract bundle create` made
  tract remote list
  tract remote remove stick                   forgets where its branches were, too")]
pub(crate) struct Remote {
    #[command(subcommand)]
    what: Option<RemoteCommand>,
}

#[derive(Debug, Subcommand)]
enum RemoteCommand {
    /// Name a store or a bundle.
    Add {
        /// Its name here.
        name: String,
        /// The url of the store, or a bundle file.
        #[arg(value_name = "URL|FILE")]
        url: String,
        /// Use this repository of that store [default: the one of --repo]
        #[arg(long, value_name = "NAME")]
        remote_repo: Option<String>,
    },
    /// List remotes with their urls, without passwords.
    List,
    /// Forget a remote, and where its branches were.
    Remove {
        /// Its name.
        name: String,
    },
}

impl Remote {
    /// Returns whether the command writes.
    pub(crate) fn writes(&self) -> bool {
        !matches!(self.what, None | Some(RemoteCommand::List))
    }
}

#[derive(Serialize)]
struct Line<'a> {
    remote: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    repo: Option<&'a str>,
}

#[derive(Serialize)]
struct Removed<'a> {
    removed: &'a str,
}

pub(crate) async fn run(context: &mut Context<'_>, remote: Remote) -> Outcome<()> {
    let tract = context.open().await?;
    match remote.what.unwrap_or(RemoteCommand::List) {
        RemoteCommand::Add { name, url, remote_repo } => {
            let url = url_to_keep(&url)?;
            let mut entry = Entry::new(name, url);
            entry.repo = remote_repo;
            tract.remotes().add(entry.clone()).await?;
            print(context, &entry)?;
            if hide_passwords(&entry.url) != entry.url {
                context.out.say(
                    "  note: the password is kept in this store, for all who can read it; with a url \
                     without one, PGPASSWORD is used",
                );
            }
            Ok(())
        }
        RemoteCommand::List => {
            let remotes = tract.remotes().list().await?;
            if remotes.is_empty() && !context.out.is_json() {
                context.out.say("no remotes; tract remote add NAME URL adds one");
            }
            remotes.iter().try_for_each(|entry| print(context, entry))
        }
        RemoteCommand::Remove { name } => {
            tract.remotes().remove(&name).await?;
            if context.out.is_json() {
                return context.out.json(&Removed { removed: &name });
            }
            context.out.line(format_args!("removed {}", Styled(REF, escape::line(&name))))
        }
    }
}

fn print(context: &mut Context<'_>, entry: &Entry) -> Outcome<()> {
    let url = hide_passwords(&entry.url);
    if context.out.is_json() {
        let (remote, repo) = (entry.name.as_str(), entry.repo.as_deref());
        return context.out.json(&Line { remote, url: &url, repo });
    }
    let repo = match &entry.repo {
        Some(repo) => format!("  repository {}", escape::line(repo)),
        None => String::new(),
    };
    let name = Styled(REF, escape::line(&entry.name));
    context.out.line(format_args!("{name}  {}{repo}", escape::line(&from_here(&url))))
}

/// Returns the URL to store, with an absolute path, so that it is valid in every folder.
fn url_to_keep(url: &str) -> Outcome<String> {
    if let Some(path) = url.strip_prefix("bundle:") {
        return Ok(whole("bundle", Path::new(path), url));
    }
    match store::file_of(url) {
        Ok(Some(path)) => {
            let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
            Ok(whole(scheme, &path, url))
        }
        Ok(None) => Ok(url.to_owned()),
        Err(_) if is_bundle(Path::new(url)) => Ok(whole("bundle", Path::new(url), url)),
        Err(error) => Err(error.into()),
    }
}

fn whole(scheme: &str, path: &Path, url: &str) -> String {
    match std::path::absolute(path).as_deref().map(Path::to_str) {
        Ok(Some(path)) => format!("{scheme}:{path}"),
        Ok(None) | Err(_) => url.to_owned(),
    }
}

/// Returns whether a file starts like a bundle.
pub(super) fn is_bundle(path: &Path) -> bool {
    let mut first = [0; 14];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && first == *br#"{"op":"bundle""#
}

/// Formats a URL for people. A path within the current folder is relative to it.
fn from_here(url: &str) -> String {
    let here = std::env::current_dir().ok();
    let shown = || {
        let (scheme, path) = url.split_once(':')?;
        let path: PathBuf = Path::new(path).strip_prefix(here?).ok()?.to_owned();
        Some(format!("{scheme}:{}", path.display()))
    };
    shown().unwrap_or_else(|| url.to_owned())
}
