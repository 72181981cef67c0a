//! Finds common mistakes in tool definitions before a model runs into them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};
use tract_core::nearest;

use crate::accepted::REJECTED_AT_ROOT;
use crate::definition::{Definition, ParametersForm};
use crate::derive::has_type;
use crate::dialect::Dialect;
use crate::lower::lacks_properties;
use crate::name;
use crate::shape::Shape;
use crate::strict::violations;
use crate::tree::{Node, escaped};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The tool works but could be improved.
    Hint,
    /// The schema does not mean what it appears to mean.
    Warning,
    /// Calls of the tool fail or are not validated.
    Error,
}

impl Level {
    /// Returns the severity's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The stable code of the rule.
    pub code: &'static str,
    /// The path in the parameters, such as `/properties/city`; `/` for the definition itself.
    pub path: String,
    /// A description with the expected and the actual value.
    pub message: String,
    /// A hint on how to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] {}: {}", self.level.as_str(), self.code, self.path, self.message)
    }
}

/// Options for linting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LintOptions {
    /// Also requires names in lower case with underscores, and descriptions of at most 200
    /// characters: stricter rules for your own tools.
    pub own: bool,
}

/// Finds mistakes in a definition's text. An invalid definition is the only finding.
///
/// ```
/// use tract_schema::lint;
/// let findings = lint(r#"{"name":"a","description":"A.","parameters":{"properties":{"n":{"type":"int"}}}}"#);
/// let codes: Vec<&str> = findings.iter().map(|finding| finding.code).collect();
/// assert_eq!(codes, ["unknown_type", "missing_type", "no_description"]);
/// ```
pub fn lint(text: &str) -> Vec<Finding> {
    lint_with(text, &LintOptions::default())
}

/// Finds mistakes with options. The most severe ones come first.
pub fn lint_with(text: &str, options: &LintOptions) -> Vec<Finding> {
    match Definition::parse(text) {
        Ok(definition) => lint_definition(&definition, options),
        Err(error) => vec![Finding {
            level: Level::Error,
            code: error.code(),
            path: "/".to_owned(),
            message: error.kind.to_string(),
            note: error.notes().into_iter().next(),
        }],
    }
}

/// Finds mistakes in a parsed definition.
pub fn lint_definition(definition: &Definition, options: &LintOptions) -> Vec<Finding> {
    let mut lint = Lint { findings: Vec::new(), root: Value::Null };
    if !definition.is_of_provider() {
        lint.name(definition.name(), options);
        lint.description(definition.description(), options);
        let wrong = match definition.parameters_form() {
            ParametersForm::Absent => Some((
                "no_schema",
                "expected a schema of the arguments, found none: calls are refused",
                "write {\"type\":\"object\",\"properties\":{}} for a tool without arguments",
            )),
            ParametersForm::Bare => Some((
                "bare_properties",
                "expected a schema, found properties where its keywords belong",
                "wrap them: {\"type\":\"object\",\"properties\":{…},\"required\":[…]}",
            )),
            ParametersForm::Schema => None,
        };
        if let Some((code, message, note)) = wrong {
            lint.add(Level::Error, code, "/", message, Some(note));
        }
        let schema = definition.arguments_schema();
        if let Some(Ok(value)) = schema.as_deref().map(serde_json::from_str::<Value>) {
            let has = |key: &str| value.get(key).is_some();
            let lacks = lacks_properties(has) || has("patternProperties");
            if value.is_object() && lacks && !has("properties") {
                let message =
                    "expected \"type\":\"object\" and \"properties\", found no properties";
                let note = "it is sent with \"type\":\"object\" and \"properties\":{}";
                lint.add(Level::Hint, "no_properties", "/", message, Some(note));
            }
            lint.root = value.clone();
            lint.top(&value);
            lint.schema(&value, "", true);
            lint.strict(definition);
        }
        #[cfg(feature = "validate")]
        if let Some(schema) = &schema {
            lint.compiles(schema);
        }
    }
    lint.findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    lint.findings
}

