//! The graph next to a log: shows the branch of each commit with `*`, `|`, `/`, `\` and `_`.
//!
//! Pure layout of ids and parents. Colors and text are left to the terminal code.

use std::collections::{HashMap, HashSet};

use tract_core::CommitId;

/// One character of a graph, and the line it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glyph {
    /// `*`, `|`, `/`, `\`, `_` or a space.
    pub symbol: char,
    /// The number of the line, for its color. Lines are numbered from 0 in order of appearance.
    pub line: usize,
}

const SPACE: Glyph = Glyph { symbol: ' ', line: 0 };

/// One row of the graph: the row of a commit, or one that connects two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphRow {
    /// The characters from the left, without trailing spaces.
    pub glyphs: Vec<Glyph>,
    /// The commit of this row, as an index into the laid out commits.
    pub commit: Option<usize>,
}

impl GraphRow {
    /// Returns the characters as text.
    pub fn text(&self) -> String {
        self.glyphs.iter().map(|glyph| glyph.symbol).collect()
    }
}

/// A line going down the page, and the commit that it reaches next.
#[derive(Clone, Copy, Debug)]
struct Lane {
    next: CommitId,
    line: usize,
}

/// An incremental layout: takes one commit at a time and returns its rows. Keeps only the open
/// lines in memory, not the history.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    lanes: Vec<Option<Lane>>,
    lines: usize,
}

/// Receives the rows of a commit one at a time.
type OnRow<'a> = dyn FnMut(GraphRow) + 'a;

/// Lays out commits, given newest first with their parents; no commit may precede one of its
/// children. Lines to parents that are not given run off the lower end.
///
/// ```
/// use tract_core::CommitId;
/// use tract_engine::graph::layout;
/// let [root, left, right] = [0, 1, 2].map(|n| CommitId::from_bytes([n; 32]));
/// let rows = layout(&[(left, vec![root]), (right, vec![root]), (root, vec![])]);
/// let text: Vec<String> = rows.iter().map(|row| row.text()).collect();
/// assert_eq!(text, ["*", "| *", "|/", "*"]);
/// ```
///
/// # Complexity
/// Linear in the commits times the number of parallel lines.
pub fn layout(commits: &[(CommitId, Vec<CommitId>)]) -> Vec<GraphRow> {
    let mut layout = Layout::default();
    let mut rows = Vec::new();
    for (place, (id, parents)) in commits.iter().enumerate() {
        rows.extend(layout.add(place, *id, parents));
    }
    rows
}

impl Layout {
    /// Returns a layout without lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next commit, numbered `place`, and returns its rows.
    pub fn add(&mut self, place: usize, id: CommitId, parents: &[CommitId]) -> Vec<GraphRow> {
        let mut rows = Vec::new();
        self.draw(place, id, parents, &mut |row| rows.push(row));
        rows
    }

    /// Adds the next commit, numbered `place`, and passes its rows on one at a time. Where
    /// thousands of lines meet, the rows are too many and too wide to be kept in memory together.
    pub fn draw(&mut self, place: usize, id: CommitId, parents: &[CommitId], each: &mut OnRow<'_>) {
        let lanes = self.lanes.iter().enumerate();
        let coming = lanes.filter(|(_, at)| at.is_some_and(|at| at.next == id));
        let coming: Vec<usize> = coming.map(|(lane, _)| lane).collect();
        let own = match coming.split_first() {
            Some((own, others)) => {
                for from in others {
                    let line = self.lanes[*from].take().map_or(0, |lane| lane.line);
                    self.slant_left(*from, *own, line, each);
                }
                *own
            }
            None => {
                let own = self.free(0);
                self.lanes[own] = Some(Lane { next: id, line: self.line() });
                own
            }
        };
        let mut row = self.bars();
        if let Some(glyph) = row.get_mut(own * 2) {
            glyph.symbol = '*';
        }
        push(row, Some(place), each);

        let line = self.lanes[own].map_or(0, |lane| lane.line);
        // Draw the edges to further parents while the commit's own lane still continues below it.
        self.lanes[own] = parents.first().map(|parent| Lane { next: *parent, line });
        for parent in parents.iter().skip(1) {
            let there =
                self.lanes.iter().position(|lane| lane.is_some_and(|lane| lane.next == *parent));
            match there {
                Some(lane) if lane < own => self.slant_left(own, lane, line, each),
                Some(lane) => {
                    let line = self.lanes[lane].map_or(0, |lane| lane.line);
                    self.edge_right(own, lane, line, each);
                }
                None => {
                    let lane = self.free(own + 1);
                    let line = self.line();
                    self.edge_right(own, lane, line, each);
                    self.lanes[lane] = Some(Lane { next: *parent, line });
                }
            }
        }
        while self.lanes.last().is_some_and(Option::is_none) {
            self.lanes.pop();
        }
    }

