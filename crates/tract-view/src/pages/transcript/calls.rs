//! Tool calls with their results: edits as diffs, shell commands as terminals, lists of tasks.

use std::borrow::Cow;

use maud::{Markup, html};
use serde_json::{Map, Value};
use tract_core::text::{beginning, compact, count, duration, model_name, number};
use tract_core::{Content, Message, Part, ToolCall};
use tract_engine::SessionSummary;

use super::{TranscriptOptions, image, size, text};
use crate::load::ShownMessage;
use crate::render::{self, Language};
use crate::text::{query, visible};

/// Maximum lines of an output or a diff that is shown unfolded.
const OPEN_LINES: usize = 12;
/// Maximum bytes of an output that is shown unfolded.
const OPEN_BYTES: usize = 1_200;
/// Maximum lines of a change that is shown unfolded.
const OPEN_CHANGE: usize = 40;
/// Maximum characters of the argument next to the name of a tool.
const ARGUMENT: usize = 120;

/// The action of a call, as far as its arguments show it.
#[derive(Debug, PartialEq, Eq)]
enum CallKind {
    Shell {
        command: String,
        folder: Option<String>,
    },
    /// Texts of a file with their replacements.
    Edit {
        path: String,
        edits: Vec<(String, String)>,
    },
    Write {
        path: String,
        text: String,
    },
    Patch(String),
    Tasks(Vec<Task>),
    Subagent {
        prompt: String,
    },
    Plan(String),
    Other,
}

#[derive(Debug, PartialEq, Eq)]
struct Task {
    status: &'static str,
    text: String,
}

/// Finds out what a call does. The names and arguments are those of the agent tools whose
/// recordings tract imports.
fn kind(call: &ToolCall) -> CallKind {
    let name = call.name.to_ascii_lowercase();
    if call.arguments.starts_with("*** Begin Patch") {
        return CallKind::Patch(call.arguments.clone());
    }
    let Ok(Value::Object(arguments)) = serde_json::from_str(&call.arguments) else {
        return CallKind::Other;
    };
    let string = |names: &[&str]| {
        names.iter().find_map(|name| Some(arguments.get(*name)?.as_str()?.to_owned()))
    };
    let path =
        string(&["file_path", "path", "filePath", "filename", "target_file", "notebook_path"]);
    let is_shell =
        ["bash", "shell", "exec", "terminal", "command"].iter().any(|word| name.contains(word));
    if is_shell && let Some(command) = command(&arguments) {
        let folder = string(&["workdir", "cwd", "directory", "working_directory"]);
        return CallKind::Shell { command, folder };
    }
    if let Some(text) = string(&["patch", "input", "diff"]).filter(|text| is_patch(text)) {
        return CallKind::Patch(text);
    }
    if let Some(tasks) = tasks(&arguments) {
        return CallKind::Tasks(tasks);
    }
    if let Some(path) = path {
        if let Some(edit) = edit(&arguments) {
            return CallKind::Edit { path, edits: vec![edit] };
        }
        let edits = arguments.get("edits").and_then(Value::as_array);
        let edits =
            edits.and_then(|edits| edits.iter().map(|one| edit(one.as_object()?)).collect());
        if let Some(edits) = edits {
            return CallKind::Edit { path, edits };
        }
        if let Some(text) = string(&["content", "contents", "file_text"]) {
            return CallKind::Write { path, text };
        }
    }
    if ["task", "agent", "delegate"].iter().any(|word| name.ends_with(word))
        && let Some(prompt) = string(&["prompt", "message", "task"])
    {
        return CallKind::Subagent { prompt };
    }
    match string(&["plan"]) {
        Some(plan) => CallKind::Plan(plan),
        None => CallKind::Other,
    }
}

