//! The tools that calls are looked up in: no globals, nothing changes after it is built.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use tract_core::{DynTool, ToolId, ToolSchema, ToolTraits, nearest};
use tract_schema::{
    Aliases, Definition, DefinitionError, Provider, SchemaCompiler, SchemaError, ValidateOptions,
};

use crate::compiled::Compiled;
use crate::policy::Policy;

/// What may be done with the calls of a tool that has no schema to hold them against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoSchema {
    /// Nothing: they are refused.
    #[default]
    Refuse,
    /// They may run where the tool promises to change nothing and a policy allows it.
    ReadOnly,
    /// Each needs the approval of a person.
    HumanApproval,
    /// They may run where a policy allows it.
    Full,
}

impl NoSchema {
    /// Returns the word: `refuse`, `read-only`, `human-approval`, `full`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::ReadOnly => "read-only",
            Self::HumanApproval => "human-approval",
            Self::Full => "full",
        }
    }

    /// Returns the mode that a word names.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Refuse, Self::ReadOnly, Self::HumanApproval, Self::Full]
            .into_iter()
            .find(|mode| mode.as_str() == word)
    }
}

/// A tool in a registry.
#[derive(Clone)]
pub struct Registered {
    id: String,
    definition: Definition,
    callable: Option<Arc<dyn DynTool>>,
    traits: ToolTraits,
    no_schema: NoSchema,
    arguments_schema: Option<Arc<str>>,
    pub(crate) compiled: Arc<OnceLock<Result<Compiled, SchemaError>>>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered")
            .field("id", &self.id)
            .field("name", &self.name())
            .field("callable", &self.callable.is_some())
            .finish_non_exhaustive()
    }
}

impl Registered {
    /// Returns the id that tells it from others of its name: the one given, else the hash of its
    /// schema.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.definition.name()
    }

    /// Returns the definition, as given.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Returns what runs, where this program has it.
    pub fn callable(&self) -> Option<&Arc<dyn DynTool>> {
        self.callable.as_ref()
    }

    /// Returns what it promises about its effects: what the callable says, else the definition's
    /// own hints.
    pub fn traits(&self) -> ToolTraits {
        self.traits
    }

    /// Returns what may be done with its calls when it has no schema.
    pub fn no_schema(&self) -> NoSchema {
        self.no_schema
    }

    /// Returns the schema that arguments are held against.
    pub fn arguments_schema(&self) -> Option<&str> {
        self.arguments_schema.as_deref()
    }
}

/// Why a tool is not taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// It is no definition.
    #[error("{}{source}", At(.place))]
    Definition {
        /// Which of those given, from 1.
        place: usize,
        /// What is wrong.
        source: DefinitionError,
    },
    /// Two tools have one name.
    #[error("the name {name:?} is given to {count} tools, expected one")]
    DuplicateName {
        /// The name.
        name: String,
        /// How many have it.
        count: usize,
    },
    /// Two tools have one id.
    #[error("the id {id:?} is given to {count} tools, expected one")]
    DuplicateId {
        /// The id.
        id: String,
        /// How many have it.
        count: usize,
    },
    /// A tool has no schema, and nobody said that this is meant.
    #[error("tool {name:?}: expected a schema of its arguments, found none")]
    NoSchema {
        /// The tool's name.
        name: String,
    },
    /// A provider would not accept the name.
    #[error("tool {name:?}: expected a name of 1 to 64 letters, digits, _ and -")]
    Name {
        /// The name.
        name: String,
        /// One that would do.
        suggestion: String,
    },
    /// The schema cannot be run.
    #[error("tool {name:?}: {source}")]
    Schema {
        /// The tool's name.
        name: String,
        /// What is wrong.
        source: SchemaError,
    },
}

struct At<'a>(&'a usize);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "definition {}: ", self.0)
    }
}

