//! Options, from the standard variables or from code.

use std::path::PathBuf;
use std::time::Duration;

use tract_core::telemetry::names::CONTENT_VARIABLE;

/// How long the flush at the end may take by default.
pub(crate) const FLUSH_WITHIN: Duration = Duration::from_secs(2);
/// The default timeout of one export, from the specification.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The default of the specification, for collectors on the same machine.
const DEFAULT_ENDPOINT: &str = "http://localhost:4318";

/// The destination of telemetry, and its contents.
///
/// ```
/// use std::time::Duration;
/// use tract_otel::TelemetryOptions;
/// let options = TelemetryOptions {
///     service_name: Some("my-agent".to_owned()),
///     flush_within: Some(Duration::from_secs(1)),
///     ..TelemetryOptions::new("http://localhost:4318")?
/// };
/// # let _ = options;
/// # Ok::<(), tract_otel::OptionsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TelemetryOptions {
    /// The URL that spans are sent to; `None` if they are off.
    pub traces: Option<String>,
    /// The URL that metrics are sent to; `None` if they are off.
    pub metrics: Option<String>,
    /// The service's name. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win; without any
    /// of them it is `tract`.
    pub service_name: Option<String>,
    /// Whether spans contain prompts, answers, arguments and results; off by default. Keys and
    /// passwords that tract recognizes are replaced in them.
    pub content: bool,
    /// The timeout of one export; 10 s by default.
    pub timeout: Duration,
    /// The time limit of the flush at the end. `None` if `OTEL_EXPORTER_OTLP_TIMEOUT` is not set;
    /// the limit is then 2 s.
    pub flush_within: Option<Duration>,
    /// A folder that stores, for a minute, which collector did not answer the flush in time.
    /// Programs that end within this minute do not wait for it, and report nothing.
    pub remembered_in: Option<PathBuf>,
    /// The parent of spans without one: the values of the headers `traceparent` and `tracestate`.
    /// An invalid value is ignored.
    pub parent: Option<(String, String)>,
}

/// A variable that cannot be used. No value is repeated that may contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// An endpoint that is not a URL.
    #[error("{name}: expected a URL that starts with http:// or https://")]
    Endpoint {
        /// The variable.
        name: String,
    },
    /// A protocol that is not built in.
    #[error("{name}: unsupported protocol {value:?}, expected http/protobuf (port 4318)")]
    Protocol {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
    },
    /// An exporter that is not built in.
    #[error("{name}: unsupported exporter {value:?}, expected otlp or none")]
    Exporter {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
    },
    /// A value that is not one of those that the variable has.
    #[error("{name}: unknown value {value:?}, expected {expected}")]
    Value {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
        /// The values that it has.
        expected: &'static str,
    },
}

impl TelemetryOptions {
    /// Sends spans and metrics to a collector: to `ENDPOINT/v1/traces` and `ENDPOINT/v1/metrics`.
    ///
    /// # Errors
    /// [`OptionsError::Endpoint`] if it is not a URL.
    pub fn new(endpoint: &str) -> Result<Self, OptionsError> {
        let base = url("endpoint", endpoint)?;
        Ok(Self {
            traces: Some(signal(&base, "traces")),
            metrics: Some(signal(&base, "metrics")),
            service_name: None,
            content: false,
            timeout: TIMEOUT,
            flush_within: None,
            remembered_in: None,
            parent: None,
        })
    }

    /// Reads the standard variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and so on); `None` when they do
    /// not ask for telemetry. Headers, compression, sampling, intervals and attributes of the
    /// resource are read by the SDK when [`Telemetry`](crate::Telemetry) starts.
    ///
    /// # Errors
    /// [`OptionsError`] when a variable has a value that this crate does not support.
    pub fn from_env() -> Result<Option<Self>, OptionsError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    pub(crate) fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, OptionsError> {
        let read = |name: &str| {
            let value = variable(name).map(|value| value.trim().to_owned());
            value.filter(|value| !value.is_empty())
        };
        if read("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let traces = endpoint(&read, "TRACES", "traces")?;
        let metrics = endpoint(&read, "METRICS", "metrics")?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let content = match read(CONTENT_VARIABLE) {
            None => false,
            Some(value) => match value.to_ascii_lowercase().as_str() {
                "true" | "span_only" | "span_and_event" => true,
                // Events are not written, so there is no content in them.
                "false" | "no_content" | "event_only" => false,
                _ => {
                    let name = CONTENT_VARIABLE.to_owned();
                    let expected =
                        "true, false, SPAN_ONLY, SPAN_AND_EVENT, EVENT_ONLY or NO_CONTENT";
                    return Err(OptionsError::Value { name, value, expected });
                }
            },
        };
        let (timeout, flush_within) = match read("OTEL_EXPORTER_OTLP_TIMEOUT") {
            None => (TIMEOUT, None),
            Some(value) => match value.parse().map(Duration::from_millis) {
                Ok(given) => (given, Some(given)),
                Err(_) => {
                    let name = "OTEL_EXPORTER_OTLP_TIMEOUT".to_owned();
                    return Err(OptionsError::Value { name, value, expected: "milliseconds" });
                }
            },
        };
        let parent =
            read("TRACEPARENT").map(|parent| (parent, read("TRACESTATE").unwrap_or_default()));
        let service_name = None;
        let remembered_in = None;
        Ok(Some(Self {
            traces,
            metrics,
            service_name,
            content,
            timeout,
            flush_within,
            remembered_in,
            parent,
        }))
    }
}

/// The endpoint of a signal; `None` if the signal is off.
fn endpoint(
    read: &impl Fn(&str) -> Option<String>,
    upper: &str,
    lower: &str,
) -> Result<Option<String>, OptionsError> {
    let exporter = format!("OTEL_{upper}_EXPORTER");
    let named = match read(&exporter).as_deref() {
        None => false,
        Some("otlp") => true,
        Some("none") => return Ok(None),
        Some(value) => {
            return Err(OptionsError::Exporter { name: exporter, value: value.to_owned() });
        }
    };
    let own = format!("OTEL_EXPORTER_OTLP_{upper}_ENDPOINT");
    let (found, common) = (read(&own), read("OTEL_EXPORTER_OTLP_ENDPOINT"));
    let endpoint = match (found, common) {
        (Some(own_url), _) => url(&own, &own_url)?,
        (None, Some(base)) => signal(&url("OTEL_EXPORTER_OTLP_ENDPOINT", &base)?, lower),
        (None, None) if named => signal(DEFAULT_ENDPOINT, lower),
        (None, None) => return Ok(None),
    };
    supported(read, upper, "COMPRESSION", &["gzip", "none"])
        .map_err(|(name, value)| OptionsError::Value { name, value, expected: "gzip or none" })?;
    supported(read, upper, "PROTOCOL", &["http/protobuf"])
        .map_err(|(name, value)| OptionsError::Protocol { name, value })?;
    Ok(Some(endpoint))
}

/// Refuses a value that is not supported, with the name of its variable: that of a signal, which
/// wins, or that of all signals.
fn supported(
    read: &impl Fn(&str) -> Option<String>,
    upper: &str,
    what: &str,
    values: &[&str],
) -> Result<(), (String, String)> {
    let own = format!("OTEL_EXPORTER_OTLP_{upper}_{what}");
    let mut names = [own, format!("OTEL_EXPORTER_OTLP_{what}")].into_iter();
    match names.find_map(|name| read(&name).map(|value| (name, value))) {
        Some((name, value)) if !values.contains(&value.as_str()) => Err((name, value)),
        _ => Ok(()),
    }
}

fn url(name: &str, text: &str) -> Result<String, OptionsError> {
    let bad = || OptionsError::Endpoint { name: name.to_owned() };
    let url = reqwest::Url::parse(text.trim()).map_err(|_| bad())?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(bad());
    }
    Ok(text.trim().to_owned())
}

