//! Collecting tools, and checking them all at once.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tract_core::{DynTool, ToolSpec, ToolTraits};
use tract_schema::{
    Aliases, Definition, DefinitionError, Dialect, SchemaCompiler, SchemaError, ValidateOptions,
};

use super::{NoSchema, RegisterError, Registered, Registry, RegistryError, RegistryRules};
use crate::compiled::Compiled;
use crate::policy::Policy;
use crate::strict;

struct ToolEntry {
    id: Option<String>,
    definition: Result<Definition, DefinitionError>,
    callable: Option<Arc<dyn DynTool>>,
    native: bool,
    no_schema: NoSchema,
}

/// Collects tools; what is wrong with any of them is said by [`build`](Self::build), all at once.
#[must_use]
pub struct RegistryBuilder {
    given: Vec<ToolEntry>,
    rules: RegistryRules,
}

/// The validators that this build brings.
pub(crate) fn built_in() -> Option<Arc<dyn SchemaCompiler>> {
    #[cfg(feature = "validate")]
    return Some(Arc::new(tract_schema::JsonSchema));
    #[cfg(not(feature = "validate"))]
    None
}

impl Default for RegistryBuilder {
    fn default() -> Self {
        let rules = RegistryRules { compiler: built_in(), ..RegistryRules::default() };
        Self { given: Vec::new(), rules }
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

    /// Adds a definition in any provider's shape, or MCP's, with what runs its calls.
    pub fn definition_with(mut self, text: &str, callable: Arc<dyn DynTool>) -> Self {
        self.push(None, Definition::parse(text), Some(callable), false);
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

    /// Adds all tools of a registry, and its policies, and takes over what makes its validators, how
    /// it reads schemas, and its rules for names. What is set after that counts.
    pub fn registry(mut self, registry: &Registry) -> Self {
        for tool in registry.iter() {
            let (id, definition) = (tool.id().to_owned(), tool.definition().clone());
            let imported = self.import(Some(id), definition, tool.callable().cloned());
            self = imported.no_schema(tool.no_schema());
        }
        let (own, rules) = (&mut self.rules, &registry.rules);
        own.policies.extend(rules.policies.iter().cloned());
        own.compiler.clone_from(&rules.compiler);
        own.options = rules.options;
        own.shared_names |= rules.shared_names;
        own.strict |= rules.strict;
        if rules.most_without_schema != NoSchema::Refuse {
            own.most_without_schema = rules.most_without_schema;
        }
        self
    }

    /// Says what may be done with the calls of the tool added last when it has no schema.
    pub fn no_schema(mut self, mode: NoSchema) -> Self {
        if let Some(last) = self.given.last_mut() {
            last.no_schema = mode;
        }
        self
    }

    /// Heeds what definitions themselves say in `allowNoSchema` and `noSchemaMode` (a word of
    /// [`NoSchema::parse`]; `human-approval` when there is none), up to this mode. By default they
    /// are not heeded, because a definition may come from anywhere; a mode that was set for the tool
    /// by [`no_schema`](Self::no_schema) counts alone.
    pub fn definitions_without_schema(mut self, most: NoSchema) -> Self {
        self.rules.most_without_schema = most;
        self
    }

    /// Keeps several tools of one name: their calls have to say which by id.
    pub fn shared_names(mut self) -> Self {
        self.rules.shared_names = true;
        self
    }

    /// Holds this program's own tools to the strict profile: a name of `^[a-z0-9_-]{1,64}$`, a
    /// description of 1 to 200 ASCII characters. Definitions of others are taken as they are.
    pub fn strict(mut self) -> Self {
        self.rules.strict = true;
        self
    }

    /// Sets what makes validators.
    pub fn compiler(mut self, compiler: Arc<dyn SchemaCompiler>) -> Self {
        self.rules.compiler = Some(compiler);
        self
    }

    /// Has no validators: every call of a tool with a schema is refused.
    pub fn without_compiler(mut self) -> Self {
        self.rules.compiler = None;
        self
    }

    /// Sets how schemas are read.
    pub fn options(mut self, options: ValidateOptions) -> Self {
        self.rules.options = options;
        self
    }

    /// Adds a policy, asked for every call that could be read.
    pub fn policy(self, policy: impl Policy + 'static) -> Self {
        self.shared_policy(Arc::new(policy))
    }

    /// Adds a policy that others hold too.
    pub fn shared_policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.rules.policies.push(policy);
        self
    }

    fn push(
        &mut self,
        id: Option<String>,
        definition: Result<Definition, DefinitionError>,
        callable: Option<Arc<dyn DynTool>>,
        native: bool,
    ) {
        let no_schema = NoSchema::Refuse;
        self.given.push(ToolEntry { id, definition, callable, native, no_schema });
    }

    /// Checks everything and makes the registry.
    ///
    /// # Errors
    /// [`RegistryError`] with all that is wrong: what is not a definition, has no schema, a name twice
    /// or an id twice, and names of this program's own tools that providers refuse.
    pub fn build(self) -> Result<Registry, RegistryError> {
        let mut errors = Vec::new();
        let mut tools: Vec<Registered> = Vec::new();
        for (n, mut given) in self.given.into_iter().enumerate() {
            let definition = match given.definition {
                Ok(definition) => definition,
                Err(source) => {
                    errors.push(RegisterError::Definition { place: n + 1, source });
                    continue;
                }
            };
            if given.no_schema == NoSchema::Refuse {
                given.no_schema = own_mode(&definition).and(self.rules.most_without_schema);
            }
            let name = definition.name();
            if given.native && !tract_schema::accepts(Dialect::OpenAi, name) {
                let suggestion = tract_schema::suggestion(name);
                errors.push(RegisterError::Name { name: name.to_owned(), suggestion });
            }
            let arguments_schema: Option<Arc<str>> = definition.arguments_schema().map(Into::into);
            let fails_closed = given.no_schema == NoSchema::Refuse && given.callable.is_some();
            if arguments_schema.is_none() && fails_closed && !definition.is_of_provider() {
                errors.push(RegisterError::NoSchema { name: name.to_owned() });
            }
            let spec = given.callable.as_ref().map(|tool| tool.spec());
            if let Some(spec) = spec.as_ref().filter(|_| self.rules.strict && given.native) {
                let strict = |why| RegisterError::Strict { name: spec.name.clone(), why };
                errors.extend(strict::faults(spec).into_iter().map(strict));
            }
            tools.push(Registered {
                id: given.id.unwrap_or_else(|| definition.id().to_string()).into(),
                timeout: spec.as_ref().and_then(|spec| spec.timeout),
                traits: traits(&definition, spec.as_ref()),
                origin: spec.and_then(|spec| spec.origin).map(Arc::new),
                callable: given.callable,
                no_schema: given.no_schema,
                compiled: Arc::default(),
                sent: Arc::default(),
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
        if !self.rules.shared_names {
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
        let by_id = tools.iter().enumerate().map(|(n, tool)| (tool.id.to_string(), n)).collect();
        // OpenAI's rule for names is the strictest of all.
        let aliases = Aliases::of(Dialect::OpenAi, tools.iter().map(Registered::name));
        Ok(Registry { by_id, by_name, aliases, tools: tools.into(), rules: self.rules })
    }
}

/// What a definition says may be done without a schema.
fn own_mode(definition: &Definition) -> NoSchema {
    if definition.other("allowNoSchema").map(str::trim) != Some("true") {
        return NoSchema::Refuse;
    }
    let word = definition.other("noSchemaMode");
    let word = word.map(|raw| serde_json::from_str::<String>(raw).unwrap_or_default());
    match word {
        None => NoSchema::HumanApproval,
        Some(word) => NoSchema::parse(&word.replace('_', "-")).unwrap_or_default(),
    }
}

/// What a tool promises: its callable's word, within what the definition hints at.
fn traits(definition: &Definition, spec: Option<&ToolSpec>) -> ToolTraits {
    let hints = definition.traits();
    let Some(spec) = spec else { return hints };
    let mut traits = spec.traits;
    traits.destructive |= hints.destructive;
    traits.read_only &= !hints.destructive;
    traits
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
