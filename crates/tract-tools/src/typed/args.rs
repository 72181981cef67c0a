//! Arguments that are validated against their advertised schema before they are deserialized.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tract_core::{ToolError, ToolParams};
use tract_schema::derive::{DeriveError, Derived, Mismatch};

/// The arguments of a handwritten tool: any type that derives `Deserialize` and `JsonSchema`.
///
/// # Behavior
/// - The schema is the derived one, in [normal form](tract_schema::derive). It is created once per
///   type.
/// - Arguments that do not fit the schema are rejected: unknown names at every level, even if the
///   type itself would accept them; numbers out of range; arrays in place of objects.
/// - Arguments that fit the schema are deserialized: `3.0` is an integer.
///
/// ```
/// use std::borrow::Cow;
/// use tract_core::{DynTool, Tool, ToolContext, ToolError, ToolParams, ToolResult, block_on};
/// use tract_tools::Args;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Roll {
///     /// How many sides.
///     sides: u8,
/// }
///
/// struct Dice;
/// #[async_trait::async_trait]
/// impl Tool for Dice {
///     type Params = Args<Roll>;
///     type Output = u8;
///     fn name(&self) -> Cow<'_, str> { "dice".into() }
///     fn description(&self) -> Cow<'_, str> { "Rolls a die.".into() }
///     async fn call(&self, Args(roll): Args<Roll>, _: &ToolContext) -> Result<ToolResult<u8>, ToolError> {
///         Ok(ToolResult::ok(roll.sides / 2)) // a steady hand
///     }
/// }
/// assert_eq!(
///     Args::<Roll>::schema(),
///     r#"{"type":"object","properties":{"sides":{"type":"integer","description":"How many sides.","minimum":0,"maximum":255}},"required":["sides"],"additionalProperties":false}"#
/// );
/// let result = block_on(Dice.run(r#"{"sides":6.0}"#, &ToolContext::new("c1")))?;
/// assert_eq!(result.model_text(), "3");
/// # Ok::<(), ToolError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Args<T>(pub T);

impl<T> Args<T> {
    /// Returns the arguments.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Args<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> ToolParams for Args<T> {
    /// Returns the schema in normal form. If none can be derived, returns one that rejects
    /// everything and describes the reason; [`derived`] returns the error.
    fn schema() -> Cow<'static, str> {
        match &*derived::<T>() {
            Ok(derived) => derived.text().to_owned().into(),
            Err(error) => refusing(error).into(),
        }
    }
}

impl<'de, T: DeserializeOwned + JsonSchema + 'static> Deserialize<'de> for Args<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match admitted::<T>(value) {
            Ok(arguments) => Ok(Self(arguments)),
            Err(refusal) => Err(D::Error::custom(refusal.text())),
        }
    }
}

/// Parses arguments as dispatch does: validates them against the derived schema, then deserializes.
///
/// ```
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Edit { line: u32, text: String }
/// let error = tract_tools::typed::parse::<Edit>(r#"{"line":-1,"txt":"x"}"#).err().unwrap();
/// assert_eq!(error.model_text(), "\
/// expected a property `text`, found none
/// note: line: expected at least 0, found -1
/// note: expected one of `line`, `text`, found `txt`; did you mean `text`?");
/// ```
///
/// # Errors
/// [`ToolError::Validation`] with the first error and its path, and the others as notes, if the
/// arguments are invalid; [`ToolError::Type`] if no schema can be derived for the type.
pub fn parse<T: DeserializeOwned + JsonSchema + 'static>(arguments: &str) -> Result<T, ToolError> {
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    let value: Value = serde_json::from_str(text).map_err(|error| {
        ToolError::validation(format!("expected one JSON object, found no JSON: {error}"))
            .note("send one JSON object that fits the tool's schema")
            .caused_by(error)
    })?;
    admitted(value).map_err(Refusal::into_error)
}

/// Returns the schema of a type in normal form, cached per type.
///
/// ```
/// assert!(tract_tools::typed::derived::<Vec<u8>>().is_err(), "arguments are an object");
/// ```
pub fn derived<T: JsonSchema + 'static>() -> Arc<Result<Derived, DeriveError>> {
    type Known = HashMap<TypeId, Arc<Result<Derived, DeriveError>>>;
    static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);
    let id = TypeId::of::<T>();
    // Only complete entries are inserted, so the map stays consistent after a panic. The schema is
    // derived without the lock, since that runs code of the type; a concurrent derivation is
    // discarded.
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(&id) {
        return Arc::clone(found);
    }
    drop(known);
    let made = Arc::new(derive::<T>());
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(known.entry(id).or_insert(made))
}

fn derive<T: JsonSchema>() -> Result<Derived, DeriveError> {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.meta_schema = None;
    let schema = settings.into_generator().into_root_schema_for::<T>();
    let text = serde_json::to_string(&schema).expect("a tree of JSON values is JSON");
    Derived::new(&text)
}

enum Refusal {
    Unfit(Vec<Mismatch>),
    NoSchema(Arc<Result<Derived, DeriveError>>),
    /// The type rejects arguments that fit its schema.
    Type(serde_json::Error),
}

fn admitted<T: DeserializeOwned + JsonSchema + 'static>(mut value: Value) -> Result<T, Refusal> {
    let known = derived::<T>();
    match &*known {
        Ok(derived) => derived.admit(&mut value).map_err(Refusal::Unfit)?,
        Err(_) => return Err(Refusal::NoSchema(known)),
    }
    serde_json::from_value(value).map_err(Refusal::Type)
}

impl Refusal {
    fn text(&self) -> String {
        match self {
            Self::Unfit(faults) => {
                faults.iter().map(Mismatch::to_string).collect::<Vec<_>>().join("; ")
            }
            Self::NoSchema(known) => no_schema(known).to_string(),
            Self::Type(error) => error.to_string(),
        }
    }

    fn into_error(self) -> ToolError {
        match self {
            Self::Unfit(faults) => {
                let mut faults = faults.into_iter();
                let Some(mut first) = faults.next() else {
                    return ToolError::validation("expected other arguments");
                };
                let path = std::mem::take(&mut first.path);
                let error = ToolError::validation(first.to_string());
                let error = if path.is_empty() { error } else { error.at(path) };
                faults.fold(error, |error, fault| error.note(fault.to_string()))
            }
            Self::NoSchema(known) => no_schema(&known),
            Self::Type(error) => {
                ToolError::validation(format!("expected other arguments: {error}"))
                    .note("send one JSON object that fits the tool's schema")
                    .caused_by(error)
            }
        }
    }
}

fn no_schema(known: &Result<Derived, DeriveError>) -> ToolError {
    let error = ToolError::type_error("the tool has no schema by which arguments are judged");
    match known {
        Ok(_) => error,
        Err(why) => error.operator(format!("{why}; {}", why.note())),
    }
}

/// Returns a schema that rejects all arguments.
fn refusing(error: &DeriveError) -> String {
    let why = Value::from(format!("no schema could be derived: {error}; {}", error.note()));
    format!(
        r#"{{"type":"object","description":{why},"properties":{{}},"additionalProperties":false,"not":{{}}}}"#
    )
}
