//! The keys in one list: the key, its action, its text in the help.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// A part of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pane {
    Branches,
    Messages,
    Content,
}

impl Pane {
    pub(super) const ALL: [Self; 3] = [Self::Branches, Self::Messages, Self::Content];

    /// Returns the pane that is `step` panes to the right, around the edge.
    pub(super) fn next(self, step: usize) -> Self {
        let place = Self::ALL.iter().position(|pane| *pane == self).unwrap_or(0);
        Self::ALL[(place + step) % Self::ALL.len()]
    }
}

/// A movement of the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorMove {
    Lines(isize),
    Pages(isize),
    First,
    Last,
}

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    CursorMove(CursorMove),
    NextPane,
    PreviousPane,
    Focus(Pane),
    Checkout,
    NewBranch,
    Edit,
    Mark,
    Summarize,
    CherryPick,
    Diff,
    Undo,
    Redo,
    Search,
    PreviousHit,
    Copy,
    Back,
    Help,
    Quit,
}

/// One line of the help.
pub(super) struct Binding {
    pub(super) keys: &'static [KeyCode],
    /// The keys in the help; empty if another line lists them.
    pub(super) label: &'static str,
    pub(super) action: Action,
    pub(super) what: &'static str,
    /// A word for the bottom line, which is shown if it fits.
    pub(super) hint: Option<&'static str>,
}

const fn binding(
    keys: &'static [KeyCode],
    label: &'static str,
    action: Action,
    what: &'static str,
    hint: Option<&'static str>,
) -> Binding {
    Binding { keys, label, action, what, hint }
}

use Action as A;
use KeyCode::Char;

/// All keys, in the order of the help. Keys without a text belong to the previous line.
#[rustfmt::skip]
pub(super) const BINDINGS: &[Binding] = &[
    binding(&[Char('j'), KeyCode::Down], "j k, down up", A::CursorMove(CursorMove::Lines(1)), "next and previous line", None),
    binding(&[Char('k'), KeyCode::Up], "", A::CursorMove(CursorMove::Lines(-1)), "", None),
    binding(&[Char(']'), KeyCode::PageDown], "] [, page down, page up", A::CursorMove(CursorMove::Pages(1)), "next and previous page", None),
    binding(&[Char('['), KeyCode::PageUp], "", A::CursorMove(CursorMove::Pages(-1)), "", None),
    binding(&[Char('g'), KeyCode::Home], "g G, home end", A::CursorMove(CursorMove::First), "first and last line", None),
    binding(&[Char('G'), KeyCode::End], "", A::CursorMove(CursorMove::Last), "", None),
    binding(&[Char('l'), KeyCode::Right, KeyCode::Tab], "l h, right left, tab", A::NextPane, "next and previous pane", None),
    binding(&[Char('h'), KeyCode::Left, KeyCode::BackTab], "", A::PreviousPane, "", None),
    binding(&[KeyCode::Enter], "enter", A::Focus(Pane::Content), "read the content", None),
    binding(&[Char(' ')], "space", A::Checkout, "check out the branch", Some("checkout")),
    binding(&[Char('n')], "n", A::NewBranch, "new branch, at the message or the head", Some("branch")),
    binding(&[Char('e')], "e", A::Edit, "edit the message, in $VISUAL or $EDITOR", Some("edit")),
    binding(&[Char('v')], "v", A::Mark, "mark messages, from here to the cursor", None),
    binding(&[Char('s')], "s", A::Summarize, "replace the marked messages with a summary", Some("summarize")),
    binding(&[Char('c')], "c", A::CherryPick, "copy the marked messages onto the current branch", Some("cherry-pick")),
    binding(&[Char('d')], "d", A::Diff, "what the message's commit changed; of a branch, against the current one", Some("diff")),
    binding(&[Char('z')], "z", A::Undo, "undo the last operation on the branch shown", Some("undo")),
    binding(&[Char('Z')], "Z", A::Redo, "redo what was undone", None),
    binding(&[Char('/')], "/", A::Search, "search messages, or branches by name", Some("search")),
    binding(&[Char('N')], "n N", A::PreviousHit, "next and previous hit, until esc ends the search", None),
    binding(&[Char('y')], "y", A::Copy, "copy the request for a provider", Some("copy")),
    binding(&[KeyCode::Esc], "esc", A::Back, "leave a diff, a mark, a search", None),
    binding(&[Char('?')], "?", A::Help, "these keys", Some("help")),
    binding(&[Char('q')], "q, ctrl-c", A::Quit, "quit", Some("quit")),
];
/// The lines of the help.
pub(super) fn shown() -> impl Iterator<Item = &'static Binding> {
    BINDINGS.iter().filter(|binding| !binding.label.is_empty())
}

/// Returns the action of a key.
pub(super) fn action(key: KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            Char('c') => Some(Action::Quit),
            Char('d' | 'f') => Some(Action::CursorMove(CursorMove::Pages(1))),
            Char('u' | 'b') => Some(Action::CursorMove(CursorMove::Pages(-1))),
            Char('r') => Some(Action::Redo),
            _ => None,
        };
    }
    let bound = BINDINGS.iter().find(|binding| binding.keys.contains(&key.code));
    bound.map(|binding| binding.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the documentation has the same words.
    #[test]
    fn the_page_lists_every_key() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ui.md");
        let page = std::fs::read_to_string(page).expect("the page");
        for Binding { label, what, .. } in shown() {
            let line = format!("| `{label}` | {what} |");
            assert!(page.contains(&line), "docs/ui.md lacks {line}");
        }
    }

    #[test]
    fn a_key_has_one_meaning() {
        let keys: Vec<KeyCode> =
            BINDINGS.iter().flat_map(|binding| binding.keys).copied().collect();
        for (place, key) in keys.iter().enumerate() {
            assert!(!keys[..place].contains(key), "{key:?} is bound twice");
        }
    }
}
