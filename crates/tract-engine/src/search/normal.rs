//! Normal forms of texts that are compared, with the way back to the text as it is stored.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// A normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormalForm {
    /// NFC: two spellings of one character are the same.
    Composed,
    /// NFKC without marks: also wide and narrow letters, ligatures, and letters with an accent and
    /// without are the same.
    Folded,
}

/// A text in a normal form.
pub(crate) struct NormalText {
    pub(crate) text: String,
    /// Where each cluster ends: in the normal form, and in the text as it is.
    ends: Vec<(usize, usize)>,
}

impl NormalText {
    /// Normalizes a text; returns `None` where it is ASCII, which all forms leave as it is.
    ///
    /// # Complexity
    /// Linear. A character and the marks after it are one cluster, which is normalized by itself.
    pub(crate) fn of(text: &str, form: NormalForm) -> Option<Self> {
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

    /// Returns where a range of the normal form is in the text as it is: whole clusters.
    pub(crate) fn original(&self, range: &Range<usize>) -> Range<usize> {
        let cluster = self.ends.partition_point(|(end, _)| *end <= range.start);
        let start = cluster.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = start.map_or(0, |(_, end)| *end);
        let last = self.ends.partition_point(|(end, _)| *end < range.end);
        let end = self.ends.get(last).map_or(start, |(_, end)| *end);
        start..end.max(start)
    }
}

/// Whether a character continues the one before: a mark, or a vowel or final of a Korean syllable.
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
