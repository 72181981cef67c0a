//! Redacts the members of a request whose names identify credentials.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::likely::{is_plausible, is_token};
use crate::names::{NameClass, class_of_list, is_credential_name, normal};
use crate::{SecretKind, mark};

/// Maximum nesting depth that is walked.
const MAX_DEPTH: usize = 256;

/// Members of a pair, such as `{"name":"Authorization","value":"Bearer …"}`, that name the value.
const PAIR_NAMES: [&str; 4] = ["name", "key", "header", "field"];

/// Names of objects in which members such as `key` and `value` are credentials too.
const CREDENTIAL_OBJECTS: [&str; 6] =
    ["auth", "authentication", "authorization", "credentials", "defaultquery", "extraquery"];

/// Members that contain schemas of tools: they describe values and contain no credentials.
const SCHEMAS: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// Redacts the members of a JSON request whose names identify credentials: `authorization`,
/// `token`, `password`, `cookie` and the like, and every value of `headers`, regardless of the
/// values. Schemas of tools are left unchanged. Returns the request and the number of replaced
/// values; `None` if there are none to replace, or if the text is not JSON.
///
/// Names are compared without case, `-` and `_`. They are also recognized in strings: as parameters
/// of a URL or a form, as `NAME=VALUE` or `--name=VALUE`, as `Name: value`, in JSON within a string,
/// in a pair of `name` and `value`, and as a flag before its value in a list.
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
    /// All strings and numbers are credentials.
    Secret,
}

