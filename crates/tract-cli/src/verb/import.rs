//! `tract import`

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde::Serialize;
use tract::import::{self, Dialect, ImportOptions, ImportStatus, Imported, Importer};

use crate::context::Context;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input::{self, Documents};
use crate::render::{self, count};
use crate::style::{BAD, DIM, REF, Styled, WARN};

/// Take in recorded conversations, a branch for each.
///
/// Reads a file with a conversation a line, or one JSON document: requests of OpenAI, Anthropic
/// and Ollama, objects with `messages` and `tools`, and recordings that hold such a request.
/// Importing again changes nothing; what two conversations begin with alike is stored once.
#[derive(Debug, Args)]
#[command(after_help = "\
A line that cannot be read is named, the others are imported, and the exit code is 1.
Examples:
  tract import chats.jsonl
  tract import --format anthropic request.json
  tract import --anomalies chats.jsonl       what a strict reader would stumble over
  curl -s … | tract import -")]
pub(crate) struct Import {
    /// The files; `-` for standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The format, where it is not to be found out.
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<FormatWord>,
    /// List every anomaly with its line.
    #[arg(long)]
    anomalies: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatWord {
    Openai,
    Responses,
    Anthropic,
    Ollama,
    PythonTract,
}

impl FormatWord {
    fn dialect(self) -> Outcome<Dialect> {
        Ok(match self {
            Self::Openai => Dialect::OpenAi,
            Self::Responses => Dialect::Responses,
            Self::Anthropic => Dialect::Anthropic,
            Self::Ollama => Dialect::Ollama,
            Self::PythonTract => {
                return Err(Failure::no(
                    "unsupported_format",
                    "databases of the Python original cannot be imported yet",
                )
                .note("export its conversations as JSON lines of messages and tools"));
            }
        })
    }
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    branch: &'a str,
    status: &'static str,
    commits: usize,
    reused: usize,
    anomalies: &'a [String],
}

#[derive(Serialize)]
struct Refused<'a> {
    line: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    error: crate::failure::Problem<'a>,
}

/// What is known of a conversation before it is stored.
struct Waiting {
    line: usize,
    anomalies: Vec<String>,
}

#[derive(Default)]
struct Total {
    conversations: usize,
    by_status: HashMap<&'static str, usize>,
    commits: usize,
    reused: usize,
    anomalies: usize,
    anomalous: usize,
    refused: usize,
    last_branch: Option<String>,
}

pub(crate) async fn run(context: &mut Context<'_>, import: Import) -> Outcome<()> {
    let format = import.format.map(FormatWord::dialect).transpose()?;
    // A file that cannot be opened is a mistake to be told before a store is made for it.
    let inputs: Vec<(PathBuf, Documents)> = import
        .files
        .iter()
        .map(|path| Ok((path.clone(), Documents::new(input::open(path)?)?)))
        .collect::<Outcome<_>>()?;
    let tract = context.open_or_create().await?;
    let importer = Importer::new(tract.repo(), ImportOptions::new())?;
    let bar = render::progress("importing", "conversations");
    let mut work = Work {
        context,
        importer,
        bar,
        format,
        list: import.anomalies,
        waiting: Vec::new(),
        total: Total::default(),
    };
    for (path, documents) in inputs {
        work.file(&path, documents).await?;
    }
    let done = work.importer.finish().await?;
    work.report(&done)?;
    work.bar.finish_and_clear();
    summary(work.context, &work.total)?;
    match work.total.refused {
        0 => Ok(()),
        _ => Err(Failure::said_no()),
    }
}

struct Work<'a, 'b> {
    context: &'a mut Context<'b>,
    importer: Importer,
    bar: ProgressBar,
    format: Option<Dialect>,
    list: bool,
    /// In the order in which the importer answers.
    waiting: Vec<Waiting>,
    total: Total,
}

