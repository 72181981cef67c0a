//! Names of members. The API accepts the names of its reference, such as `functionCall`, and those
//! of its protocol buffers, such as `function_call`, which the Python SDK writes.

use std::borrow::Cow;

use tract_core::text::snake_case;

use crate::raw::{Fields, Node, Object, camel};

/// Returns a member under either name, if it exists and is not null.
pub(super) fn member<'a>(fields: &Fields<'a>, name: &str) -> Option<Node<'a>> {
    fields.some(name).or_else(|| fields.some(&snake_case(name)))
}

/// Returns the members of a request except these, under the names of the reference.
pub(super) fn parameters(request: &Fields<'_>, but: &[&str]) -> String {
    let mut out = Object::new();
    for (key, raw) in &request.members {
        let name = camel(key);
        match &*name {
            name if but.contains(&name) => continue,
            "generationConfig" | "toolConfig" => out.raw(&name, &renamed(raw)),
            // Unknown members keep their names; unset members of a dump are left out.
            name if super::parameters::PARAMETERS.contains(&name) => match *raw {
                "null" => continue,
                raw => out.raw(name, raw),
            },
            _ => out.raw(key, raw),
        };
    }
    out.end()
}

/// Renames the members of a configuration, and of the objects in it. Schemas are unchanged: their
/// names belong to the caller.
fn renamed(raw: &str) -> Cow<'_, str> {
    let Ok(fields) = Node::root(raw).object() else { return Cow::Borrowed(raw) };
    let mut out = Object::new();
    for (key, raw) in &fields.members {
        match camel(key) {
            name if matches!(&*name, "responseSchema" | "responseJsonSchema") => {
                out.raw(&name, raw)
            }
            name => out.raw(&name, &renamed(raw)),
        };
    }
    Cow::Owned(out.end())
}
