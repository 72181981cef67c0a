//! Hydration: parses, looks up, validates and instantiates calls, and records their provenance.

mod call;
mod coerce;
mod error;
mod parse;
mod provenance;
mod repair;
mod tolerant;

use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tract_core::{BoundCall, DynTool, RenderedValue, ToolContext, ToolError, ToolId, ToolResult};
use tract_schema::Invalid;

pub use self::call::{Call, CallSource, IntoCalls, sent_in};
pub use self::error::{Stage, StageError};
pub use self::provenance::{Edit, Json, NameMapping, Provenance, Repaired, ValidatorUsed};
pub use self::repair::{Repair, RepairRequest, hydrate_repairing};
use crate::panics::guarded;
use crate::policy::{Decision, PolicyRequest};
use crate::registry::{Lookup, NoSchema, Registered, Registry};

/// Options for reading calls. Strict by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HydrateOptions {
    /// Maximum size of one call's arguments in bytes; 16 MiB by default.
    pub arguments_bytes: usize,
    /// Whether text that is nearly JSON is repaired, with a list of the edits.
    pub tolerant: bool,
    /// Whether values are converted to the type in the schema, with a list of the edits.
    pub coercion: bool,
}

impl Default for HydrateOptions {
    fn default() -> Self {
        Self { arguments_bytes: 16 << 20, tolerant: false, coercion: false }
    }
}

/// A tool together with the arguments of one call, which can run once it is allowed.
#[derive(Clone)]
pub struct Invocation {
    /// The tool that runs.
    pub tool: Arc<dyn DynTool>,
    /// The arguments: JSON text of an object that fits the schema.
    pub arguments: Json,
}

impl std::fmt::Debug for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("arguments", &self.arguments).finish_non_exhaustive()
    }
}

impl Invocation {
    /// Runs the tool with the arguments.
    ///
    /// # Errors
    /// The error of the tool.
    pub async fn run(&self, context: &ToolContext) -> Result<ToolResult<RenderedValue>, ToolError> {
        self.tool.run(self.arguments.as_str(), context).await
    }
}

/// One call, ready to run or refused with the reasons.
#[derive(Clone, Debug)]
pub struct Hydrated {
    /// The provider's id of the call.
    pub id: String,
    /// The name as received.
    pub name: String,
    /// The tool that the name refers to.
    pub tool: Option<Registered>,
    /// The tool with its arguments; `None` if the call failed or this program cannot run the tool.
    pub bound: Option<Invocation>,
    /// The arguments, if there are no errors.
    pub arguments: Option<Json>,
    /// The errors; empty on success.
    pub errors: Vec<StageError>,
    /// Whether it may run, according to the policies and the checks of the arguments.
    pub decision: Decision,
    /// The origin of the arguments.
    pub provenance: Provenance,
}

impl Hydrated {
    /// Returns whether the call has valid arguments and was not denied. It may still need approval:
    /// see [`decision`](Self::decision).
    pub fn success(&self) -> bool {
        self.errors.is_empty()
    }

    /// Returns whether the arguments fit a schema as they were received, without a repair.
    pub fn is_trusted(&self) -> bool {
        self.success() && self.provenance.validator.is_some() && !self.provenance.repaired
    }

    /// Returns the tool's own name, else the name as received.
    pub fn tool_name(&self) -> &str {
        self.tool.as_ref().map_or(&self.name, Registered::name)
    }

    /// Returns the hash of the tool's definition.
    pub fn definition(&self) -> Option<ToolId> {
        self.provenance.definition
    }

    /// Returns the text for the model if the call failed: one line per error, with hints.
    pub fn error_text(&self) -> String {
        self.errors.iter().map(StageError::model_text).collect::<Vec<_>>().join("\n")
    }
}

/// Turns each call of a reply into a tool with arguments, or into errors: one result per call, in
/// order. It never fails as a whole, and runs nothing.
///
/// # Behavior
/// - Arguments are strict JSON, surrounded by optional white space; empty text means no arguments.
/// - They are validated against the schema as it was given. Without a schema, or without a
///   validator, a call is refused, unless the tool's [`NoSchema`] mode and a policy allow it.
/// - Blocks that a provider runs itself are not calls: they stay in the reply unchanged.
///
/// ```
/// use tract_tools::{Call, Registry, hydrate};
/// let registry = Registry::builder()
///     .definition(
///         r#"{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}"#,
///     )
///     .build()?;
/// let calls = [Call::new("c1", "add", r#"{"a":1}"#), Call::new("c2", "add", r#"{"a":"1"}"#)];
/// let hydrated = hydrate(&calls[..], &registry);
/// assert!(hydrated[0].success());
/// assert_eq!(hydrated[1].error_text(), r#"/a: expected an integer, found the string "1""#);
/// # Ok::<(), tract_tools::RegistryError>(())
/// ```
pub fn hydrate(calls: impl IntoCalls, registry: &Registry) -> Vec<Hydrated> {
    hydrate_with(calls, registry, &HydrateOptions::default())
}