impl Work<'_, '_> {
    async fn file(&mut self, path: &Path, mut documents: Documents) -> Outcome<()> {
        let stem = match input::is_stdin(path) {
            true => "stdin".to_owned(),
            false => {
                path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned())
            }
        };
        while let Some(document) = documents.next()? {
            self.bar.inc_length(1);
            let line = document.line;
            let read = match &document.text {
                Ok(text) => import::read(text, self.format, &format!("{stem}-{line}"))
                    .map_err(Failure::from),
                Err(at) => Err(Failure::no("not_utf8", format!("byte {at} is not UTF-8"))
                    .note("recordings are UTF-8 text")),
            };
            match read {
                Ok(read) => {
                    let id = read.conversation.id.clone();
                    self.waiting.push(Waiting {
                        line,
                        anomalies: read.anomalies.iter().map(ToString::to_string).collect(),
                    });
                    match self.importer.add(read.conversation).await {
                        Ok(done) => self.report(&done)?,
                        Err(error) => {
                            let failure = Failure::from(tract::Error::from(error));
                            if failure.is_of_store() {
                                return Err(failure);
                            }
                            self.waiting.pop();
                            self.refuse(line, Some(&id), &failure)?;
                        }
                    }
                }
                Err(failure) => self.refuse(line, None, &failure)?,
            }
        }
        Ok(())
    }

    fn refuse(&mut self, line: usize, id: Option<&str>, failure: &Failure) -> Outcome<()> {
        self.total.refused += 1;
        self.bar.inc(1);
        if self.context.out.is_json() {
            self.context.out.json(&Refused { line, id, error: failure.problem() })?;
            return self.context.out.flush();
        }
        let why = failure.for_people();
        self.bar.suspend(|| self.context.out.say(format_args!("line {line}: {}", why.trim_end())));
        Ok(())
    }

    /// Reports conversations that are durable by now.
    fn report(&mut self, done: &[Imported]) -> Outcome<()> {
        for (imported, waited) in done.iter().zip(self.waiting.drain(..done.len())) {
            let total = &mut self.total;
            total.conversations += 1;
            *total.by_status.entry(imported.status.as_str()).or_default() += 1;
            total.commits += imported.commits;
            total.reused += imported.reused;
            total.anomalies += waited.anomalies.len();
            total.anomalous += usize::from(!waited.anomalies.is_empty());
            if imported.head.is_some() && imported.status != ImportStatus::Diverged {
                total.last_branch.get_or_insert_with(|| imported.branch.clone());
            }
            self.bar.inc(1);
            if self.context.out.is_json() {
                self.context.out.json(&Line {
                    id: &imported.id,
                    branch: &imported.branch,
                    status: imported.status.as_str(),
                    commits: imported.commits,
                    reused: imported.reused,
                    anomalies: &waited.anomalies,
                })?;
                continue;
            }
            let branch = escape::line(&imported.branch).into_owned();
            if imported.status == ImportStatus::Diverged {
                let out = &mut *self.context.out;
                self.bar.suspend(|| {
                    out.say(format_args!(
                        "line {}: {} diverged: the branch stands elsewhere and was left alone",
                        waited.line,
                        Styled(REF, &branch)
                    ));
                });
            }
            if self.list {
                for anomaly in &waited.anomalies {
                    let anomaly = escape::line(anomaly);
                    let line = waited.line;
                    self.context
                        .out
                        .line(format_args!("line {line}: {}: {anomaly}", Styled(REF, &branch)))?;
                }
            }
        }
        if self.context.out.is_json() && !done.is_empty() {
            self.context.out.flush()?;
        }
        Ok(())
    }
}

fn summary(context: &mut Context<'_>, total: &Total) -> Outcome<()> {
    let of = |status: ImportStatus| total.by_status.get(status.as_str()).copied().unwrap_or(0);
    let new = total.commits - total.reused;
    let mut parts = vec![format!(
        "imported {}: {} commits, {} of them new",
        count(total.conversations, "conversation"),
        render::number(total.commits as u64),
        render::number(new as u64),
    )];
    for status in [ImportStatus::Created, ImportStatus::Forwarded, ImportStatus::Unchanged] {
        if of(status) > 0 {
            parts.push(format!("{} {status}", count(of(status), "branch")));
        }
    }
    let mut lines = vec![parts.join("; ")];
    if of(ImportStatus::Diverged) > 0 {
        let diverged = count(of(ImportStatus::Diverged), "branch");
        lines.push(Styled(WARN, format!("{diverged} diverged and left alone")).to_string());
    }
    if total.anomalies > 0 {
        lines.push(format!(
            "{} in {}, kept as recorded; --anomalies lists them",
            match total.anomalies {
                1 => "1 anomaly".to_owned(),
                n => format!("{} anomalies", render::number(n as u64)),
            },
            count(total.anomalous, "conversation")
        ));
    }
    if total.refused > 0 {
        let refused = format!("{} refused", count(total.refused, "line"));
        lines.push(Styled(BAD, refused).to_string());
    }
    for line in lines {
        match context.out.is_json() {
            true => context.out.say(line),
            false => context.out.line(line)?,
        }
    }
    if let (Some(branch), false) = (&total.last_branch, context.out.is_json()) {
        let next = format!("next: tract log {}", escape::line(branch));
        context.out.say(Styled(DIM, next));
    }
    Ok(())
}