impl RegisterError {
    /// Returns the stable word.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Definition { source, .. } => source.code(),
            Self::DuplicateName { .. } => "duplicate_name",
            Self::DuplicateId { .. } => "duplicate_id",
            Self::NoSchema { .. } => "no_schema",
            Self::Name { .. } => "bad_name",
            Self::Schema { .. } => "bad_schema",
        }
    }

    /// Returns the ways out.
    pub fn notes(&self) -> Vec<String> {
        match self {
            Self::Definition { source, .. } => source.notes(),
            Self::DuplicateName { .. } => {
                vec!["rename one, or build with `.shared_names()` and call by id".to_owned()]
            }
            Self::DuplicateId { .. } => vec!["give each tool an id of its own".to_owned()],
            Self::NoSchema { .. } => vec![
                "write \"parameters\":{\"type\":\"object\"} for a tool without arguments, or say \
                 what may be done without one: `.no_schema(mode)`"
                    .to_owned(),
            ],
            Self::Name { suggestion, .. } => vec![format!("{suggestion:?} would do")],
            Self::Schema { source, .. } => source.notes(),
        }
    }
}

/// All that is wrong with the tools of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryError(pub Vec<RegisterError>);

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RegistryError {}

impl RegistryError {
    /// Returns the ways out, each once.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.0.iter().flat_map(RegisterError::notes).collect();
        let mut seen = std::collections::HashSet::new();
        notes.retain(|note| seen.insert(note.clone()));
        notes
    }
}

/// What a call's name leads to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Lookup<'a> {
    /// To one tool.
    Found(&'a Registered),
    /// To several; one has to be named by its id.
    Ambiguous(Vec<&'a Registered>),
    /// To none.
    Unknown {
        /// The name that was probably meant.
        nearest: Option<&'a str>,
    },
}

/// The tools that calls are looked up in. It is built once, and shared.
///
/// ```
/// use tract_tools::{Lookup, Registry};
/// let registry = Registry::builder()
///     .definition(r#"{"name":"fs.read","parameters":{"type":"object"}}"#)
///     .build()?;
/// assert!(matches!(registry.lookup("fs.read"), Lookup::Found(_)));
/// // Providers refuse the dot: the alias under which the tool was sent leads back.
/// assert!(matches!(registry.lookup("fs_read_8a61f454"), Lookup::Found(_)));
/// assert!(matches!(registry.lookup("fs.raed"), Lookup::Unknown { nearest: Some("fs.read") }));
/// # Ok::<(), tract_tools::RegistryError>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    tools: Arc<[Registered]>,
    by_name: HashMap<String, Vec<usize>>,
    by_id: HashMap<String, usize>,
    aliases: Aliases,
    pub(crate) compiler: Option<Arc<dyn SchemaCompiler>>,
    pub(crate) options: ValidateOptions,
    pub(crate) policies: Arc<[Arc<dyn Policy>]>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl Registry {
    /// Begins a registry.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// Walks the tools, in the order in which they were given.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Registered> {
        self.tools.iter()
    }

    /// Returns how many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the tool with this id.
    pub fn by_id(&self, id: &str) -> Option<&Registered> {
        self.by_id.get(id).and_then(|place| self.tools.get(*place))
    }

    /// Returns the tools with this definition's hash.
    pub fn by_definition(&self, id: ToolId) -> impl Iterator<Item = &Registered> {
        self.iter().filter(move |tool| tool.definition.id() == id)
    }

    /// Looks up the name of a call: a tool's own, or the alias under which it was sent.
    pub fn lookup(&self, name: &str) -> Lookup<'_> {
        let own = self.by_name.get(name).or_else(|| self.by_name.get(self.aliases.original(name)));
        let found: Vec<&Registered> =
            own.into_iter().flatten().filter_map(|place| self.tools.get(*place)).collect();
        match found.as_slice() {
            [] => {
                let names = self.iter().map(Registered::name);
                Lookup::Unknown { nearest: nearest(name, names) }
            }
            [tool] => Lookup::Found(tool),
            _ => Lookup::Ambiguous(found),
        }
    }

    /// Returns the validator's name and version, where there is one.
    pub fn validator(&self) -> Option<(&str, &str)> {
        self.compiler.as_deref().map(|compiler| (compiler.name(), compiler.version()))
    }

    /// Makes the validators of all tools now, rather than each at the first call.
    ///
    /// # Errors
    /// [`RegistryError`] with every schema that cannot be run; calls of those tools are refused.
    pub fn compile_all(&self) -> Result<(), RegistryError> {
        let refused: Vec<RegisterError> = self
            .iter()
            .filter_map(|tool| match self.compiled(tool, true)? {
                Ok(_) => None,
                Err(source) => {
                    let name = tool.name().to_owned();
                    Some(RegisterError::Schema { name, source: source.clone() })
                }
            })
            .collect();
        match refused.is_empty() {
            true => Ok(()),
            false => Err(RegistryError(refused)),
        }
    }

    /// The validator of a tool's schema, made at the first asking; `None` without schema or
    /// without anything that makes validators.
    pub(crate) fn compiled<'a>(
        &self,
        tool: &'a Registered,
        eager: bool,
    ) -> Option<&'a Result<Compiled, SchemaError>> {
        let schema = tool.arguments_schema()?;
        let compiler = self.compiler.as_deref()?;
        Some(tool.compiled.get_or_init(|| Compiled::of(compiler, schema, &self.options, eager)))
    }
}