/// Hydrates calls with options, like [`hydrate`].
pub fn hydrate_with(
    calls: impl IntoCalls,
    registry: &Registry,
    options: &HydrateOptions,
) -> Vec<Hydrated> {
    calls.into_calls().into_iter().map(|call| one(call, registry, options, false)).collect()
}

fn one(call: Call, registry: &Registry, options: &HydrateOptions, repaired: bool) -> Hydrated {
    let began = Instant::now();
    let mut work = HydrationState::new(call, repaired);
    let refused = work.run(registry, options).err();
    let mut hydrated = work.hydrated;
    if let Some(errors) = refused {
        hydrated.bound = None;
        hydrated.errors = errors;
    }
    let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    hydrated.provenance.duration_us = took;
    hydrated
}

type StageResult<T> = Result<T, Vec<StageError>>;

struct HydrationState {
    call: Call,
    hydrated: Hydrated,
}

impl HydrationState {
    fn new(call: Call, repaired: bool) -> Self {
        let hydrated = Hydrated {
            id: call.id.clone(),
            name: call.name.clone(),
            tool: None,
            bound: None,
            arguments: None,
            errors: Vec::new(),
            decision: Decision::Allow,
            provenance: Provenance {
                source: call.source.clone(),
                call_id: call.id.clone(),
                raw_arguments: Arc::clone(&call.arguments),
                repaired,
                ..Provenance::default()
            },
        };
        Self { call, hydrated }
    }

    fn run(&mut self, registry: &Registry, options: &HydrateOptions) -> StageResult<()> {
        let Some(approved) = self.call.approved.take() else {
            return self.run_received(registry, options);
        };
        if let Some(tool) = approved_tool(registry, &approved) {
            return self.run_approved(registry, tool, &approved);
        }
        self.run_received(registry, options)?;
        self.hydrated.decision = self.hydrated.decision.clone().and(Decision::NeedsApproval);
        Ok(())
    }

    /// Uses exactly the arguments that a person approved, without repairs or conversions.
    fn run_approved(
        &mut self,
        registry: &Registry,
        tool: &Registered,
        approved: &BoundCall,
    ) -> StageResult<()> {
        self.found(tool);
        self.hydrated.provenance.repaired = approved.repaired;
        self.hydrated.provenance.approved.clone_from(&approved.changes);
        // The limit applied when the call was received. A person has approved what it became.
        let options = HydrateOptions { arguments_bytes: usize::MAX, ..HydrateOptions::default() };
        let text: Arc<str> = approved.arguments.as_str().into();
        let parsed = parse::strict(&text, options.arguments_bytes).map_err(|error| vec![error])?;
        self.hydrated.provenance.parsed = Some(parsed.text.clone());
        self.check(registry, tool, parsed.value, parsed.text, &options)
    }

    fn run_received(&mut self, registry: &Registry, options: &HydrateOptions) -> StageResult<()> {
        let looked_up = self.look_up(registry);
        // Unreadable arguments are reported even if the tool does not exist.
        let parsed = if options.tolerant {
            parse::tolerantly(&self.call.arguments, options.arguments_bytes)
        } else {
            parse::strict(&self.call.arguments, options.arguments_bytes)
        };
        let (tool, parsed) = match (looked_up, parsed) {
            (Ok(tool), Ok(parsed)) => (tool, parsed),
            (Err(lookup), Err(parse)) => return Err(vec![parse, lookup]),
            (Err(error), Ok(parsed)) => {
                self.hydrated.provenance.parsed = Some(parsed.text);
                return Err(vec![error]);
            }
            (Ok(_), Err(error)) => return Err(vec![error]),
        };
        self.hydrated.provenance.parsed = Some(parsed.text.clone());
        self.hydrated.provenance.edits = parsed.edits;
        let (value, text) = self.raise(tool, parsed.value, parsed.text);
        self.check(registry, tool, value, text, options)
    }

