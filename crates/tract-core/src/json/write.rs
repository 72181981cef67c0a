//! Writes the canonical form of a text while scanning it.

use std::cmp::Ordering;

use super::scan::{Item, Scanner};
use super::{Escapes, JsonError, number, string};

/// A canonical text under construction.
///
/// Members are written in their original order and reordered when their object ends, so no tree is
/// built: in addition to the output it needs eight bytes for each member of the open objects.
pub(super) struct Writer {
    pub(super) out: String,
    escapes: Escapes,
    members: Vec<Member>,
    scratch: String,
}

/// The range of `"key":value` in the output.
///
/// Four bytes are enough for each offset: a byte of input becomes at most six (`\u007f`), and six
/// times [`MAX_BYTES`](super::MAX_BYTES) fits.
#[derive(Clone, Copy)]
struct Member {
    from: u32,
    to: u32,
}

const _: () = assert!(super::MAX_BYTES < u32::MAX as usize / 6);

impl Member {
    fn len(self) -> u32 {
        self.to - self.from
    }

    /// Returns the member's text. It starts and ends with ASCII, so slicing cannot split a
    /// character.
    fn of(self, out: &str) -> &str {
        &out[self.from as usize..self.to as usize]
    }
}

impl Writer {
    pub(super) fn new(escapes: Escapes, capacity: usize) -> Self {
        let out = String::with_capacity(capacity);
        Self { out, escapes, members: Vec::new(), scratch: String::new() }
    }

    /// Reads one value and writes it.
    pub(super) fn value(&mut self, scan: &mut Scanner<'_>) -> Result<(), JsonError> {
        match scan.item()? {
            Item::String(literal) => literal.write(&mut self.out, self.escapes),
            Item::Integer(lexeme) => self.out.push_str(lexeme),
            Item::Float(value) => number::write_f64(&mut self.out, value)?,
            Item::Word(word) => self.out.push_str(word),
            // The recursion is bounded: the scanner refuses more than `MAX_DEPTH` levels.
            Item::Array => self.array(scan)?,
            Item::Object => self.object(scan)?,
        }
        Ok(())
    }

    fn array(&mut self, scan: &mut Scanner<'_>) -> Result<(), JsonError> {
        self.out.push('[');
        let mut first = true;
        scan.elements(|scan| {
            if !first {
                self.out.push(',');
            }
            first = false;
            self.value(scan)
        })?;
        self.out.push(']');
        Ok(())
    }

    fn object(&mut self, scan: &mut Scanner<'_>) -> Result<(), JsonError> {
        self.out.push('{');
        let (start, opened) = (self.out.len(), self.members.len());
        let mut last: Option<Member> = None;
        let mut sorted = true;
        scan.members(|scan, key| {
            if last.is_some() {
                self.out.push(',');
            }
            let from = self.out.len();
            key.write(&mut self.out, self.escapes);
            self.out.push(':');
            self.value(scan)?;
            let member = Member { from: from as u32, to: self.out.len() as u32 };
            sorted = sorted && last.is_none_or(|last| self.compare(last, member).is_lt());
            self.members.push(member);
            last = Some(member);
            Ok(())
        })?;
        if !sorted {
            self.sort(start, opened);
        }
        self.members.truncate(opened);
        self.out.push('}');
        Ok(())
    }

    fn compare(&self, a: Member, b: Member) -> Ordering {
        string::compare(a.of(&self.out), b.of(&self.out))
    }

    /// Sorts the members from index `opened` on, whose text starts at `start`. Of equal keys the
    /// last one is kept.
    fn sort(&mut self, start: usize, opened: usize) {
        let out = &mut self.out;
        let members = &mut self.members[opened..];
        let compare = |a: &Member, b: &Member| string::compare(a.of(out), b.of(out));
        // Equal keys stay in the order of the text, so the one that is kept below is the last.
        members.sort_unstable_by(|a, b| compare(a, b).then(a.from.cmp(&b.from)));
        let mut kept = 0;
        for at in 0..members.len() {
            let member = members[at];
            if members.get(at + 1).is_none_or(|next| compare(&member, next).is_lt()) {
                members[kept] = member;
                kept += 1;
            }
        }
        let members = &members[..kept];

        // Move the longest member within the output and the others through `scratch`: an object
        // with one large value and some small ones needs almost no memory.
        let longest = (0..kept).max_by_key(|at| members[*at].len()).unwrap_or(0);
        let (before, rest) = members.split_at(longest);
        let Some((longest, after)) = rest.split_first() else { return };
        self.scratch.clear();
        for member in before {
            self.scratch.push_str(member.of(out));
            self.scratch.push(',');
        }
        let split = self.scratch.len();
        for member in after {
            self.scratch.push(',');
            self.scratch.push_str(member.of(out));
        }
        let (before, after) = self.scratch.split_at(split);
        out.truncate(longest.to as usize);
        out.drain(start..longest.from as usize);
        out.insert_str(start, before);
        out.push_str(after);
    }
}
