//! The tools and instructions of an agent on the command line.

#[cfg(feature = "mcp")]
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
#[cfg(feature = "mcp")]
use std::sync::RwLock;

#[cfg(feature = "mcp")]
use tract::mcp::{McpServer, ServerCommand, ServerOptions, distinct_names_besides};
use tract::run::Agent;
use tract::tools::fs::{self, DirectoryFs, Filesystem};
use tract::tools::policy::ReadBeforeWrite;
use tract::tools::resource::Resources;
#[cfg(feature = "mcp")]
use tract::tools::select::{CatalogEntry, PickOptions, SearchTools, ToolIndex};
use tract::tools::{
    Bindings, Planning, Prompt, Registry, RegistryBuilder, Section, Session, Strategy,
};

use crate::failure::{Failure, Outcome};
#[cfg(feature = "mcp")]
use crate::verb::{mcp::report_refused, server::add_variable};

const ROLE: &str = "\
You work on a task by yourself, with the tools that you are given. Look before you change \
anything, say what you found rather than what you expected, and stop when the task is done or \
when you need a person to decide. Your last message is what the person reads: say in it what you \
did and what is left.";

const FILES: &str = "\
You can read and write the files of one folder. Paths are relative to it; nothing outside of it \
can be reached. Read a file before you change it.";

/// The tools of an agent.
pub(super) struct Tools {
    prompt: Prompt,
    files: Option<Arc<dyn Filesystem>>,
    #[cfg(feature = "mcp")]
    servers: Vec<McpServer>,
    of_servers: Registry,
}

/// The MCP servers that the command line names.
#[derive(Clone, Copy, Default)]
pub(super) struct Commands<'a> {
    /// `[LABEL=]CMD`.
    pub(super) commands: &'a [String],
    /// `[LABEL:]NAME[=VALUE]`.
    #[cfg(feature = "mcp")]
    pub(super) variables: &'a [String],
}

fn no<E: ToString>(code: &'static str) -> impl Fn(E) -> Failure {
    move |error| Failure::no(code, error.to_string())
}

impl Tools {
    /// Starts the servers and opens the folder.
    pub(super) async fn start(
        session: &Session,
        strategy: Option<Strategy>,
        folder: Option<&Path>,
        commands: Commands<'_>,
        instructions: Option<String>,
    ) -> Outcome<Self> {
        let role = instructions.as_deref().unwrap_or(ROLE).replace("${", "$${");
        let mut prompt =
            Prompt::builder("tract", "run").section(Section::new("role", "Role", role));
        if let Some(strategy) = strategy {
            let section = Planning::section_of(session, strategy).map_err(no("session"))?;
            prompt = prompt.section(section);
        }
        let mut files = None;
        if let Some(folder) = folder {
            let opened = DirectoryFs::open(folder).map_err(|error| {
                Failure::usage(format!("{}: {error}", folder.display())).notes(error.note())
            })?;
            files = Some(Arc::new(opened) as Arc<dyn Filesystem>);
            let tools = fs::add_fs_tools(Registry::builder()).build();
            let tools = tools.map_err(no("tools"))?;
            let section = Section::new("files", "Files", FILES);
            let section = tools
                .iter()
                .filter_map(|tool| tool.callable().cloned())
                .fold(section, Section::dyn_tool);
            prompt = prompt.section(section);
        }
        let prompt = prompt.build().map_err(no("prompt"))?;
        #[cfg(feature = "mcp")]
        let (servers, builder) = servers(commands, &prompt).await?;
        #[cfg(not(feature = "mcp"))]
        let builder = match commands.commands {
            [] => Registry::builder(),
            _ => return Err(Failure::usage("this build knows no MCP servers")),
        };
        let of_servers = registry(builder)?;
        Ok(Self {
            prompt,
            files,
            #[cfg(feature = "mcp")]
            servers,
            of_servers,
        })
    }

    /// Returns the tools without a section: those of servers.
    pub(super) fn registry(&self) -> Outcome<Registry> {
        registry(Registry::builder().registry(&self.of_servers))
    }

    /// Makes the servers' tools searchable by the model. Destructive tools are found, too, because
    /// policy is applied when a tool is called.
    #[cfg(feature = "mcp")]
    pub(super) fn searched(&self, agent: Agent) -> Outcome<Agent> {
        let entries = self
            .of_servers
            .iter()
            .map(|tool| CatalogEntry::parse(tool.definition().schema().text()));
        let index: Result<ToolIndex, _> = entries.collect();
        let index = index.map_err(no("tools"))?;
        let options = PickOptions { allow_unsafe: true, ..PickOptions::default() };
        let search = SearchTools { index: Arc::new(RwLock::new(index)), options };
        agent.search_tools(search).map_err(no("tools"))
    }

    /// Passes all tools to an agent.
    pub(super) fn equip(&self, agent: Agent) -> Outcome<Agent> {
        let mut agent = agent.prompt(self.prompt.clone(), Bindings::new()).map_err(no("tools"))?;
        if let Some(files) = &self.files {
            let resources = Resources::builder().bind(fs::bind(Arc::clone(files))).build();
            let resources = resources.map_err(no("resources"))?;
            agent = agent
                .resources(Arc::new(resources))
                .policy(ReadBeforeWrite::of_fs_tools(Arc::clone(files)));
        }
        Ok(agent)
    }

    /// Stops the servers.
    pub(super) async fn close(self) {
        #[cfg(feature = "mcp")]
        for server in self.servers {
            server.close().await;
        }
    }
}

fn registry(builder: RegistryBuilder) -> Outcome<Registry> {
    builder.build().map_err(no("tools"))
}