/// Returns the command of a shell call: a line, or a list of words.
fn command(arguments: &Map<String, Value>) -> Option<String> {
    match arguments
        .get("command")
        .or_else(|| arguments.get("cmd"))
        .or_else(|| arguments.get("script"))?
    {
        Value::String(line) => Some(line.clone()),
        Value::Array(words) => {
            let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
            let words = words?;
            // `bash -lc LINE` is only the way to run the line.
            match words.as_slice() {
                [_, flag, line] if flag.starts_with('-') && flag.ends_with('c') => {
                    Some((*line).to_owned())
                }
                words => Some(words.join(" ")),
            }
        }
        _ => None,
    }
}

fn is_patch(text: &str) -> bool {
    ["*** Begin Patch", "diff --git ", "--- "].iter().any(|start| text.starts_with(start))
}

fn edit(arguments: &Map<String, Value>) -> Option<(String, String)> {
    let string = |names: [&str; 2]| names.iter().find_map(|name| arguments.get(*name)?.as_str());
    let old = string(["old_string", "old_str"])?;
    Some((old.to_owned(), string(["new_string", "new_str"])?.to_owned()))
}

fn tasks(arguments: &Map<String, Value>) -> Option<Vec<Task>> {
    let list = arguments.get("todos").or_else(|| arguments.get("plan"))?.as_array()?;
    list.iter()
        .map(|task| {
            let text = task.get("content").or_else(|| task.get("step"))?.as_str()?.to_owned();
            let status = match task.get("status")?.as_str()? {
                "completed" | "done" => "done",
                "in_progress" => "doing",
                "cancelled" => "dropped",
                _ => "open",
            };
            Some(Task { status, text })
        })
        .collect()
}

/// Returns the most telling argument of a call, for its first line.
fn argument(call: &ToolCall) -> Cow<'_, str> {
    const NAMES: [&str; 14] = [
        "description",
        "file_path",
        "path",
        "filePath",
        "pattern",
        "query",
        "url",
        "command",
        "cmd",
        "name",
        "subject",
        "title",
        "prompt",
        "question",
    ];
    let members = tract_core::json::split_object(&call.arguments).unwrap_or_default();
    let text = NAMES.iter().find_map(|name| {
        let (_, value) = members.iter().find(|(member, _)| member == name)?;
        tract_core::json::read_string(value)
    });
    let text = text.map_or(Cow::Borrowed(call.arguments.as_str()), Cow::Owned);
    let line = text.lines().next().unwrap_or_default();
    let (first, more) = beginning(line, ARGUMENT);
    Cow::Owned(if more > 0 { format!("{first}…") } else { first.to_owned() })
}

/// What the outline of a page says about a call, if it should.
pub(super) fn outlined(call: &ToolCall) -> Option<(&'static str, String)> {
    match kind(call) {
        CallKind::Edit { path, .. } | CallKind::Write { path, .. } => {
            let name = path.rsplit(['/', '\\']).next().unwrap_or(&path).to_owned();
            Some(("edit", name))
        }
        CallKind::Patch(text) => {
            let file = text.lines().find_map(|line| {
                let (_, file) = line.strip_prefix("*** ")?.split_once(" File: ")?;
                file.rsplit('/').next()
            });
            Some(("edit", file.unwrap_or("patch").to_owned()))
        }
        CallKind::Subagent { .. } => Some(("subagent", argument(call).into_owned())),
        CallKind::Shell { .. } | CallKind::Tasks(_) | CallKind::Plan(_) | CallKind::Other => None,
    }
}

