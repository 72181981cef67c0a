//! The parameters of a tool as a tree, for display. The schema stays authoritative.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use tract_core::json::JsonError;

use crate::tree::Node;

/// One parameter, or the arguments as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Param {
    /// The name; empty if it has none.
    pub name: String,
    /// The type.
    pub kind: ParamKind,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it is required.
    pub required: bool,
    /// Whether it may be null. Independent of `required`.
    pub nullable: bool,
    /// The default as JSON text; `Some("null")` is a default of null, `None` means no default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The allowed values as JSON texts; empty if any value is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// The type of a parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ParamKind {
    /// A value of a type: `string`, `integer`, `number`, `boolean`, `null`, or `any`.
    Scalar {
        /// The type.
        r#type: String,
    },
    /// A list.
    Array {
        /// The type of each item.
        items: Option<Box<Param>>,
        /// The types of the first items, by position.
        places: Vec<Param>,
    },
    /// An object.
    Object {
        /// Its properties, in order.
        properties: Vec<Param>,
        /// Whether it allows other properties.
        open: bool,
    },
    /// One of several alternatives, none of which is a union itself.
    Union {
        /// The alternatives.
        options: Vec<Param>,
    },
    /// A reference to a definition in the schema.
    Reference {
        /// The reference.
        target: String,
    },
}

/// Returns the parameters of a schema, given as JSON text.
///
/// ```
/// let params = tract_schema::params(
///     r#"{"type":"object","properties":{"n":{"type":["integer","null"],"default":2}},"required":["n"]}"#,
/// )?;
/// assert_eq!(params.to_string(), "n: integer or null, required, default 2\n");
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
///
/// # Errors
/// [`JsonError`] if the text is not JSON.
pub fn params(schema: &str) -> Result<Param, JsonError> {
    Ok(param("", &Node::parse(schema)?, true))
}