    fn line(&mut self) -> usize {
        self.lines += 1;
        self.lines - 1
    }

    /// Returns the first free lane at or after `from`, appending one if all are taken.
    fn free(&mut self, from: usize) -> usize {
        let found = (from..self.lanes.len()).find(|lane| self.lanes[*lane].is_none());
        found.unwrap_or_else(|| {
            self.lanes.resize(self.lanes.len().max(from) + 1, None);
            self.lanes.len() - 1
        })
    }

    /// Returns a row in which every lane continues straight down.
    fn bars(&self) -> Vec<Glyph> {
        let bar = |at: &Option<Lane>| at.map_or(SPACE, |at| Glyph { symbol: '|', line: at.line });
        self.lanes.iter().flat_map(|at| [bar(at), SPACE]).collect()
    }

    /// Draws an edge from lane `from` to lane `to` on its left: one row for neighbors, two
    /// otherwise.
    fn slant_left(&self, from: usize, to: usize, line: usize, each: &mut OnRow<'_>) {
        let mut row = self.bars();
        set(&mut row, from * 2 - 1, '/', line);
        if from - to > 1 {
            for lane in to + 1..from - 1 {
                set(&mut row, lane * 2 + 1, '_', line);
            }
            push(row, None, each);
            row = self.bars();
            set(&mut row, to * 2 + 1, '/', line);
        }
        push(row, None, each);
    }

    /// Draws an edge from the commit in lane `from` to lane `to` on its right.
    fn edge_right(&self, from: usize, to: usize, line: usize, each: &mut OnRow<'_>) {
        let mut row = self.bars();
        set(&mut row, from * 2 + 1, '\\', line);
        if to - from > 1 {
            push(row, None, each);
            row = self.bars();
            for lane in from + 1..to - 1 {
                set(&mut row, lane * 2 + 1, '_', line);
            }
            set(&mut row, to * 2 - 1, '\\', line);
        }
        push(row, None, each);
    }
}

fn push(mut glyphs: Vec<Glyph>, commit: Option<usize>, each: &mut OnRow<'_>) {
    while glyphs.last().is_some_and(|glyph| glyph.symbol == ' ') {
        glyphs.pop();
    }
    each(GraphRow { glyphs, commit });
}

fn set(row: &mut Vec<Glyph>, column: usize, symbol: char, line: usize) {
    if row.len() <= column {
        row.resize(column + 1, SPACE);
    }
    row[column] = Glyph { symbol, line };
}

