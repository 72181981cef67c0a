//! Tool definitions in files, in every format in which tools are listed.

use std::path::Path;

use tract::ToolSchema;
use tract::core::json;
use tract::schema::Level;

use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::input::{self, Documents};
use crate::out::Output;

/// Maximum number of tools that OpenAI accepts in a request.
const OPENAI_TOOLS: usize = 128;
/// Maximum number of printed findings.
const SHOWN: usize = 20;

/// The text of a definition, with its position.
pub(crate) struct DefinitionText {
    /// The line in which its document begins, from 1.
    pub(crate) line: usize,
    /// Its number in the list that contains it, from 1.
    number: Option<usize>,
    pub(crate) text: String,
}

impl DefinitionText {
    /// Parses the definition without changing its bytes. An error contains its number in a list.
    pub(crate) fn parse(&self) -> Outcome<ToolSchema> {
        ToolSchema::parse(&self.text).map_err(|error| {
            let failure = Failure::from(tract::Error::from(error));
            match self.number {
                Some(number) => failure.at_tool(number),
                None => failure,
            }
        })
    }
}

/// Reads the texts of the tools in a file: one per document, or in lists, such as those of a
/// request or of an MCP server.
pub(crate) fn texts(path: &Path) -> Outcome<Vec<DefinitionText>> {
    Ok(documents(path)?.0)
}

/// Returns the texts of a file's tools, and the number of its documents.
fn documents(path: &Path) -> Outcome<(Vec<DefinitionText>, usize)> {
    let mut documents = Documents::new(input::open(path)?)?;
    let (mut texts, mut count) = (Vec::new(), 0);
    while let Some(document) = documents.next()? {
        count += 1;
        let line = document.line;
        let text = document.intact().map_err(|failure| failure.at_line(path, line))?;
        let text = text.trim();
        match listed(text) {
            Some(items) => {
                texts.extend(items.into_iter().zip(1..).map(|(text, number)| DefinitionText {
                    line,
                    number: Some(number),
                    text,
                }))
            }
            None => texts.push(DefinitionText { line, number: None, text: text.to_owned() }),
        }
    }
    Ok((texts, count))
}

/// Returns the tools of a list, of a request, or of the listing of an MCP server.
fn listed(text: &str) -> Option<Vec<String>> {
    let owned = |items: Vec<&str>| items.into_iter().map(str::to_owned).collect();
    if text.starts_with('[') {
        return json::split_array(text).ok().map(owned);
    }
    let members = json::split_object(text).ok()?;
    let member =
        |key: &str| members.iter().rev().find(|(name, _)| name == key).map(|(_, raw)| *raw);
    if member("name").is_some() || member("function").is_some() {
        return None;
    }
    match member("tools").filter(|raw| raw.starts_with('[')) {
        Some(tools) => json::split_array(tools).ok().map(owned),
        None => member("result").filter(|raw| raw.starts_with('{')).and_then(listed),
    }
}

/// Reads the tools of a file without changing their bytes.
pub(crate) fn read(path: &Path) -> Outcome<Vec<ToolSchema>> {
    let (texts, count) = documents(path)?;
    if count == 0 {
        let message = format!("expected tools in {}, found nothing", path.display());
        return Err(Failure::no("no_tools", message).note("an empty list is written []"));
    }
    let parsed =
        texts.iter().map(|one| one.parse().map_err(|failure| failure.at_line(path, one.line)));
    parsed.collect()
}

/// Reads the tools of a file for a request; their names must be distinct.
pub(crate) fn read_to_send(path: &Path) -> Outcome<Vec<ToolSchema>> {
    let tools = read(path)?;
    ToolSchema::check_names(&tools).map_err(tract::engine::Error::from)?;
    Ok(tools)
}

/// Warns on stderr about tools that providers reject.
pub(crate) fn report_limits(out: &mut Output, tools: &[ToolSchema]) {
    if tools.len() > OPENAI_TOOLS {
        out.say(format_args!(
            "{} tools: OpenAI takes at most {OPENAI_TOOLS} in one request",
            tools.len()
        ));
    }
    let findings = tools.iter().flat_map(|tool| {
        let findings = tract::schema::lint(tool.text());
        let serious = findings.into_iter().filter(|finding| finding.level != Level::Hint);
        serious.map(|finding| (tool.name().to_owned(), finding))
    });
    let findings: Vec<_> = findings.collect();
    for (name, finding) in findings.iter().take(SHOWN) {
        out.say(format_args!("{}", escape::line(&format!("{name}: {finding}"))));
    }
    if findings.len() > SHOWN {
        out.say(format_args!("{} more findings: tract tools lint", findings.len() - SHOWN));
    }
}