    /// Validates arguments against schema, type and policies, and binds them to the tool.
    fn check(
        &mut self,
        registry: &Registry,
        tool: &Registered,
        value: Value,
        text: Json,
        options: &HydrateOptions,
    ) -> StageResult<()> {
        let (arguments, validated) = self.validate(registry, tool, value, text, options)?;
        if validated {
            self.hydrated.provenance.validated = Some(arguments.clone());
        }
        if let Some(callable) = tool.callable() {
            callable
                .check_arguments(arguments.as_str())
                .map_err(|error| vec![StageError::of_tool(&error)])?;
            self.hydrated.bound =
                Some(Invocation { tool: Arc::clone(callable), arguments: arguments.clone() });
        }
        self.decide(registry, tool, &arguments, validated)?;
        self.hydrated.arguments = Some(arguments);
        Ok(())
    }

    /// Removes each null by which strict mode expressed an absent argument.
    fn raise(&mut self, tool: &Registered, value: Value, text: Json) -> (Value, Json) {
        let schema = tool.arguments_schema().filter(|_| self.call.null_for_absent);
        let Some(schema) = schema.filter(|_| text.as_str().contains("null")) else {
            return (value, text);
        };
        // A schema that is not JSON is refused below; the arguments were read already.
        let Ok(raised) = tract_schema::raise(schema, text.as_str()) else { return (value, text) };
        let Ok(better) = serde_json::from_str(&raised.arguments) else { return (value, text) };
        let edit = |path, before: &str| Edit { path, ..Edit::new("strict", "absent", before, "") };
        let count = raised.left_out.len();
        let listed = raised.left_out.into_iter().take(MOST_LISTED);
        let edits = &mut self.hydrated.provenance.edits;
        edits.extend(listed.map(|path| edit(Some(path), "null")));
        if count > MOST_LISTED {
            edits.push(edit(None, &format!("{} more", count - MOST_LISTED)));
        }
        (better, Json::parsed(raised.arguments))
    }

    fn look_up<'r>(&mut self, registry: &'r Registry) -> Result<&'r Registered, StageError> {
        let name = self.call.name.as_str();
        let tool = match &self.call.tool_id {
            Some(id) => registry.by_id(id).ok_or_else(|| {
                let message = format!("expected the id of a tool, found {id:?}");
                StageError::new(Stage::Lookup, "unknown_tool", "/", message)
                    .note("the id is what tells tools of one name apart; leave it out otherwise")
            })?,
            None => found(registry, name, self.call.definition)?,
        };
        self.found(tool);
        Ok(tool)
    }

    fn found(&mut self, tool: &Registered) {
        self.hydrated.tool = Some(tool.clone());
        self.hydrated.provenance.definition = Some(tool.definition().id());
        self.hydrated.provenance.name_mapping = Some(NameMapping {
            received: self.call.sent_name.clone().unwrap_or_else(|| self.call.name.clone()),
            name: tool.name().to_owned(),
            tool_id: tool.shared_id(),
            sent: self.call.definition,
        });
    }

    /// Validates the arguments against the schema; returns whether there was one.
    fn validate(
        &mut self,
        registry: &Registry,
        tool: &Registered,
        mut value: Value,
        mut text: Json,
        options: &HydrateOptions,
    ) -> StageResult<(Json, bool)> {
        let fail = |code, message: String| StageError::new(Stage::Validate, code, "/", message);
        if tool.arguments_schema().is_none() {
            if tool.no_schema() == NoSchema::Refuse {
                let message = format!("{:?} has no schema to hold arguments against", tool.name());
                let error = fail("no_schema", message);
                let note = "the operator can allow it: `tract hydrate --no-schema MODE`, or \
                            `RegistryBuilder::no_schema` in Rust";
                return Err(vec![error.note(note)]);
            }
            let fits = value.is_object();
            return if fits { Ok((text, false)) } else { Err(vec![not_an_object(&value)]) };
        }
        let compiled = match registry.compiled(tool, false) {
            None => {
                let message = "there is no validator, so no arguments are accepted".to_owned();
                return Err(vec![
                    fail("no_validator", message)
                        .note("the operator builds with the feature `validate`"),
                ]);
            }
            Some(Err(error)) => {
                let message = format!("the schema of {:?} cannot be run: {error}", tool.name());
                let mut refused = fail("bad_schema", message);
                refused.notes = error.notes();
                return Err(vec![refused]);
            }
            Some(Ok(compiled)) => compiled,
        };
        self.hydrated.provenance.validator = Some(compiled.used.clone());
        let mut checked = compiled.validator.validate(&value);
        let mut coercion = coerce::Coercion::default();
        while let (Err(invalid), true) = (&checked, options.coercion) {
            let Some((better, edits)) = coercion.pass(text.as_str(), invalid) else { break };
            let Ok(read) = serde_json::from_str(&better) else { break };
            self.hydrated.provenance.edits.extend(edits);
            value = read;
            text = Json::parsed(better);
            checked = compiled.validator.validate(&value);
        }
        match checked {
            // A failure without errors would count as a success.
            Err(invalid) if invalid.is_empty() => {
                let message = "the arguments do not fit the schema; its validator does not say why";
                Err(vec![fail("schema", message.to_owned())])
            }
            Err(invalid) => Err(invalid.iter().map(StageError::of_invalid).collect()),
            Ok(()) if value.is_object() => Ok((text, true)),
            Ok(()) => Err(vec![not_an_object(&value)]),
        }
    }

    fn decide(
        &mut self,
        registry: &Registry,
        tool: &Registered,
        arguments: &Json,
        validated: bool,
    ) -> StageResult<()> {
        let (id, definition) = (&self.call.id, tool.definition().id());
        let request = PolicyRequest {
            traits: tool.traits(),
            validated,
            repaired: self.hydrated.provenance.repaired,
            ..PolicyRequest::new(id, tool.name(), definition, arguments.as_str())
        };
        let mut decision = Decision::Allow;
        let mut is_vouched = false;
        for policy in registry.policies() {
            let decided = guarded(|| Ok((policy.decide(&request), policy.vouches_for(&request))));
            match decided {
                Ok((decided, vouches)) => {
                    decision = decision.and(decided);
                    is_vouched |= vouches;
                }
                Err(error) => {
                    tracing::error!(
                        tool = tool.name(),
                        call = self.call.id,
                        "a policy failed: {error}"
                    );
                    decision = decision
                        .and(Decision::deny("the call did not run: a policy could not be asked"));
                }
            }
        }
        if !validated {
            decision = match tool.no_schema() {
                NoSchema::Refuse => decision.and(Decision::deny("the tool has no schema")),
                NoSchema::HumanApproval => decision.and(Decision::NeedsApproval),
                NoSchema::ReadOnly if !tool.traits().read_only => decision.and(Decision::deny(
                    "without a schema it may only read, and it does not promise to",
                )),
                NoSchema::ReadOnly | NoSchema::Full if !is_vouched => {
                    decision.and(Decision::NeedsApproval)
                }
                NoSchema::ReadOnly | NoSchema::Full => decision,
            };
        }
        if self.hydrated.provenance.repaired && !is_vouched {
            decision = decision.and(Decision::NeedsApproval);
        }
        self.hydrated.decision = decision;
        match &self.hydrated.decision {
            Decision::Deny { reason } => {
                self.hydrated.bound = None;
                Err(vec![StageError::new(Stage::Policy, "denied", "/", reason.clone())])
            }
            _ => Ok(()),
        }
    }
}

