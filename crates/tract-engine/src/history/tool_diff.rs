//! The difference between two lists of tools.

use std::collections::HashMap;
use std::fmt;

use tract_core::ActiveTool;

use crate::history::diff_line::{DiffLine, DiffLineKind, write_lines};
use crate::history::log::one_line;

/// A function that describes the difference between two schemas of one tool, given as JSON texts,
/// in lines. The facade provides the structural comparison.
pub type SchemaDiff<'a> = &'a (dyn Fn(&str, &str) -> Vec<String> + Send + Sync);

/// One tool that differs between two lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChange {
    /// Only the second list has it.
    Added {
        /// The tool.
        tool: ActiveTool,
    },
    /// Only the first list has it.
    Removed {
        /// The tool.
        tool: ActiveTool,
    },
    /// Both lists have a tool of this name, with different schemas.
    Changed {
        /// The name.
        name: String,
        /// The differences, as described by the schema comparison.
        changes: Vec<String>,
        /// The tool in the first list.
        before: ActiveTool,
        /// The tool in the second list.
        after: ActiveTool,
    },
    /// Both have the same schema in different bytes: another order of keys, or other white space. A
    /// provider's cache distinguishes them, a model does not.
    Respelled {
        /// The tool in the first list.
        before: ActiveTool,
        /// The tool in the second list.
        after: ActiveTool,
    },
}

impl ToolChange {
    /// Returns the name of the tool.
    pub fn name(&self) -> &str {
        match self {
            Self::Added { tool } | Self::Removed { tool } => &tool.name,
            Self::Changed { name, .. } => name,
            Self::Respelled { before, .. } => &before.name,
        }
    }
}

/// The difference between two lists of tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolDiff {
    /// The changes: removed tools in the order of the first list, then those of the second.
    pub changes: Vec<ToolChange>,
    /// Number of tools that are in both lists with the same bytes.
    pub unchanged_count: usize,
    /// Whether the tools in both lists are in different orders.
    pub reordered: bool,
}

impl ToolDiff {
    /// Returns whether both lists are equal, byte for byte and in order.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.reordered
    }
}

/// Compares two lists of tools by name. If several tools share a name, the first is compared with
/// the first, the second with the second.
///
/// ```
/// use tract_core::{ActiveTool, ToolSchema};
/// use tract_engine::{ToolChange, tool_diff};
/// let tool = |text: &str| -> Result<ActiveTool, tract_core::json::JsonError> {
///     let schema = ToolSchema::parse(text)?;
///     Ok(ActiveTool { name: schema.name().into(), id: schema.id(), schema: text.into() })
/// };
/// let before = [tool(r#"{"name":"add"}"#)?, tool(r#"{"name":"grep"}"#)?];
/// let after = [tool(r#"{"name":"grep","description":"Finds lines."}"#)?];
/// let diff = tool_diff(&before, &after, &|_, _| vec!["+ description".into()]);
/// assert_eq!(diff.changes.len(), 2);
/// assert!(matches!(&diff.changes[0], ToolChange::Removed { tool } if tool.name == "add"));
/// assert!(matches!(&diff.changes[1], ToolChange::Changed { name, .. } if name == "grep"));
/// # Ok::<(), tract_core::json::JsonError>(())
/// ```
pub fn tool_diff(before: &[ActiveTool], after: &[ActiveTool], schemas: SchemaDiff<'_>) -> ToolDiff {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, tool) in before.iter().enumerate().rev() {
        places.entry(&tool.name).or_default().push(place);
    }
    // The position in the first list that each tool of the second is compared with.
    let pairs: Vec<Option<usize>> =
        after.iter().map(|tool| places.get_mut(tool.name.as_str()).and_then(Vec::pop)).collect();
    let mut diff = ToolDiff::default();
    for (place, tool) in before.iter().enumerate() {
        if !pairs.contains(&Some(place)) {
            diff.changes.push(ToolChange::Removed { tool: tool.clone() });
        }
    }
    for (tool, pair) in after.iter().zip(&pairs) {
        let (tool, known) = (tool.clone(), pair.and_then(|place| before.get(place)));
        match known {
            None => diff.changes.push(ToolChange::Added { tool }),
            Some(known) if known.id != tool.id => diff.changes.push(ToolChange::Changed {
                name: tool.name.clone(),
                changes: schemas(&known.schema, &tool.schema),
                before: known.clone(),
                after: tool,
            }),
            Some(known) if known.schema != tool.schema => {
                diff.changes.push(ToolChange::Respelled { before: known.clone(), after: tool });
            }
            Some(_) => diff.unchanged_count += 1,
        }
    }
    diff.reordered = !pairs.iter().flatten().is_sorted();
    diff
}

