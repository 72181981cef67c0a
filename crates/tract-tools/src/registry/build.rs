//! Collects tools and checks them all at once.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tract_core::{DynTool, ToolSpec, ToolTraits};
use tract_schema::{
    Aliases, Definition, DefinitionError, Dialect, SchemaCompiler, SchemaError, ValidateOptions,
};

use super::{
    NoSchema, RegisterError, Registered, Registry, RegistryError, RegistryRules, Validation,
};
use crate::compiled::Compiled;
use crate::policy::Policy;
use crate::strict;

struct ToolEntry {
    id: Option<String>,
    definition: Result<Definition, DefinitionError>,
    callable: Option<Arc<dyn DynTool>>,
    native: bool,
    /// `None` if it was not set: the definition decides.
    no_schema: Option<NoSchema>,
    /// Set for a tool of another registry: it keeps its validation, and its mode without a schema.
    validation: Option<Validation>,
}

/// Collects tools. [`build`](Self::build) checks them and reports all errors at once.
#[must_use]
pub struct RegistryBuilder {
    given: Vec<ToolEntry>,
    rules: RegistryRules,
    /// `Some(None)` when validators were turned off.
    compiler: Option<Option<Arc<dyn SchemaCompiler>>>,
    options: Option<ValidateOptions>,
    /// The validation of the first registry that was added.
    inherited: Option<Validation>,
}

/// Returns the compiler of validators that is built in, if any.
pub(crate) fn built_in() -> Option<Arc<dyn SchemaCompiler>> {
    #[cfg(feature = "validate")]
    return Some(Arc::new(tract_schema::JsonSchema));
    #[cfg(not(feature = "validate"))]
    None
}

impl Default for RegistryBuilder {
    fn default() -> Self {
        let rules = RegistryRules::default();
        Self { given: Vec::new(), rules, compiler: None, options: None, inherited: None }
    }
}

impl RegistryBuilder {
    /// Adds a tool of this program. Its name has to be one that every provider accepts.
    pub fn tool(self, tool: impl DynTool) -> Self {
        self.dyn_tool(Arc::new(tool))
    }

    /// Adds a type-erased tool of this program.
    pub fn dyn_tool(mut self, tool: Arc<dyn DynTool>) -> Self {
        let definition = Definition::parse(&tool.spec().definition());
        self.push(None, definition, Some(tool), true);
        self
    }

    /// Adds a definition in the form of any provider or MCP, without code to run its calls.
    pub fn definition(mut self, text: &str) -> Self {
        self.push(None, Definition::parse(text), None, false);
        self
    }

    /// Adds a definition in the form of any provider or MCP, with the code that runs its calls.
    pub fn definition_with(mut self, text: &str, callable: Arc<dyn DynTool>) -> Self {
        self.push(None, Definition::parse(text), Some(callable), false);
        self
    }

    /// Adds a definition under an id of its own, with the code that runs its calls.
    pub fn import(
        mut self,
        id: Option<String>,
        definition: Definition,
        callable: Option<Arc<dyn DynTool>>,
    ) -> Self {
        self.push(id, Ok(definition), callable, false);
        self
    }

    /// Adds all tools of a registry, its policies, and its rules for names. Each tool keeps its
    /// validator, options and mode without a schema, regardless of other registries and of the
    /// settings of this builder.
    ///
    /// Tools that are added to this builder directly use its [`compiler`](Self::compiler) and
    /// [`options`](Self::options), or else those of the first registry that was added.
    pub fn registry(mut self, registry: &Registry) -> Self {
        for tool in registry.iter() {
            let (id, definition) = (tool.id().to_owned(), tool.definition().clone());
            self.push(Some(id), Ok(definition), tool.callable().cloned(), false);
            if let Some(last) = self.given.last_mut() {
                last.no_schema = Some(tool.no_schema());
                last.validation = Some(tool.validation.clone());
            }
        }
        let (own, rules) = (&mut self.rules, &registry.rules);
        own.policies.extend(rules.policies.iter().cloned());
        own.shared_names |= rules.shared_names;
        own.strict |= rules.strict;
        self.inherited.get_or_insert_with(|| rules.validation.clone());
        self
    }

    /// Sets the treatment of calls of the tool added last, if it lacks a schema.
    pub fn no_schema(mut self, mode: NoSchema) -> Self {
        if let Some(last) = self.given.last_mut() {
            last.no_schema = Some(mode);
        }
        self
    }

