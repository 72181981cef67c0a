//! The list of tools of a request: groups of function declarations, and built-in tools. A layout
//! describes a recorded list that would be written in another way. It is kept with the parameters
//! of the request, in the member `tools`.

use std::borrow::Cow;
use std::collections::HashMap;

use tract_schema::{Dialect, Lowered, is_accepted_as_recorded, lower};

use super::names;
use crate::error::ImportError;
use crate::raw::{self, Node, Object};

const DECLARATIONS: &str = "functionDeclarations";

/// The order of a recorded list of tools.
pub(super) struct ToolLayout {
    elements: Vec<Element>,
}

enum Element {
    /// A group of function declarations, by name.
    Declarations(Vec<String>),
    /// The next built-in tool.
    BuiltIn,
}

/// Returns the function declarations of an element; `None` if it is a tool of its own.
pub(super) fn declarations<'a>(element: &Node<'a>) -> Result<Option<Vec<Node<'a>>>, ImportError> {
    let fields = element.object()?;
    let stated = fields.members.iter().filter(|(_, raw)| *raw != "null").count();
    match names::member(&fields, DECLARATIONS) {
        // An element with other members can only be sent back unchanged.
        Some(declared) if stated == 1 => declared.array().map(Some),
        _ => Ok(None),
    }
}

/// Writes a list of tools: all function declarations share one element, and each built-in tool is an
/// element of its own.
pub(super) fn list(tools: &[String]) -> String {
    let (declared, built_in) = split(tools);
    let mut list = Vec::new();
    if !declared.is_empty() {
        list.push(group(declared));
    }
    list.extend(built_in.into_iter().cloned());
    raw::array(list)
}

fn group<'a, S: Into<Cow<'a, str>>>(declarations: impl IntoIterator<Item = S>) -> String {
    Object::new().raw(DECLARATIONS, &raw::array(declarations)).end()
}

fn split(tools: &[String]) -> (Vec<&String>, Vec<&String>) {
    let is_declared = |tool: &&String| Node::root(tool).object().is_ok_and(|t| t.has("name"));
    tools.iter().partition(is_declared)
}

impl ToolLayout {
    /// Describes a recorded list; `None` if [`list`] writes it without a layout.
    pub(super) fn of_request(list: &Node<'_>) -> Option<Self> {
        let (mut elements, mut is_written_back, mut groups) = (Vec::new(), true, 0);
        for element in list.array().ok()? {
            let Some(declared) = declarations(&element).ok()? else {
                elements.push(Element::BuiltIn);
                continue;
            };
            groups += 1;
            is_written_back &= groups == 1 && elements.is_empty() && !declared.is_empty();
            let mut names = Vec::with_capacity(declared.len());
            for declaration in declared {
                names.push(declaration.object().ok()?.text("name")?);
                is_written_back &= is_returned(declaration.raw);
            }
            elements.push(Element::Declarations(names));
        }
        (!is_written_back).then_some(Self { elements })
    }

    /// Reads a layout; `None` if the text is another value.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mut elements, mut has_tools) = (Vec::new(), false);
        for element in Node::root(text).array().ok()? {
            let fields = element.object().ok()?;
            if fields.members.is_empty() {
                elements.push(Element::BuiltIn);
                has_tools = true;
                continue;
            }
            let names = fields.get(DECLARATIONS).filter(|_| fields.members.len() == 1)?;
            let names = names.array().ok()?;
            let names: Vec<String> =
                names.iter().map(|name| name.string().ok()).collect::<Option<_>>()?;
            has_tools |= !names.is_empty();
            elements.push(Element::Declarations(names));
        }
        has_tools.then_some(Self { elements })
    }

    pub(super) fn to_json(&self) -> String {
        raw::array(self.elements.iter().map(|element| match element {
            Element::Declarations(names) => group(names.iter().map(|name| raw::literal(name))),
            Element::BuiltIn => "{}".to_owned(),
        }))
    }

    /// Returns whether a function of this name was declared.
    pub(super) fn declares(&self, name: &str) -> bool {
        self.elements.iter().any(|element| match element {
            Element::Declarations(names) => names.iter().any(|other| other == name),
            Element::BuiltIn => false,
        })
    }

    /// Writes tools in the recorded order; `None` if they are not the recorded ones.
    pub(super) fn list(&self, tools: &[String]) -> Option<String> {
        let (declared, built_in) = split(tools);
        let count = declared.len();
        let named = declared.into_iter().filter_map(|tool| {
            Some((Node::root(tool).object().ok()?.text("name")?, tool.as_str()))
        });
        let mut declared: HashMap<String, &str> = named.collect();
        if declared.len() != count {
            return None;
        }
        let mut built_in = built_in.into_iter();
        let mut list = Vec::with_capacity(self.elements.len());
        for element in &self.elements {
            list.push(match element {
                Element::Declarations(names) => {
                    let tools = names.iter().map(|name| declared.remove(name));
                    group(tools.collect::<Option<Vec<_>>>()?)
                }
                Element::BuiltIn => built_in.next()?.clone(),
            });
        }
        (declared.is_empty() && built_in.next().is_none()).then(|| raw::array(list))
    }
}

/// Returns whether a recorded declaration is written as it was without a layout. One that is always
/// changed does not need a layout.
fn is_returned(declaration: &str) -> bool {
    let is_accepted = is_accepted_as_recorded(declaration, Dialect::Gemini).unwrap_or(false);
    let lowered = || lower(declaration, Dialect::Gemini);
    !is_accepted || matches!(lowered(), Ok(Lowered::Tool { as_given: true, .. }))
}
