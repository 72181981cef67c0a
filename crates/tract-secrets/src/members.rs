//! Redacts the members of a request whose names identify credentials.

use serde_json::Value;

use crate::{SecretKind, mark};

/// Maximum nesting depth that is walked.
const MAX_DEPTH: usize = 256;

/// Names that identify credentials, in lower case and without `-` and `_`.
const NAMES: [&str; 35] = [
    "accesskey",
    "accesskeyid",
    "accesstoken",
    "apikey",
    "apisecret",
    "apitoken",
    "appsecret",
    "authheader",
    "authorization",
    "authorizationtoken",
    "authtoken",
    "bearer",
    "bearertoken",
    "bottoken",
    "clientsecret",
    "connectionstring",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "encodedapikey",
    "idtoken",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "refreshtoken",
    "sastoken",
    "secret",
    "secretaccesskey",
    "secretkey",
    "sessiontoken",
    "setcookie",
    "sig",
    "token",
];

/// Suffixes of names that identify credentials, as in `github_token`.
const ENDINGS: [&str; 14] = [
    "accesstoken",
    "apikey",
    "authtoken",
    "bearertoken",
    "credentials",
    "idtoken",
    "password",
    "passwd",
    "privatekey",
    "refreshtoken",
    "secret",
    "secretkey",
    "securitytoken",
    "sessiontoken",
];

/// Names of objects in which members such as `key` and `value` are credentials too.
const CREDENTIAL_OBJECTS: [&str; 4] = ["auth", "authentication", "authorization", "credentials"];

/// Members that contain schemas of tools: they describe values and contain no credentials.
const SCHEMAS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Redacts the members of a JSON request whose names identify credentials: `authorization`,
/// `token`, `password`, `cookie` and the like, and every value of `headers`, regardless of the
/// values. Schemas of tools are left unchanged. Returns the request and the number of replaced
/// values; `None` if there are none to replace, or if the text is not JSON.
///
/// ```
/// let request = r#"{"mcp_servers":[{"url":"https://x.test","authorization_token":"plain"}]}"#;
/// let redacted = tract_secrets::redact_members(request).expect("a token is in it");
/// assert!(!redacted.0.contains("plain"));
/// assert!(redacted.0.contains("https://x.test"));
/// ```
pub fn redact_members(json: &str) -> Option<(String, usize)> {
    let mut value: Value = serde_json::from_str(json).ok()?;
    let mut count = 0;
    walk(&mut value, Within::Request, 0, &mut count);
    (count > 0).then(|| (value.to_string(), count))
}

/// The context of a member.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Request,
    /// In an object such as `authentication`.
    Credentials,
    /// All strings are credentials.
    Secret,
}

fn walk(value: &mut Value, within: Within, depth: usize, count: &mut usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::String(text) if within == Within::Secret && !text.is_empty() => {
            if !text.starts_with("[redacted:") {
                *text = mark(&SecretKind::Assigned, text);
                *count += 1;
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| walk(item, within, depth + 1, count));
        }
        Value::Object(members) => {
            for (name, member) in members {
                if within != Within::Secret && SCHEMAS.contains(&name.as_str()) {
                    continue;
                }
                walk(member, inside(name, member, within), depth + 1, count);
            }
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

fn inside(name: &str, member: &Value, within: Within) -> Within {
    if within == Within::Secret {
        return within;
    }
    let name: String =
        name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect();
    let is_text = member.is_string();
    let of_credentials = within == Within::Credentials
        && is_text
        && ["key", "value", "data", "pass", "sig", "signature"].contains(&name.as_str());
    let is_secret = NAMES.contains(&name.as_str())
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || name.ends_with("headers")
        || of_credentials;
    let holds_credentials =
        CREDENTIAL_OBJECTS.contains(&name.as_str()) || name.ends_with("credentials");
    if holds_credentials && member.is_object() {
        return Within::Credentials;
    }
    if is_secret { Within::Secret } else { within }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(request: &Value) -> Value {
        let text = redact_members(&request.to_string()).map(|(text, _)| text);
        text.map_or_else(|| request.clone(), |text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn credentials_are_replaced_by_their_names_and_all_else_is_kept() {
        let request = serde_json::json!({
            "model": "m", "max_tokens": 5, "metadata": {"user_id": "u-1"},
            "mcp_servers": [{"type": "url", "name": "x", "authorization_token": "PLAIN"}],
            "tools": [{"type": "mcp", "authorization": "PLAIN",
                "headers": {"X-Any": "PLAIN", "Accept": ["PLAIN"]}}],
            "data_sources": [{"parameters": {"authentication": {"type": "api_key", "key": "PLAIN"}}}],
            "extra_headers": [["x", "PLAIN"]], "apiKey": "PLAIN", "service": {"password": "PLAIN"},
            "secret": "PLAIN", "cookie": "PLAIN", "Set-Cookie2": "kept", "github_api_key": "PLAIN",
            "extra_body": {"token": "PLAIN", "credentials": {"key": "PLAIN", "region": "eu"}},
            "aws_session_token": "PLAIN", "vertex_credentials": "PLAIN", "extra_query": {"sig": "PLAIN"},
            "gcp_credentials": {"private_key": "PLAIN", "region": "eu"}
        });
        let redacted = redacted(&request);
        let text = redacted.to_string();
        assert!(!text.contains("PLAIN"), "{text}");
        for kept in ["u-1", "api_key", "\"name\":\"x\"", "\"eu\"", "\"max_tokens\":5"] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        assert_eq!(redact_members(&text), None, "redacting twice is redacting once");
    }

    #[test]
    fn schemas_of_tools_are_left_alone() {
        let tools = serde_json::json!({"tools": [{"name": "login", "input_schema": {"type": "object",
            "properties": {"password": {"type": "string"}, "headers": {"type": "object"},
                "token": {"type": "string", "default": "x"}}, "required": ["password"]}}],
            "tool_choice": {"type": "tool", "name": "login"}, "max_tokens": 7});
        assert_eq!(redacted(&tools), tools);
    }
}