struct Lint {
    findings: Vec<Finding>,
    root: Value,
}

/// The type names of JSON Schema.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Type names of other languages.
const FOREIGN: &[(&str, &str)] = &[
    ("int", "integer"),
    ("long", "integer"),
    ("float", "number"),
    ("double", "number"),
    ("str", "string"),
    ("text", "string"),
    ("bool", "boolean"),
    ("dict", "object"),
    ("map", "object"),
    ("list", "array"),
    ("tuple", "array"),
    ("set", "array"),
    ("none", "null"),
];

impl Lint {
    fn add(
        &mut self,
        level: Level,
        code: &'static str,
        path: &str,
        message: impl Into<String>,
        note: Option<&str>,
    ) {
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        let note = note.map(str::to_owned);
        self.findings.push(Finding { level, code, path, message: message.into(), note });
    }

    fn name(&mut self, given: &str, options: &LintOptions) {
        let (code, message) = if !name::accepts(Dialect::OpenAi, given) {
            let expected = "expected 1 to 64 letters, digits, _ and -";
            let alias = name::alias(Dialect::OpenAi, given).into_owned();
            ("name", format!("{expected}, found {given:?}: it is sent as {alias:?}"))
        } else if options.own && given.chars().any(|c| c.is_ascii_uppercase()) {
            ("strict_names", format!("expected lower case with underscores, found {given:?}"))
        } else {
            return;
        };
        let suggestion = format!("{:?} would do", name::suggestion(given));
        self.add(Level::Warning, code, "/", message, Some(&suggestion));
    }

    fn description(&mut self, given: Option<&str>, options: &LintOptions) {
        let text = given.unwrap_or_default().trim();
        let (most, level) = if options.own { (200, Level::Warning) } else { (1024, Level::Hint) };
        let found = text.chars().count();
        if text.is_empty() {
            let note = "say what it does and when to use it: models choose by it";
            let (code, message) = ("no_tool_description", "expected a description, found none");
            self.add(Level::Warning, code, "/", message, Some(note));
        } else if found > most {
            let message =
                format!("expected at most {most} characters of description, found {found}");
            self.add(level, "long_description", "/", message, None);
        }
    }

    #[cfg(feature = "validate")]
    fn compiles(&mut self, schema: &str) {
        use crate::validate::{JsonSchema, SchemaCompiler, SchemaError};
        let Err(error) = JsonSchema.compile(schema, &Default::default()) else { return };
        // Skip it if a more specific rule has reported the mistake.
        if self.findings.iter().any(|f| f.level == Level::Error && f.code != "bare_properties") {
            return;
        }
        let (path, message) = match &error {
            SchemaError::Schema { path, message } => (path.clone(), message.clone()),
            other => ("/".to_owned(), other.to_string()),
        };
        let note = error.notes().into_iter().next();
        self.add(Level::Error, "bad_schema", &path, message, note.as_deref());
    }

    /// Reports keywords that providers reject at the top of the schema.
    fn top(&mut self, schema: &Value) {
        for key in REJECTED_AT_ROOT.iter().filter(|key| schema.get(key).is_some()) {
            let message =
                format!("expected the properties of one object, found {key:?} at the top");
            let note = match *key {
                "enum" | "not" => "it is sent without it: providers reject it there",
                _ => "it is sent as one object with all properties: providers reject it there",
            };
            self.add(Level::Warning, "not_one_object", &format!("/{key}"), message, Some(note));
        }
    }

