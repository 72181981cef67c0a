//! Parses and formats times: RFC 3339 to the microsecond, and the forms accepted on a command line.

use std::time::Duration;

/// Error of a text that is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an RFC 3339 time such as 2026-01-31T09:30:00Z, found {found:?}: {why}")]
pub struct TimeError {
    /// The text, truncated to 80 characters.
    pub found: String,
    /// The violated rule.
    pub why: &'static str,
}

/// Error of a text that is neither a time nor a day nor a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a time such as 2026-01-31T09:30:00Z, a day such as 2026-01-31, or a duration such as \
     2h, found {found:?}: {why}"
)]
pub struct TimeWordError {
    /// The text, truncated to 80 characters.
    pub found: String,
    /// The violated rule.
    pub why: String,
}

/// The moment of a day that a date without a time represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DayEdge {
    /// The first microsecond.
    Start,
    /// The last microsecond.
    End,
}

const DAY: i64 = 86_400;

/// Parses a time as written on a command line. Returns microseconds since 1970, UTC.
///
/// # Behavior
/// - An RFC 3339 time. Seconds and offset are optional; the default offset is UTC. A space may
///   replace the `T`.
/// - A date, in UTC. `day` determines which moment of it is returned.
/// - A duration, in the form of [`parse_duration`]. It is subtracted from `now_us`.
///
/// ```
/// use tract_core::time::{DayEdge, parse_time};
/// let now = 86_400_000_000;
/// assert_eq!(parse_time("1h", now, DayEdge::Start)?, 82_800_000_000);
/// assert_eq!(parse_time("1970-01-02", now, DayEdge::Start)?, now);
/// assert_eq!(parse_time("1970-01-01", now, DayEdge::End)?, now - 1);
/// # Ok::<(), tract_core::time::TimeWordError>(())
/// ```
///
/// # Errors
/// [`TimeWordError`] for any other text.
pub fn parse_time(text: &str, now_us: i64, day: DayEdge) -> Result<i64, TimeWordError> {
    let bad = |why: String| TimeWordError { found: text.chars().take(80).collect(), why };
    let word = text.trim();
    if !word.bytes().any(|byte| matches!(byte, b'-' | b':')) {
        let duration = parse_duration(word).map_err(bad)?;
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        return Ok(now_us.saturating_sub(micros));
    }
    let time = match (word.len(), day) {
        (10, DayEdge::Start) => format!("{word}T00:00:00Z"),
        (10, DayEdge::End) => format!("{word}T23:59:59.999999Z"),
        (16, _) => format!("{word}:00Z"),
        (19, _) => format!("{word}Z"),
        _ => word.to_owned(),
    };
    let time = match time.as_bytes().get(10) {
        Some(b' ') => time.replacen(' ', "T", 1),
        _ => time,
    };
    parse(&time).map_err(|why| bad(why.to_owned()))
}

/// Parses a duration: numbers, each with one of the units `s`, `m`, `h`, `d` and `w`.
///
/// ```
/// use tract_core::time::parse_duration;
/// assert_eq!(parse_duration("1h30m"), Ok(std::time::Duration::from_secs(5400)));
/// assert!(parse_duration("30").is_err());
/// ```
///
/// # Errors
/// The violated rule, with the text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a number and s, m, h, d or w, such as 30d, found {text:?}");
    let too_long = || format!("too long: {text}");
    let mut seconds: u64 = 0;
    let mut rest = text;
    loop {
        let at = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(expected)?;
        let (number, after) = rest.split_at(at);
        let mut units = after.chars();
        let unit: u64 = match units.next() {
            Some('s') => 1,
            Some('m') => 60,
            Some('h') => 60 * 60,
            Some('d') => 24 * 60 * 60,
            Some('w') => 7 * 24 * 60 * 60,
            Some(_) | None => return Err(expected()),
        };
        let number: u64 = number.parse().map_err(|_| expected())?;
        let part = number.checked_mul(unit).ok_or_else(too_long)?;
        seconds = seconds.checked_add(part).ok_or_else(too_long)?;
        rest = units.as_str();
        if rest.is_empty() {
            return Ok(Duration::from_secs(seconds));
        }
    }
}