/// The schemas, as given and in order: what a commit's set of tools is made of.
impl<'a> IntoIterator for &'a Registry {
    type Item = &'a ToolSchema;
    type IntoIter = std::vec::IntoIter<&'a ToolSchema>;

    fn into_iter(self) -> Self::IntoIter {
        let schemas: Vec<&ToolSchema> = self.iter().map(|tool| tool.definition.schema()).collect();
        schemas.into_iter()
    }
}

struct Given {
    id: Option<String>,
    definition: Result<Definition, DefinitionError>,
    callable: Option<Arc<dyn DynTool>>,
    native: bool,
    no_schema: NoSchema,
}

/// Collects tools; what is wrong with any of them is said by [`build`](Self::build), all at once.
#[must_use]
pub struct RegistryBuilder {
    given: Vec<Given>,
    shared_names: bool,
    compiler: Option<Arc<dyn SchemaCompiler>>,
    options: ValidateOptions,
    policies: Vec<Arc<dyn Policy>>,
}

impl Default for RegistryBuilder {
    fn default() -> Self {
        Self {
            given: Vec::new(),
            shared_names: false,
            #[cfg(feature = "validate")]
            compiler: Some(Arc::new(tract_schema::JsonSchema)),
            #[cfg(not(feature = "validate"))]
            compiler: None,
            options: ValidateOptions::default(),
            policies: Vec::new(),
        }
    }
}

impl RegistryBuilder {
    /// Adds a tool of this program. Its name has to be one that every provider accepts.
    pub fn tool(self, tool: impl DynTool) -> Self {
        self.dyn_tool(Arc::new(tool))
    }

