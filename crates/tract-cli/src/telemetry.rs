//! Telemetry of a command, if the environment names a collector.

use std::time::Duration;

use tracing_subscriber::{Layer, Registry};
use tract_otel::{CommandSpan, Telemetry, TelemetryOptions};

use crate::escape;
use crate::failure::Failure;
use crate::out::Output;

/// The default timeout for the export to the collector.
const FLUSH_WITHIN: Duration = Duration::from_millis(200);

/// The telemetry of this process; empty if it is off.
pub(crate) struct Running(Option<(Telemetry, CommandSpan)>);

impl Running {
    /// Starts telemetry if the standard environment variables request it. An invalid variable is
    /// reported, and the command runs without telemetry.
    pub(crate) fn start(verb: &str, out: &mut Output) -> Self {
        let started = TelemetryOptions::from_env().map_err(|error| error.to_string());
        let started = started.and_then(|options| {
            let options = options.map(|options| TelemetryOptions {
                flush_within: options.flush_within.or(Some(FLUSH_WITHIN)),
                remembered_in: crate::caches::folder().map(|folder| folder.join("tract")),
                ..options
            });
            let started = options.as_ref().map(Telemetry::start).transpose();
            started.map_err(|error| error.to_string())
        });
        match started {
            Ok(None) => Self(None),
            Ok(Some(telemetry)) => {
                let command = telemetry.command(verb);
                Self(Some((telemetry, command)))
            }
            Err(why) => {
                out.say(format_args!("telemetry is off: {}", escape::line(&why)));
                Self(None)
            }
        }
    }

    /// Returns the layer that records spans.
    pub(crate) fn layer(&self) -> Option<impl Layer<Registry> + Send + Sync + use<>> {
        self.0.as_ref().map(|(telemetry, _)| telemetry.layer())
    }

    /// Exports the remaining spans within the timeout, and reports once if some could not be
    /// exported. The exit code does not change.
    pub(crate) fn finish(self, failure: Option<&Failure>, out: &mut Output) {
        let Some((telemetry, command)) = self.0 else { return };
        command.end(failure.map_or(0, |why| why.exit), failure.map(|why| why.code));
        if let Some(why) = telemetry.finish() {
            out.say(escape::line(&why));
        }
    }
}