/// Shows a call with its result.
pub(super) fn call(
    shown: &ShownMessage<'_>,
    place: usize,
    called: &ToolCall,
    result: Option<(usize, &Message)>,
    options: TranscriptOptions<'_>,
) -> Markup {
    let id = format!("{}-{place}", options.anchor('c', shown.number));
    let answer = result.map(|(number, message)| Answer::of(number, message));
    // A text that is longer than a page may have is shown as it is, cut.
    let kind = if called.arguments.len() <= options.most { kind(called) } else { CallKind::Other };
    let head = html! {
        b { (visible(&called.name)) } " "
        @if !matches!(kind, CallKind::Tasks(_)) { span .argument { (visible(&argument(called))) } }
        (answer.as_ref().map(Answer::status).unwrap_or_else(|| html! { " " span .tag { "no result" } }))
    };
    let agent = options.subagents.get(&called.id);
    let body = match &kind {
        CallKind::Other if agent.is_none() => None,
        kind => Some(html! {
            (body(kind, options))
            @if let Some(agent) = agent { (subagent(agent, options)) }
            details .arguments { summary { "arguments" } (arguments(shown, called, options)) }
        }),
    };
    let output = answer.as_ref().map(|answer| {
        html! {
            span id=(options.anchor('m', answer.number)) {}
            (answer.output(&kind, options))
        }
    });
    match body {
        Some(body) => html! {
            div .call id=(id) { p .call-head { (head) } (body) @if let Some(output) = output { (output) } }
        },
        None => html! {
            details .call id=(id) {
                summary { (head) }
                (arguments(shown, called, options))
                @if let Some(output) = output { (output) }
            }
        },
    }
}

fn arguments(
    shown: &ShownMessage<'_>,
    called: &ToolCall,
    options: TranscriptOptions<'_>,
) -> Markup {
    let tree =
        (called.arguments.len() <= options.most).then(|| render::json(&called.arguments)).flatten();
    tree.unwrap_or_else(|| text(&called.arguments, shown.message, options))
}

fn body(kind: &CallKind, options: TranscriptOptions<'_>) -> Markup {
    match kind {
        CallKind::Shell { command, folder } => html! {
            @if let Some(folder) = folder { p .soft .small { "in " (visible(folder)) } }
            pre .terminal { span .prompt { "$ " } (render::highlighted(command, Language::of("sh"))) }
        },
        CallKind::Edit { path, edits } => {
            let lines: usize =
                edits.iter().map(|(old, new)| old.lines().count() + new.lines().count()).sum();
            change(path, lines, html! { @for (old, new) in edits { (render::diff(old, new)) } })
        }
        CallKind::Write { path, text } => {
            let (kept, more) = beginning(text, options.most);
            change(
                path,
                text.lines().count(),
                html! {
                    pre .code { (render::highlighted(kept, Language::of_path(path))) }
                    @if more > 0 { p .soft { (more) " characters more" } }
                },
            )
        }
        CallKind::Patch(text) => change("patch", text.lines().count(), render::patch(text)),
        CallKind::Tasks(tasks) => html! {
            ul .tasks { @for task in tasks { li .(task.status) { span .hidden { (task.status) ": " } (visible(&task.text)) } } }
        },
        CallKind::Subagent { prompt } => html! {
            details { summary { "prompt · " (size(prompt)) } div .md dir="auto" { (render::markdown(prompt)) } }
        },
        CallKind::Plan(plan) => html! { div .md dir="auto" { (render::markdown(plan)) } },
        CallKind::Other => html! {},
    }
}

/// The conversation of a subagent, next to the call that started it.
fn subagent(session: &SessionSummary, options: TranscriptOptions<'_>) -> Markup {
    let name = session.name();
    let title = visible(&name);
    html! {
        p .subagent {
            span .tag { "subagent" } " "
            @if options.linked { a href=(format!("/transcript?rev={}", query(&session.branch))) { (title) } }
            @else { (title) }
            " " span .soft {
                (count(usize::try_from(session.messages).unwrap_or(usize::MAX), "message"))
                @if let Some(model) = &session.model { " · " (visible(model_name(model))) }
                @if let Some(took) = session.duration_us().filter(|took| *took > 0) { " · " (duration(took)) }
                @if session.all_tokens() > 0 { " · " (compact(session.all_tokens())) " tokens" }
            }
        }
    }
}

/// A change of a file, folded if it is long.
fn change(path: &str, lines: usize, change: Markup) -> Markup {
    html! {
        details .change open[lines <= OPEN_CHANGE] {
            summary { code { (visible(path)) } " " span .soft { (count(lines, "line")) } }
            (change)
        }
    }
}

