//! A tool's definition: the schema as given, parsed once.

use std::sync::Arc;

use serde_json::{Map, Value};
use tract_core::json::{self, JsonError};
use tract_core::{ToolId, ToolSchema, ToolTraits, nearest};

use crate::google;
use crate::limits::{self, LimitError, SchemaLimits};
use crate::lower::Object;
use crate::shape::{Shape, ToolView};

/// A tool's definition in any shape. Its text is kept verbatim, hashed and never changed.
///
/// ```
/// use tract_schema::{Definition, Shape};
/// let definition = Definition::parse(
///     r#"{"name":"add","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
/// )?;
/// assert_eq!((definition.name(), definition.shape()), ("add", Shape::Mcp));
/// assert!(definition.traits().read_only);
/// assert_eq!(definition.other("annotations"), Some(r#"{"readOnlyHint":true}"#));
/// # Ok::<(), tract_schema::DefinitionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Definition(Arc<Read>);

#[derive(Debug)]
struct Read {
    schema: ToolSchema,
    shape: Shape,
    name: String,
    description: Option<String>,
    parameters: Option<String>,
    form: ParametersForm,
    others: Vec<(String, String)>,
    traits: ToolTraits,
}

/// The form in which a definition writes its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParametersForm {
    /// No parameters.
    Absent,
    /// A JSON Schema of an object.
    Schema,
    /// A list of properties in place of the schema, possibly with `required` among them. Arguments
    /// are validated against the schema that was meant, and lint reports the mistake.
    Bare,
}

/// The error of a text that is not a valid definition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{kind}", tool_prefix(.name))]
pub struct DefinitionError {
    /// The tool's name; empty if it has none.
    pub name: String,
    /// The kind of error.
    pub kind: DefinitionErrorKind,
}

fn tool_prefix(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("tool {name:?}: ") }
}

/// The kind of a definition error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionErrorKind {
    /// It is not a JSON object.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The name is missing.
    #[error("expected a name, found none")]
    NoName {
        /// The member that was probably meant to be `name`.
        nearest: Option<String>,
    },
    /// The parameters are not the schema of an object.
    #[error("{path}: expected a schema of an object, found {found}")]
    NotAnObject {
        /// The member that contains the parameters.
        path: &'static str,
        /// A description of the value found.
        found: String,
    },
    /// The schema exceeds a limit: it is too large, or it could cause too much work.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

impl DefinitionError {
    fn of(name: &str, kind: impl Into<DefinitionErrorKind>) -> Self {
        Self { name: name.to_owned(), kind: kind.into() }
    }

    /// Returns the error's stable code.
    pub fn code(&self) -> &'static str {
        match &self.kind {
            DefinitionErrorKind::Json(_) => "invalid_json",
            DefinitionErrorKind::NoName { .. } => "no_name",
            DefinitionErrorKind::NotAnObject { .. } => "not_an_object",
            DefinitionErrorKind::Limit(_) => "hostile_schema",
        }
    }

    /// Returns hints on how to fix the error.
    pub fn notes(&self) -> Vec<String> {
        let note = match &self.kind {
            DefinitionErrorKind::Json(_) => {
                "a definition is one JSON object, in the shape of any provider"
            }
            DefinitionErrorKind::NoName { nearest: Some(near) } => {
                return vec![format!("is {near:?} the name? the member is called \"name\"")];
            }
            DefinitionErrorKind::NoName { nearest: None } => {
                "a definition looks like {\"name\":\"…\",\"parameters\":{\"type\":\"object\",…}}"
            }
            DefinitionErrorKind::NotAnObject { .. } => {
                "models send arguments by name: wrap the value as a property of an object"
            }
            DefinitionErrorKind::Limit(error) => return error.notes(),
        };
        vec![note.to_owned()]
    }
}

impl Definition {
    /// Parses a definition in any provider's shape, or MCP's.
    ///
    /// # Errors
    /// [`DefinitionError`], with notes on how to fix it.
    pub fn parse(text: &str) -> Result<Self, DefinitionError> {
        Self::parse_within(text, &SchemaLimits::default())
    }

