//! Suggests the known word that a misspelled one probably means.

/// Returns the candidate most similar to `word`, if it is similar enough: at most a third of the
/// characters differ, or one character of a short word.
///
/// Of equally similar candidates the first wins. Words of more than 64 characters are not matched.
///
/// ```
/// use tract_core::nearest;
/// assert_eq!(nearest("mian", ["main", "terse"]), Some("main"));
/// assert_eq!(nearest("grep", ["delete_file"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // One letter more than the limit, so that a longer word is noticed. The limits bound the cost
    // of `distance`, which is the product of both lengths.
    let word: Vec<char> = word.chars().take(65).flat_map(char::to_lowercase).collect();
    if word.len() > 64 {
        return None;
    }
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= 256)
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| {
            *distance <= (word.len().max(candidate.chars().count()) / 3).max(1)
                && *distance < word.len().max(1)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts the insertions, deletions, replacements and swaps of adjacent characters between two
/// words, ignoring case.
fn distance(word: &[char], other: &str) -> usize {
    let other: Vec<char> = other.chars().flat_map(char::to_lowercase).collect();
    let width = other.len() + 1;
    let mut before = vec![0; width];
    let mut row: Vec<usize> = (0..width).collect();
    for (n, from) in word.iter().enumerate() {
        let mut next = vec![n + 1; width];
        for (m, to) in other.iter().enumerate() {
            let replaced = row[m] + usize::from(from != to);
            next[m + 1] = replaced.min(row[m + 1] + 1).min(next[m] + 1);
            let swapped = n > 0 && m > 0 && word[n - 1] == *to && other[m - 1] == *from;
            if swapped {
                next[m + 1] = next[m + 1].min(before[m - 1] + 1);
            }
        }
        before = std::mem::replace(&mut row, next);
    }
    row[width - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let ops = ["system", "user", "assistant", "tool_result", "edit", "tag", "merge"];
        for (word, expected) in [
            ("asistant", Some("assistant")),
            ("toolresult", Some("tool_result")),
            ("USER", Some("user")),
            ("sytsem", Some("system")),
            ("tga", Some("tag")),
            ("x", None),
            ("", None),
            ("delete", None),
        ] {
            assert_eq!(nearest(word, ops), expected, "{word}");
        }
        assert_eq!(nearest(&"a".repeat(1_000_000), ops), None);
        assert_eq!(nearest("straße", ["strasse", "strase"]), Some("strase"));
    }
}
