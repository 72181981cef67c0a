//! The registry in which calls look up their tools. It is immutable once it is built.

mod build;
mod error;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tract_core::{DynTool, ToolId, ToolOrigin, ToolSchema, ToolTraits, nearest};
use tract_schema::{
    Aliases, Definition, Dialect, SchemaCompiler, SchemaError, Target, Translation, ValidateOptions,
};

pub use self::build::RegistryBuilder;
pub(crate) use self::build::built_in;
pub use self::error::{RegisterError, RegistryError};
use crate::compiled::Compiled;
use crate::policy::Policy;

/// The treatment of calls of a tool without a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NoSchema {
    /// They are refused.
    #[default]
    Refuse,
    /// They may run if the tool is read-only and a policy allows it.
    ReadOnly,
    /// Each requires human approval.
    HumanApproval,
    /// They may run if a policy allows it.
    Full,
}

impl NoSchema {
    /// Returns the name: `refuse`, `read-only`, `human-approval`, `full`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::ReadOnly => "read-only",
            Self::HumanApproval => "human-approval",
            Self::Full => "full",
        }
    }

    /// Returns the stricter of two modes.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Refuse, _) | (_, Self::Refuse) => Self::Refuse,
            (Self::HumanApproval, _) | (_, Self::HumanApproval) => Self::HumanApproval,
            (Self::ReadOnly, _) | (_, Self::ReadOnly) => Self::ReadOnly,
            (Self::Full, Self::Full) => Self::Full,
        }
    }

    /// Returns the mode with this name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Refuse, Self::ReadOnly, Self::HumanApproval, Self::Full]
            .into_iter()
            .find(|mode| mode.as_str() == word)
    }
}

/// A tool in a registry.
#[derive(Clone)]
pub struct Registered {
    id: Arc<str>,
    definition: Definition,
    callable: Option<Arc<dyn DynTool>>,
    traits: ToolTraits,
    timeout: Option<Duration>,
    origin: Option<Arc<ToolOrigin>>,
    no_schema: NoSchema,
    arguments_schema: Option<Arc<str>>,
    /// Stored per tool, so that merging registries does not change how a tool is validated.
    validation: Validation,
    pub(crate) compiled: Arc<OnceLock<Result<Compiled, SchemaError>>>,
    /// One translation per provider, created on first use.
    sent: Arc<[OnceLock<Translation>; Dialect::ALL.len()]>,
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
    /// Returns the id that distinguishes it from tools with the same name: the one that was given,
    /// else the hash of its schema.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn shared_id(&self) -> Arc<str> {
        Arc::clone(&self.id)
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.definition.name()
    }

    /// Returns the definition, as given.
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Returns the code that runs it, if this program has it.
    pub fn callable(&self) -> Option<&Arc<dyn DynTool>> {
        self.callable.as_ref()
    }

    /// Returns its traits: those of the callable, else the hints of the definition. A definition
    /// that hints at destruction counts as destructive even if the callable denies it: hints can
    /// only restrict.
    pub fn traits(&self) -> ToolTraits {
        self.traits
    }

    /// Returns the time limit of a call, if the callable sets one.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns its origin, if it is a tool of a server.
    pub fn origin(&self) -> Option<&ToolOrigin> {
        self.origin.as_deref()
    }

    /// Returns the treatment of its calls without a schema.
    pub fn no_schema(&self) -> NoSchema {
        self.no_schema
    }

    /// Returns the definition as it is sent to a provider, cached. For strict mode use
    /// [`tract_schema::translate`].
    pub fn sent_to(&self, dialect: Dialect) -> &Translation {
        let place = Dialect::ALL.iter().position(|known| *known == dialect).unwrap_or_default();
        self.sent[place].get_or_init(|| {
            let text = self.definition.schema().text();
            tract_schema::translate(text, Target::Provider(dialect), false)
                .expect("a definition is a JSON object")
        })
    }

    /// Returns the schema that arguments are validated against.
    pub fn arguments_schema(&self) -> Option<&str> {
        self.arguments_schema.as_deref()
    }
}