/// The result of a call.
struct Answer<'a> {
    number: usize,
    message: &'a Message,
    failed: bool,
    exit: Option<i64>,
    /// The text without the words that tools put around it.
    text: Cow<'a, str>,
}

impl<'a> Answer<'a> {
    fn of(number: usize, message: &'a Message) -> Self {
        let failed = matches!(&message.content, Content::ToolResult(answer) if answer.is_error);
        let texts: Vec<&str> = message
            .content
            .parts()
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let text = match texts.as_slice() {
            [one] => Cow::Borrowed(*one),
            many => Cow::Owned(many.join("\n")),
        };
        let (exit, output) = exit_code(&text);
        let text = output.map_or(text, Cow::Owned);
        Self { number, message, failed, exit, text }
    }

    fn status(&self) -> Markup {
        html! {
            @match (self.exit, self.failed) {
                (Some(0), false) => { " " span .tag .good { "exit 0" } }
                (Some(code), _) => { " " span .tag .bad { "exit " (code) } }
                (None, true) => { " " span .tag .bad { "failed" } }
                (None, false) => {}
            }
            " " span .soft .small { (number(self.message.token_count)) " tokens" }
        }
    }

    fn output(&self, kind: &CallKind, options: TranscriptOptions<'_>) -> Markup {
        let others =
            self.message.content.parts().iter().filter(|part| !matches!(part, Part::Text { .. }));
        html! {
            (self.text(kind, options))
            @for part in others {
                @match part {
                    Part::Image { media_type, source } => (image(media_type.as_deref(), source)),
                    other => ({
                        let mut out = String::new();
                        crate::pages::part_text(other, &mut out);
                        text(&out, self.message, options)
                    }),
                }
            }
        }
    }

    fn text(&self, kind: &CallKind, options: TranscriptOptions<'_>) -> Markup {
        if self.text.trim().is_empty() {
            return html! { @if !self.has_other_parts() { p .soft .small { "no output" } } };
        }
        let is_long = self.text.len() > options.most;
        let shown = match kind {
            CallKind::Subagent { .. } if !is_long => {
                html! { div .md dir="auto" { (render::markdown(&self.text)) } }
            }
            CallKind::Shell { .. } => {
                html! { (text(&without_colors(&self.text), self.message, options)) }
            }
            _ if is_long => text(&self.text, self.message, options),
            _ => render::json(&self.text)
                .or_else(|| numbered(&self.text))
                .unwrap_or_else(|| text(&self.text, self.message, options)),
        };
        let lines = self.text.lines().count();
        let is_open = lines <= OPEN_LINES && self.text.len() <= OPEN_BYTES;
        let class = if matches!(kind, CallKind::Shell { .. }) {
            "output terminal-output"
        } else {
            "output"
        };
        html! {
            @if is_open { div class=(class) { (shown) } } @else {
                details class=(class) {
                    summary { @if self.failed { "error" } @else { "result" } " · " (count(lines, "line")) " · " (size(&self.text)) }
                    (shown)
                }
            }
        }
    }

    fn has_other_parts(&self) -> bool {
        self.message.content.parts().iter().any(|part| !matches!(part, Part::Text { .. }))
    }
}

/// Finds the exit code that a shell tool wrote into its result, and the output without it.
fn exit_code(text: &str) -> (Option<i64>, Option<String>) {
    if text.starts_with('{')
        && let Ok(Value::Object(object)) = serde_json::from_str::<Value>(text)
    {
        let code = object.get("exit_code").or_else(|| object.get("metadata")?.get("exit_code"));
        let output = object.get("output").or_else(|| object.get("stdout")).and_then(Value::as_str);
        // Other fields are part of the result, so only the known ones are taken for the wrapping.
        let is_wrapping =
            object.keys().all(|key| matches!(key.as_str(), "output" | "metadata" | "exit_code"));
        return (code.and_then(Value::as_i64), output.filter(|_| is_wrapping).map(str::to_owned));
    }
    let (first, after) = text.split_once('\n').unwrap_or((text, ""));
    for start in ["Exit code: ", "Exit code ", "Process exited with code "] {
        if let Some(code) = first.strip_prefix(start).and_then(|code| code.trim().parse().ok()) {
            return (Some(code), Some(after.to_owned()));
        }
    }
    (None, None)
}

