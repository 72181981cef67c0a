//! `tract tools hash`, `tract tools lint` and `tract tools translate`: definitions in files.

use std::path::Path;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tract::schema::{Level, LintOptions, Loss, Target, ToolView};

use crate::definitions::{self, DefinitionText};
use crate::escape;
use crate::failure::{Failure, Outcome, RefusedLine, note_line};
use crate::out::Output;
use crate::render::count;
use crate::style::{BAD, BOLD, DIM, ID, Styled};

#[derive(Serialize)]
struct TranslateLine<'a> {
    line: usize,
    name: &'a str,
    sent_name: &'a str,
    /// With the original order of members: the bytes that would be sent.
    tool: Option<&'a RawValue>,
    losses: &'a [Loss],
}

pub(super) fn hash(out: &mut Output, file: &Path) -> Outcome<()> {
    let mut refused = 0;
    for definition in definitions::texts(file)? {
        let line = definition.line;
        match definition.parse() {
            Ok(schema) => {
                let name = escape::line(schema.name());
                let shown = format_args!("{}  {name}", Styled(ID, schema.id()));
                out.item(&json!({ "line": line, "hash": schema.id() }), shown)?;
            }
            Err(failure) => {
                refused += 1;
                out.refuse(&RefusedLine::new(line, &failure))?;
            }
        }
    }
    Failure::unless(refused == 0)
}

pub(super) fn lint(out: &mut Output, file: &Path, own: bool) -> Outcome<()> {
    let options = LintOptions { own };
    let (mut tools, mut errors, mut others) = (0, 0, 0);
    for DefinitionText { line, text, .. } in definitions::texts(file)? {
        let findings = tract::schema::lint_with(&text, &options);
        let name = ToolView::parse(&text).map(|view| view.name).unwrap_or_default();
        tools += 1;
        let bad = findings.iter().filter(|finding| finding.level == Level::Error).count();
        errors += bad;
        others += findings.len() - bad;
        if out.is_json() {
            out.json(&json!({ "line": line, "name": name, "findings": findings }))?;
            continue;
        }
        if !findings.is_empty() {
            let name = escape::line(&name).into_owned();
            out.line(format_args!("{}  (line {line})", Styled(BOLD, name)))?;
        }
        for finding in &findings {
            let shown = escape::line(&finding.to_string()).into_owned();
            match finding.level {
                Level::Error => out.line(format_args!("  {}", Styled(BAD, shown)))?,
                Level::Warning | Level::Hint => out.line(format_args!("  {shown}"))?,
            }
            if let Some(note) = &finding.note {
                out.line(format_args!("    {}", note_line(note)))?;
            }
        }
    }
    if !out.is_json() {
        let shown = format!(
            "{}: {}, {}",
            count(tools, "tool"),
            count(errors, "error"),
            count(others, "other finding")
        );
        out.say(Styled(DIM, shown));
    }
    Failure::unless(errors == 0)
}

pub(super) fn translate(out: &mut Output, file: &Path, to: Target, strict: bool) -> Outcome<()> {
    let mut refused = 0;
    for DefinitionText { line, text, .. } in definitions::texts(file)? {
        let made = tract::schema::translate(&text, to, strict)?;
        refused += usize::from(made.text.is_none());
        let tool = made.text.as_deref();
        if out.is_json() {
            let tool = tool.map(super::one_line).transpose()?;
            out.json(&TranslateLine {
                line,
                name: &made.name,
                sent_name: &made.sent_name,
                tool: tool
                    .as_deref()
                    .map(serde_json::from_str)
                    .transpose()
                    .map_err(Failure::json)?,
                losses: &made.losses,
            })?;
            continue;
        }
        if let Some(tool) = tool {
            out.json_text(&super::one_line(tool)?)?;
        }
        for loss in &made.losses {
            let shown = format!("line {line}: {}: {loss}", made.name);
            out.say(Styled(DIM, escape::line(&shown)));
        }
    }
    Failure::unless(refused == 0)
}
