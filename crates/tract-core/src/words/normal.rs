//! Unicode normal forms for comparing texts, with a mapping back to the original text.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// A normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormalForm {
    /// NFC: canonically equivalent spellings of a character are equal.
    Composed,
    /// NFKC without marks: also equates wide and narrow letters, ligatures and their letters, and
    /// letters with and without accents.
    Folded,
}

/// A text in a normal form.
#[derive(Clone, Debug)]
pub struct NormalText {
    /// The normal form.
    pub text: String,
    /// The end of each cluster, in the normal form and in the original.
    ends: Vec<(usize, usize)>,
}

impl NormalText {
    /// Normalizes a text; returns `None` for ASCII, which no form changes.
    ///
    /// # Complexity
    /// Linear. A character and the marks after it form a cluster, which is normalized on its own.
    pub fn of(text: &str, form: NormalForm) -> Option<Self> {
        if text.is_ascii() {
            return None;
        }
        let mut normal = Self { text: String::with_capacity(text.len()), ends: Vec::new() };
        let mut chars = text.char_indices().peekable();
        while let Some((start, first)) = chars.next() {
            let mut end = start + first.len_utf8();
            while let Some((at, next)) = chars.next_if(|(_, next)| continues(*next)) {
                end = at + next.len_utf8();
            }
            let cluster = text.get(start..end).unwrap_or_default();
            match form {
                _ if cluster.is_ascii() => normal.text.push_str(cluster),
                NormalForm::Composed => normal.text.extend(cluster.nfc()),
                NormalForm::Folded => {
                    normal.text.extend(cluster.nfkd().filter(|c| !is_combining_mark(*c)).nfc());
                }
            }
            normal.ends.push((normal.text.len(), end));
        }
        Some(normal)
    }

    /// Maps a range of the normal form to the original text, extended to whole clusters.
    pub fn original(&self, range: &Range<usize>) -> Range<usize> {
        let cluster = self.ends.partition_point(|(end, _)| *end <= range.start);
        let start = cluster.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = start.map_or(0, |(_, end)| *end);
        let last = self.ends.partition_point(|(end, _)| *end < range.end);
        let end = self.ends.get(last).map_or(start, |(_, end)| *end);
        start..end.max(start)
    }
}

/// Returns whether a character belongs to the cluster of the one before: a combining mark, or a
/// vowel or final consonant of a Korean syllable.
fn continues(c: char) -> bool {
    !c.is_ascii() && (is_combining_mark(c) || matches!(u32::from(c), 0x1160..=0x11FF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, form: NormalForm, expected: &str, part: &str, original: &str) {
        let normal = NormalText::of(text, form).expect("it is not ASCII");
        assert_eq!(normal.text, expected);
        let start = normal.text.find(part).expect("it has the part");
        assert_eq!(&text[normal.original(&(start..start + part.len()))], original);
    }

    #[test]
    fn spellings_of_one_text_are_the_same_and_lead_back_to_it() {
        check("a cafe\u{301} b", NormalForm::Composed, "a café b", "café", "cafe\u{301}");
        check("a café b", NormalForm::Folded, "a cafe b", "cafe", "café");
        check("ＦＵＬＬ ﬁle", NormalForm::Folded, "FULL file", "fi", "ﬁ");
        check(
            "\u{1112}\u{1161}\u{11ab}글",
            NormalForm::Folded,
            "한글",
            "한",
            "\u{1112}\u{1161}\u{11ab}",
        );
        check("كِتَابٌ", NormalForm::Folded, "كتاب", "كتاب", "كِتَابٌ");
        assert!(NormalText::of("plain", NormalForm::Folded).is_none());
    }
}
