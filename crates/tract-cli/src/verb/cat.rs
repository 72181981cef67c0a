//! `tract cat`

use anstyle::Style;
use clap::Args;
use serde_json::{Value, json};
use tract::core::CallRef;
use tract::{CommitId, Compiled, Content, Kind, Message, Part, ToolCall, Tract};

use super::log::RoleWord;
use crate::context::Context;
use crate::escape;
use crate::failure::Outcome;
use crate::input;
use crate::markdown;
use crate::out::Output;
use crate::render::{self, count, number};
use crate::revisions::resolve_head_or_title;
use crate::style::{self, BAD, BOLD, DIM, ID, Styled};

/// Print the conversation as plain text: the context at a revision, oldest message first.
///
/// On a terminal, headings, emphasis and code of Markdown have a style; no character is left out.
/// Where a message is damaged or was erased, the others are printed, and the error comes at the
/// end.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tract cat                                  the conversation on this branch
  tract cat 'main~3' -n 5                    its last five messages, three commits back
  tract cat login redirect                   the conversation with these words in its title
  tract cat --role user --role assistant     without tool results and instructions
  tract cat --json                           one message per line")]
pub(crate) struct Cat {
    /// The revision, or words of the title of one conversation.
    #[arg(value_name = "REV", default_value = "HEAD")]
    revision: Vec<String>,
    /// Print only the last N messages; 0 for all [default: all]
    #[arg(long, short = 'n', value_name = "N", value_parser = input::limit)]
    limit: Option<usize>,
    /// Print only messages of this role; may be given several times.
    #[arg(long, value_enum)]
    role: Vec<RoleWord>,
    /// Print only calls of this tool and their results.
    #[arg(long, value_name = "TOOL")]
    tool: Option<String>,
}

/// A call in the `--json` output.
pub(super) fn call(ToolCall { id, name, arguments, .. }: &ToolCall) -> Value {
    json!({ "id": id, "name": name, "arguments": arguments })
}

/// A message with its number and changes, as it is printed.
struct ShownMessage<'a> {
    number: usize,
    message: &'a Message,
    /// The tool whose result it is.
    tool: Option<&'a str>,
    created_at: Option<i64>,
}

pub(crate) async fn run(context: &mut Context<'_>, cat: Cat) -> Outcome<()> {
    let tract = context.open().await?;
    let head = resolve_head_or_title(context.out, &tract, &cat.revision.join(" ")).await?;
    let (compiled, damage) = match tract.repo().compile(head).await {
        Ok(compiled) => (compiled, None),
        // The readable part is printed first, and then the error.
        Err(error) => match tract.repo().compile_readable(head).await {
            Ok((compiled, _)) => (compiled, Some(error)),
            Err(_) => return Err(error.into()),
        },
    };
    print_all(context.out, &tract, &cat, &compiled).await?;
    damage.map_or(Ok(()), |error| Err(error.into()))
}

async fn print_all(out: &mut Output, tract: &Tract, cat: &Cat, compiled: &Compiled) -> Outcome<()> {
    let messages: Vec<&Message> = compiled.messages().collect();
    let ids: Vec<CommitId> = messages.iter().map(|message| message.commit).collect();
    let commits = tract.store().commits(tract.repo().name(), &ids).await?;
    let mut entries: Vec<ShownMessage<'_>> = messages
        .iter()
        .zip(commits)
        .enumerate()
        .map(|(place, (message, commit))| ShownMessage {
            number: place + 1,
            message,
            tool: tool_of(message, compiled),
            created_at: commit.and_then(|commit| commit.created_at),
        })
        .filter(|entry| cat.takes(entry))
        .collect();
    let left_out = cat.limit.map_or(0, |limit| entries.len().saturating_sub(limit));
    entries.drain(..left_out);
    if out.is_json() {
        return entries.iter().try_for_each(|entry| out.json(&document(entry)));
    }
    out.page();
    if messages.is_empty() {
        let head = compiled.head();
        return render::none_yet(out, tract, head, "cat", "messages").await;
    }
    for entry in &entries {
        print(out, entry)?;
    }
    let summary = format!(
        "{} of {}, all together {}",
        number(entries.len() as u64),
        count(messages.len(), "message"),
        render::tokens(compiled)
    );
    out.say(Styled(DIM, summary));
    Ok(())
}

impl Cat {
    fn takes(&self, entry: &ShownMessage<'_>) -> bool {
        let kind = entry.message.content.kind();
        let role = self.role.is_empty() || self.role.iter().any(|role| role.kind() == kind);
        let tool = self.tool.as_deref().is_none_or(|wanted| {
            entry.tool == Some(wanted) || entry.message.content.calls().any(|c| c.name == wanted)
        });
        role && tool
    }
}

/// Returns the tool of a result: from the result itself, else from its call.
fn tool_of<'a>(message: &'a Message, compiled: &'a Compiled) -> Option<&'a str> {
    let Content::ToolResult(answer) = &message.content else { return None };
    if let Some(name) = &answer.name {
        return Some(name);
    }
    let CallRef { slot, index } = message.answers?;
    let mut calls = compiled.message(slot)?.content.calls();
    Some(&calls.nth(usize::try_from(index).ok()?)?.name)
}

