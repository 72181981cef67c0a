//! Google's form of JSON Schema: type names in capitals, and some members in snake case.

use tract_core::json;

use crate::shape::{find, string};
use crate::tree::Node;

/// The members that identify a built-in Gemini tool, or a list of several functions, in the
/// spellings of the API and of the Python SDK.
pub(crate) const TOOLS: &[&str] = &[
    "codeExecution",
    "code_execution",
    "computerUse",
    "computer_use",
    "enterpriseWebSearch",
    "enterprise_web_search",
    "exaAiSearch",
    "exa_ai_search",
    "fileSearch",
    "file_search",
    "functionDeclarations",
    "function_declarations",
    "googleMaps",
    "googleSearch",
    "googleSearchRetrieval",
    "google_maps",
    "google_search",
    "google_search_retrieval",
    "mcpServers",
    "mcp_servers",
    "parallelAiSearch",
    "parallel_ai_search",
    "retrieval",
    "urlContext",
    "url_context",
];

/// Returns whether the type name of a schema is Google's, which is in capitals.
pub(crate) fn is_googles(schema: &str) -> bool {
    let members = json::split_object(schema).unwrap_or_default();
    let kind = find(&members, "type").and_then(string);
    kind.is_some_and(|kind| kind.bytes().all(|byte| byte.is_ascii_uppercase()))
}

/// Converts a schema from Google's form to JSON Schema; `None` if it is not in Google's form.
pub(crate) fn json_schema(schema: &str) -> Option<String> {
    let mut node = is_googles(schema).then(|| Node::parse(schema).ok())??;
    rename(&mut node);
    Some(node.write())
}

/// Returns the JSON Schema name of a member that Google's SDKs write in snake case.
fn plain(key: &str) -> Option<&'static str> {
    Some(match key {
        "additional_properties" => "additionalProperties",
        "any_of" => "anyOf",
        "defs" => "$defs",
        "max_items" => "maxItems",
        "max_length" => "maxLength",
        "max_properties" => "maxProperties",
        "min_items" => "minItems",
        "min_length" => "minLength",
        "min_properties" => "minProperties",
        "property_ordering" => "propertyOrdering",
        "ref" => "$ref",
        _ => return None,
    })
}

/// Renames members and types in a schema and its subschemas, but not property names or values.
fn rename(schema: &mut Node) {
    let Node::Object(members) = schema else { return };
    // SDKs that dump all members of a schema write null for unset ones.
    members
        .retain(|(key, value)| !value.is("null") || matches!(key.as_str(), "default" | "example"));
    for (key, value) in members {
        if let Some(name) = plain(key) {
            name.clone_into(key);
        }
        match (key.as_str(), &mut *value) {
            ("type", value) => {
                if let Some(kind) = value.as_text() {
                    *value = Node::text(&kind.to_lowercase());
                }
            }
            ("properties" | "$defs", Node::Object(inner)) => {
                inner.iter_mut().for_each(|(_, schema)| rename(schema));
            }
            ("anyOf" | "prefixItems", Node::Array(inner)) => inner.iter_mut().for_each(rename),
            ("items" | "additionalProperties", schema) => rename(schema),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::json_schema;

    #[test]
    fn types_and_members_get_the_names_of_json_schema() {
        let given = r#"{"type":"OBJECT","description":null,"properties":{"type":{"type":"STRING","default":"NONE"},
            "max_items":{"any_of":[{"type":"INTEGER"},{"type":"ARRAY","items":{"type":"NUMBER"},"min_items":1}]}}}"#;
        assert_eq!(
            json_schema(given).as_deref(),
            Some(
                r#"{"type":"object","properties":{"type":{"type":"string","default":"NONE"},"max_items":{"anyOf":[{"type":"integer"},{"type":"array","items":{"type":"number"},"minItems":1}]}}}"#
            )
        );
        assert_eq!(json_schema(r#"{"type":"object"}"#), None);
        assert_eq!(json_schema("5"), None);
    }
}
