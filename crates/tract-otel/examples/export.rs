//! A program whose telemetry goes where the environment says.

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tract::{Draft, block_on};
use tract_otel::{Telemetry, TelemetryOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Where OTEL_EXPORTER_OTLP_ENDPOINT is not set, this is `None`.
    let telemetry = match TelemetryOptions::from_env()? {
        Some(options) => {
            let service_name = Some("my-agent".to_owned());
            Some(Telemetry::start(&TelemetryOptions { service_name, ..options })?)
        }
        None => None,
    };
    // Next to any other layer, such as the one that writes the log.
    let layer = telemetry.as_ref().map(Telemetry::layer);
    tracing_subscriber::registry().with(layer).init();

    block_on(async {
        let tract = tract::open("memory:").await?;
        tract.commit(Draft::user("Do I need a coat?")).await?;
        tract.compile().await
    })?;

    // Exports what is left, within a bound, and says what could not be exported.
    if let Some(failure) = telemetry.and_then(Telemetry::finish) {
        eprintln!("{failure}");
    }
    Ok(())
}
