//! `tract demo`

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use tract::core::json;
use tract::forms::{Dialect, Form, FormOptions};

use crate::context::{self, Context};
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::help;
use crate::out::Output;
use crate::style::{BOLD, DIM, GOOD, Styled};
use crate::verb;

/// Run a guided demo on conversations of a bicycle workshop, in a new store.
#[derive(Debug, Args)]
#[command(after_help = "\
The store is tract-demo/tract.db (or the next free tract-demo-2, …), or what --store names.
You can type every command that it shows.")]
pub(crate) struct Demo {}

const CONVERSATIONS: &str = include_str!("../../demo/conversations.jsonl");
const ANTHROPIC: &str = include_str!("../../demo/anthropic.json");

/// The branch of the recorded exchange with Anthropic.
const BOATS: &str = "four-boats-at-the-bridge";

const SUMMARY: &str = "Looked up: Ines Lindqvist (K-1042), cargo bike B-3310, service J-8841 on \
                       Thursday. Spokes are on the shelf, the rotor RT-160-6B (349 kr) is not.";

/// A step: the explanation before it, and the commands. Words are separated by `|`.
struct Chapter {
    says: &'static str,
    commands: &'static [&'static str],
}

/// Times are fixed, so that the ids are the same in every run.
const CHAPTERS: &[Chapter] = &[
    Chapter {
        says: "Import conversations: one branch each; a common beginning is stored once.",
        commands: &[
            "import|{folder}conversations.jsonl",
            "import|{folder}anthropic.json",
            "branch",
        ],
    },
    Chapter {
        says: "Fork at the customer's question about savings, and rephrase it.",
        commands: &[
            "branch|terse|--from|workshop-cargo-bike#33|--checkout",
            "edit|HEAD#33|What do I save? One sentence.|--at|2026-01-31T09:30:01Z",
        ],
    },
    Chapter {
        says: "Leave small talk out, and replace thirteen messages with one summary.",
        commands: &[
            "annotate|HEAD#3|--priority|skip|--reason|small talk|--at|2026-01-31T09:30:02Z",
            "compress|--from|HEAD#4|--to|HEAD#16|--content|{summary}|--at|2026-01-31T09:30:03Z",
        ],
    },
    Chapter {
        says: "Change the tools, record an answer, undo it, and record a better one.",
        commands: &[
            "tools|set|{folder}tools.json|--at|2026-01-31T09:30:04Z",
            "commit|assistant|You save 505 kr.|--at|2026-01-31T09:30:05Z",
            "undo",
            "commit|assistant|You save 550 kr.|--at|2026-01-31T09:30:06Z",
        ],
    },
    Chapter {
        says: "Show both branches and where they fork.",
        commands: &["log|--graph|--limit|12|workshop-cargo-bike|terse", "status"],
    },
    Chapter {
        says: "Compare the tools, and see the effect on the provider's prompt cache.",
        commands: &["tools|diff|workshop-cargo-bike|terse", "why-miss|workshop-cargo-bike|terse"],
    },
    Chapter {
        says: "Compile requests that providers accept, ready to send.",
        commands: &[
            "compile|terse|--to|openai-params|--set|model=gpt-5.5|>|{folder}openai.json",
            "head|-c|96|{folder}openai.json",
            "compile|terse|--to|anthropic-params|--set|model=claude-opus-4-7|--set|max_tokens=1024|>|{folder}anthropic-params.json",
            "head|-c|96|{folder}anthropic-params.json",
        ],
    },
];

pub(crate) async fn run(context: &mut Context<'_>, _demo: Demo) -> Outcome<()> {
    let url = match &context.global.store {
        Some(url) => url.clone(),
        None => context::url_of(&fresh_folder().join("tract.db")),
    };
    let Some(file) = tract::store::file_of(&url)? else {
        return Err(Failure::usage("the demo needs a store on disk")
            .note("omit --store, or name a file: --store sqlite:demo.db"));
    };
    if file.exists() {
        return Err(Failure::no("exists", format!("{} exists already", file.display()))
            .note("the demo needs a new store: name another file, or remove this one"));
    }
    let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
    if folder != Path::new("") {
        fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, &error))?;
    }
    let inputs: [(&str, String); 3] = [
        ("conversations.jsonl", CONVERSATIONS.to_owned()),
        ("anthropic.json", ANTHROPIC.to_owned()),
        ("tools.json", other_tools()?),
    ];
    for (name, text) in &inputs {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| Failure::file(&path, &error))?;
    }
    context.global.store = Some(url.clone());
    context.out.never_page();
    context.out.done(
        "You can type every line after `$` in an empty folder, once tract is installed. Until then:\n\
         alias tract='cargo run --quiet --'",
    )?;
    context
        .out
        .done(Styled(DIM, format!("$ export TRACT_STORE={}", quoted(&escape::line(&url)))))?;
    for chapter in CHAPTERS {
        say(context.out, chapter.says)?;
        for command in chapter.commands {
            type_in(context, &folder, command).await?;
        }
    }
    as_it_was(context).await?;
    say(context.out, "Check every hash and every link.")?;
    type_in(context, &folder, "verify").await?;
    let store = quoted(&escape::line(&url));
    context
        .out
        .done(format_args!("\n{} tract --store {store} log --graph --all", Styled(BOLD, "try:")))
}