/// Starts servers and lists their tools. Duplicate names, also with the tools of the prompt, are
/// made distinct.
#[cfg(feature = "mcp")]
async fn servers(
    Commands { commands, variables }: Commands<'_>,
    prompt: &Prompt,
) -> Outcome<(Vec<McpServer>, RegistryBuilder)> {
    let mut planned: BTreeMap<String, ServerCommand> = BTreeMap::new();
    let mut order = Vec::new();
    for command in commands {
        let (given, command) = labeled(command)?;
        let words = words(command)?;
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::usage("expected the command of a server after --mcp, found none"));
        };
        let command = ServerCommand::new(program).args(arguments);
        let label = given.map_or_else(|| command.name(), str::to_owned);
        order.push((label.clone(), given.unwrap_or_default().to_owned()));
        // Labels select the variables of a server, and make names distinct.
        if planned.insert(label.clone(), command).is_some() {
            let what = match given {
                Some(_) => format!("two servers have the label {label:?}"),
                None => format!("two servers have the name {label:?}, and one of them no label"),
            };
            return Err(Failure::usage(what).note("give each its own label: --mcp 'LABEL=COMMAND'"));
        }
    }
    for variable in variables {
        give_variable(&mut planned, variable)?;
    }
    let mut servers = Vec::new();
    let mut tools = Vec::new();
    for (label, given) in order {
        let Some(command) = planned.remove(&label) else { continue };
        let server = McpServer::start(given, command, ServerOptions::default()).await?;
        let listing = server.tools().await?;
        report_refused(&label, &listing);
        tools.extend(listing.tools);
        servers.push(server);
    }
    let specs = prompt.tools().iter().map(|tool| tool.spec().name).collect::<Vec<_>>();
    let own = specs.iter().map(String::as_str).chain(["search_tools"]);
    let tools = distinct_names_besides(tools, own);
    let builder = tools.into_iter().fold(Registry::builder(), |builder, tool| {
        // The definition of the server, renamed if another tool has the same name.
        let definition = if tool.name() == tool.origin() {
            tool.definition().text().to_owned()
        } else {
            tract::core::DynTool::spec(&tool).definition()
        };
        builder.definition_with(&definition, Arc::new(tool))
    });
    Ok((servers, builder))
}

/// Sets a variable for all servers, or for the one with the given label.
#[cfg(feature = "mcp")]
fn give_variable(planned: &mut BTreeMap<String, ServerCommand>, variable: &str) -> Outcome<()> {
    let name_ends = variable.find('=').unwrap_or(variable.len());
    let label = variable.find(':').filter(|colon| *colon < name_ends);
    let Some(colon) = label else {
        for command in planned.values_mut() {
            add_variable(command, variable)?;
        }
        return Ok(());
    };
    let (label, rest) = variable.split_at(colon);
    let Some(command) = planned.get_mut(label) else {
        let known: Vec<&str> = planned.keys().map(String::as_str).collect();
        return Err(Failure::usage(format!("no server has the label {label:?}"))
            .note(format!("the labels are: {}", known.join(", "))));
    };
    add_variable(command, rest.trim_start_matches(':'))?;
    Ok(())
}

/// Removes `LABEL=` from a command.
#[cfg(feature = "mcp")]
fn labeled(command: &str) -> Outcome<(Option<&str>, &str)> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    // A path and an argument may contain `=`, and are not a label.
    let is_other = |label: &str| label.is_empty() || label.contains(['/', '\\', ' ', '\'', '"']);
    let Some((label, rest)) = command.split_once('=').filter(|(label, _)| !is_other(label)) else {
        return Ok((None, command));
    };
    match label.chars().find(|character| !is_allowed(*character)) {
        None => Ok((Some(label), rest)),
        Some(other) => {
            Err(Failure::usage(format!("the label {label:?} of --mcp contains {other:?}"))
                .note("a label has letters, digits, '.', '_' and '-': --mcp 'LABEL=COMMAND'"))
        }
    }
}

/// Splits a command into words like a shell, with quotes and backslashes only.
#[cfg(feature = "mcp")]
fn words(command: &str) -> Outcome<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = command.chars();
    while let Some(next) = characters.next() {
        match (quote, next) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(next);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (_, plain) => word.get_or_insert_default().push(plain),
        }
    }
    match quote {
        Some(open) => Err(Failure::usage(format!("expected another {open} in {command:?}"))),
        None => {
            words.extend(word);
            Ok(words)
        }
    }
}

#[cfg(all(test, feature = "mcp"))]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_apart_as_a_shell_does() {
        let cases: [(&str, &[&str]); 5] = [
            ("npx -y server", &["npx", "-y", "server"]),
            (r#"a 'b c' "d e""#, &["a", "b c", "d e"]),
            (r#"a\ b "c\"d" 'e\f'"#, &["a b", "c\"d", "e\\f"]),
            ("  ", &[]),
            ("a ''", &["a", ""]),
        ];
        for (command, wanted) in cases {
            assert_eq!(words(command).unwrap(), wanted, "{command}");
        }
        assert!(words("a 'b").is_err());
    }

    #[test]
    fn a_label_precedes_the_command() {
        let cases = [
            ("memory=npx -y server", (Some("memory"), "npx -y server")),
            ("npx -y server --name=x", (None, "npx -y server --name=x")),
            ("./bin/run --a=b", (None, "./bin/run --a=b")),
            ("=x", (None, "=x")),
        ];
        for (command, wanted) in cases {
            assert_eq!(labeled(command).expect("a label"), wanted, "{command}");
        }
    }
}
