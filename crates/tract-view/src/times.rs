//! Times for people: in the local time zone of the machine, which is the reader's, because the
//! server listens on loopback only.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use maud::{Markup, html};
use tract_core::time;

/// Shows a time to the minute, with the time in UTC as its machine-readable form; `otherwise` if
/// there is none.
pub(crate) fn minute(at_us: Option<i64>, otherwise: &str) -> Markup {
    shown(at_us, "%Y-%m-%d %H:%M", otherwise)
}

/// Shows the time of a day.
pub(crate) fn clock(at_us: Option<i64>) -> Markup {
    shown(at_us, "%H:%M", "")
}

/// Shows a day.
pub(crate) fn date(at_us: Option<i64>) -> Markup {
    shown(at_us, "%Y-%m-%d", "")
}

fn shown(at_us: Option<i64>, format: &str, otherwise: &str) -> Markup {
    let local = at_us.and_then(|at| local(at, format));
    let utc = at_us.and_then(time::format_rfc3339);
    html! {
        @match (local, utc) {
            (Some(local), Some(utc)) => time datetime=(utc) title=(utc) { (local) },
            _ => (otherwise),
        }
    }
}

/// Formats a time in the local time zone.
pub(crate) fn local(at_us: i64, format: &str) -> Option<String> {
    let at = Timestamp::from_microsecond(at_us).ok()?;
    Some(at.to_zoned(TimeZone::system()).strftime(format).to_string())
}

/// Returns the local day of a time.
pub(crate) fn day(at_us: i64) -> Option<Date> {
    let at = Timestamp::from_microsecond(at_us).ok()?;
    Some(at.to_zoned(TimeZone::system()).date())
}

/// Names a day relative to another one: `Today`, `Yesterday`, else `Wednesday, 2026-11-25`.
pub(crate) fn day_name(day: Date, today: Date) -> String {
    match today.since(day).map(|span| span.get_days()) {
        Ok(0) if day == today => "Today".to_owned(),
        Ok(1) => "Yesterday".to_owned(),
        _ => day.strftime("%A, %Y-%m-%d").to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_near_today_have_names() {
        let today = Date::constant(2026, 11, 27);
        for (day, name) in [
            (today, "Today"),
            (Date::constant(2026, 11, 26), "Yesterday"),
            (Date::constant(2026, 11, 25), "Wednesday, 2026-11-25"),
            (Date::constant(2026, 10, 27), "Tuesday, 2026-10-27"),
            (Date::constant(2026, 11, 28), "Saturday, 2026-11-28"),
        ] {
            assert_eq!(day_name(day, today), name);
        }
    }
}