/// Parses an RFC 3339 time. Returns microseconds since 1970, UTC.
///
/// # Behavior
/// - `T` and `Z` may be in lower case; an offset such as `+02:00` is applied.
/// - Digits after the microseconds are dropped, which rounds towards the past.
/// - A leap second (`:60`) is rejected: Unix time cannot represent it.
///
/// ```
/// use tract_core::time::parse_rfc3339;
/// assert_eq!(parse_rfc3339("1970-01-01T01:00:00.5+01:00")?, 500_000);
/// assert!(parse_rfc3339("2026-02-30T00:00:00Z").is_err());
/// # Ok::<(), tract_core::time::TimeError>(())
/// ```
///
/// # Errors
/// [`TimeError`] for any other text.
pub fn parse_rfc3339(text: &str) -> Result<i64, TimeError> {
    parse(text).map_err(|why| TimeError { found: text.chars().take(80).collect(), why })
}

fn parse(text: &str) -> Result<i64, &'static str> {
    let mut rest = text.as_bytes();
    let year = number(&mut rest, 4, "the year has four digits")?;
    literal(&mut rest, b"-", "\"-\" follows the year")?;
    let month = number(&mut rest, 2, "the month has two digits")?;
    literal(&mut rest, b"-", "\"-\" follows the month")?;
    let day = number(&mut rest, 2, "the day has two digits")?;
    literal(&mut rest, b"Tt", "\"T\" follows the day")?;
    let hour = number(&mut rest, 2, "the hour has two digits")?;
    literal(&mut rest, b":", "\":\" follows the hour")?;
    let minute = number(&mut rest, 2, "the minute has two digits")?;
    literal(&mut rest, b":", "\":\" follows the minute")?;
    let second = number(&mut rest, 2, "the second has two digits")?;
    let micros = fraction(&mut rest)?;
    let offset = offset(&mut rest)?;
    if !rest.is_empty() {
        return Err("something follows the offset");
    }
    if !(1..=12).contains(&month) {
        return Err("there is no such month");
    }
    if !(1..=days_in_month(year, month)).contains(&day) {
        return Err("the month has no such day");
    }
    if hour > 23 || minute > 59 {
        return Err("there is no such time of day");
    }
    match second {
        0..=59 => {}
        60 => return Err("leap seconds have no number of their own"),
        _ => return Err("there is no such second"),
    }
    let seconds = days_since_1970(year, month, day) * DAY + hour * 3600 + minute * 60 + second;
    Ok((seconds - offset) * 1_000_000 + micros)
}

