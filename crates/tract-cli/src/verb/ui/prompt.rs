//! A line of input at the bottom of the screen.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// The name of a new branch.
    Branch,
    /// Words to search for.
    Search,
}

impl Question {
    /// Returns the label before the input.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Branch => "name of the new branch: ",
            Self::Search => "search: ",
        }
    }
}

/// A line of input.
pub(super) struct Prompt {
    pub(super) question: Question,
    pub(super) text: String,
}

/// The effect of a key on the line.
pub(super) enum Typed {
    Open,
    Done,
    Left,
}

impl Prompt {
    pub(super) fn new(question: Question) -> Self {
        Self { question, text: String::new() }
    }

    /// Adds pasted text, on one line.
    pub(super) fn paste(&mut self, text: &str) {
        self.text.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Typed {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Typed::Left,
            KeyCode::Char('c') if control => return Typed::Left,
            KeyCode::Enter => return Typed::Done,
            KeyCode::Backspace => drop(self.text.pop()),
            KeyCode::Char('u') if control => self.text.clear(),
            KeyCode::Char(character) if !control => self.text.push(character),
            _ => {}
        }
        Typed::Open
    }
}