/// Returns a folder for the store, which must not exist yet.
fn fresh_folder() -> PathBuf {
    let numbered = (2..).map(|n| PathBuf::from(format!("tract-demo-{n}")));
    std::iter::once(PathBuf::from("tract-demo"))
        .chain(numbered)
        .find(|folder| !folder.join("tract.db").exists())
        .expect("numbers do not end before folders do")
}

fn say(out: &mut Output, text: &str) -> Outcome<()> {
    out.done(format_args!("\n{}", Styled(BOLD, format!("# {text}"))))
}

/// Runs a command as if it had been typed. A `>` redirects the answer to a file.
async fn type_in(context: &mut Context<'_>, folder: &Path, command: &str) -> Outcome<()> {
    let folder = if folder.as_os_str().is_empty() {
        String::new()
    } else {
        format!("{}/", folder.display())
    };
    let command = command.replace("{summary}", SUMMARY).replace("{folder}", &folder);
    let words: Vec<&str> = command.split('|').collect();
    let typed: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let (words, file) = match words.as_slice() {
        [words @ .., ">", file] => (words, Some(*file)),
        words => (words, None),
    };
    let program = match words.first() {
        Some(&"head") => "",
        _ => "tract ",
    };
    context.out.done(Styled(DIM, format!("$ {program}{}", typed.join(" "))))?;
    if let ["head", "-c", count, path] = words {
        return head(context.out, count.parse().unwrap_or(0), Path::new(path));
    }
    let cli = help::parse(std::iter::once("tract").chain(words.iter().copied()).map(Into::into))
        .map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(path) = file {
        let file_error = |error| Failure::file(Path::new(path), &error);
        context.out.redirect(fs::File::create(path).map_err(file_error)?);
    }
    let done = Box::pin(verb::run(context, cli.0.command)).await;
    context.out.redirect(io::stdout());
    done
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    if word.contains(|c: char| " #$'\"".contains(c)) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}

/// Prints the first bytes of a file, as `head -c` does.
fn head(out: &mut Output, count: usize, path: &Path) -> Outcome<()> {
    let bytes = fs::read(path).map_err(|error| Failure::file(path, &error))?;
    let first = bytes.get(..count).unwrap_or(&bytes);
    out.done(escape::block(&String::from_utf8_lossy(first)))
}

/// Shows that an exported request equals the imported one.
async fn as_it_was(context: &mut Context<'_>) -> Outcome<()> {
    let tract = context.open().await?;
    let options = FormOptions::default();
    say(context.out, "Compile an imported request: it is what was sent.")?;
    let compiled = tract.compile_at(BOATS).await?;
    let params = tract::forms::compile_form(&compiled, Form::Params(Dialect::Anthropic), &options)?;
    let recorded = json::split_object(ANTHROPIC)?;
    let request = recorded.into_iter().find(|(key, _)| key == "request").map(|(_, raw)| raw);
    let request = json::split_object(request.unwrap_or("{}"))?;
    let branch = escape::cut(BOATS, 24);
    for key in ["system", "messages", "tools"] {
        let sent = params.get(key).unwrap_or("null");
        let was = request.iter().find(|(name, _)| name == key).map_or("null", |(_, raw)| *raw);
        if !json::equal(sent, was)? {
            return Err(Failure::no("changed", format!("{key} of {branch} is not what was sent")));
        }
    }
    let summary = format!("{branch}: system, messages and tools are equal to what was sent");
    context.out.done(Styled(GOOD, summary))
}

/// Returns the workshop's tools with one removed and another one changed.
fn other_tools() -> Outcome<String> {
    let first = CONVERSATIONS.lines().next().unwrap_or("{}");
    let members = json::split_object(first)?;
    let tools = members.iter().find(|(key, _)| key == "tools").map_or("[]", |(_, raw)| *raw);
    let kept = json::split_array(tools)?
        .into_iter()
        .filter(|tool| !tool.contains("\"hand_over\""))
        .map(|tool| {
            if tool.contains("\"name\": \"calculate\"") {
                tool.replacen(
                    "\"properties\": {",
                    "\"properties\": {\"precision\": {\"type\": \"integer\", \"default\": 2}, ",
                    1,
                )
            } else {
                tool.to_owned()
            }
        });
    Ok(format!("[{}]\n", kept.collect::<Vec<_>>().join(",\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_conversations_are_those_of_the_demo() {
        assert!(CONVERSATIONS.contains("workshop-cargo-bike"));
        assert!(ANTHROPIC.contains(BOATS));
        let tools = other_tools().expect("the tools are JSON");
        let tools = json::split_array(&tools).expect("a list");
        assert_eq!(tools.len(), 13);
        assert!(tools.iter().any(|tool| tool.contains("\"precision\"")));
    }
}
