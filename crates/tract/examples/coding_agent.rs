//! An agent that plans, reads and writes files, and pauses before it removes one.
//!
//! `cargo run -p tract --example coding_agent --features run`
//!
//! The model here says what a script says, so that this runs anywhere; put a
//! `tract::models::HttpModel` (feature `http`) and a `fs::DirectoryFs` in their places.

use std::error::Error;
use std::sync::{Arc, Mutex};

use tract::core::ModelRequest;
use tract::prelude::*;
use tract::run::{Progress, Stop};
use tract::tools::fs::{self, Filesystem, FsPath, MemoryFs};
use tract::tools::policy::{ApprovalRequired, ReadBeforeWrite};
use tract::tools::resource::Resources;
use tract::tools::{Bindings, Planning, Prompt, Registry, Section, Session, Strategy};
use tract::{ChatModel, ModelError, Reply};

/// A model that reads from a script.
struct Script(Mutex<std::vec::IntoIter<Draft>>);

#[tract::tools::async_trait]
impl ChatModel for Script {
    async fn chat(&self, _: &ModelRequest) -> Result<Reply, ModelError> {
        let mut left = self.0.lock().map_err(|_| ModelError::other("the script is torn"))?;
        let next = left.next().map(|draft| Reply::new(draft.content));
        next.ok_or_else(|| ModelError::other("the script is at its end"))
    }
}

fn call(id: &str, name: &str, arguments: &str) -> Draft {
    Draft::assistant("").call(id, name, arguments)
}

fn script() -> Script {
    let plan =
        r#"{"objective":"Rename notes.txt","initial_steps":["read it","write it","remove it"]}"#;
    let (old, new) =
        (r#"{"path":"notes.txt"}"#, r##"{"path":"notes.md","text":"# Notes\nbuy milk\n"}"##);
    let replies = vec![
        call("c1", "planning_setup_plan", plan),
        call("c2", "fs_read", old),
        call("c3", "fs_write", new).call("c4", "fs_remove", old),
        Draft::assistant("notes.txt is notes.md now."),
    ];
    Script(Mutex::new(replies.into_iter()))
}

/// Runs the agent to its end; returns the lines that it reported.
pub(crate) async fn conversation() -> Result<Vec<String>, Box<dyn Error>> {
    let tract = tract::open("memory:").await?;
    let files: Arc<dyn Filesystem> = Arc::new(MemoryFs::of([("notes.txt", "buy milk\n")])?);
    let session = Session::new();

    // The instructions and their tools: sections, each with what belongs to it.
    let mut about_files = Section::new("files", "Files", "Read a file before you change it.");
    for tool in fs::add_fs_tools(Registry::builder()).build()?.iter() {
        about_files = tool.callable().cloned().into_iter().fold(about_files, Section::dyn_tool);
    }
    let prompt = Prompt::builder("examples", "coding")
        .section(Section::new("role", "Role", "You look after the files of one folder."))
        .section(Planning::section_of(&session, Strategy::PlanActReflect)?)
        .section(about_files)
        .build()?;

    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let agent = tract
        .agent(Arc::new(script()), Registry::builder().build()?)
        .session(&session)
        .prompt(prompt, Bindings::new())?
        .resources(Arc::new(Resources::builder().bind(fs::bind(Arc::clone(&files))).build()?))
        .policy(ReadBeforeWrite::of_fs_tools(Arc::clone(&files)))
        .policy(ApprovalRequired::of_destructive())
        .max_steps(20)
        .on_progress(move |progress| {
            let line = match progress {
                Progress::Answered(answered) => {
                    format!("{} {}", answered.tool_name, answered.outcome)
                }
                Progress::Waiting { call_id, .. } => format!("{call_id} waits"),
                Progress::Stopped(stop) => format!("stopped: {}", stop.code()),
                _ => return,
            };
            if let Ok(mut lines) = sink.lock() {
                lines.push(line);
            }
        });

    let report = agent.run("Make notes.txt a markdown file.").await?;
    assert_eq!(report.stop, Stop::Waiting, "removing a file waits for a person");
    tract.repo().approve(&report.pending[0]).await?; // or `tract pending approve ID`
    let report = agent.run(None).await?;
    assert_eq!(report.text, "notes.txt is notes.md now.");
    assert!(files.read(&FsPath::parse("notes.txt")?).is_err());
    assert_eq!(tract.replay("HEAD").await?.difference, None);

    let lines = events.lock().map(|lines| lines.clone()).unwrap_or_default();
    Ok(lines)
}

#[allow(dead_code)] // the tests run the conversation itself
fn main() -> Result<(), Box<dyn Error>> {
    for line in tract::block_on(conversation())? {
        println!("{line}");
    }
    Ok(())
}