/// Removes the sequences that color text on a terminal. Others stay, and are written out.
fn without_colors(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';')).unwrap_or(part.len());
        match part.get(end..).and_then(|after| after.strip_prefix('m')) {
            Some(after) => out.push_str(after),
            None => {
                out.push_str("\u{1b}[");
                out.push_str(part);
            }
        }
    }
    Cow::Owned(out)
}

/// Shows lines with their numbers in a column, if the text has them as agents' tools for reading
/// files write them: `  12→line`.
fn numbered(text: &str) -> Option<Markup> {
    let mut numbers = String::new();
    let mut code = String::new();
    for line in text.lines() {
        let (number, line) = line.split_once('→')?;
        let number: u64 = number.trim().parse().ok()?;
        numbers.push_str(&format!("{number}\n"));
        code.push_str(line);
        code.push('\n');
    }
    Some(html! { div .numbered { pre aria-hidden="true" { (numbers) } pre { (visible(&code)) } } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &str) -> CallKind {
        kind(&ToolCall {
            id: String::new(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        })
    }

    #[test]
    fn calls_of_agent_tools_are_recognized() {
        let shell = |command: &str| CallKind::Shell { command: command.to_owned(), folder: None };
        assert_eq!(call("Bash", r#"{"command":"ls -l"}"#), shell("ls -l"));
        assert_eq!(call("shell", r#"{"command":["bash","-lc","ls"]}"#), shell("ls"));
        assert_eq!(call("exec_command", r#"{"cmd":"ls"}"#), shell("ls"));
        let edit = CallKind::Edit { path: "a".into(), edits: vec![("b".into(), "c".into())] };
        assert_eq!(call("Edit", r#"{"file_path":"a","old_string":"b","new_string":"c"}"#), edit);
        let many = r#"{"file_path":"a","edits":[{"old_string":"b","new_string":"c"}]}"#;
        assert_eq!(call("MultiEdit", many), edit);
        let write = CallKind::Write { path: "a".into(), text: "b".into() };
        assert_eq!(call("write_file", r#"{"path":"a","content":"b"}"#), write);
        let tasks = CallKind::Tasks(vec![Task { status: "done", text: "x".into() }]);
        assert_eq!(call("TodoWrite", r#"{"todos":[{"content":"x","status":"completed"}]}"#), tasks);
        assert_eq!(call("update_plan", r#"{"plan":[{"step":"x","status":"completed"}]}"#), tasks);
        let agent = CallKind::Subagent { prompt: "look".into() };
        assert_eq!(call("Task", r#"{"prompt":"look","description":"d"}"#), agent);
        for (name, arguments) in
            [("get_weather", r#"{"city":"Paris"}"#), ("Bash", "{}"), ("x", "no JSON")]
        {
            assert_eq!(call(name, arguments), CallKind::Other, "{name}");
        }
    }

    #[test]
    fn exit_codes_are_found_where_tools_write_them() {
        let check = |text: &str, code: Option<i64>, output: Option<&str>| {
            assert_eq!(exit_code(text), (code, output.map(str::to_owned)), "{text}");
        };
        check("Exit code 2\nno such file", Some(2), Some("no such file"));
        check(r#"{"output":"a","metadata":{"exit_code":0}}"#, Some(0), Some("a"));
        check(r#"{"exit_code":1,"stderr":"x"}"#, Some(1), None);
        check("Exit code: unknown", None, None);
    }

    #[test]
    fn only_colors_are_removed_from_output() {
        assert_eq!(without_colors("a \u{1b}[1;31mred\u{1b}[0m b"), "a red b");
        assert_eq!(without_colors("\u{1b}[2Jx\u{1b}["), "\u{1b}[2Jx\u{1b}[");
    }
}