    /// Parses a definition with the given limits on its schema.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_within(text: &str, limits: &SchemaLimits) -> Result<Self, DefinitionError> {
        if text.len() > limits.bytes.saturating_mul(2) {
            let error = LimitError::too_large("bytes", limits.bytes, text.len());
            return Err(DefinitionError::of("", error));
        }
        let schema = ToolSchema::parse(text).map_err(|error| DefinitionError::of("", error))?;
        Self::read(schema, limits)
    }

    /// Creates a definition from a parsed schema.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn of(schema: ToolSchema) -> Result<Self, DefinitionError> {
        Self::read(schema, &SchemaLimits::default())
    }

    /// Creates a definition from a plain JSON Schema, draft-07 or 2020-12, which is kept unchanged.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn of_json_schema(
        name: &str,
        description: &str,
        schema: &str,
    ) -> Result<Self, DefinitionError> {
        // Checked on its own, so that a text with extra brackets cannot close the enclosing object.
        json::check(schema).map_err(|error| DefinitionError::of(name, error))?;
        let mut definition = Object::default();
        definition.text("name", name);
        if !description.is_empty() {
            definition.text("description", description);
        }
        definition.raw("parameters", schema.trim());
        Self::parse(&definition.end())
    }

    fn read(schema: ToolSchema, limits: &SchemaLimits) -> Result<Self, DefinitionError> {
        let view =
            ToolView::parse(schema.text()).map_err(|error| DefinitionError::of("", error))?;
        let name = view.name.clone();
        let fail = |kind: DefinitionErrorKind| DefinitionError { name: name.clone(), kind };
        if name.is_empty() && !matches!(view.shape, Shape::Server(_)) {
            let members = json::split_object(schema.text()).unwrap_or_default();
            let near = nearest("name", members.iter().map(|(key, _)| key.as_str()));
            return Err(fail(DefinitionErrorKind::NoName { nearest: near.map(str::to_owned) }));
        }
        let given = view.parameters.filter(|raw| *raw != "null");
        let plain = given.filter(|_| view.shape == Shape::Gemini).and_then(google::json_schema);
        let parameters = plain.as_deref().or(given);
        let form = match parameters {
            None => ParametersForm::Absent,
            Some(_) if matches!(view.shape, Shape::Server(_)) => ParametersForm::Schema,
            Some(raw) => {
                let value: Value = serde_json::from_str(raw).map_err(|_| {
                    fail(LimitError::too_large("levels", limits.depth, json::MAX_DEPTH).into())
                })?;
                if raw.len() > limits.bytes {
                    let error = LimitError::too_large("bytes", limits.bytes, raw.len());
                    return Err(fail(error.into()));
                }
                limits::measure(&value, limits).map_err(|error| fail(error.into()))?;
                form_of(&value, view.shape).map_err(fail)?
            }
        };
        let traits = traits_of(&view);
        let read = Read {
            shape: view.shape,
            description: view.description.and_then(crate::shape::string),
            parameters: parameters.map(str::to_owned),
            form,
            others: view.others.iter().map(|(key, raw)| (key.clone(), (*raw).to_owned())).collect(),
            traits,
            name,
            schema: schema.clone(),
        };
        Ok(Self(Arc::new(read)))
    }

    /// Returns the schema as given, which is authoritative.
    pub fn schema(&self) -> &ToolSchema {
        &self.0.schema
    }

    /// Returns the id of the schema.
    pub fn id(&self) -> ToolId {
        self.0.schema.id()
    }

    /// Returns the shape that it was given in.
    pub fn shape(&self) -> Shape {
        self.0.shape
    }

    /// Returns the name as given; empty for some tools that a provider runs itself.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the description.
    pub fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// Returns the parameters as given, as JSON text. Google's type names in capitals are converted
    /// to those of JSON Schema.
    pub fn parameters(&self) -> Option<&str> {
        self.0.parameters.as_deref()
    }

    /// Returns the form of the parameters.
    pub fn parameters_form(&self) -> ParametersForm {
        self.0.form
    }

    /// Returns the schema to validate arguments against: the parameters as given, except that bare
    /// properties are wrapped in the object that was meant. Returns `None` if there is no schema,
    /// as for tools that a provider defines by their type alone.
    pub fn arguments_schema(&self) -> Option<String> {
        if self.is_of_provider() {
            return None;
        }
        let raw = self.parameters()?;
        match self.0.form {
            ParametersForm::Absent => None,
            ParametersForm::Schema => Some(raw.to_owned()),
            ParametersForm::Bare => Some(wrapped(raw).unwrap_or_else(|| raw.to_owned())),
        }
    }

    /// Returns another member as given, such as `strict`, `annotations`, `outputSchema` or `_meta`.
    pub fn other(&self, key: &str) -> Option<&str> {
        let found = self.0.others.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, raw)| raw.as_str())
    }

    /// Returns an iterator over the other members, in order.
    pub fn others(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.others.iter().map(|(key, raw)| (key.as_str(), raw.as_str()))
    }

    /// Returns whether a provider defines this tool by its type. The provider runs many of these
    /// itself. Calls of the others are run here, without a schema to validate them against.
    pub fn is_of_provider(&self) -> bool {
        matches!(self.0.shape, Shape::Server(_))
    }

    /// Returns the traits declared in the definition's annotations. They are hints and cannot be
    /// trusted if the definition comes from another party.
    pub fn traits(&self) -> ToolTraits {
        self.0.traits
    }
}

/// The members that identify an object as a schema rather than a list of properties.
const KEYWORDS: &[&str] = &[
    "type",
    "properties",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "enum",
    "const",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "$defs",
    "definitions",
    "unevaluatedProperties",
    "$schema",
    "minProperties",
    "maxProperties",
    "$dynamicRef",
];