/// Formats a time given in microseconds since 1970, UTC. The fraction has six digits, or is left
/// out if it is zero.
///
/// Returns `None` outside of the years 0 to 9999, which RFC 3339 cannot represent.
///
/// ```
/// use tract_core::time::format_rfc3339;
/// assert_eq!(format_rfc3339(-1).as_deref(), Some("1969-12-31T23:59:59.999999Z"));
/// assert_eq!(format_rfc3339(0).as_deref(), Some("1970-01-01T00:00:00Z"));
/// ```
pub fn format_rfc3339(at_us: i64) -> Option<String> {
    let (seconds, micros) = (at_us.div_euclid(1_000_000), at_us.rem_euclid(1_000_000));
    let (days, time) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    if !(0..=9999).contains(&year) {
        return None;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    let part = if micros == 0 { String::new() } else { format!(".{micros:06}") };
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{part}Z"))
}

fn number(rest: &mut &[u8], digits: usize, why: &'static str) -> Result<i64, &'static str> {
    let (head, tail) = rest.split_at_checked(digits).ok_or(why)?;
    if !head.iter().all(u8::is_ascii_digit) {
        return Err(why);
    }
    *rest = tail;
    Ok(head.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

fn literal(rest: &mut &[u8], any_of: &[u8], why: &'static str) -> Result<(), &'static str> {
    match rest.split_first() {
        Some((byte, tail)) if any_of.contains(byte) => {
            *rest = tail;
            Ok(())
        }
        _ => Err(why),
    }
}

/// Parses an optional fraction. Returns microseconds.
fn fraction(rest: &mut &[u8]) -> Result<i64, &'static str> {
    let Some(tail) = rest.strip_prefix(b".") else { return Ok(0) };
    let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return Err("digits follow \".\"");
    }
    let (head, tail) = tail.split_at(digits);
    *rest = tail;
    let six = head.iter().copied().chain(std::iter::repeat(b'0')).take(6);
    Ok(six.fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
}

/// Parses `Z` or an offset. Returns seconds east of UTC.
fn offset(rest: &mut &[u8]) -> Result<i64, &'static str> {
    let why = "\"Z\" or an offset such as \"+02:00\" follows the time";
    let (sign, tail) = rest.split_first().ok_or(why)?;
    *rest = tail;
    let sign = match sign {
        b'Z' | b'z' => return Ok(0),
        b'+' => 1,
        b'-' => -1,
        _ => return Err(why),
    };
    let hours = number(rest, 2, why)?;
    literal(rest, b":", why)?;
    let minutes = number(rest, 2, why)?;
    if hours <= 23 && minutes <= 59 {
        Ok(sign * (hours * 3600 + minutes * 60))
    } else {
        Err("there is no such offset")
    }
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

// Both follow Howard Hinnant's "chrono-compatible low-level date algorithms": eras of 400 years,
// with years that start in March, so that a leap day is the last day of its year.

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_read_as_the_number_that_others_give() {
        // The numbers are those of CPython's datetime.
        for (text, seconds, micros) in [
            ("1970-01-01T00:00:00Z", 0, 0),
            ("1969-12-31T23:59:59Z", -1, 0),
            ("2000-02-29T12:30:45Z", 951_827_445, 0),
            ("2024-02-29T00:00:00.000001Z", 1_709_164_800, 1),
            ("2026-11-21T23:04:40.25Z", 1_795_302_280, 250_000),
            ("2026-11-21T23:04:40.123456789Z", 1_795_302_280, 123_456),
            ("2026-11-22T01:04:40+02:00", 1_795_302_280, 0),
            ("2026-11-21T17:34:40-05:30", 1_795_302_280, 0),
            ("2026-11-21t23:04:40z", 1_795_302_280, 0),
            ("2026-11-21T23:04:40-00:00", 1_795_302_280, 0),
            ("1900-03-01T00:00:00Z", -2_203_891_200, 0),
            ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
            ("0000-01-01T00:00:00Z", -62_167_219_200, 0),
            ("9999-12-31T23:59:59.999999Z", 253_402_300_799, 999_999),
            ("1969-12-31T23:59:59.9999999Z", -1, 999_999),
        ] {
            assert_eq!(parse_rfc3339(text), Ok(seconds * 1_000_000 + micros), "{text}");
        }
    }

    #[test]
    fn a_time_is_written_out_as_a_day_or_as_a_duration() {
        let now = parse_rfc3339("2026-11-27T12:00:00Z").unwrap();
        for (text, day, expected) in [
            ("2026-11-27", DayEdge::Start, "2026-11-27T00:00:00Z"),
            ("2026-11-27", DayEdge::End, "2026-11-27T23:59:59.999999Z"),
            ("2026-11-27T09:30", DayEdge::Start, "2026-11-27T09:30:00Z"),
            ("2026-11-27 09:30:05", DayEdge::Start, "2026-11-27T09:30:05Z"),
            ("2026-11-27T09:30:00+02:00", DayEdge::Start, "2026-11-27T07:30:00Z"),
            ("1h", DayEdge::End, "2026-11-27T11:00:00Z"),
            ("1d12h", DayEdge::Start, "2026-11-26T00:00:00Z"),
            ("0s", DayEdge::Start, "2026-11-27T12:00:00Z"),
        ] {
            assert_eq!(parse_time(text, now, day), Ok(parse_rfc3339(expected).unwrap()), "{text}");
        }
        for text in
            ["", "1", "h", "1y", "1 h", "h1", "now", "2026-02-30", "2026-11-27T25:00", "-1h"]
        {
            let refused = parse_time(text, now, DayEdge::Start);
            assert!(refused.is_err_and(|error| error.to_string().contains("a duration")), "{text}");
        }
        assert_eq!(parse_time("99999999w", now, DayEdge::Start).map(|at| at < 0), Ok(true));
    }

    #[test]
    fn durations_are_numbers_with_units() {
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("0s1m"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("2w"), Ok(Duration::from_secs(14 * 24 * 60 * 60)));
        for text in ["", "30", "d", "30 d", "-1d", "1y", "1h30", "99999999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text:?}");
        }
        assert!(parse_duration("18446744073709551615w").is_err());
        assert!(parse_duration("18446744073709551615s1s").is_err());
    }

    #[test]
    fn an_invalid_time_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "the year has four digits"),
            ("now", "the year has four digits"),
            ("26-11-21T00:00:00Z", "the year has four digits"),
            ("+2026-11-21T00:00:00Z", "the year has four digits"),
            ("20261121T000000Z", "\"-\" follows the year"),
            ("2026-1-21T00:00:00Z", "the month has two digits"),
            ("2026-11-21", "\"T\" follows the day"),
            ("2026-11-21 00:00:00Z", "\"T\" follows the day"),
            ("2026-11-21T24:00:00Z", "there is no such time of day"),
            ("2026-11-21T23:60:00Z", "there is no such time of day"),
            ("2026-11-21T23:59:60Z", "leap seconds have no number of their own"),
            ("2026-11-21T23:59:61Z", "there is no such second"),
            ("2026-11-21T23:59", "\":\" follows the minute"),
            ("2026-11-21T23:59:59", "\"Z\" or an offset such as \"+02:00\" follows the time"),
            ("2026-11-21T23:59:59.Z", "digits follow \".\""),
            ("2026-11-21T23:59:59,5Z", "\"Z\" or an offset such as \"+02:00\" follows the time"),
            ("2026-11-21T23:59:59+0200", "\"Z\" or an offset such as \"+02:00\" follows the time"),
            ("2026-11-21T23:59:59+24:00", "there is no such offset"),
            ("2026-11-21T23:59:59Z ", "something follows the offset"),
            ("2026-13-01T00:00:00Z", "there is no such month"),
            ("2026-00-01T00:00:00Z", "there is no such month"),
            ("2025-02-29T00:00:00Z", "the month has no such day"),
            ("1900-02-29T00:00:00Z", "the month has no such day"),
            ("2026-04-31T00:00:00Z", "the month has no such day"),
            ("2026-04-00T00:00:00Z", "the month has no such day"),
            ("２０２６-04-01T00:00:00Z", "the year has four digits"),
        ] {
            assert_eq!(parse_rfc3339(text).map_err(|error| error.why), Err(why), "{text}");
        }
    }

    #[test]
    fn a_time_that_has_no_text_has_none() {
        assert_eq!(format_rfc3339(i64::MAX), None);
        assert_eq!(format_rfc3339(i64::MIN), None);
        assert_eq!(format_rfc3339(253_402_300_800_000_000), None);
        assert_eq!(format_rfc3339(-62_167_219_200_000_001), None);
    }

    proptest! {
        #[test]
        fn written_values_read_back(at in -62_167_219_200_000_000_i64..253_402_300_800_000_000) {
            let text = format_rfc3339(at).unwrap();
            prop_assert_eq!(parse_rfc3339(&text), Ok(at), "{}", text);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*|[0-9TZ:.+-]{0,30}") {
            let _ = parse_rfc3339(&text);
        }
    }
}
