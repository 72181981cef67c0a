//! JSON as a tree that folds.

use maud::{Markup, html};
use tract_core::json::{read_string, split_array, split_object};
use tract_core::text::count;

use crate::text::visible;

/// Maximum depth of a tree. Deeper values are shown as they are written.
const DEPTH: usize = 12;
/// Maximum number of values of a tree.
const VALUES: usize = 2_000;
/// Objects and arrays with more members are folded.
const OPEN: usize = 12;

/// Renders an object or an array as a tree, in the order and with the numbers of the text; `None`
/// for any other text, and for one with more values than a page should have.
pub(crate) fn json(text: &str) -> Option<Markup> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut left = VALUES;
    let tree = members(text, DEPTH, &mut left)?;
    (left > 0).then(|| html! { div .json { (tree) } })
}

/// Renders the members of an object or of an array, each on a line.
fn members(text: &str, depth: usize, left: &mut usize) -> Option<Markup> {
    let members: Vec<(Option<String>, &str)> = if text.starts_with('{') {
        let members = split_object(text).ok()?;
        members.into_iter().map(|(name, value)| (Some(name), value)).collect()
    } else {
        split_array(text).ok()?.into_iter().map(|value| (None, value)).collect()
    };
    *left = left.saturating_sub(members.len());
    if *left == 0 {
        return Some(html! {});
    }
    let mut lines = Vec::with_capacity(members.len());
    for (name, text) in &members {
        lines.push(member(name.as_deref(), text.trim(), depth, left)?);
    }
    Some(html! { ul { @for line in &lines { li { (line) } } } })
}

fn member(name: Option<&str>, text: &str, depth: usize, left: &mut usize) -> Option<Markup> {
    let key = html! { @if let Some(name) = name { span .key-name { (visible(name)) } ": " } };
    let size = match text.as_bytes().first() {
        Some(b'{') => split_object(text).ok()?.len(),
        Some(b'[') => split_array(text).ok()?.len(),
        _ => 0,
    };
    Some(if size > 0 && depth > 1 {
        let what = if text.starts_with('{') { "field" } else { "item" };
        let inner = members(text, depth - 1, left)?;
        html! {
            details open[size <= OPEN] { summary { (key) span .soft { (count(size, what)) } } (inner) }
        }
    } else if let Some(value) = read_string(text) {
        html! { (key) span .s { (visible(&value)) } }
    } else {
        html! { (key) span .n { (visible(text)) } }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_keeps_the_order_and_the_numbers() {
        let tree = json(r#"{"b": 1.50, "a": [10000000000000000000001, "x<y"]}"#).expect("a tree");
        let html = tree.into_string();
        for part in ["1.50", "10000000000000000000001", "x&lt;y", "2 items"] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(html.find(">b<") < html.find(">a<"), "{html}");
    }

    #[test]
    fn other_texts_are_no_tree() {
        for text in ["", "12", "plain", "{\"a\":", "[1,]", &format!("[{}1]", "1,".repeat(VALUES))] {
            assert!(json(text).is_none(), "{text:.20}");
        }
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert!(json(&deep).is_some_and(|tree| tree.into_string().contains("[[[")));
    }
}