fn form_of(schema: &Value, shape: Shape) -> Result<ParametersForm, DefinitionErrorKind> {
    let path = match shape {
        Shape::Nested => "function.parameters",
        Shape::Anthropic => "input_schema",
        Shape::Mcp => "inputSchema",
        Shape::Flat | Shape::Plain | Shape::Gemini | Shape::Server(_) => "parameters",
    };
    let wrong = |found: String| DefinitionErrorKind::NotAnObject { path, found };
    let Value::Object(members) = schema else {
        return Err(wrong(match schema {
            Value::Bool(value) => format!("the schema {value}"),
            other => kind(other).to_owned(),
        }));
    };
    match members.get("type") {
        Some(Value::String(name)) if name == "object" => Ok(ParametersForm::Schema),
        Some(Value::Array(names)) if names.iter().any(|name| name == "object") => {
            Ok(ParametersForm::Schema)
        }
        // A property with the name `type` in a list of properties.
        Some(Value::Object(_)) if !members.contains_key("properties") => Ok(ParametersForm::Bare),
        Some(other) => Err(wrong(format!("type {other}"))),
        None => Ok(if is_bare(members) { ParametersForm::Bare } else { ParametersForm::Schema }),
    }
}

/// Returns whether the members of a schema without a type are properties.
pub(crate) fn is_bare(members: &Map<String, Value>) -> bool {
    let has_keyword = members.keys().any(|key| KEYWORDS.contains(&key.as_str()));
    let looks_like_property = |value: &Value| {
        let has = |key| value.get(key).is_some();
        value.is_object() && ["type", "description", "enum", "$ref", "anyOf"].iter().any(has)
    };
    !has_keyword && members.values().any(looks_like_property)
}

/// Returns bare properties as the schema of an object.
pub(crate) fn wrapped(raw: &str) -> Option<String> {
    let members = json::split_object(raw).ok()?;
    let mut properties = Object::default();
    let mut required = None;
    for (key, value) in members {
        if key == "required" && value.starts_with('[') {
            required = Some(value);
        } else {
            properties.raw(&key, value);
        }
    }
    let mut schema = Object::default();
    schema.text("type", "object");
    schema.raw("properties", &properties.end());
    if let Some(list) = required {
        schema.raw("required", list);
    }
    Some(schema.end())
}

fn traits_of(view: &ToolView<'_>) -> ToolTraits {
    let annotations: Option<Value> =
        view.other("annotations").and_then(|raw| serde_json::from_str(raw).ok());
    let hint = |key: &str| annotations.as_ref().is_some_and(|a| a.get(key) == Some(&true.into()));
    let mut traits = ToolTraits::default();
    traits.read_only = hint("readOnlyHint");
    traits.idempotent = traits.read_only || hint("idempotentHint");
    traits.destructive = hint("destructiveHint");
    traits
}

/// Returns the type of a value in words, with its article.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, code: &str, says: &str) {
        let error = Definition::parse(text).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!error.notes().is_empty(), "{error}");
    }

    #[test]
    fn a_root_that_is_no_object_is_a_creation_error_with_notes() {
        refused(r#"{"name":"a","parameters":{"type":"array"}}"#, "not_an_object", "type \"array\"");
        refused(r#"{"name":"a","input_schema":[]}"#, "not_an_object", "input_schema");
        refused(r#"{"name":"a","inputSchema":true}"#, "not_an_object", "the schema true");
        refused(r#"{"nmae":"a","parameters":{}}"#, "no_name", "expected a name");
        refused("[]", "invalid_json", "object");
        refused(
            r##"{"name":"a","parameters":{"$ref":"#"}}"##,
            "hostile_schema",
            "refers to itself",
        );
    }

    #[test]
    fn the_sample_of_seed_004_is_taken_for_what_it_means() {
        let text = r#"{"type":"function","name":"get_current_weather","parameters":{"location":{"type":"string"},"format":{"type":"string","enum":["celsius","fahrenheit"]},"required":["location","format"]}}"#;
        let definition = Definition::parse(text).unwrap();
        assert_eq!(definition.schema().text(), text);
        assert_eq!(definition.parameters_form(), ParametersForm::Bare);
        assert_eq!(
            definition.arguments_schema().unwrap(),
            r#"{"type":"object","properties":{"location":{"type":"string"},"format":{"type":"string","enum":["celsius","fahrenheit"]}},"required":["location","format"]}"#
        );
    }

    #[test]
    fn plain_json_schemas_become_definitions() {
        let schema =
            r#"{ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object" }"#;
        let definition = Definition::of_json_schema("a", "", schema).unwrap();
        assert_eq!(definition.parameters(), Some(schema));
        assert!(Definition::of_json_schema("a", "", r#"{}},{"x":{"#).is_err());
    }

    #[test]
    fn types_in_capitals_are_those_of_json_schema() {
        let text =
            r#"{"name":"w","parameters":{"type":"OBJECT","properties":{"n":{"type":"INTEGER"}}}}"#;
        let definition = Definition::parse(text).unwrap();
        assert_eq!(
            definition.parameters(),
            Some(r#"{"type":"object","properties":{"n":{"type":"integer"}}}"#)
        );
        assert_eq!(definition.schema().text(), text, "the schema stays as given");
    }

    #[test]
    fn definitions_cross_threads() {
        fn crosses<T: Send + Sync>() {}
        crosses::<Definition>();
    }
}
