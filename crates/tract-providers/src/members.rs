//! Members of a request's body, and parameters in the shapes of Chat Completions.

use tract_compile::{Repair, RepairKind};
use tract_core::json;

use crate::params::Params;
use crate::raw::{self, Object};

/// Reports a change of the parameters, once.
pub(crate) fn report(params: &mut Params, kind: RepairKind, text: String) {
    let repair = Repair::new(kind, None, text);
    if !params.repairs.contains(&repair) {
        params.repairs.push(repair);
    }
}

/// Reports a parameter that the provider does not have. `title` is the provider's display name.
pub(crate) fn not_set(params: &mut Params, key: &str, title: &str) {
    let text = format!("{key:?} is not set: {title} has no such parameter");
    params.repairs.push(Repair::new(RepairKind::NotSet, None, text));
}

/// The tool choice of Chat Completions.
pub(crate) enum Choice<'a> {
    Word(&'a str),
    /// The sent name of the tool, as a JSON string.
    Tool(String),
    Other,
}

pub(crate) fn tool_choice<'a>(params: &Params, value: &'a str) -> Choice<'a> {
    if let Some(word) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Choice::Word(word);
    }
    if get(value, "type") != Some("\"function\"") {
        return Choice::Other;
    }
    let named = get(value, "function").and_then(|function| get(function, "name"));
    let Some(name) = named.and_then(raw::string) else { return Choice::Other };
    let sent = params.aliases.as_ref().map(|aliases| aliases.sent(&name).to_string());
    Choice::Tool(raw::literal(&sent.unwrap_or(name)))
}

/// Returns the schema of a response format of Chat Completions.
pub(crate) fn schema_of(format: &str) -> Option<&str> {
    get(format, "json_schema").and_then(|of| get(of, "schema"))
}

pub(crate) fn get<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let members = json::split_object(object).ok()?;
    members.into_iter().rev().find(|(name, _)| name == key).map(|(_, raw)| raw)
}

/// Moves the members of the object under `key` to the object around it.
pub(crate) fn flat(text: &str, key: &str) -> String {
    let Some(inner) = get(text, key) else { return text.to_owned() };
    let mut out = Object::new();
    copy(&mut out, text, &[key]);
    copy(&mut out, inner, &[]);
    out.end()
}

/// Copies the members of an object, except for some.
pub(crate) fn copy(out: &mut Object, object: &str, but: &[&str]) {
    for (name, raw) in json::split_object(object).unwrap_or_default() {
        if !but.contains(&name.as_str()) {
            out.raw(&name, raw);
        }
    }
}

/// Wraps a single value in a list.
pub(crate) fn list(value: &str) -> String {
    if value.starts_with('[') { value.to_owned() } else { raw::array([value]) }
}

/// Sets one member of an object in the body. Its other members are unchanged.
pub(crate) fn member(params: &mut Params, outer: &str, key: &str, value: &str) {
    let found = params.get(outer).unwrap_or("{}").to_owned();
    let mut out = Object::new();
    copy(&mut out, &found, &[key]);
    out.raw(key, value);
    params.set(outer, out.end());
}