fn document(entry: &ShownMessage<'_>) -> Value {
    let message = entry.message;
    let answers = match &message.content {
        Content::ToolResult(answer) => {
            let (call_id, is_error) = (&answer.call_id, answer.is_error);
            json!({ "call_id": call_id, "name": entry.tool, "is_error": is_error })
        }
        _ => Value::Null,
    };
    let reasoning = message.content.reasoning();
    let text = match message.content.text() {
        text if text.is_empty() && message.content.kind() == Kind::Reasoning => reasoning.clone(),
        text => text,
    };
    let mut document = json!({
        "number": entry.number,
        "commit": message.commit,
        "role": message.role.as_str(),
        "kind": message.content.kind().as_str(),
        "at": entry.created_at.and_then(tract::time::format_rfc3339),
        "text": text,
        "calls": message.content.calls().map(call).collect::<Vec<_>>(),
        "answers": answers,
    });
    let is_reasoning = |part: &Part| matches!(part, Part::Reasoning { .. });
    let is_encrypted = |part: &Part| part.unreadable_reasoning() == Some("encrypted");
    if let Some(members) = document.as_object_mut()
        && message.content.parts().iter().any(is_reasoning)
    {
        if reasoning.is_empty() && message.content.parts().iter().any(is_encrypted) {
            members.insert("encrypted".to_owned(), true.into());
        }
        members.insert("reasoning".to_owned(), reasoning.into());
    }
    document
}

fn print(out: &mut Output, entry: &ShownMessage<'_>) -> Outcome<()> {
    let message = entry.message;
    let (role, failed) = match &message.content {
        Content::ToolResult(answer) => ("result", answer.is_error),
        _ => (message.role.as_str(), false),
    };
    let mut head = format!(
        "{} {}",
        Styled(BOLD, format!("#{}", entry.number)),
        Styled(style::kind(role), escape::line(role)),
    );
    if let Some(tool) = entry.tool {
        head += &format!(" {}", escape::line(tool));
    }
    if failed {
        head += &format!(" {}", Styled(BAD, "failed"));
    }
    head += &format!("  {}", Styled(ID, message.commit.short()));
    if let Some(at) = entry.created_at.and_then(crate::when::minute) {
        head += &format!("  {}", Styled(DIM, at));
    }
    out.line(head)?;
    for paragraph in paragraphs(message) {
        if paragraph.is_markdown {
            for line in markdown::lines(&paragraph.text) {
                let styled = line.into_iter().map(|(style, text)| Styled(style, text).to_string());
                out.line(styled.collect::<String>())?;
            }
            continue;
        }
        let text = Styled(paragraph.style, paragraph.text);
        match paragraph.aside {
            Some(aside) => out.line(format_args!("{text}  {}", Styled(DIM, aside)))?,
            None => out.line(text)?,
        }
    }
    out.line("")
}

/// A part of a message in one style, safe for a terminal. It may have several lines.
pub(super) struct Paragraph {
    pub(super) style: Style,
    pub(super) text: String,
    /// Whether the text is shown as Markdown; it has no style of its own then.
    pub(super) is_markdown: bool,
    /// Secondary text after it.
    pub(super) aside: Option<String>,
}

impl Paragraph {
    fn new(style: Style, text: impl Into<String>) -> Self {
        Self { style, text: text.into(), is_markdown: false, aside: None }
    }
}

/// Returns the parts of a message. Empty texts are left out.
pub(super) fn paragraphs(message: &Message) -> Vec<Paragraph> {
    // Results are the output of programs.
    let is_markdown = message.content.kind() != Kind::ToolResult;
    let plain = |text: &str| match text.trim_end_matches('\n') {
        "" => None,
        text => {
            Some(Paragraph { is_markdown, ..Paragraph::new(Style::new(), escape::block(text)) })
        }
    };
    if message.content.parts().is_empty() {
        return plain(&message.content.text()).into_iter().collect();
    }
    let of_part = |part: &Part| match part {
        Part::Text { text } => plain(text),
        Part::ToolCall(call) => {
            let (name, arguments) = (escape::line(&call.name), escape::block(&call.arguments));
            let aside = Some(escape::line(&call.id).into_owned());
            let text = format!("→ {name}({arguments})");
            Some(Paragraph { aside, ..Paragraph::new(Style::new(), text) })
        }
        Part::Reasoning { text, .. } => {
            let text = match part.unreadable_reasoning() {
                Some(why) => format!("(reasoning, {why})"),
                None => format!("(reasoning) {}", escape::block(text)),
            };
            Some(Paragraph::new(DIM, text))
        }
        Part::Image { media_type, .. } => {
            let of = media_type.as_deref().unwrap_or("of unknown type");
            Some(Paragraph::new(DIM, format!("(image {})", escape::line(of))))
        }
        Part::Opaque { dialect, json } => {
            let text = format!("({}) {}", escape::line(dialect), escape::line(json.as_str()));
            Some(Paragraph::new(DIM, text))
        }
    };
    message.content.parts().iter().filter_map(of_part).collect()
}
