//! Converts a tool from any shape to the provider's, as a copy.

use serde_json::Value;
use tract_core::json::{self, JsonError};

use crate::accepted::{Accepted, accepted};
use crate::definition;
use crate::dialect::{Dialect, ToolRules};
use crate::google;
use crate::loss::{Loss, LossKind};
use crate::name;
use crate::shape::{self, Shape, ToolView};
use crate::tree::{Members, Node};

/// A tool in the form that is sent to a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lowered {
    /// The tool's text.
    Tool {
        /// The text to send.
        text: String,
        /// Whether it is the unchanged text.
        as_given: bool,
        /// The name that is sent.
        name: String,
        /// Whether the provider is asked to enforce the schema.
        strict: bool,
        /// The changes of the schema of the arguments.
        losses: Vec<Loss>,
    },
    /// The provider does not support this tool.
    LeftOut {
        /// The tool's name or type.
        name: String,
        /// The reason.
        reason: String,
    },
}

/// Writes a tool in the shape that a provider accepts. A tool that has this shape already, with a
/// name and parameters that the provider accepts, is returned unchanged. The exception is Ollama,
/// which has OpenAI's shape but only accepts name, description and parameters; other members are
/// left out. The schema of the arguments gets `type` and `properties` if it lacks them, arrays in it
/// get `items`, and references and alternatives at its top are merged into one object.
///
/// Besides name, description and parameters, these members are copied: `strict` (all but Ollama),
/// `defer_loading` (Responses and Anthropic), `cache_control`, `input_examples` and
/// `eager_input_streaming` (Anthropic), `output_schema` (Responses). An absent `strict` is true for
/// Responses and false for Chat, so it is always written for both.
///
/// # Errors
/// [`JsonError`] if the text is not a JSON object.
pub fn lower(text: &str, to: Dialect) -> Result<Lowered, JsonError> {
    let view = ToolView::parse(text)?;
    let sent = name::alias(to, &view.name).into_owned();
    lowered(text, &view, to, &sent, completed)
}

/// Writes a tool in the shape that a provider accepts, under the name chosen for the request.
///
/// # Errors
/// As [`lower`].
pub fn lower_as(text: &str, to: Dialect, sent: &str) -> Result<Lowered, JsonError> {
    lowered(text, &ToolView::parse(text)?, to, sent, completed)
}

/// As [`lower_as`], for a tool of a recorded request to this provider. The server accepted its
/// schema, so the schema only gets `type` and `properties`.
///
/// # Errors
/// As [`lower`].
pub fn lower_recorded_as(text: &str, to: Dialect, sent: &str) -> Result<Lowered, JsonError> {
    lowered(text, &ToolView::parse(text)?, to, sent, with_required)
}