fn walk(value: &mut Value, within: Within, depth: usize, count: &mut usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::String(text) if within == Within::Secret => {
            if !text.is_empty() && !is_mark(text) {
                *text = mark(&SecretKind::Assigned, text);
                *count += 1;
            }
        }
        Value::String(text) => in_string(text, depth, count),
        Value::Number(number) if within == Within::Secret => {
            *value = Value::String(mark(&SecretKind::Assigned, &number.to_string()));
            *count += 1;
        }
        Value::Array(items) => {
            let mut flag = None;
            for item in items {
                let next = item.as_str().and_then(Flag::of);
                let is_secret = match flag {
                    Some(Flag::Credential) => true,
                    Some(Flag::User) => item.as_str().is_some_and(|text| text.contains(':')),
                    None => false,
                };
                walk(item, if is_secret { Within::Secret } else { within }, depth + 1, count);
                flag = next;
            }
        }
        Value::Object(members) => {
            let names_secret = |(name, value): (&String, &Value)| {
                PAIR_NAMES.contains(&normal(name).as_str())
                    && value.as_str().is_some_and(|text| is_credential_name(&normal(text)))
            };
            let is_pair = members.iter().any(names_secret);
            for (name, member) in members {
                redact_list(name, member, count);
                if within != Within::Secret && is_schemas(name, member) {
                    continue;
                }
                let inner = match is_pair && normal(name) == "value" {
                    true => Within::Secret,
                    false => inside(name, member, within),
                };
                walk(member, inner, depth + 1, count);
            }
        }
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// Redacts the credentials in a list such as `tokens`. Its other elements are tokens of a text.
fn redact_list(name: &str, member: &mut Value, count: &mut usize) {
    let Value::Array(items) = member else { return };
    let Some(class) = class_of_list(name) else { return };
    for item in items {
        let Value::String(text) = item else { continue };
        let is_secret = match class {
            NameClass::Password => is_plausible(text),
            NameClass::Token => is_token(text, true),
        };
        if is_secret && !is_mark(text) {
            *text = mark(&SecretKind::Assigned, text);
            *count += 1;
        }
    }
}

fn is_mark(text: &str) -> bool {
    text.starts_with("[redacted:")
}

/// Returns whether a member is a list of schemas, whose values describe values.
fn is_schemas(name: &str, member: &Value) -> bool {
    let is_schema = |value: &Value| value.is_object() || value.is_boolean();
    SCHEMAS.contains(&name)
        && member.as_object().is_some_and(|members| members.values().all(is_schema))
}

/// A flag in a list of arguments, whose value is the next element.
#[derive(Clone, Copy)]
enum Flag {
    Credential,
    /// Its value may be `user:password`.
    User,
}

impl Flag {
    fn of(text: &str) -> Option<Self> {
        let name = normal(text.strip_prefix('-')?);
        match name.as_str() {
            "u" | "user" | "proxyuser" => Some(Self::User),
            // Several flags in one argument, as in `curl -su`.
            name if name.len() <= 6 && name.ends_with('u') && !text.starts_with("--") => {
                Some(Self::User)
            }
            name => is_credential_name(name).then_some(Self::Credential),
        }
    }
}

fn inside(name: &str, member: &Value, within: Within) -> Within {
    if within == Within::Secret {
        return within;
    }
    let is_part = name.ends_with("_pass") || name.ends_with("_PASS");
    let name = normal(name);
    let is_text = member.is_string();
    let of_credentials = within == Within::Credentials
        && is_text
        && ["key", "value", "data", "pass", "sig", "signature"].contains(&name.as_str());
    let holds_credentials =
        CREDENTIAL_OBJECTS.contains(&name.as_str()) || name.ends_with("credentials");
    // A data source of Azure has its key next to the address.
    let is_sources = name == "datasources" && member.is_array();
    if is_sources || holds_credentials && member.is_object() {
        return Within::Credentials;
    }
    let is_headers = name.ends_with("headers") || name == "header" && !is_text;
    let is_secret = is_credential_name(&name) || is_headers || of_credentials || is_part;
    if is_secret { Within::Secret } else { within }
}

/// A name and its value in a string: a parameter of a URL or a form, a variable, or a flag.
static PARAMETERS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:^|[?&;#\s"'])(?P<name>[A-Za-z0-9_.%\[\]-]{1,100})=(?P<value>[^&;#\s"'<>]+)"#)
        .expect("the pattern is valid")
});
/// A header, as a line or in quotes.
static HEADER: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?m)(?:^|["'])\s*(?P<name>[A-Za-z0-9_-]{1,100}):[ \t]+(?P<value>[^\s"'][^"'\r\n]*)"#,
    )
    .expect("the pattern is valid")
});
/// A flag before its value in a command.
static FLAG: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?:^|\s)--?(?P<name>[A-Za-z0-9_-]{1,100})\s+["']?(?P<value>[^\s"'-][^\s"']*)"#)
        .expect("the pattern is valid")
});
/// The user and the password of a URL.
static USER_INFO: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"[a-zA-Z][a-zA-Z0-9+.-]*://(?P<user>[^\s/@:?#"'<>]*):(?P<value>[^\s/@?#"'<>]+)@"#)
        .expect("the pattern is valid")
});

