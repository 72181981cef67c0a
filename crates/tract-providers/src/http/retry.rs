//! Retries: which requests are retried, and the wait before each retry.

use std::time::Duration;

use reqwest::header::HeaderMap;
use tract_core::ModelError;

/// When a request is retried. Only errors that may pass with time are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries. Default: 2.
    pub retries: u32,
    /// The first wait, before jitter. It doubles with each retry. Default: 0.5 s.
    pub base: Duration,
    /// The longest wait. Default: 60 s. If the server asks for more, there is no retry.
    pub longest: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { retries: 2, base: Duration::from_millis(500), longest: Duration::from_secs(60) }
    }
}

impl RetryPolicy {
    /// Never retries.
    pub fn never() -> Self {
        Self { retries: 0, ..Self::default() }
    }

    /// Returns the wait before the `attempt`-th retry, from 1 (0 counts as 1); `None` if there is no
    /// retry.
    /// `jitter` is a random number. A wait that the server did not set is between half and all of
    /// the computed time, so that clients that failed together do not retry together.
    pub fn wait(
        &self,
        attempt: u32,
        error: &ModelError,
        retry_after: Option<Duration>,
        jitter: u64,
    ) -> Option<Duration> {
        if attempt > self.retries || !error.retryable() {
            return None;
        }
        if let Some(server_wait) = retry_after {
            return (server_wait <= self.longest).then_some(server_wait);
        }
        let doubled = self
            .base
            .saturating_mul(1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX));
        let half = doubled.min(self.longest) / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX - 1);
        Some(half + Duration::from_nanos(jitter % (nanos + 1)))
    }
}

/// A retry that is about to happen.
#[derive(Debug)]
pub struct Retry<'a> {
    /// The number of the retry, from 1.
    pub attempt: u32,
    /// The wait before it.
    pub wait: Duration,
    /// The error of the last attempt.
    pub error: &'a ModelError,
}

/// Reads the wait that a server asks for: `retry-after-ms`, or `retry-after` in seconds or as a
/// date. `now_us` is the time in microseconds since 1970.
pub(super) fn retry_after(headers: &HeaderMap, now_us: i64) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let seconds = |number: f64| Duration::try_from_secs_f64(number).ok();
    if let Some(wait) = text("retry-after-ms").and_then(|ms| ms.parse::<f64>().ok()) {
        return seconds(wait / 1000.0);
    }
    let after = text("retry-after")?;
    if let Ok(number) = after.parse::<f64>() {
        return seconds(number);
    }
    let at_us = http_date(after)?;
    Some(Duration::from_micros(u64::try_from(at_us.saturating_sub(now_us)).unwrap_or(0)))
}

/// Parses an HTTP date, `Wed, 21 Oct 2026 07:28:00 GMT`, as microseconds since 1970.
fn http_date(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let [day, month, year, time, zone] = std::array::from_fn(|_| words.next());
    let month = MONTHS.iter().position(|name| Some(*name) == month)? + 1;
    if zone? != "GMT" || words.next().is_some() {
        return None;
    }
    let rfc3339 = format!("{}-{month:02}-{}T{}Z", year?, day?, time?);
    tract_core::time::parse_rfc3339(&rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable() -> ModelError {
        ModelError::Unavailable { message: String::new(), source: None }
    }

    #[test]
    fn waits_double_and_stay_within_their_bounds() {
        let policy =
            RetryPolicy { retries: 9, longest: Duration::from_secs(3), ..RetryPolicy::default() };
        for (attempt, most) in [(1, 500), (2, 1000), (3, 2000), (4, 3000), (9, 3000)] {
            for jitter in [0, 1, 7_777_777_777, u64::MAX] {
                let wait = policy.wait(attempt, &unavailable(), None, jitter).expect("it waits");
                let range = Duration::from_millis(most / 2)..=Duration::from_millis(most);
                assert!(range.contains(&wait), "{attempt}: {wait:?}");
            }
        }
        let many = RetryPolicy { retries: u32::MAX, ..RetryPolicy::default() };
        assert!(many.wait(u32::MAX, &unavailable(), None, 3).is_some());
        assert_eq!(policy.wait(10, &unavailable(), None, 0), None);
        assert_eq!(
            policy.wait(0, &unavailable(), None, 0),
            policy.wait(1, &unavailable(), None, 0)
        );
        assert_eq!(RetryPolicy::never().wait(1, &unavailable(), None, 0), None);
    }

    #[test]
    fn permanent_errors_are_not_retried() {
        let policy = RetryPolicy::default();
        let refused = ModelError::InvalidRequest { message: String::new() };
        assert_eq!(policy.wait(1, &refused, Some(Duration::ZERO), 0), None);
        assert_eq!(policy.wait(1, &ModelError::Cancelled, None, 0), None);
    }

    #[test]
    fn a_server_says_how_long() {
        let policy = RetryPolicy::default();
        let wait_for = |secs| policy.wait(1, &unavailable(), Some(Duration::from_secs(secs)), 5);
        assert_eq!(wait_for(7), Some(Duration::from_secs(7)));
        assert_eq!(wait_for(61), None, "longer than the client waits");
        let read = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            retry_after(&headers, 1_792_567_670_000_000)
        };
        assert_eq!(read("retry-after", "3"), Some(Duration::from_secs(3)));
        assert_eq!(read("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(read("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        assert_eq!(
            read("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"),
            Some(Duration::from_secs(10))
        );
        assert_eq!(read("retry-after", "Wed, 21 Oct 2020 07:28:00 GMT"), Some(Duration::ZERO));
        assert_eq!(read("retry-after", "-3"), None);
        assert_eq!(read("retry-after", "soon"), None);
    }
}