/// Completes the parameters of a tool. The second argument is whether they may be absent.
type Complete = fn(&ToolView<'_>, bool) -> Option<(String, Vec<Loss>)>;

/// Returns whether a provider accepted a recorded definition as it is, although [`lower`] would
/// complete it: Anthropic requires only the type of an object schema. Gemini accepts JSON Schema in
/// `parameters`, and a function without them; such a definition does not show its provider, which
/// the caller has to know.
///
/// # Errors
/// [`JsonError`] if the text is not a JSON object.
pub fn is_accepted_as_recorded(text: &str, by: Dialect) -> Result<bool, JsonError> {
    let view = ToolView::parse(text)?;
    if view.shape == Shape::Plain && by.tools().shape == Shape::Gemini {
        let is_whole = |raw: &str| raw.starts_with('{') && with_required_members(raw).is_none();
        return Ok(view.parameters.is_none_or(is_whole));
    }
    let members = view.parameters.and_then(|raw| json::split_object(raw).ok());
    let is_object = members.is_some_and(|members| {
        members.iter().any(|(key, raw)| key == "type" && *raw == "\"object\"")
    });
    Ok(is_object && view.shape.is_of(by) && !by.tools().needs_properties)
}

fn lowered(
    text: &str,
    view: &ToolView<'_>,
    to: Dialect,
    sent: &str,
    complete: Complete,
) -> Result<Lowered, JsonError> {
    // A typed tool belongs to the provider, so its name must not be changed.
    if let Shape::Server(owner) = view.shape {
        if owner == to {
            return Ok(Lowered::Tool {
                text: text.to_owned(),
                as_given: true,
                name: view.name.clone(),
                strict: false,
                losses: Vec::new(),
            });
        }
        let name = if view.name.is_empty() {
            view.other("type").and_then(shape::string).unwrap_or_default()
        } else {
            view.name.clone()
        };
        return Ok(Lowered::LeftOut { name, reason: format!("only {owner} knows this tool") });
    }
    let rules = to.tools();
    let own = view.shape.is_of(to) && (rules.takes_more || !has_more(text, view)?);
    let completed = complete(view, own && !rules.needs_parameters);
    let parameters = completed.as_ref().map(|(parameters, _)| parameters.as_str());
    let as_given = own && sent == view.name && parameters.is_none();
    let text = match (as_given, own) {
        (true, _) => text.to_owned(),
        (false, true) => edited(text, &rules, sent, parameters)?,
        (false, false) => written(view, &rules, sent, parameters),
    };
    Ok(Lowered::Tool {
        text,
        as_given,
        name: sent.to_owned(),
        strict: rules.strict.is_some() && view.other("strict") == Some("true"),
        losses: completed.map(|(_, losses)| losses).unwrap_or_default(),
    })
}

/// Returns the parameters as providers accept them, and the report; `None` if they need no change, or
/// if they are absent and `may_lack` them.
fn completed(view: &ToolView<'_>, may_lack: bool) -> Option<(String, Vec<Loss>)> {
    let required = with_required(view, may_lack);
    let plain;
    let parameters = match (&required, view.parameters.filter(|raw| raw.starts_with('{'))) {
        (Some((parameters, _)), _) => parameters.as_str(),
        (None, Some(given)) => {
            plain = google::json_schema(given).filter(|_| view.shape == Shape::Gemini);
            plain.as_deref().unwrap_or(given)
        }
        (None, None) => return None,
    };
    let Some(Accepted { parameters, losses }) = accepted(parameters) else { return required };
    let before = required.map(|(_, losses)| losses).unwrap_or_default();
    Some((parameters, before.into_iter().chain(losses).collect()))
}

/// Returns the parameters with the members that providers require, and the report; `None` if they
/// have them, or if they are absent and `may_lack` them.
fn with_required(view: &ToolView<'_>, may_lack: bool) -> Option<(String, Vec<Loss>)> {
    let added = |why: &str| vec![Loss::new(LossKind::Added, "parameters", why)];
    let Some(given) = view.parameters.filter(|raw| raw.starts_with('{')) else {
        let lacks = view.parameters.is_some() || !may_lack;
        return lacks.then(|| (NO_PARAMETERS.to_owned(), added("the target wants a schema")));
    };
    let plain = google::json_schema(given).filter(|_| view.shape == Shape::Gemini);
    let completed = with_required_members(plain.as_deref().unwrap_or(given))?;
    Some((completed, added("providers require \"type\":\"object\" and \"properties\"")))
}

/// Returns whether a tool has other members than the function. Nulls do not count.
fn has_more(text: &str, view: &ToolView<'_>) -> Result<bool, JsonError> {
    let is_other = |key: &str| !matches!(key, "type" | "function");
    Ok(view.others.iter().any(|(_, raw)| *raw != "null")
        || json::split_object(text)?.iter().any(|(key, raw)| is_other(key) && *raw != "null"))
}

/// Returns the text with another name and, if given, other parameters. Everything else is
/// unchanged.
fn edited(
    text: &str,
    rules: &ToolRules,
    sent: &str,
    parameters: Option<&str>,
) -> Result<String, JsonError> {
    let members = json::split_object(text)?;
    let nested = members.iter().any(|(key, raw)| key == "function" && raw.starts_with('{'));
    let mut out = Object::default();
    // Of the spellings of Gemini's parameters, only one may be sent.
    let spellings = [rules.parameters, "parameters", "parameters_json_schema"];
    let (mut named, mut replaced) = (nested, nested || parameters.is_none());
    for (key, raw) in members {
        match (key.as_str(), parameters) {
            ("function", _) if nested => out.raw(&key, &edited(raw, rules, sent, parameters)?),
            ("name", _) if !nested => {
                out.text(&key, sent);
                named = true;
            }
            (name, Some(parameters)) if !nested && spellings.contains(&name) => {
                if !std::mem::replace(&mut replaced, true) {
                    out.raw(rules.parameters, parameters);
                }
            }
            _ => out.raw(&key, raw),
        }
    }
    if !named {
        out.text("name", sent);
    }
    if let Some(parameters) = parameters.filter(|_| !replaced) {
        out.raw(rules.parameters, parameters);
    }
    Ok(out.end())
}

/// The schema of a tool without arguments.
pub(crate) const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// Keywords that state the properties of an object without `properties`.
const STATES_PROPERTIES: [&str; 7] =
    ["properties", "patternProperties", "$ref", "anyOf", "oneOf", "allOf", "$dynamicRef"];

/// Returns whether an object schema with these members states no properties.
pub(crate) fn lacks_properties(has: impl Fn(&str) -> bool) -> bool {
    !STATES_PROPERTIES.iter().any(|key| has(key))
}

/// Adds `type` and `properties`, which providers require, to a schema of arguments; `None` if it has
/// them. Bare properties are wrapped in the object that was meant. A schema with another type stays
/// as it is.
///
/// ```
/// use tract_schema::with_required_members;
/// let expected = r#"{"type":"object","properties":{}}"#;
/// assert_eq!(with_required_members("{}").as_deref(), Some(expected));
/// assert_eq!(with_required_members(expected), None);
/// ```
pub fn with_required_members(parameters: &str) -> Option<String> {
    let members = json::split_object(parameters).ok()?;
    let has = |key: &str| members.iter().any(|(name, _)| name == key);
    let kind = shape::find(&members, "type").and_then(|raw| serde_json::from_str(raw).ok());
    let is_object = match &kind {
        None | Some(Value::Null) => false,
        Some(Value::String(name)) if name == "object" => true,
        // Providers accept the name alone.
        Some(Value::Array(names)) if names.iter().any(|name| name == "object") => false,
        Some(Value::Object(_)) if !has("properties") => return definition::wrapped(parameters),
        Some(_) => return None,
    };
    if kind.is_none()
        && serde_json::from_str(parameters).is_ok_and(|read| definition::is_bare(&read))
    {
        return definition::wrapped(parameters);
    }
    let adds_properties = lacks_properties(has);
    if is_object && !adds_properties {
        return None;
    }
    let mut out = Object::default();
    out.raw("type", r#""object""#);
    for (key, raw) in members.iter().filter(|(key, _)| key != "type") {
        out.raw(key, raw);
    }
    if adds_properties {
        out.raw("properties", "{}");
    }
    Some(out.end())
}

fn written(view: &ToolView<'_>, rules: &ToolRules, sent: &str, completed: Option<&str>) -> String {
    let some = |key: &str| view.other(key).filter(|raw| *raw != "null");
    let mut out = Object::default();
    if rules.is_typed {
        out.text("type", "function");
    }
    let mut function = match rules.wrapper {
        Some(_) => Object::default(),
        None => std::mem::take(&mut out),
    };
    function.text("name", sent);
    if let Some(raw) = view.description.filter(|raw| *raw != "null") {
        function.raw("description", raw);
    }
    let parameters = view.parameters.filter(|raw| raw.starts_with('{'));
    let plain = parameters.filter(|_| view.shape == Shape::Gemini).and_then(google::json_schema);
    let parameters = plain.as_deref().or(parameters);
    if let Some(raw) = completed.or(parameters) {
        function.raw(rules.parameters, raw);
    }
    if rules.says_strict {
        // Providers have different defaults for `strict`, so it is always written.
        function.raw("strict", some("strict").unwrap_or("false"));
    }
    let mut carried = Vec::new();
    for (given, written) in rules.carried {
        if let Some(raw) = some(given).filter(|_| !carried.contains(written)) {
            function.raw(written, raw);
            carried.push(written);
        }
    }
    match rules.wrapper {
        Some(wrapper) => {
            out.raw(wrapper, &function.end());
            out.end()
        }
        None => function.end(),
    }
}

/// Writes an object from members that are already JSON text.
#[derive(Default)]
pub(crate) struct Object(Members);

impl Object {
    pub(crate) fn raw(&mut self, key: &str, raw: &str) {
        self.0.push((key.to_owned(), Node::Scalar(raw.to_owned())));
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.0.push((key.to_owned(), Node::text(text)));
    }

    pub(crate) fn end(self) -> String {
        Node::Object(self.0).write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, to: Dialect, expected: &str) {
        let Lowered::Tool { text, .. } = lower(given, to).unwrap() else { panic!("left out") };
        assert_eq!(text, expected);
    }

    #[test]
    fn every_shape_becomes_every_other() {
        let nested = r#"{"type":"function","function":{"name":"a","description":"A.","parameters":{"type":"object","properties":{"b":{"maximum":1.0}}},"strict":true}}"#;
        check(nested, Dialect::OpenAi, nested);
        check(
            nested,
            Dialect::Ollama,
            r#"{"type":"function","function":{"name":"a","description":"A.","parameters":{"type":"object","properties":{"b":{"maximum":1.0}}}}}"#,
        );
        let flat = r#"{"type":"function","name":"a","description":"A.","parameters":{"type":"object","properties":{"b":{"maximum":1.0}}},"strict":true}"#;
        check(nested, Dialect::Responses, flat);
        let anthropic = r#"{"name":"a","description":"A.","input_schema":{"type":"object","properties":{"b":{"maximum":1.0}}},"strict":true}"#;
        check(nested, Dialect::Anthropic, anthropic);
        check(flat, Dialect::OpenAi, nested);
        check(anthropic, Dialect::OpenAi, nested);
        check(
            r#"{"name":"a","inputSchema":{"type":"object","properties":{},"z":1,"a":2},"annotations":{}}"#,
            Dialect::Responses,
            r#"{"type":"function","name":"a","parameters":{"type":"object","properties":{},"z":1,"a":2},"strict":false}"#,
        );
        check(
            r#"{"name":"a","inputSchema":{}}"#,
            Dialect::OpenAi,
            r#"{"type":"function","function":{"name":"a","parameters":{"type":"object","properties":{}},"strict":false}}"#,
        );
        for more in [r#"{"cache_control":{},"function":{"name":"a","parameters":{}}}"#, nested] {
            let Lowered::Tool { text, as_given, .. } = lower(more, Dialect::Ollama).unwrap() else {
                panic!("left out")
            };
            assert!(!as_given && !text.contains("cache_control") && !text.contains("strict"));
        }
        let google = r#"{"name":"a","parameters":{"type":"OBJECT","properties":{"type":{"type":"STRING"}}}}"#;
        check(google, Dialect::Gemini, google);
        check(
            google,
            Dialect::Anthropic,
            r#"{"name":"a","input_schema":{"type":"object","properties":{"type":{"type":"string"}}}}"#,
        );
        check(
            flat,
            Dialect::Gemini,
            r#"{"name":"a","description":"A.","parametersJsonSchema":{"type":"object","properties":{"b":{"maximum":1.0}}}}"#,
        );
        // A definition in the provider's own shape is returned unchanged if it is acceptable.
        let recorded = r#"{"type":"function","function":{"name":"a"},"x":1.0}"#;
        check(recorded, Dialect::OpenAi, recorded);
        check(
            r#"{"type":"function","function":{"parameters":{},"name":"a","y":2.0},"x":1.0}"#,
            Dialect::OpenAi,
            r#"{"type":"function","function":{"parameters":{"type":"object","properties":{}},"name":"a","y":2.0},"x":1.0}"#,
        );
        check(
            r#"{"name":"a","parameters":{"type":"OBJECT"},"response":{}}"#,
            Dialect::Gemini,
            r#"{"name":"a","parametersJsonSchema":{"type":"object","properties":{}},"response":{}}"#,
        );
        check(
            r#"{"name":"a"}"#,
            Dialect::Anthropic,
            r#"{"name":"a","input_schema":{"type":"object","properties":{}}}"#,
        );
        check(
            r#"{"name":"a","parameters":{}}"#,
            Dialect::Ollama,
            r#"{"type":"function","function":{"name":"a","parameters":{"type":"object","properties":{}}}}"#,
        );
    }

    #[test]
    fn schemas_get_the_members_that_providers_require() {
        let cases = [
            ("{}", Some(NO_PARAMETERS)),
            (r#"{"type":"object"}"#, Some(r#"{"type":"object","properties":{}}"#)),
            (r#"{"properties":{"a":{}}}"#, Some(r#"{"type":"object","properties":{"a":{}}}"#)),
            (
                r##"{"$ref":"#/$defs/a","$defs":{}}"##,
                Some(r##"{"type":"object","$ref":"#/$defs/a","$defs":{}}"##),
            ),
            (
                r#"{"type":["object","null"],"title":"A"}"#,
                Some(r#"{"type":"object","title":"A","properties":{}}"#),
            ),
            (
                r#"{"additionalProperties":false}"#,
                Some(r#"{"type":"object","additionalProperties":false,"properties":{}}"#),
            ),
            (
                r#"{"type":{"type":"string"},"n":{"type":"integer"}}"#,
                Some(
                    r#"{"type":"object","properties":{"type":{"type":"string"},"n":{"type":"integer"}}}"#,
                ),
            ),
            (r#"{"type":"object","anyOf":[]}"#, None),
            (r#"{"type":"object","properties":{}}"#, None),
            (r#"{"type":"string"}"#, None),
        ];
        for (given, expected) in cases {
            assert_eq!(with_required_members(given).as_deref(), expected, "{given}");
        }
    }

    #[test]
    fn refused_names_are_replaced_and_the_rest_stays() {
        check(
            r#"{"function": {"parameters": {"type": "object", "properties": {}, "x": 1e2}, "name": "a.b"}, "extra": 1}"#,
            Dialect::OpenAi,
            &format!(
                r#"{{"function":{{"parameters":{{"type": "object", "properties": {{}}, "x": 1e2}},"name":"{}"}},"extra":1}}"#,
                name::alias(Dialect::OpenAi, "a.b")
            ),
        );
    }

    #[test]
    fn examples_of_arguments_go_where_they_are_known() {
        let given = r#"{"name":"a","inputSchema":{},"input_examples":[{"n":1.0}]}"#;
        let anthropic = r#"{"name":"a","input_schema":{"type":"object","properties":{}},"input_examples":[{"n":1.0}]}"#;
        check(given, Dialect::Anthropic, anthropic);
        let nested =
            r#"{"type":"function","function":{"name":"a","parameters":{},"input_examples":[{}]}}"#;
        check(
            nested,
            Dialect::Anthropic,
            r#"{"name":"a","input_schema":{"type":"object","properties":{}},"input_examples":[{}]}"#,
        );
        let elsewhere = crate::translate(given, crate::Target::Mcp, false).unwrap();
        assert_eq!(elsewhere.losses, []);
        let elsewhere = Dialect::OpenAi;
        let translated =
            crate::translate(given, crate::Target::Provider(elsewhere), false).unwrap();
        assert_eq!(translated.losses[0].path, "input_examples");
    }

    #[test]
    fn a_providers_own_tool_stays_with_it() {
        let tool = r#"{"type":"web_search_20250305","name":"web_search","max_uses":3}"#;
        check(tool, Dialect::Anthropic, tool);
        assert!(matches!(lower(tool, Dialect::OpenAi).unwrap(), Lowered::LeftOut { .. }));
    }
}