    /// Respects the fields `allowNoSchema` and `noSchemaMode` of definitions, up to this mode.
    /// `noSchemaMode` is a name that [`NoSchema::parse`] accepts; `human-approval` if it is absent.
    /// By default the fields are ignored, because a definition may come from anywhere. A mode that
    /// [`no_schema`](Self::no_schema) sets takes precedence.
    pub fn definitions_without_schema(mut self, most: NoSchema) -> Self {
        self.rules.most_without_schema = most;
        self
    }

    /// Allows several tools with the same name. Their calls have to select one by id.
    pub fn shared_names(mut self) -> Self {
        self.rules.shared_names = true;
        self
    }

    /// Checks this program's own tools against the strict profile: a name of `^[a-z0-9_-]{1,64}$`,
    /// a description of 1 to 200 ASCII characters. Definitions from elsewhere are not checked.
    pub fn strict(mut self) -> Self {
        self.rules.strict = true;
        self
    }

    /// Sets the compiler of validators for tools that are added to this builder directly.
    pub fn compiler(mut self, compiler: Arc<dyn SchemaCompiler>) -> Self {
        self.compiler = Some(Some(compiler));
        self
    }

    /// Disables validators for tools that are added to this builder directly. Every call of one
    /// with a schema is refused.
    pub fn without_compiler(mut self) -> Self {
        self.compiler = Some(None);
        self
    }

    /// Sets the validation options for tools that are added to this builder directly.
    pub fn options(mut self, options: ValidateOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Adds a policy, which is evaluated for every call whose arguments are valid.
    pub fn policy(self, policy: impl Policy + 'static) -> Self {
        self.shared_policy(Arc::new(policy))
    }

    /// Adds a shared policy.
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
        let (no_schema, validation) = (None, None);
        self.given.push(ToolEntry { id, definition, callable, native, no_schema, validation });
    }

    /// Returns the validation of tools that are added to this builder directly.
    fn validation(&self) -> Validation {
        let inherited = self.inherited.clone();
        let inherited = inherited.unwrap_or_else(|| Validation {
            compiler: built_in(),
            options: ValidateOptions::default(),
        });
        Validation {
            compiler: self.compiler.clone().unwrap_or(inherited.compiler),
            options: self.options.unwrap_or(inherited.options),
        }
    }

    /// Checks all tools and creates the registry.
    ///
    /// # Errors
    /// [`RegistryError`] with all errors: invalid definitions, missing schemas, duplicate names or
    /// ids, and names of this program's own tools that providers reject.
    pub fn build(mut self) -> Result<Registry, RegistryError> {
        self.rules.validation = self.validation();
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
            let no_schema = given
                .no_schema
                .unwrap_or_else(|| own_mode(&definition).and(self.rules.most_without_schema));
            let name = definition.name();
            if given.native && !tract_schema::accepts(Dialect::OpenAi, name) {
                let suggestion = tract_schema::suggestion(name);
                errors.push(RegisterError::Name { name: name.to_owned(), suggestion });
            }
            let arguments_schema: Option<Arc<str>> = definition.arguments_schema().map(Into::into);
            let fails_closed = no_schema == NoSchema::Refuse && given.callable.is_some();
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
                no_schema,
                validation: given.validation.unwrap_or_else(|| self.rules.validation.clone()),
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

/// Returns the treatment of calls without a schema that the definition states.
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

/// Returns the traits of the callable, restricted by the hints of the definition.
fn traits(definition: &Definition, spec: Option<&ToolSpec>) -> ToolTraits {
    let hints = definition.traits();
    let Some(spec) = spec else { return hints };
    let mut traits = spec.traits;
    traits.destructive |= hints.destructive;
    traits.read_only &= !hints.destructive;
    traits
}

/// Tools with the same schema and validation have one validator.
fn share_validators(tools: &mut [Registered]) {
    type Cell = Arc<OnceLock<Result<Compiled, SchemaError>>>;
    let mut shared: HashMap<Arc<str>, Vec<(Validation, Cell)>> = HashMap::new();
    for tool in tools {
        let Some(schema) = &tool.arguments_schema else { continue };
        let cells = shared.entry(Arc::clone(schema)).or_default();
        match cells.iter().find(|(validation, _)| validation.is_same(&tool.validation)) {
            Some((_, cell)) => tool.compiled = Arc::clone(cell),
            None => cells.push((tool.validation.clone(), Arc::clone(&tool.compiled))),
        }
    }
}