    fn schema(&mut self, schema: &Value, path: &str, is_root: bool) {
        let Value::Object(members) = schema else { return };
        self.types(members, path, is_root);
        self.required(members, path);
        self.values(members, path);
        if let Some(reference) = members.get("$ref").and_then(Value::as_str)
            && reference.starts_with("#/")
            && self.root.pointer(reference.trim_start_matches('#')).is_none()
        {
            let message = format!("the reference {reference:?} leads nowhere");
            let note = "definitions belong under $defs, in the parameters themselves";
            self.add(Level::Error, "dangling_ref", path, message, Some(note));
        }
        for (key, value) in members {
            match (key.as_str(), value) {
                ("properties", Value::Object(properties)) => {
                    for (name, property) in properties {
                        let place = format!("{path}/properties/{}", escaped(name));
                        self.property(name, property, &place);
                    }
                }
                (
                    "$defs" | "definitions" | "patternProperties" | "dependentSchemas",
                    Value::Object(all),
                ) => {
                    for (name, schema) in all {
                        self.schema(schema, &format!("{path}/{key}/{}", escaped(name)), false);
                    }
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems" | "items", Value::Array(all)) => {
                    for (n, schema) in all.iter().enumerate() {
                        self.schema(schema, &format!("{path}/{key}/{n}"), false);
                    }
                }
                (
                    "items" | "additionalProperties" | "not" | "if" | "then" | "else" | "contains",
                    value,
                ) => {
                    self.schema(value, &format!("{path}/{key}"), false);
                }
                _ => {}
            }
        }
    }

    /// Reports what providers reject in a tool that asks for strict mode.
    fn strict(&mut self, definition: &Definition) {
        if definition.other("strict") != Some("true") {
            return;
        }
        let dialect = match definition.shape() {
            Shape::Anthropic => Dialect::Anthropic,
            _ => Dialect::OpenAi,
        };
        let Some(Ok(parameters)) = definition.parameters().map(Node::parse) else { return };
        for (path, message) in violations(&parameters, dialect) {
            let note = "requests get a strict copy of it, or \"strict\":false if there is none";
            self.add(Level::Warning, "not_strict", &path, message, Some(note));
        }
    }

    fn property(&mut self, name: &str, property: &Value, path: &str) {
        if name == "required" && property.is_array() {
            let note = "`required` belongs next to `properties`, not among them";
            let message = "expected the schema of a property, found a list of names";
            return self.add(Level::Error, "required_in_properties", path, message, Some(note));
        }
        let Value::Object(members) = property else {
            if !property.is_boolean() {
                let found = crate::definition::kind(property);
                let message = format!("expected the schema of a property, found {found}");
                self.add(Level::Error, "no_schema_of_property", path, message, None);
            }
            return;
        };
        let describes = ["description", "title", "$ref", "const"];
        if !describes.iter().any(|key| members.contains_key(*key)) {
            let message = "expected a description, found none";
            self.add(Level::Hint, "no_description", path, message, None);
        }
        self.schema(property, path, false);
    }

    fn types(&mut self, members: &Map<String, Value>, path: &str, is_root: bool) {
        let names: Vec<&Value> = match members.get("type") {
            None => {
                let lacks = is_root && !lacks_properties(|key| members.contains_key(key));
                if lacks || members.contains_key("properties") {
                    let level = if is_root { Level::Warning } else { Level::Hint };
                    let message = "expected \"type\":\"object\" next to properties, found no type";
                    let note = "without it anything that is no object fits too";
                    self.add(level, "missing_type", path, message, Some(note));
                }
                return;
            }
            Some(Value::Array(names)) => {
                if is_root {
                    let message = "expected the type \"object\", found a list of types";
                    let note = "it is sent as \"type\":\"object\"";
                    self.add(Level::Warning, "root_types", path, message, Some(note));
                }
                names.iter().collect()
            }
            Some(name) => vec![name],
        };
        for name in names {
            let Some(text) = name.as_str() else {
                let message = format!("expected the name of a type, found {name}");
                self.add(Level::Error, "unknown_type", path, message, None);
                continue;
            };
            if TYPES.contains(&text) {
                continue;
            }
            let lower = text.to_ascii_lowercase();
            let foreign = FOREIGN.iter().find(|(name, _)| *name == lower).map(|(_, own)| *own);
            let meant = foreign.or_else(|| nearest(&lower, TYPES));
            let note = match meant {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("the types are {}", TYPES.join(", ")),
            };
            let message = format!("expected a type of JSON Schema, found {text:?}");
            self.add(Level::Error, "unknown_type", path, message, Some(&note));
        }
        let is_array = match members.get("type") {
            Some(Value::Array(names)) => names.iter().any(|name| name == "array"),
            name => name.and_then(Value::as_str) == Some("array"),
        };
        if is_array && !members.contains_key("items") && !members.contains_key("prefixItems") {
            let message = "expected the schema of the items, found none";
            self.add(Level::Hint, "no_items", path, message, Some("it is sent with \"items\":{}"));
        }
        if members.get("nullable") == Some(&Value::Bool(true)) {
            let note = "write the type as a list: [\"string\",\"null\"]";
            let message = "`nullable` is OpenAPI's word: JSON Schema ignores it";
            self.add(Level::Warning, "nullable", path, message, Some(note));
        }
    }