    /// Adds a tool of this program whose type is not known.
    pub fn dyn_tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        let definition = Definition::parse(&tool.spec().definition());
        self.push(None, definition, Some(tool), true);
        self
    }

    /// Adds a definition in any provider's shape, or MCP's; nothing runs its calls.
    pub fn definition(mut self, text: &str) -> Self {
        self.push(None, Definition::parse(text), None, false);
        self
    }

    /// Adds a definition under an id of its own, with what runs its calls.
    pub fn import(
        mut self,
        id: Option<String>,
        definition: Definition,
        callable: Option<Arc<dyn DynTool>>,
    ) -> Self {
        self.push(id, Ok(definition), callable, false);
        self
    }

    /// Says what may be done with the calls of the tool added last when it has no schema.
    pub fn no_schema(mut self, mode: NoSchema) -> Self {
        if let Some(last) = self.given.last_mut() {
            last.no_schema = mode;
        }
        self
    }

    /// Keeps several tools of one name: their calls have to say which by id.
    pub fn shared_names(mut self) -> Self {
        self.shared_names = true;
        self
    }

    /// Sets what makes validators.
    pub fn compiler(mut self, compiler: Arc<dyn SchemaCompiler>) -> Self {
        self.compiler = Some(compiler);
        self
    }

    /// Has no validators: every call of a tool with a schema is refused.
    pub fn without_compiler(mut self) -> Self {
        self.compiler = None;
        self
    }

    /// Sets how schemas are read.
    pub fn options(mut self, options: ValidateOptions) -> Self {
        self.options = options;
        self
    }

    /// Adds a policy, asked for every call that could be read.
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policies.push(Arc::new(policy));
        self
    }

    fn push(
        &mut self,
        id: Option<String>,
        definition: Result<Definition, DefinitionError>,
        callable: Option<Arc<dyn DynTool>>,
        native: bool,
    ) {
        self.given.push(Given { id, definition, callable, native, no_schema: NoSchema::Refuse });
    }

    /// Checks everything and makes the registry.
    ///
    /// # Errors
    /// [`RegistryError`] with all that is wrong: what is no definition, has no schema, a name twice
    /// or an id twice, and names of this program's own tools that providers refuse.
    pub fn build(self) -> Result<Registry, RegistryError> {
        let mut errors = Vec::new();
        let mut tools: Vec<Registered> = Vec::new();
        for (n, given) in self.given.into_iter().enumerate() {
            let definition = match given.definition {
                Ok(definition) => definition,
                Err(source) => {
                    errors.push(RegisterError::Definition { place: n + 1, source });
                    continue;
                }
            };
            let name = definition.name();
            if given.native && !tract_schema::accepts(Provider::OpenAi, name) {
                let suggestion = tract_schema::suggestion(name);
                errors.push(RegisterError::Name { name: name.to_owned(), suggestion });
            }
            let arguments_schema: Option<Arc<str>> = definition.arguments_schema().map(Into::into);
            let fails_closed = given.no_schema == NoSchema::Refuse && given.callable.is_some();
            if arguments_schema.is_none() && fails_closed && !definition.is_of_provider() {
                errors.push(RegisterError::NoSchema { name: name.to_owned() });
            }
            let traits = given.callable.as_ref().map(|tool| tool.spec().traits);
            tools.push(Registered {
                id: given.id.unwrap_or_else(|| definition.id().to_string()),
                traits: traits.unwrap_or_else(|| definition.traits()),
                callable: given.callable,
                no_schema: given.no_schema,
                compiled: Arc::default(),
                arguments_schema,
                definition,
            });
        }
        share_validators(&mut tools);
        let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
        let mut ids: HashMap<&str, usize> = HashMap::new();
        for (place, tool) in tools.iter().enumerate() {
            by_name.entry(tool.name().to_owned()).or_default().push(place);
            *ids.entry(tool.id()).or_default() += 1;
        }
        let mut twice: Vec<RegisterError> = ids
            .iter()
            .filter(|(_, count)| **count > 1)
            .map(|(id, count)| RegisterError::DuplicateId { id: (*id).to_owned(), count: *count })
            .collect();
        if !self.shared_names {
            let named =
                by_name.iter().filter(|(name, places)| places.len() > 1 && !name.is_empty());
            twice.extend(named.map(|(name, places)| RegisterError::DuplicateName {
                name: name.clone(),
                count: places.len(),
            }));
        }
        twice.sort_by_key(ToString::to_string);
        errors.extend(twice);
        if !errors.is_empty() {
            return Err(RegistryError(errors));
        }
        let by_id = tools.iter().enumerate().map(|(n, tool)| (tool.id.clone(), n)).collect();
        // OpenAI's rule for names is the strictest of all.
        let aliases = Aliases::of(Provider::OpenAi, tools.iter().map(Registered::name));
        Ok(Registry {
            by_id,
            by_name,
            aliases,
            tools: tools.into(),
            compiler: self.compiler,
            options: self.options,
            policies: self.policies.into(),
        })
    }
}

/// Tools with the same schema have one validator.
fn share_validators(tools: &mut [Registered]) {
    let mut shared: HashMap<Arc<str>, Arc<OnceLock<Result<Compiled, SchemaError>>>> =
        HashMap::new();
    for tool in tools {
        if let Some(schema) = &tool.arguments_schema {
            let cell = shared.entry(Arc::clone(schema)).or_default();
            tool.compiled = Arc::clone(cell);
        }
    }
}