/// Compares only names and texts: schema differences are not described.
pub fn no_schema_diff(_before: &str, _after: &str) -> Vec<String> {
    Vec::new()
}

impl ToolDiff {
    /// Returns a line for each difference, without the count of unchanged tools.
    pub fn lines(&self) -> Vec<DiffLine> {
        let width = self.changes.iter().map(|change| name(change.name()).chars().count()).max();
        let width = width.unwrap_or(0);
        let mut out = Vec::new();
        for change in &self.changes {
            let (kind, ids, details) = match change {
                ToolChange::Added { tool } => (DiffLineKind::Added, tool.id.short(), &[][..]),
                ToolChange::Removed { tool } => (DiffLineKind::Removed, tool.id.short(), &[][..]),
                ToolChange::Changed { changes, before, after, .. } => {
                    let ids = format!("{} → {}", before.id.short(), after.id.short());
                    (DiffLineKind::Changed, ids, changes.as_slice())
                }
                ToolChange::Respelled { before, .. } => {
                    let ids = format!("{}  same schema, other bytes", before.id.short());
                    (DiffLineKind::Changed, ids, &[][..])
                }
            };
            out.push(DiffLine::new(kind, format!("{:width$}  {ids}", name(change.name()))));
            let detail = |text: &String| {
                DiffLine::new(DiffLineKind::Context, format!("  {}", text.replace('\n', " ")))
            };
            out.extend(details.iter().map(detail));
        }
        if self.reordered {
            out.push(DiffLine::new(DiffLineKind::Changed, "the order of the tools"));
        }
        out
    }
}

/// Puts a name on one line: names are untrusted input.
fn name(name: &str) -> String {
    one_line(name, 80)
}

impl fmt::Display for ToolDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = self.lines();
        let unchanged = format!("{} unchanged", self.unchanged_count);
        lines.push(DiffLine::new(DiffLineKind::Summary, unchanged));
        write_lines(f, &lines)
    }
}

#[cfg(test)]
mod tests {
    use tract_core::ToolSchema;

    use super::*;

    fn tools(texts: &[&str]) -> Vec<ActiveTool> {
        texts
            .iter()
            .map(|text| {
                let schema = ToolSchema::parse(text).expect("a schema");
                let name = schema.name().to_owned();
                ActiveTool { name, id: schema.id(), schema: (*text).into() }
            })
            .collect()
    }

    #[track_caller]
    fn check(before: &[&str], after: &[&str], expected: &str) {
        let diff = tool_diff(&tools(before), &tools(after), &|_, _| vec!["+ x".to_owned()]);
        assert_eq!(diff.to_string(), expected);
        assert_eq!(diff.is_empty(), before == after);
    }

    const A: &str = r#"{"name":"a","x":1}"#;
    const A_RESPELLED: &str = r#"{"x":1,"name":"a"}"#;
    const A_CHANGED: &str = r#"{"name":"a","x":2}"#;
    const B: &str = r#"{"name":"b"}"#;

    #[test]
    fn lists_are_compared_by_name_and_occurrence() {
        check(&[A, B], &[A, B], "2 unchanged");
        check(&[A, B], &[B, A], "~ the order of the tools\n2 unchanged");
        check(&[A], &[], &format!("- a  {}\n0 unchanged", short(A)));
        check(&[], &[B], &format!("+ b  {}\n0 unchanged", short(B)));
        let changed = format!("~ a  {} → {}\n    + x\n1 unchanged", short(A), short(A_CHANGED));
        check(&[A, B], &[A_CHANGED, B], &changed);
        let respelled = format!("~ a  {}  same schema, other bytes\n0 unchanged", short(A));
        check(&[A], &[A_RESPELLED], &respelled);
        assert_eq!(short(A), short(A_RESPELLED));
        // Repeats are compared one by one.
        check(&[A, A], &[A], &format!("- a  {}\n1 unchanged", short(A)));
        check(&[A], &[A, A], &format!("+ a  {}\n1 unchanged", short(A)));
    }

    fn short(text: &str) -> String {
        ToolSchema::parse(text).expect("a schema").id().short()
    }
}