    fn required(&mut self, members: &Map<String, Value>, path: &str) {
        let place = format!("{path}/required");
        let names = match members.get("required") {
            None => return,
            Some(Value::Array(names)) => names,
            Some(Value::Bool(_)) => {
                let message = "expected a list of names, found a boolean";
                let note = "list the property under `required` of the object around it";
                return self.add(Level::Error, "required_flag", &place, message, Some(note));
            }
            Some(other) => {
                let found = crate::definition::kind(other);
                let message = format!("expected a list of names, found {found}");
                return self.add(Level::Error, "required_list", &place, message, None);
            }
        };
        let Some(properties) = members.get("properties").and_then(Value::as_object) else { return };
        let closed = members.get("additionalProperties") == Some(&Value::Bool(false));
        for name in names.iter().filter_map(Value::as_str) {
            if properties.contains_key(name) {
                continue;
            }
            let meant = nearest(name, properties.keys().map(String::as_str));
            let note = meant.map(|meant| format!("did you mean {meant:?}?"));
            let message = format!("{name:?} is required and not among the properties");
            let level = if closed { Level::Error } else { Level::Warning };
            self.add(level, "unknown_required", &place, message, note.as_deref());
        }
    }

    fn values(&mut self, members: &Map<String, Value>, path: &str) {
        let name = members.get("type").and_then(Value::as_str).filter(|name| TYPES.contains(name));
        let fits = |value: &Value| name.is_none_or(|name| has_type(name, value));
        if let Some(default) = members.get("default").filter(|default| !default.is_null()) {
            let place = format!("{path}/default");
            if !fits(default) {
                let message = format!("the default {default} is not of the type");
                self.add(Level::Warning, "default_type", &place, message, None);
            }
            let listed = members.get("enum").and_then(Value::as_array);
            if listed.is_some_and(|list| !list.contains(default)) {
                let message = format!("the default {default} is not among the values");
                self.add(Level::Warning, "default_enum", &place, message, None);
            }
        }
        if let Some(Value::Array(list)) = members.get("enum") {
            let place = format!("{path}/enum");
            if list.is_empty() {
                self.add(Level::Error, "empty_enum", &place, "expected values, found none", None);
            }
            if let Some(wrong) = list.iter().find(|value| !fits(value)) {
                let message = format!("the value {wrong} is not of the type");
                self.add(Level::Warning, "enum_type", &place, message, None);
            }
            let mut seen: BTreeMap<String, usize> = BTreeMap::new();
            list.iter().for_each(|value| *seen.entry(value.to_string()).or_default() += 1);
            if let Some((twice, _)) = seen.iter().find(|(_, count)| **count > 1) {
                let message = format!("duplicate value {twice}");
                self.add(Level::Warning, "enum_twice", &place, message, None);
            }
        }
        for key in ["exclusiveMinimum", "exclusiveMaximum"] {
            if members.get(key).is_some_and(Value::is_boolean) {
                let message = "expected a number, found a boolean: that was draft-04";
                self.add(Level::Error, "draft_4", &format!("{path}/{key}"), message, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(parameters: &str, code: &str, path: &str) {
        let text = format!(r#"{{"name":"a","description":"A.","parameters":{parameters}}}"#);
        let findings = lint(&text);
        let found = findings.iter().any(|f| f.code == code && f.path == path);
        assert!(found, "{code} at {path} in {findings:?}");
    }

    /// The same for a property `a`, with the place in it.
    #[track_caller]
    fn check_property(property: &str, code: &str, path: &str) {
        let parameters = format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
        check(&parameters, code, &format!("/properties/a{path}"));
    }

    #[test]
    fn each_mistake_is_found_where_it_is() {
        check(r#"{"properties":{}}"#, "missing_type", "/");
        check_property(r#"{"type":"dict"}"#, "unknown_type", "");
        check(
            r#"{"type":"object","properties":{"a":{},"required":["a"]}}"#,
            "required_in_properties",
            "/properties/required",
        );
        check_property(r#"{"type":"string","required":true}"#, "required_flag", "/required");
        check(
            r#"{"type":"object","properties":{"city":{}},"required":["ctiy"]}"#,
            "unknown_required",
            "/required",
        );
        check_property(r##"{"$ref":"#/$defs/b"}"##, "dangling_ref", "");
        check_property(r#"{"type":"string","nullable":true}"#, "nullable", "");
        check_property(r#"{"type":"integer","default":"1"}"#, "default_type", "/default");
        check_property(r#"{"enum":["x"],"default":"y"}"#, "default_enum", "/default");
        check_property(r#"{"type":"integer","enum":["x"]}"#, "enum_type", "/enum");
        check_property(r#"{"type":"array"}"#, "no_items", "");
        check_property(r#"{"minimum":1,"exclusiveMinimum":true}"#, "draft_4", "/exclusiveMinimum");
        check("null", "no_schema", "/");
    }

    #[test]
    fn keywords_that_providers_reject_at_the_top_are_found() {
        for key in ["allOf", "anyOf", "oneOf"] {
            let parameters = format!(r#"{{"type":"object","{key}":[{{"properties":{{}}}}]}}"#);
            check(&parameters, "not_one_object", &format!("/{key}"));
        }
        let reference = r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}"##;
        check(reference, "not_one_object", "/$ref");
        check(r#"{"type":"object","patternProperties":{"^x":{}}}"#, "no_properties", "/");
        check_property(r#"{"type":["array","null"]}"#, "no_items", "");
    }

    #[test]
    fn the_sample_of_seed_004_is_linted() {
        let findings = lint(
            r#"{"type":"function","name":"get_current_weather","description":"Get the current weather for a given location",
            "parameters":{"location":{"type":"string"},"format":{"type":"string","enum":["celsius","fahrenheit"]},"required":["location","format"]}}"#,
        );
        assert_eq!(findings[0].code, "bare_properties");
        assert_eq!(findings[0].level, Level::Error);
    }

    #[test]
    fn a_description_that_is_absent_or_too_long_is_found() {
        let find = |description: &str, options: &LintOptions| {
            let parameters = r#"{"type":"object","properties":{}}"#;
            let text = format!(r#"{{"name":"add"{description},"parameters":{parameters}}}"#);
            lint_with(&text, options).into_iter().map(|f| (f.code, f.level)).collect::<Vec<_>>()
        };
        let (others, own) = (LintOptions::default(), LintOptions { own: true });
        for absent in ["", r#","description":"""#, r#","description":"  ""#] {
            for options in [&others, &own] {
                assert_eq!(find(absent, options), [("no_tool_description", Level::Warning)]);
            }
        }
        let long = |characters: usize| format!(r#","description":"{}""#, "é".repeat(characters));
        let found = |level| vec![("long_description", level)];
        for (options, most, level) in [(&others, 1024, Level::Hint), (&own, 200, Level::Warning)] {
            assert_eq!(find(&long(most), options), []);
            assert_eq!(find(&long(most + 1), options), found(level));
        }
    }

    #[test]
    fn a_good_tool_has_no_findings() {
        let text = r#"{"name":"add","description":"Adds.","parameters":{"type":"object","properties":{"a":{"type":"integer","description":"A."}},"required":["a"]}}"#;
        assert_eq!(lint_with(text, &LintOptions { own: true }), []);
    }
}
