//! `tract record`

mod child;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tract::recording::{
    self, Proxy, ProxyOptions, RecordReport, Recorder, RecorderOptions, Route, Upstream,
};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::render::{self, count, counted};
use crate::runtime;
use crate::style::{DIM, REF, Styled, WARN};

/// Returns the variables that the command gets, for the help.
fn variables() -> String {
    let (always, cloud): (Vec<_>, Vec<_>) =
        recording::base_variables().into_iter().partition(|base| base.default.is_some());
    let names = |of: Vec<recording::BaseVariable>| {
        of.into_iter().map(|base| base.variable).collect::<Vec<_>>().join(", ")
    };
    format!(
        "Sets these variables: {}; and if they are already set: {}. The exit code is that of the \
         command.\n",
        names(always),
        names(cloud)
    )
}

/// Time limit at the end of a recording for storing open exchanges.
const MOST_WAIT: Duration = Duration::from_secs(10);
/// Minimum length of the secret in a path.
const MIN_SECRET: usize = 16;

/// Record the traffic between an agent and its model.
///
/// Runs a command with the base urls of its clients pointed at a proxy on this machine, which
/// forwards every byte unchanged and records a copy: one branch for each conversation, subagent and
/// rewind, named record/SESSION. A variable that is set already names the upstream. Recording never
/// delays or changes a request; what could not be recorded is counted and reported at the end, and
/// in `status`. Headers with keys are never stored, and secrets in messages are replaced by marks.
#[derive(Debug, Args)]
#[command(after_help = variables() + "\
Examples:
  tract record -- claude
  tract record -- python agent.py
  OPENAI_BASE_URL=http://localhost:8000/v1 tract record -- python agent.py
  tract record --listen 127.0.0.1:8080 --upstream https://api.openai.com/v1
  tract cat record/SESSION                   read what was recorded")]
pub(crate) struct Record {
    /// Listen on this address, for services that are started elsewhere [default: a free port of
    /// 127.0.0.1]
    #[arg(long, value_name = "ADDR", requires = "upstream", conflicts_with = "command")]
    listen: Option<SocketAddr>,
    /// Forward to this base url, such as https://api.openai.com/v1.
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    upstream: Option<String>,
    /// Allow an address that other machines reach.
    #[arg(long)]
    allow_remote: bool,
    /// Use this secret segment in the url, so that it stays the same: 16 or more letters and digits
    /// [default: a new one]
    #[arg(long, env = "TRACT_RECORD_SECRET", value_name = "SECRET", hide_env_values = true)]
    secret: Option<String>,
    /// Keep keys, tokens and passwords in messages; they are replaced by marks unless this is
    /// given.
    #[arg(long)]
    no_redact: bool,
    /// Use at most this much memory for copies, in MiB; what does not fit is not recorded.
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    memory: usize,
    /// The command, with its arguments.
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(required_unless_present = "upstream")]
    command: Vec<std::ffi::OsString>,
}

#[derive(Serialize)]
struct Listening<'a> {
    url: &'a str,
    upstream: String,
}

impl From<recording::Error> for Failure {
    fn from(error: recording::Error) -> Self {
        let failure = match &error {
            recording::Error::Upstream { .. } => Self::usage(error.to_string()),
            other => Self::no(other.code(), error.to_string()),
        };
        match error {
            recording::Error::Listen { .. } => failure.note("port 0 takes a free one"),
            recording::Error::NotLoopback { .. } => {
                failure.note("--allow-remote lets other machines use it, with your keys or theirs")
            }
            _ => failure,
        }
    }
}

pub(crate) async fn run(context: &mut Context<'_>, args: Record) -> Outcome<()> {
    let routes = routes(&args)?;
    let options = proxy_options(&args)?;
    let tract = context.open_to_record().await?;
    let runtime = runtime::threads(2)?;
    let recording = RecorderOptions {
        redact: !args.no_redact,
        budget_bytes: args.memory.saturating_mul(1 << 20),
        ..RecorderOptions::default()
    };
    let recorder = Recorder::start(tract.repo().clone(), &recording)?;
    let proxy = runtime.block_on(Proxy::bind(&options, routes, recorder.handle()))?;
    let exit = if args.command.is_empty() {
        announce(context, &proxy)?;
        runtime.block_on(proxy.run(runtime::interrupted()));
        0
    } else {
        runtime.block_on(child::run(proxy, &args.command))?
    };
    let report = runtime.block_on(recorder.finish(MOST_WAIT));
    runtime.shutdown_background();
    let printed = print(context, &report);
    // Callers decide by the exit code of the command that was recorded, so it wins over a report
    // that cannot be printed.
    if exit == 0 { printed } else { Err(Failure::exited(exit)) }
}

fn routes(args: &Record) -> Outcome<Vec<Route>> {
    match &args.upstream {
        Some(url) => Ok(vec![Route::only(url.parse::<Upstream>()?)]),
        None => Ok(recording::routes(|name| std::env::var(name).ok())?),
    }
}

fn proxy_options(args: &Record) -> Outcome<ProxyOptions> {
    let mut options = ProxyOptions { allow_remote: args.allow_remote, ..ProxyOptions::default() };
    if let Some(address) = args.listen {
        options.address = address;
    }
    if let Some(secret) = args.secret.as_deref() {
        let is_plain = secret.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if secret.len() < MIN_SECRET || !is_plain {
            let what = format!("expected a secret of {MIN_SECRET} or more letters and digits");
            return Err(Failure::usage(what));
        }
        options.secret = Some(secret.to_owned());
    }
    Ok(options)
}

/// Prints the base URLs for clients.
fn announce(context: &mut Context<'_>, proxy: &Proxy) -> Outcome<()> {
    for route in proxy.routes() {
        let url = proxy.base_url(route);
        if context.out.is_json() {
            let upstream = route.upstream.to_string();
            context.out.json(&Listening { url: &url, upstream })?;
        } else {
            context.out.line(&url)?;
        }
    }
    context.out.say("use it as the base url; Ctrl-C ends the recording");
    context.out.flush()
}

fn print(context: &mut Context<'_>, report: &RecordReport) -> Outcome<()> {
    if context.out.is_json() {
        return context.out.json(report);
    }
    let out = &mut context.out;
    out.say(format!("recorded {} of {}", report.recorded, counted(report.exchanges, "exchange")));
    for written in &report.branches {
        let branch = Styled(REF, escape::line(&written.branch).to_string());
        let what = format!(
            "{}, {}",
            counted(written.exchanges, "exchange"),
            count(written.commits as usize, "commit")
        );
        out.say(format!("  {branch}  {}", Styled(DIM, what)));
    }
    for (reason, n) in &report.not_recorded {
        let style = if reason.is_loss() { WARN } else { DIM };
        let what = format!("not recorded: {}, {}", counted(*n, "exchange"), reason.describe());
        out.say(format!("  {}", Styled(style, what)));
    }
    let secrets: u64 = report.redacted.values().sum();
    if secrets > 0 {
        out.say(format!("  {} replaced by marks", count(secrets as usize, "secret")));
    }
    for (kind, n) in &report.anomalies {
        let what = format!("unusual: {} {kind}", render::number(*n));
        out.say(format!("  {}", Styled(WARN, what)));
    }
    for anomaly in &report.listed {
        let (branch, what) = (escape::line(&anomaly.branch), escape::line(&anomaly.what));
        out.say(format!("    {branch}: {what}"));
    }
    if let Some(code) = &report.last_error {
        out.say(format!("  {}", Styled(WARN, format!("the store: {}", escape::line(code)))));
    }
    Ok(())
}