fn signal(base: &str, name: &str) -> String {
    format!("{}/v1/{name}", base.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<TelemetryOptions>, OptionsError> {
        TelemetryOptions::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn telemetry_is_off_unless_an_endpoint_or_an_exporter_is_named() {
        for off in [
            &[][..],
            &[("OTEL_SERVICE_NAME", "x")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h"), ("OTEL_SDK_DISABLED", "True")],
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h"),
                ("OTEL_TRACES_EXPORTER", "none"),
                ("OTEL_METRICS_EXPORTER", "none"),
            ],
        ] {
            assert!(matches!(read(off), Ok(None)), "{off:?}");
        }
    }

    #[test]
    fn endpoints_follow_the_specification() {
        let found = |variables: &[(&str, &str)]| {
            let options = read(variables).expect("options").expect("on");
            (options.traces, options.metrics)
        };
        let some = |text: &str| Some(text.to_owned());
        let both = found(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/base/")]);
        assert_eq!(both.0, some("http://h:4318/base/v1/traces"));
        assert_eq!(both.1, some("http://h:4318/base/v1/metrics"));
        let own = found(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://h/own")]);
        assert_eq!(own, (some("https://h/own"), None));
        let default = found(&[("OTEL_TRACES_EXPORTER", "otlp")]);
        assert_eq!(default, (some("http://localhost:4318/v1/traces"), None));
        let one = found(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h"),
            ("OTEL_METRICS_EXPORTER", "none"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ]);
        assert_eq!(one, (some("http://h/v1/traces"), None));
    }

    #[test]
    fn content_is_asked_for_by_the_standard_variable() {
        for (value, content) in [
            ("true", true),
            ("SPAN_ONLY", true),
            ("span_and_event", true),
            ("EVENT_ONLY", false),
            ("NO_CONTENT", false),
            ("false", false),
        ] {
            let variables =
                [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h"), (CONTENT_VARIABLE, value)];
            let options = read(&variables).expect("options").expect("on");
            assert_eq!(options.content, content, "{value}");
        }
        let default = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h")]).expect("options");
        assert!(!default.expect("on").content);
    }

    #[test]
    fn the_timeout_bounds_an_export_and_the_flush() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h");
        let bounds = |variables: &[(&str, &str)]| {
            let options = read(variables).expect("options").expect("on");
            (options.timeout.as_millis(), options.flush_within.map(|bound| bound.as_millis()))
        };
        assert_eq!(bounds(&[base]), (10_000, None));
        assert_eq!(bounds(&[base, ("OTEL_EXPORTER_OTLP_TIMEOUT", "50")]), (50, Some(50)));
        assert_eq!(bounds(&[base, ("OTEL_EXPORTER_OTLP_TIMEOUT", "5000")]), (5000, Some(5000)));
    }

    #[test]
    fn wrong_values_name_the_variable_and_not_the_secret_in_it() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h");
        for (variables, says) in [
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "user:secret@h")][..], "http://"),
            (&[base, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], "\"grpc\""),
            (&[base, ("OTEL_TRACES_EXPORTER", "console")], "\"console\""),
            (&[base, (CONTENT_VARIABLE, "yes")], "SPAN_ONLY"),
            (&[base, ("OTEL_EXPORTER_OTLP_TIMEOUT", "2s")], "milliseconds"),
            (&[base, ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "zip")], "gzip or none"),
        ] {
            let text = read(variables).expect_err("wrong").to_string();
            assert!(text.starts_with("OTEL_") && text.contains(says), "{text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
}