fn param(name: &str, schema: &Node, required: bool) -> Param {
    let mut types = schema.types();
    let mut nullable = types.iter().any(|name| name == "null");
    if types.len() > 1 {
        types.retain(|name| name != "null");
    }
    let mut options = Vec::new();
    for key in ["anyOf", "oneOf"] {
        for branch in schema.list(key) {
            let option = param("", branch, true);
            nullable |= option.nullable;
            match option.kind {
                ParamKind::Union { options: inner } => options.extend(inner),
                ParamKind::Scalar { ref r#type } if r#type == "null" => nullable = true,
                // Nullability is a property of the union as a whole.
                _ => options.push(Param { nullable: false, ..option }),
            }
        }
    }
    let kind = match (schema.get("$ref").and_then(Node::as_text), options.len()) {
        (Some(target), _) => ParamKind::Reference { target: target.into_owned() },
        (None, 1) => options.remove(0).kind,
        (None, 2..) => ParamKind::Union { options },
        (None, 0) if types.len() > 1 => ParamKind::Union {
            options: types.iter().map(|name| plain(kind_of(name, schema))).collect(),
        },
        (None, 0) => {
            let guessed = match types.first() {
                Some(name) => name,
                None if schema.get("properties").is_some() => "object",
                None if schema.get("items").is_some() => "array",
                None => "any",
            };
            kind_of(guessed, schema)
        }
    };
    let choices: Vec<String> = match schema.get("const") {
        Some(only) => vec![only.write()],
        None => schema.list("enum").iter().map(Node::write).collect(),
    };
    nullable |= choices.iter().any(|choice| choice == "null");
    Param {
        name: name.to_owned(),
        kind,
        description: schema.get("description").and_then(Node::as_text).map(Cow::into_owned),
        required,
        nullable,
        default: schema.get("default").map(Node::write),
        choices,
    }
}

fn plain(kind: ParamKind) -> Param {
    Param {
        name: String::new(),
        kind,
        description: None,
        required: true,
        nullable: false,
        default: None,
        choices: Vec::new(),
    }
}

fn kind_of(name: &str, schema: &Node) -> ParamKind {
    match name {
        "object" => {
            let required = schema.texts("required");
            let properties = schema.get("properties").into_iter().flat_map(Node::members);
            ParamKind::Object {
                properties: properties
                    .map(|(name, schema)| param(name, schema, required.contains(name)))
                    .collect(),
                open: !schema.get("additionalProperties").is_some_and(|rest| rest.is("false")),
            }
        }
        "array" => {
            let items = schema.get("items");
            let listed = schema.get("prefixItems").or(items.filter(|node| !node.is_object()));
            let part = |node: &Node| param("", node, true);
            ParamKind::Array {
                items: items.filter(|node| node.is_object()).map(|node| Box::new(part(node))),
                places: listed.into_iter().flat_map(Node::items).map(part).collect(),
            }
        }
        other => ParamKind::Scalar { r#type: other.to_owned() },
    }
}

impl Param {
    /// Returns the nested parameters: properties, items or alternatives.
    pub fn children(&self) -> Vec<&Self> {
        match &self.kind {
            ParamKind::Scalar { .. } | ParamKind::Reference { .. } => Vec::new(),
            ParamKind::Array { items, places } => places.iter().chain(items.as_deref()).collect(),
            ParamKind::Object { properties, .. } => properties.iter().collect(),
            ParamKind::Union { options } => options.iter().collect(),
        }
    }

    /// Returns the type in words, such as `list of integer`.
    pub fn type_words(&self) -> String {
        let words = match &self.kind {
            ParamKind::Scalar { r#type } => r#type.clone(),
            ParamKind::Array { items: Some(items), .. } => {
                format!("list of {}", items.type_words())
            }
            ParamKind::Array { items: None, places } if places.is_empty() => "list".to_owned(),
            ParamKind::Array { places, .. } => {
                let words: Vec<String> = places.iter().map(Self::type_words).collect();
                format!("list of ({})", words.join(", "))
            }
            ParamKind::Object { .. } => "object".to_owned(),
            ParamKind::Union { options } => {
                let words: Vec<String> = options.iter().map(Self::type_words).collect();
                words.join(" or ")
            }
            ParamKind::Reference { target } => {
                target.rsplit('/').next().unwrap_or(target).to_owned()
            }
        };
        if self.nullable && words != "null" { format!("{words} or null") } else { words }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, level: usize) -> fmt::Result {
        let mut inner = level;
        if !self.name.is_empty() {
            inner += 1;
            write!(f, "{}{}: {}", "  ".repeat(level), self.name, self.type_words())?;
            if self.required {
                f.write_str(", required")?;
            }
            if let Some(default) = &self.default {
                write!(f, ", default {default}")?;
            }
            if !self.choices.is_empty() {
                write!(f, ", one of {}", self.choices.join(" "))?;
            }
            if let Some(text) = &self.description {
                write!(f, "  {}", text.lines().next().unwrap_or_default())?;
            }
            f.write_str("\n")?;
        }
        self.children().into_iter().try_for_each(|child| child.write(f, inner))
    }
}

/// Writes one line per parameter, with nested ones indented.
impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_facts_are_distinct() {
        let schema = r##"{"type":"object","additionalProperties":false,"required":["a","u"],"properties":{
            "a":{"type":"array","items":{"type":"object","properties":{"x":{"type":"number"}}}},
            "u":{"anyOf":[{"type":"string"},{"anyOf":[{"type":"integer"},{"type":"null"}]}],"description":"U."},
            "r":{"$ref":"#/$defs/thing"},"e":{"enum":["x","y"],"default":null},
            "o":{"type":["string","null"]},"t":{"prefixItems":[{"type":"string"}],"type":"array"}}}"##;
        let params = params(schema).unwrap();
        assert_eq!(
            params.to_string(),
            "a: list of object, required\n  x: number\nu: string or integer or null, required  U.\n\
             r: thing\ne: any, default null, one of \"x\" \"y\"\no: string or null\nt: list of (string)\n"
        );
        let ParamKind::Object { properties, open: false } = &params.kind else { panic!() };
        assert!(properties[1].nullable && properties[1].required);
        assert!(properties[4].nullable && !properties[4].required);
        assert_eq!(properties[3].default.as_deref(), Some("null"));
    }
}
