//! Finds the differing part of two texts, and whether it is a date or a time.

use std::sync::LazyLock;

use regex::Regex;
use tract_core::text::beginning;

/// Maximum number of characters of a differing part.
const MOST: usize = 80;

/// Returns the differing parts of two texts, extended to whole words and cut after 80 characters.
pub(super) fn differing(before: &str, after: &str) -> (String, String) {
    let same = |(a, b): &(char, char)| a == b;
    let pairs = before.chars().zip(after.chars());
    let start: usize = pairs.take_while(same).map(|(c, _)| c.len_utf8()).sum();
    // Extend to the beginning of the word.
    let start = before.get(..start).map_or(0, |same| {
        same.char_indices()
            .rev()
            .find(|(_, c)| c.is_whitespace())
            .map_or(0, |(at, c)| at + c.len_utf8())
    });
    let rest = |text: &str| text.get(start..).unwrap_or_default().to_owned();
    let (before, after) = (rest(before), rest(after));
    let pairs = before.chars().rev().zip(after.chars().rev());
    let end: usize = pairs.take_while(same).map(|(c, _)| c.len_utf8()).sum();
    let part = |text: &str| {
        let end = text.len() - end;
        let end =
            text.get(end..).and_then(|rest| rest.find(char::is_whitespace)).map(|at| end + at);
        let part = text.get(..end.unwrap_or(text.len())).unwrap_or(text);
        match beginning(part, MOST) {
            (kept, 0) => kept.to_owned(),
            (kept, _) => format!("{kept}…"),
        }
    };
    (part(&before), part(&after))
}

/// Matches a word that is a time, a date, or seconds since 1970.
static MOMENT: LazyLock<Regex> = LazyLock::new(|| {
    let moment = r"(?x)
        (?: ^ | [^0-9] ) [0-9]{1,2} : [0-9]{2} (?: [^0-9] | $ )
        | [0-9]{4} - [0-9]{2} - [0-9]{2}
        | [0-9]{1,2} / [0-9]{1,2} / [0-9]{2,4}
        | [0-9]{1,2} \. [0-9]{1,2} \. [0-9]{4}
        | ^ [^0-9A-Za-z]* 1[0-9]{9} (?: [0-9]{3} ){0,3} [^0-9A-Za-z]* $";
    Regex::new(moment).expect("the pattern is valid")
});

const NAMES: [&str; 19] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mon",
    "tue", "wed", "thu", "fri", "sat", "sun",
];

/// The endings that complete a name to its full form or to another abbreviation.
const ENDINGS: [&str; 20] = [
    "", "uary", "ruary", "ch", "il", "e", "y", "ust", "t", "tember", "ober", "ember", "day", "s",
    "sday", "nesday", "rs", "rsday", "urday", "r",
];

/// Returns whether two texts differ only in dates and times.
pub(super) fn is_clock(before: &str, after: &str) -> bool {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (before, after) = (words(before), words(after));
    if before.len() != after.len() {
        return false;
    }
    let differing: Vec<usize> = before
        .iter()
        .zip(&after)
        .enumerate()
        .filter(|(_, (a, b))| a != b)
        .map(|(at, _)| at)
        .collect();
    let word = |at: usize| before.get(at).zip(after.get(at));
    let of_a_clock = |at: usize| {
        word(at).is_some_and(|(a, b)| [a, b].iter().all(|word| is_moment(word) || is_part(word)))
    };
    // In `January 5` and `January 6`, the month is equal in both texts but shows that the number is
    // a date.
    let is_near_a_moment = |at: usize| {
        (at.saturating_sub(2)..=at + 2).filter_map(word).any(|(a, b)| is_moment(a) && is_moment(b))
    };
    !differing.is_empty()
        && differing.iter().all(|at| of_a_clock(*at))
        && differing.iter().any(|at| is_near_a_moment(*at))
}

fn is_moment(word: &str) -> bool {
    MOMENT.is_match(word) || is_name(word)
}

/// Returns whether a word is the name of a month or of a day.
fn is_name(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphabetic()).to_ascii_lowercase();
    let Some((head, tail)) = word.split_at_checked(3) else { return false };
    NAMES.contains(&head) && ENDINGS.contains(&tail)
}

/// Returns whether a word can be part of a date: a short number, possibly with a suffix.
fn is_part(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_ascii_lowercase();
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let ending = word.get(digits.len()..).unwrap_or_default();
    matches!(ending, "" | "st" | "nd" | "rd" | "th" | "am" | "pm")
        && digits.len() <= 4
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !word.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, clock: bool) {
        assert_eq!(is_clock(before, after), clock, "{before:?} {after:?}");
        assert_eq!(is_clock(after, before), clock, "{after:?} {before:?}");
    }

    #[test]
    fn dates_and_times_are_a_clock() {
        check("It is 10:01 now.", "It is 10:02 now.", true);
        check("Now: 2026-01-31T09:30:00Z\nHelp.", "Now: 2026-02-01T00:00:10Z\nHelp.", true);
        check("Today is Friday, January 30, 2026.", "Today is Saturday, January 31, 2026.", true);
        check("Today is January 30, 2026.", "Today is January 31, 2026.", true);
        check("Am 30.01.2026 um 9:05 pm", "Am 31.01.2026 um 10:05 am", true);
        check("ts=1 1769765400000", "ts=1 1769765460000", true);
        check("It is 1/30/2026", "It is 1/31/2026", true);
    }

    #[test]
    fn other_differences_are_none() {
        check("Be brief.", "Be thorough.", false);
        check("You have 3 tries.", "You have 4 tries.", false);
        check("It is 10:01. Be brief.", "It is 10:02. Be thorough.", false);
        check("It is 10:01.", "It is 10:02. Hurry up.", false);
        check("version 1.2.30", "version 1.2.31", false);
        check("Ask Martha.", "Ask Monica.", false);
        check("same 10:01", "same 10:01", false);
        check("", "", false);
    }

    #[test]
    fn the_differing_part_is_whole_words() {
        let check = |before, after, parts: (&str, &str)| {
            assert_eq!(differing(before, after), (parts.0.to_owned(), parts.1.to_owned()));
        };
        check("It is 10:01 now.", "It is 10:02 now.", ("10:01", "10:02"));
        check("Be brief.", "Be thorough.", ("brief.", "thorough."));
        check("same", "same", ("same", "same"));
        check("", "new", ("", "new"));
        check("füße", "füßen", ("füße", "füßen"));
        let (before, after) = (format!("a {}", "ä".repeat(200)), "a b".to_owned());
        let (old, new) = differing(&before, &after);
        assert_eq!((old.chars().count(), new.as_str()), (MOST + 1, "b"));
    }
}
