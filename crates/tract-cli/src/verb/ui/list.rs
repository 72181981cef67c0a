//! A list with a cursor, of which a part fits on the screen.

use super::keys::CursorMove;

/// Lines, one of which is selected.
pub(super) struct List<T> {
    pub(super) items: Vec<T>,
    pub(super) cursor: usize,
    /// The first line of the last drawing, and the number of lines that fit.
    pub(super) top: usize,
    pub(super) height: usize,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { items: Vec::new(), cursor: 0, top: 0, height: 1 }
    }
}

impl<T> List<T> {
    pub(super) fn chosen(&self) -> Option<&T> {
        self.items.get(self.cursor)
    }

    pub(super) fn step(&mut self, to: CursorMove) {
        let last = self.items.len().saturating_sub(1);
        self.cursor = moved(self.cursor, to, self.height, last);
    }

    /// Scrolls as little as possible to show the cursor, and returns the range that fits.
    pub(super) fn window(&mut self, height: usize) -> std::ops::Range<usize> {
        self.height = height.max(1);
        let first = self.cursor.saturating_sub(self.height - 1);
        let most = self.items.len().saturating_sub(self.height);
        self.top = self.top.clamp(first.min(self.cursor), self.cursor).min(most.max(first));
        self.top..(self.top + self.height).min(self.items.len())
    }
}

/// Returns the target line of a movement; a page has `height` lines.
pub(super) fn moved(from: usize, to: CursorMove, height: usize, last: usize) -> usize {
    let by = |lines: isize| from.saturating_add_signed(lines).min(last);
    match to {
        CursorMove::Lines(lines) => by(lines),
        CursorMove::Pages(pages) => by(pages.saturating_mul(isize::try_from(height).unwrap_or(1))),
        CursorMove::First => 0,
        CursorMove::Last => last,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_scrolls_as_little_as_shows_the_cursor() {
        let mut list = List { items: (0..10).collect::<Vec<u32>>(), ..List::default() };
        assert_eq!(list.window(4), 0..4);
        list.step(CursorMove::Lines(5));
        assert_eq!(list.window(4), 2..6);
        list.step(CursorMove::Lines(-2));
        assert_eq!(list.window(4), 2..6, "it is in sight");
        list.step(CursorMove::Pages(-1));
        assert_eq!((list.cursor, list.window(4)), (0, 0..4));
        list.step(CursorMove::Last);
        assert_eq!(list.window(4), 6..10);
        assert_eq!(list.window(20), 0..10, "there is room for all");
        list.items.truncate(3);
        list.step(CursorMove::Lines(0));
        assert_eq!((list.cursor, list.window(2)), (2, 1..3), "lines are gone");
        list.items.clear();
        list.step(CursorMove::Last);
        assert_eq!(list.window(0), 0..0);
    }
}
