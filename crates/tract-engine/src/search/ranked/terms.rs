//! A row of sorted words: each is stored without the prefix it shares with the previous word,
//! followed by its list.
//!
//! The first byte of a word has the number of shared bytes, the number of own bytes, and a flag for
//! a word that occurs once. The position of such a word is stored as the difference to the previous
//! one: consecutive ids and numbers are usually consecutive in the messages, too.

use super::postings;
use super::query::{Form, Term};
use super::wire::{unzigzag, zigzag};
use crate::repo::wire::{Input, put, put_bytes};

/// Flag of a word that occurs once.
const SINGLE: u8 = 1 << 7;
/// Number of shared bytes from which on the rest of the number follows.
const MOST_SHARED: usize = 15;
/// Number of own bytes from which on the rest of the number follows.
const MOST_OWN: usize = 7;

/// Encodes a row.
#[derive(Debug, Default)]
pub(super) struct RowWriter {
    bytes: Vec<u8>,
    first: String,
    last: String,
    /// The position of the last word that occurs once.
    position: u32,
}

impl RowWriter {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the next word. Words must be added in sorted order.
    pub(super) fn add(&mut self, word: &str, list: &[u8]) {
        if self.bytes.is_empty() {
            word.clone_into(&mut self.first);
        }
        let shared = self.last.bytes().zip(word.bytes()).take_while(|(a, b)| a == b).count();
        let own = word.as_bytes().get(shared..).unwrap_or_default();
        let single = postings::single(list);
        let head = shared.min(MOST_SHARED) << 3 | own.len().min(MOST_OWN);
        self.bytes.push(head as u8 | if single.is_some() { SINGLE } else { 0 });
        if shared >= MOST_SHARED {
            put(&mut self.bytes, (shared - MOST_SHARED) as u64);
        }
        if own.len() >= MOST_OWN {
            put(&mut self.bytes, (own.len() - MOST_OWN) as u64);
        }
        self.bytes.extend_from_slice(own);
        match single {
            Some(position) => {
                let far = i64::from(position) - i64::from(self.position);
                put(&mut self.bytes, zigzag(far));
                self.position = position;
            }
            None => put_bytes(&mut self.bytes, list),
        }
        word.clone_into(&mut self.last);
    }

    /// Returns the first word and the row, and starts a new row.
    pub(super) fn finish(&mut self) -> (String, Vec<u8>) {
        let Self { bytes, first, .. } = std::mem::take(self);
        (first, bytes)
    }
}

/// The list of a word in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List<'a> {
    /// The word occurs once, at this position.
    Single(u32),
    /// Encoded by [`postings::encode`].
    Encoded(&'a [u8]),
}

impl List<'_> {
    pub(super) fn encoded(self) -> Vec<u8> {
        match self {
            Self::Single(position) => postings::encode_single(position),
            Self::Encoded(bytes) => bytes.to_vec(),
        }
    }
}

/// A read position in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct RowCursor {
    read: usize,
    pub(super) word: Vec<u8>,
    position: u32,
}

impl RowCursor {
    pub(super) fn is_at_end(&self, row: &[u8]) -> bool {
        self.read >= row.len()
    }

    /// Reads the next word into `word` and returns its list; `None` at the end of the row, or when
    /// it is damaged.
    pub(super) fn next<'a>(&mut self, row: &'a [u8]) -> Option<List<'a>> {
        let mut input = Input(row.get(self.read..)?);
        let head = input.byte()?;
        let mut shared = usize::from(head >> 3) & MOST_SHARED;
        let mut own = usize::from(head) & MOST_OWN;
        if shared == MOST_SHARED {
            shared = shared.checked_add(usize::try_from(input.number()?).ok()?)?;
        }
        if own == MOST_OWN {
            own = own.checked_add(usize::try_from(input.number()?).ok()?)?;
        }
        if shared > self.word.len() {
            return None;
        }
        self.word.truncate(shared);
        self.word.extend_from_slice(input.take(own)?);
        let list = match head & SINGLE {
            0 => List::Encoded(input.bytes()?),
            _ => {
                let position = i64::from(self.position).checked_add(unzigzag(input.number()?))?;
                self.position = u32::try_from(position).ok()?;
                List::Single(self.position)
            }
        };
        self.read = row.len() - input.0.len();
        Some(list)
    }
}

/// Calls `each` with the words of a row from the first one on that can match a term, until the
/// first one that is after all that can; `None` when the row is damaged.
pub(super) fn matching<'a>(
    row: &'a [u8],
    term: &Term,
    mut each: impl FnMut(Form, List<'a>),
) -> Option<()> {
    let mut cursor = RowCursor::default();
    while !cursor.is_at_end(row) {
        let list = cursor.next(row)?;
        if cursor.word.as_slice() < term.first().as_bytes() {
            continue;
        }
        if term.ends_before(&cursor.word) {
            break;
        }
        if let Some(form) = term.matches(std::str::from_utf8(&cursor.word).ok()?) {
            each(form, list);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::query::Query;
    use super::*;

    fn find(row: &[u8], word: &str) -> Option<Vec<u8>> {
        let query = Query::parse(&format!("\"{word}\""));
        let mut list = Vec::new();
        matching(row, &query.terms[0], |_, encoded| list = encoded.encoded()).map(|()| list)
    }

    fn row(words: &BTreeMap<String, Vec<u8>>) -> (String, Vec<u8>) {
        let mut writer = RowWriter::default();
        words.iter().for_each(|(word, list)| writer.add(word, list));
        assert!(words.is_empty() || writer.len() > 0);
        let finished = writer.finish();
        assert_eq!((writer.len(), writer.finish().0.as_str()), (0, ""));
        finished
    }

    #[test]
    fn numbered_words_of_one_message_take_four_bytes() {
        let words: BTreeMap<String, Vec<u8>> =
            (0..100_000).map(|n| (format!("m{n}"), postings::encode_single(n))).collect();
        let (first, row) = row(&words);
        assert_eq!(first, "m0");
        assert!(row.len() < 4 * words.len(), "{} bytes", row.len());
        assert_eq!(find(&row, "m77777"), Some(postings::encode_single(77_777)));
    }

    fn words() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
        let list = prop_oneof![
            any::<u32>().prop_map(postings::encode_single),
            prop::collection::vec(1u8.., 0..20),
        ];
        prop::collection::btree_map("[ab]{1,40}|[a-f]{1,4}|ж{0,3}x", list, 0..60)
    }

    proptest! {
        #[test]
        fn words_come_back(words in words()) {
            let (first, row) = row(&words);
            prop_assert_eq!(first, words.keys().next().cloned().unwrap_or_default());
            for (word, list) in &words {
                prop_assert_eq!(find(&row, word), Some(list.clone()));
            }
            prop_assert_eq!(find(&row, "absent"), Some(Vec::new()));
            let (mut cursor, mut found) = (RowCursor::default(), BTreeMap::new());
            while !cursor.is_at_end(&row) {
                let list = cursor.next(&row).unwrap().encoded();
                found.insert(String::from_utf8(cursor.word.clone()).unwrap(), list);
            }
            prop_assert_eq!(found, words);
        }

        #[test]
        fn a_damaged_row_is_no_surprise(
            words in words(),
            noise in prop::collection::vec(any::<u8>(), 0..80),
            at: usize,
        ) {
            let _ = find(&noise, "zzz");
            let (_, row) = row(&words);
            if !row.is_empty() {
                let _ = find(&row[..at % row.len()], "zzz");
            }
        }
    }
}
