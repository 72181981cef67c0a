//! The shapes in which tools are given, and a uniform view of them.

use tract_core::json::{self, JsonError};

use crate::dialect::Dialect;
use crate::google;

/// The shape in which a tool is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// `{"type":"function","function":{…}}`, with or without `type`: OpenAI Chat and Ollama.
    Nested,
    /// `{"type":"function","name":…,"parameters":…}`: OpenAI Responses.
    Flat,
    /// `{"name":…,"input_schema":…}`, `type` absent or `custom`.
    Anthropic,
    /// `{"name":…,"inputSchema":…}`, as an MCP server lists it.
    Mcp,
    /// `{"name":…,"parametersJsonSchema":…}`, or `parameters` with Google's type names, such as
    /// `OBJECT`: a function declaration of Gemini.
    Gemini,
    /// `{"name":…,"parameters":…}` without a hint at the provider.
    Plain,
    /// A tool that a provider runs or defines itself. Only that provider supports it.
    Server(Dialect),
}

impl Shape {
    /// Returns whether a provider accepts this shape unchanged.
    pub fn is_of(self, dialect: Dialect) -> bool {
        self == Self::Server(dialect) || self == dialect.tools().shape
    }
}

/// The contents of a tool definition in any shape. All but the name are JSON texts as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolView<'a> {
    /// The shape.
    pub shape: Shape,
    /// The name; empty if there is none.
    pub name: String,
    /// The description.
    pub description: Option<&'a str>,
    /// The JSON Schema of the arguments.
    pub parameters: Option<&'a str>,
    /// All other members of the tool, in order.
    pub others: Vec<(String, &'a str)>,
}

impl<'a> ToolView<'a> {
    /// Parses a tool definition.
    ///
    /// # Errors
    /// [`JsonError`] if the text is not a JSON object.
    pub fn parse(text: &'a str) -> Result<Self, JsonError> {
        let members = json::split_object(text)?;
        if let Some(function) = find(&members, "function").filter(|raw| raw.starts_with('{')) {
            return Ok(Self::of(Shape::Nested, json::split_object(function)?, "parameters"));
        }
        let kind = find(&members, "type").and_then(string);
        let has = |key: &str| find(&members, key).is_some();
        let (shape, parameters) = match kind.as_deref() {
            None | Some("custom") if has("input_schema") => (Shape::Anthropic, "input_schema"),
            None if has("inputSchema") => (Shape::Mcp, "inputSchema"),
            None if has("parametersJsonSchema") => (Shape::Gemini, "parametersJsonSchema"),
            None if has("parameters_json_schema") => (Shape::Gemini, "parameters_json_schema"),
            None if find(&members, "parameters").is_some_and(google::is_googles) => {
                (Shape::Gemini, "parameters")
            }
            Some("function") if has("name") => (Shape::Flat, "parameters"),
            Some("custom") if has("custom") => (Shape::Server(Dialect::OpenAi), "parameters"),
            Some(kind) if has("input_schema") => {
                (Shape::Server(Dialect::of_type(kind)), "input_schema")
            }
            None if !has("name") => {
                let owner = Dialect::of_members(has);
                (owner.map_or(Shape::Plain, Shape::Server), "parameters")
            }
            // A JSON Schema's own `type` next to a name.
            Some("object") | None => (Shape::Plain, "parameters"),
            Some(kind) => (Shape::Server(Dialect::of_type(kind)), "parameters"),
        };
        Ok(Self::of(shape, members, parameters))
    }

    /// Returns one of the other members.
    pub fn other(&self, key: &str) -> Option<&'a str> {
        find(&self.others, key)
    }

    fn of(shape: Shape, members: Vec<(String, &'a str)>, parameters: &str) -> Self {
        let mut view = Self {
            shape,
            name: String::new(),
            description: None,
            parameters: None,
            others: Vec::new(),
        };
        for (key, raw) in members {
            match key.as_str() {
                "name" => view.name = string(raw).unwrap_or_default(),
                "description" => view.description = Some(raw),
                "type" if !matches!(shape, Shape::Server(_)) => {}
                key if key == parameters => view.parameters = Some(raw),
                _ => view.others.push((key, raw)),
            }
        }
        view
    }
}

pub(crate) fn find<'a>(members: &[(String, &'a str)], key: &str) -> Option<&'a str> {
    crate::tree::get(members, key).copied()
}

pub(crate) fn string(raw: &str) -> Option<String> {
    serde_json::from_str(raw).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shape: Shape, name: &str) {
        let view = ToolView::parse(text).unwrap();
        assert_eq!((view.shape, view.name.as_str()), (shape, name), "{text}");
    }

    #[test]
    fn shapes_are_detected() {
        check(r#"{"type":"function","function":{"name":"a"}}"#, Shape::Nested, "a");
        check(r#"{"function":{"name":"a"}}"#, Shape::Nested, "a");
        check(r#"{"type":"function","name":"a","parameters":{}}"#, Shape::Flat, "a");
        check(r#"{"name":"a","input_schema":{}}"#, Shape::Anthropic, "a");
        check(r#"{"type":"custom","name":"a","input_schema":{}}"#, Shape::Anthropic, "a");
        check(r#"{"name":"a","inputSchema":{}}"#, Shape::Mcp, "a");
        check(r#"{"name":"a","parameters":{}}"#, Shape::Plain, "a");
        check(r#"{"name":"a"}"#, Shape::Plain, "a");
        check(r#"{"name":"a","parametersJsonSchema":{}}"#, Shape::Gemini, "a");
        check(r#"{"name":"a","parameters_json_schema":{}}"#, Shape::Gemini, "a");
        check(r#"{"name":"a","parameters":{"type":"OBJECT"}}"#, Shape::Gemini, "a");
        check(r#"{"googleSearch":{}}"#, Shape::Server(Dialect::Gemini), "");
        check(r#"{"google_search":{}}"#, Shape::Server(Dialect::Gemini), "");
        let anthropic = Shape::Server(Dialect::Anthropic);
        check(r#"{"type":"web_search_20250305","name":"web_search"}"#, anthropic, "web_search");
        check(r#"{"type":"web_search"}"#, Shape::Server(Dialect::Responses), "");
        check(r#"{"type":"openrouter:web_search"}"#, Shape::Server(Dialect::OpenAi), "");
        check(r#"{"type":"custom","custom":{"name":"x"}}"#, Shape::Server(Dialect::OpenAi), "");
    }

    #[test]
    fn a_definition_must_be_an_object() {
        assert!(ToolView::parse("[]").is_err());
        assert!(ToolView::parse("{").is_err());
    }
}
