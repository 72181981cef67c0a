//! Prevents the key from leaving in the pieces of a stream.

use tract_core::{KnownSecrets, ReplyDelta};

/// Delivers pieces unless they contain the key, even if it is split over several pieces: the end of
/// a piece that could begin the key is held back until the next one.
pub(super) struct PieceGuard {
    secrets: KnownSecrets,
    /// The piece that is held back.
    waiting: Option<ReplyDelta>,
    found: bool,
}

impl PieceGuard {
    pub(super) fn new(secrets: KnownSecrets) -> Self {
        Self { secrets, waiting: None, found: false }
    }

    /// Returns whether the key was found. After that nothing is delivered.
    pub(super) fn has_found(&self) -> bool {
        self.found
    }

    pub(super) fn push(&mut self, piece: ReplyDelta, pass_on: &mut dyn FnMut(ReplyDelta)) {
        if self.secrets.is_empty() {
            return pass_on(piece);
        }
        let piece = match (self.waiting.take(), piece) {
            (Some(waiting), piece) => match joined(waiting, piece) {
                Ok(joined) => joined,
                Err((waiting, piece)) => {
                    pass_on(waiting);
                    piece
                }
            },
            (None, piece) => piece,
        };
        self.found |= self.secrets.are_in(text_of(&piece));
        if self.found {
            return;
        }
        let begun = self.secrets.begun_at_end(text_of(&piece));
        let (ready, waiting) = split(piece, begun);
        self.waiting = waiting;
        if let Some(ready) = ready {
            pass_on(ready);
        }
    }

    /// Delivers the held-back text at the end of a stream.
    pub(super) fn end(&mut self, pass_on: &mut dyn FnMut(ReplyDelta)) {
        if let Some(waiting) = self.waiting.take().filter(|_| !self.found) {
            pass_on(waiting);
        }
    }
}

fn text_of(piece: &ReplyDelta) -> &str {
    match piece {
        ReplyDelta::Text(text) | ReplyDelta::Reasoning(text) => text,
        ReplyDelta::Arguments { text, .. } => text,
        ReplyDelta::Call { name, .. } => name,
        _ => "",
    }
}

/// Joins a piece with the previous one, if both continue the same text.
fn joined(before: ReplyDelta, piece: ReplyDelta) -> Result<ReplyDelta, (ReplyDelta, ReplyDelta)> {
    match (before, piece) {
        (ReplyDelta::Text(before), ReplyDelta::Text(text)) => Ok(ReplyDelta::Text(before + &text)),
        (ReplyDelta::Reasoning(before), ReplyDelta::Reasoning(text)) => {
            Ok(ReplyDelta::Reasoning(before + &text))
        }
        (
            ReplyDelta::Arguments { index, text: before },
            ReplyDelta::Arguments { index: same, text },
        ) if index == same => Ok(ReplyDelta::Arguments { index, text: before + &text }),
        apart => Err(apart),
    }
}

/// Splits off the last bytes of a piece.
fn split(piece: ReplyDelta, last: usize) -> (Option<ReplyDelta>, Option<ReplyDelta>) {
    if last == 0 || matches!(piece, ReplyDelta::Call { .. }) {
        return (Some(piece), None);
    }
    let text = text_of(&piece);
    let (ready, waiting) = text.split_at(text.len().saturating_sub(last));
    let with = |text: &str| match &piece {
        ReplyDelta::Reasoning(_) => ReplyDelta::Reasoning(text.to_owned()),
        ReplyDelta::Arguments { index, .. } => {
            ReplyDelta::Arguments { index: *index, text: text.to_owned() }
        }
        _ => ReplyDelta::Text(text.to_owned()),
    };
    ((!ready.is_empty()).then(|| with(ready)), Some(with(waiting)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-0123456789";

    fn passed(pieces: &[ReplyDelta]) -> (String, bool) {
        let mut guard = PieceGuard::new(KnownSecrets::new([KEY]));
        let mut out = String::new();
        let mut take = |piece: ReplyDelta| out.push_str(text_of(&piece));
        pieces.iter().for_each(|piece| guard.push(piece.clone(), &mut take));
        guard.end(&mut take);
        (out, guard.has_found())
    }

    #[test]
    fn a_key_in_any_number_of_pieces_is_not_passed_on() {
        for size in 1..=KEY.len() {
            let text = format!("a {KEY} b");
            let pieces = text.as_bytes().chunks(size);
            let pieces: Vec<_> =
                pieces.map(|p| ReplyDelta::Text(String::from_utf8_lossy(p).into_owned())).collect();
            let (out, found) = passed(&pieces);
            assert!(found && !out.contains("sk-01"), "{size}: {out}");
        }
    }

    #[test]
    fn a_key_with_escapes_in_any_number_of_pieces_is_not_passed_on() {
        for escaped in
            ["\\u0073k-0123456789", "sk\\u002d01234\\u00356789", "\\\\u0073k-01\\\\u00323456789"]
        {
            for size in 1..=escaped.len() {
                let text = format!(r#"{{"a":"{escaped}"}}"#);
                let pieces: Vec<_> = text
                    .as_bytes()
                    .chunks(size)
                    .map(|piece| ReplyDelta::Arguments {
                        index: 0,
                        text: String::from_utf8_lossy(piece).into_owned(),
                    })
                    .collect();
                let (out, found) = passed(&pieces);
                assert!(found && !out.contains("k-0") && !out.contains("2d01"), "{size}: {out}");
            }
        }
    }

    #[test]
    fn text_that_is_held_back_is_passed_on_at_the_end() {
        let text = |text: &str| ReplyDelta::Text(text.to_owned());
        assert_eq!(passed(&[text("ab"), text(" sk-01234")]), ("ab sk-01234".to_owned(), false));
        assert_eq!(passed(&[text(r"a\"), text(r"n \u007")]), (r"a\n \u007".to_owned(), false));
    }

    #[test]
    fn other_text_is_passed_on_whole_and_in_order() {
        let pieces = [
            ReplyDelta::Text("task s".to_owned()),
            ReplyDelta::Text("k-01 s".to_owned()),
            ReplyDelta::Call { index: 0, name: "look".to_owned() },
            ReplyDelta::Arguments { index: 0, text: "{}s".to_owned() },
        ];
        assert_eq!(passed(&pieces), ("task sk-01 slook{}s".to_owned(), false));
    }
}
