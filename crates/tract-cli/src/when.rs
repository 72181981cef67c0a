//! Times for people: in the local time zone, or as a distance from now. Scripts get UTC.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tract::core::{Clock, SystemClock};

const SECOND_US: i64 = 1_000_000;
const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Formats a time to the minute in the local time zone: `2026-01-31 09:30`.
pub(crate) fn minute(at_us: i64) -> Option<String> {
    local(at_us, "%Y-%m-%d %H:%M")
}

/// As [`minute`], with seconds.
pub(crate) fn second(at_us: i64) -> Option<String> {
    local(at_us, "%Y-%m-%d %H:%M:%S")
}

/// Formats a time in the last week as its distance from now (`3 h ago`), any other as its day.
pub(crate) fn ago(at_us: i64) -> Option<String> {
    let seconds = SystemClock.now_us().saturating_sub(at_us).div_euclid(SECOND_US);
    Some(match seconds {
        0..MINUTE => "just now".to_owned(),
        MINUTE..HOUR => format!("{} min ago", seconds / MINUTE),
        HOUR..DAY => format!("{} h ago", seconds / HOUR),
        seconds if (DAY..7 * DAY).contains(&seconds) => format!("{} d ago", seconds / DAY),
        // A time in the future is that of another machine's clock.
        _ => return local(at_us, "%Y-%m-%d"),
    })
}

fn local(at_us: i64, format: &str) -> Option<String> {
    let at = Timestamp::from_microsecond(at_us).ok()?;
    Some(at.to_zoned(TimeZone::system()).strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_near_now_are_distances_and_others_are_days() {
        let ago = |seconds: i64| ago(SystemClock.now_us() - seconds * SECOND_US).unwrap();
        assert_eq!(ago(5), "just now");
        assert_eq!(ago(3 * MINUTE + 1), "3 min ago");
        assert_eq!(ago(3 * HOUR + 1), "3 h ago");
        assert_eq!(ago(6 * DAY + 1), "6 d ago");
        assert_eq!(ago(8 * DAY).len(), "2026-01-31".len());
        assert_eq!(ago(-2 * DAY).len(), "2026-01-31".len());
    }
}