/// Redacts the credentials in a string that is not one itself.
fn in_string(text: &mut String, depth: usize, count: &mut usize) {
    if text.starts_with(['{', '['])
        && let Ok(mut inner) = serde_json::from_str::<Value>(text)
    {
        let before = *count;
        walk(&mut inner, Within::Request, depth + 1, count);
        if *count > before {
            *text = inner.to_string();
        }
        return;
    }
    let is_url = text.contains("://");
    for pattern in [&*PARAMETERS, &*HEADER, &*FLAG, &*USER_INFO] {
        let mut redacted = String::new();
        let mut from = 0;
        for captures in pattern.captures_iter(text) {
            let Some(value) = captures.name("value") else { continue };
            let is_secret = captures.name("name").is_none_or(|name| {
                let name = normal(name.as_str().trim_end_matches("%5D").trim_end_matches(']'));
                let name = name.rsplit(['[', '%']).next().unwrap_or_default();
                is_credential_name(name) || is_url && matches!(name, "key" | "signature")
            });
            if !is_secret || is_mark(value.as_str()) {
                continue;
            }
            redacted.push_str(text.get(from..value.start()).unwrap_or_default());
            redacted.push_str(&mark(&SecretKind::Assigned, value.as_str()));
            from = value.end();
            *count += 1;
        }
        if from > 0 {
            redacted.push_str(text.get(from..).unwrap_or_default());
            *text = redacted;
        }
    }
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
    fn names_are_recognized_in_every_spelling_and_place() {
        let secrets = serde_json::json!([
            {"Access-Token": "PLAIN"}, {"privateToken": "PLAIN"}, {"X_API_KEY": "PLAIN"},
            {"GITHUB_TOKEN": "PLAIN"}, {"DB_PASS": "PLAIN"}, {"accountKey": "PLAIN"},
            {"password": 70_411_223}, {"auth": "PLAIN"}, {"auth": ["me", "PLAIN"]},
            {"url": "https://h.test/a?x=1&apiKey=PLAIN#frag"}, {"url": "https://me:PLAIN@h.test/"},
            {"body": "grant=kept&client_secret=PLAIN"}, {"env": ["API_KEY=PLAIN", "HOME=/kept"]},
            {"args": ["serve", "--token", "PLAIN", "--port", "80"]}, {"args": ["--api-key=PLAIN"]},
            {"command": ["curl", "-u", "me:PLAIN"]}, {"line": "Authorization: Bearer PLAIN"},
            {"list": [{"name": "X-Api-Key", "value": "PLAIN"}]},
            {"config": "{\"db\":{\"password\":\"PLAIN\"}}"}, {"deep": [[{"Cookie": ["PLAIN"]}]]},
            {"x": {"properties": {"password": "PLAIN"}}}, {"q": "a[token]=PLAIN"},
            {"Proxy-Authorization": "PLAIN"}, {"pat": "PLAIN"}, {"licenseKey": "PLAIN"},
            {"header": {"x": "PLAIN"}}, {"extra_query": {"key": "PLAIN", "v": "kept"}},
            {"url": "https://h.test/?key=PLAIN"}, {"run": "mysql --password=PLAIN x"},
            {"run": "export DB_PASSWORD=PLAIN; serve"}, {"run": "serve --api-key 'PLAIN' --port 80"},
            {"run": "curl -H 'X-Api-Key: PLAIN' h.test"}, {"yaml": "user: kept\npassword: PLAIN\n"}
        ]);
        let text = redacted(&secrets).to_string();
        assert!(!text.contains("PLAIN") && !text.contains("70411223"), "{text}");
        for kept in ["x=1", "#frag", "h.test", "grant=kept", "HOME=/kept", "serve", "\"80\""] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        assert_eq!(redact_members(&text), None, "redacting twice is redacting once");
        let kept = serde_json::json!({"eos_token": "</s>", "next_page_token": "p2", "max_tokens": 5,
            "stop": ["a=b", "--"], "progressToken": 7, "secretary": "Ada", "user": "u",
            "url": "https://h.test/?q=token", "key": "k=v", "run": "a --token-limit 5 --header x", "header": "h", "tokenizer": "t", "cookie_policy": "none"});
        assert_eq!(redacted(&kept), kept);
    }

    #[test]
    fn keys_of_services_and_lists_of_keys_are_replaced() {
        let token = "q7Tk9ZpL2vXw8RmN4cB16dyHs6DfJ";
        let secrets = serde_json::json!([
            {"openai_key": token}, {"azureKey": token}, {"aws_secret": token}, {"tokens": [token]},
            {"api_keys": [token, token]}, {"apiKeyString": token}, {"githubTokens": ["a", token]},
            {"data_sources": [{"type": "azure_search", "parameters": {"key": token}}]},
            {"url": format!("https://h.test/a?Signature={token}&x=1")},
            {"command": ["curl", "-su", format!("me:{token}")]}
        ]);
        let text = redacted(&secrets).to_string();
        assert!(!text.contains(token), "{text}");
        assert!(text.contains("x=1") && text.contains("azure_search"), "{text}");
        assert_eq!(redact_members(&text), None, "redacting twice is redacting once");
        let kept = serde_json::json!({"primary_key": token, "public_key": token, "key": "value",
            "foreign_key": token, "keys": [token], "tokens": ["Hello", " world", "COVID-19"],
            "stop_tokens": ["</s>"], "max_tokens": 5, "monkey": "x", "args": ["-nu", "a"]});
        assert_eq!(redacted(&kept), kept);
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