/// Orders commits so that every child precedes its parents, and a line is followed as far as
/// possible before the next one starts. `heads` keep their order.
///
/// Ancestors of the heads that are not in `commits` are left out.
///
/// # Complexity
/// Linear in the commits.
pub fn order(heads: &[CommitId], commits: &HashMap<CommitId, Vec<CommitId>>) -> Vec<CommitId> {
    let known = |id: &CommitId| commits.get(id).map(Vec::as_slice).unwrap_or_default();
    let mut children: HashMap<CommitId, usize> = HashMap::new();
    let mut open: Vec<CommitId> = heads.to_vec();
    let mut seen: HashSet<CommitId> = HashSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for parent in known(&id) {
            *children.entry(*parent).or_default() += 1;
            open.push(*parent);
        }
    }
    let mut given: HashSet<CommitId> = HashSet::new();
    let is_top = |head: &&CommitId| !children.contains_key(*head) && given.insert(**head);
    let mut ready: Vec<CommitId> = heads.iter().rev().filter(is_top).copied().collect();
    let mut ordered = Vec::with_capacity(seen.len());
    while let Some(id) = ready.pop() {
        if commits.contains_key(&id) {
            ordered.push(id);
        }
        for parent in known(&id).iter().rev() {
            if let Some(left) = children.get_mut(parent) {
                *left -= 1;
                if *left == 0 {
                    ready.push(*parent);
                }
            }
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: char) -> CommitId {
        CommitId::from_bytes([name as u8; 32])
    }

    /// `"c:b b:a a:"`: each commit with its parents, newest first.
    fn history(text: &str) -> Vec<(CommitId, Vec<CommitId>)> {
        text.split_whitespace()
            .map(|entry| {
                let (name, parents) = entry.split_once(':').expect("a name and a colon");
                (id(name.chars().next().expect("a name")), parents.chars().map(id).collect())
            })
            .collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let commits = history(text);
        let rows: Vec<String> = layout(&commits).iter().map(GraphRow::text).collect();
        assert_eq!(rows, expected, "{text}");
        let own: Vec<usize> = layout(&commits).iter().filter_map(|row| row.commit).collect();
        assert_eq!(own, (0..commits.len()).collect::<Vec<_>>(), "each commit has one row: {text}");
    }

    #[test]
    fn lines_forks_and_merges_are_drawn() {
        check("", &[]);
        check("c:b b:a a:", &["*", "*", "*"]);
        check("c:a b:a a:", &["*", "| *", "|/", "*"]);
        // The fork of UX.md: three commits on one line, two on the other.
        check("e:d d:a c:b b:a a:", &["*", "*", "| *", "| *", "|/", "*"]);
        check("m:ab b:r a:r r:", &["*", "|\\", "| *", "* |", "|/", "*"]);
        check("c:r b:r a:r r:", &["*", "| *", "| | *", "|/  |", "|  /", "|/", "*"]);
        check("a: b: c:", &["*", "*", "*"]);
        check("c:x b:y a:x", &["*", "| *", "| | *"]);
    }

    #[test]
    fn edges_that_cross_lines_keep_those_lines() {
        check(
            "a:p b:q c:r d:p p: q: r:",
            &["*", "| *", "| | *", "| | | *", "| |_|/", "|/| |", "* | |", "  * |", "    *"],
        );
        check(
            "a:p b:q c:r m:as s: a: p:",
            &["*", "| *", "| | *", "| | | *", "| | | |\\", "| | | | *", "| | | *", "* | |"],
        );
        // A merge whose second parent is already awaited further left.
        check("a:s b:q m:ns n:t s:", &["*", "| *", "| | *", "| |/|", "|/| |", "| | *", "* | |"]);
        // ... and further right.
        check(
            "a:x b:s c:s x:ys y: s:",
            &["*", "| *", "| | *", "* | |", "|\\| |", "* | |", "  |/", "  *"],
        );
    }

    #[test]
    fn every_line_has_a_number_of_its_own() {
        let rows = layout(&history("c:a b:a a:"));
        let lines: Vec<Vec<usize>> = rows
            .iter()
            .map(|row| row.glyphs.iter().filter(|g| g.symbol != ' ').map(|g| g.line).collect())
            .collect();
        assert_eq!(lines, [vec![0], vec![0, 1], vec![0, 1], vec![0]]);
    }

    #[test]
    fn children_precede_parents_and_lines_stay_together() {
        let commits = history("m:ab b:r a:r r:");
        let map: HashMap<_, _> = commits.iter().cloned().collect();
        assert_eq!(order(&[id('m')], &map), [id('m'), id('a'), id('b'), id('r')]);
        // A head below another head comes where its line comes.
        assert_eq!(order(&[id('a'), id('m')], &map), [id('m'), id('a'), id('b'), id('r')]);
        assert_eq!(order(&[id('a'), id('b')], &map), [id('a'), id('b'), id('r')]);
        assert_eq!(order(&[id('b'), id('b')], &map), [id('b'), id('r')]);
    }
}