/// The result of looking up the name of a call.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// One tool.
    Found(&'a Registered),
    /// Several tools. The caller has to select one by its id.
    Ambiguous(Vec<&'a Registered>),
    /// No tool.
    Unknown {
        /// The name that was probably meant.
        nearest: Option<&'a str>,
    },
}

/// The tools in which calls are looked up. Built once, then shared.
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
    rules: RegistryRules,
}

/// Settings that apply to all tools of a registry.
#[derive(Clone, Default)]
struct RegistryRules {
    shared_names: bool,
    strict: bool,
    most_without_schema: NoSchema,
    /// For tools that are added without a validation of their own.
    validation: Validation,
    policies: Vec<Arc<dyn Policy>>,
}

/// The compiler and options that validate a tool's arguments.
#[derive(Clone, Default)]
struct Validation {
    compiler: Option<Arc<dyn SchemaCompiler>>,
    options: ValidateOptions,
}

impl Validation {
    /// Returns whether both create the same validator from a schema.
    fn is_same(&self, other: &Self) -> bool {
        let same_compiler = match (&self.compiler, &other.compiler) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_compiler && self.options == other.options
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl Registry {
    /// Returns a builder.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// Iterates over the tools, in the order in which they were added.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Registered> {
        self.tools.iter()
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns whether it contains no tools.
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

    /// Looks up the name of a call: a tool's own name, or the alias under which it was sent.
    pub fn lookup(&self, name: &str) -> Lookup<'_> {
        let own = self.by_name.get(name).or_else(|| self.by_name.get(self.aliases.original(name)));
        let mut found = own.into_iter().flatten().filter_map(|place| self.tools.get(*place));
        match (found.next(), found.next()) {
            (None, _) => {
                let names = self.iter().map(Registered::name);
                Lookup::Unknown { nearest: nearest(name, names) }
            }
            (Some(tool), None) => Lookup::Found(tool),
            (Some(first), Some(second)) => {
                Lookup::Ambiguous([first, second].into_iter().chain(found).collect())
            }
        }
    }

    /// Returns the name and version of the validator that is used for all tools except those from
    /// other registries.
    pub fn validator(&self) -> Option<(&str, &str)> {
        self.rules
            .validation
            .compiler
            .as_deref()
            .map(|compiler| (compiler.name(), compiler.version()))
    }

    /// Compiles the validators of all tools now, rather than each at its first call.
    ///
    /// # Errors
    /// [`RegistryError`] with every schema that cannot be compiled; calls of those tools are
    /// refused.
    pub fn compile_all(&self) -> Result<(), RegistryError> {
        let refused: Vec<RegisterError> = self
            .iter()
            .filter_map(|tool| {
                let source = self.compiled(tool, true)?.as_ref().err()?.clone();
                Some(RegisterError::Schema { name: tool.name().to_owned(), source })
            })
            .collect();
        if refused.is_empty() { Ok(()) } else { Err(RegistryError(refused)) }
    }

    /// Returns the policies, in the order in which they were added.
    pub(crate) fn policies(&self) -> &[Arc<dyn Policy>] {
        &self.rules.policies
    }

    /// Returns the validator of a tool's schema, compiled on first use; `None` without a schema or
    /// without a compiler.
    pub(crate) fn compiled<'a>(
        &self,
        tool: &'a Registered,
        eager: bool,
    ) -> Option<&'a Result<Compiled, SchemaError>> {
        let schema = tool.arguments_schema()?;
        let Validation { compiler, options } = &tool.validation;
        let compiler = compiler.as_deref()?;
        Some(tool.compiled.get_or_init(|| Compiled::of(compiler, schema, options, eager)))
    }
}

/// Iterates over the schemas as given, in order: the toolset of a commit.
impl<'a> IntoIterator for &'a Registry {
    type Item = &'a ToolSchema;
    type IntoIter = std::vec::IntoIter<&'a ToolSchema>;

    fn into_iter(self) -> Self::IntoIter {
        let schemas: Vec<&ToolSchema> = self.iter().map(|tool| tool.definition.schema()).collect();
        schemas.into_iter()
    }
}