/// Maximum number of listed paths at which null was removed.
const MOST_LISTED: usize = 1000;

fn not_an_object(value: &Value) -> StageError {
    let invalid = Invalid::new("type", "/", "an object", tract_schema::kind_of(value));
    StageError::of_invalid(&invalid)
}

/// Returns the one tool with the server and definition of an approved call.
fn approved_tool<'r>(registry: &'r Registry, approved: &BoundCall) -> Option<&'r Registered> {
    let server = approved.server.as_deref();
    let mut found = registry.by_definition(approved.tool).filter(|tool| {
        let origin = tool.origin().map(|origin| origin.server.as_str());
        origin == server && tool.name() == approved.tool_name && tool.callable().is_some()
    });
    match (found.next(), found.next()) {
        (Some(tool), None) => Some(tool),
        _ => None,
    }
}

fn found<'r>(
    registry: &'r Registry,
    name: &str,
    definition: Option<ToolId>,
) -> Result<&'r Registered, StageError> {
    match registry.lookup(name) {
        Lookup::Found(tool) => Ok(tool),
        Lookup::Ambiguous(tools) => {
            let mut sent = tools.iter().filter(|tool| Some(tool.definition().id()) == definition);
            if let (Some(tool), None) = (sent.next(), sent.next()) {
                return Ok(*tool);
            }
            let listed: Vec<&str> = tools.iter().map(|tool| tool.id()).collect();
            let message = format!(
                "expected one tool named {name:?}, found {}: {}",
                tools.len(),
                listed.join(", ")
            );
            Err(StageError::new(Stage::Lookup, "ambiguous_tool", "/", message)
                .note("name one by its tool_id"))
        }
        Lookup::Unknown { nearest } => {
            let message = format!("expected the name of a tool, found {name:?}");
            let error = StageError::new(Stage::Lookup, "unknown_tool", "/", message);
            let near = nearest.map(|near| format!("did you mean {near:?}?"));
            Err(near.into_iter().fold(error, StageError::note))
        }
    }
}
