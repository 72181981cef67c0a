//! From options to a layer, and to the flush at the end.

use std::collections::HashMap;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{
    Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, RetryPolicy, SpanExporter, WithExportConfig as _,
    WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SdkTracerProvider, Span};
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;
use tract_core::telemetry::{capture_content, names};

use crate::client::{Client, FirstFailure};
use crate::layer::{Shared, SpanLayer};
use crate::metrics::Instruments;
use crate::options::{FLUSH_WITHIN, TelemetryOptions};
use crate::unresponsive::Unresponsive;

/// The name of the service where nothing else is said.
const SERVICE: &str = "tract";

/// Telemetry cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// The exporter refuses a variable of the environment.
    #[error("the exporter cannot be made: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// Running telemetry: a layer for `tracing`, the threads that export, and the flush at the end.
///
/// Dropped without [`finish`](Self::finish), it exports what is left too, but waits for up to 5
/// seconds and reports no failure.
#[derive(Debug)]
#[must_use = "`finish` exports what is left"]
pub struct Telemetry {
    shared: Arc<Shared>,
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    failure: FirstFailure,
    collector: String,
    flush_within: Duration,
    unresponsive: Option<Unresponsive>,
}

impl Telemetry {
    /// Starts the exporting threads. No connection is made before the first export.
    ///
    /// # Errors
    /// [`TelemetryError::Exporter`] when a variable that the exporter reads makes no sense, such as
    /// an unknown compression.
    pub fn start(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        capture_content(options.content);
        let failure = FirstFailure::default();
        let client = || Client::new(options.timeout, failure.clone());
        let resource = resource(options);
        let traces = match &options.traces {
            Some(endpoint) => {
                let exporter = SpanExporter::builder()
                    .with_http()
                    .with_http_client(client())
                    .with_endpoint(endpoint)
                    .with_retry_policy(RetryPolicy::disabled())
                    .build()?;
                let processor = BatchSpanProcessor::builder(exporter).build();
                let provider = SdkTracerProvider::builder().with_resource(resource.clone());
                Some(provider.with_span_processor(processor).build())
            }
            None => None,
        };
        let metrics = match &options.metrics {
            Some(endpoint) => {
                let exporter = MetricExporter::builder()
                    .with_http()
                    .with_http_client(client())
                    .with_endpoint(endpoint)
                    .with_retry_policy(RetryPolicy::disabled())
                    .build()?;
                let reader = PeriodicReader::builder(exporter).build();
                let provider = SdkMeterProvider::builder().with_resource(resource);
                Some(provider.with_reader(reader).build())
            }
            None => None,
        };
        let scope = InstrumentationScope::builder("tract").with_version(env!("CARGO_PKG_VERSION"));
        let scope = scope.build();
        let meter = metrics.as_ref().map(|metrics| metrics.meter_with_scope(scope.clone()));
        // Without traces the spans are made, for the metrics, and go nowhere.
        let tracer = match &traces {
            Some(traces) => traces.tracer_with_scope(scope),
            None => SdkTracerProvider::builder().build().tracer_with_scope(scope),
        };
        let shared = Shared {
            tracer,
            instruments: meter.as_ref().map(Instruments::new),
            root: OnceLock::new(),
            caller: caller(options),
        };
        let endpoint = options.traces.as_deref().or(options.metrics.as_deref());
        let collector = endpoint.map(shown).unwrap_or_default();
        let folder = options.remembered_in.as_deref();
        let unresponsive = folder.map(|folder| Unresponsive::of(folder, &collector));
        Ok(Self {
            shared: Arc::new(shared),
            traces,
            metrics,
            failure,
            collector,
            flush_within: options.flush_within.unwrap_or(FLUSH_WITHIN),
            unresponsive,
        })
    }

    /// Returns the layer. It takes in the spans of tract's target and no other spans and events.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let own = Targets::new().with_target(names::TARGET, LevelFilter::INFO);
        SpanLayer { shared: Arc::clone(&self.shared) }.with_filter(own)
    }

    /// Begins the span of a command, the parent of all spans without one. A process has one such
    /// span; a second one gets no children.
    pub fn command(&self, verb: &str) -> CommandSpan {
        let tracer = &self.shared.tracer;
        let builder = tracer
            .span_builder(format!("{} {verb}", names::COMMAND))
            .with_kind(SpanKind::Internal)
            .with_attributes([
                KeyValue::new(names::EXECUTABLE, names::COMMAND),
                KeyValue::new(names::PROCESS_ID, i64::from(std::process::id())),
                KeyValue::new(names::TRACT_VERB, verb.to_owned()),
            ]);
        let span = tracer.build_with_context(builder, &self.shared.caller);
        let context = Context::new().with_remote_span_context(span.span_context().clone());
        // A second one is refused.
        let _ = self.shared.root.set(context);
        CommandSpan { span }
    }

    /// Exports what is left and ends the threads, within the bound of
    /// [`flush_within`](TelemetryOptions::flush_within). Returns why something could not be
    /// exported, the first reason since the start. For a collector that is remembered as not
    /// answering ([`remembered_in`](TelemetryOptions::remembered_in)) it does not wait, and returns
    /// nothing.
    pub fn finish(self) -> Option<String> {
        let Self { traces, metrics, failure, collector, flush_within, unresponsive, .. } = self;
        let is_waited_for = unresponsive.as_ref().is_none_or(Unresponsive::is_waited_for);
        let flush_within = if is_waited_for { flush_within } else { Duration::ZERO };
        let deadline = Instant::now() + flush_within;
        let (sender, ended) = mpsc::channel();
        let mut waiting = 0;
        // The providers wait in different ways, and not always as long as they are asked to: each
        // has a thread, and this one waits for both.
        let mut end = |work: Box<dyn FnOnce() -> OTelSdkResult + Send>| {
            let (sender, failed) = (sender.clone(), failure.clone());
            let work = move || {
                // A failure of the export itself was reported before this one.
                if let Err(error) = work() {
                    failed.report(|| match Instant::now() < deadline {
                        true => error.to_string(),
                        false => late(flush_within),
                    });
                }
                // The receiver is gone when the time was over.
                let _ = sender.send(());
            };
            let thread = std::thread::Builder::new().name("telemetry-flush".to_owned());
            match thread.spawn(work) {
                Ok(_) => waiting += 1,
                Err(error) => failure.report(|| format!("no thread to flush with: {error}")),
            }
        };
        if let Some(traces) = traces {
            end(Box::new(move || traces.shutdown_with_timeout(flush_within)));
        }
        if let Some(metrics) = metrics {
            end(Box::new(move || metrics.shutdown_with_timeout(flush_within)));
        }
        let mut is_late = false;
        for _ in 0..waiting {
            let left = deadline.saturating_duration_since(Instant::now());
            if let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(left) {
                failure.report(|| late(flush_within));
                is_late = true;
                break;
            }
        }
        if !is_waited_for {
            return None;
        }
        // An export has the same limit, and may end just before the flush.
        is_late |= Instant::now() >= deadline;
        match &unresponsive {
            Some(unresponsive) if is_late => unresponsive.remember(),
            Some(unresponsive) => unresponsive.forget(),
            None => {}
        }
        let note = unresponsive.filter(|_| is_late).map(|_| Unresponsive::note());
        let failure = failure.take()?;
        Some(format!(
            "telemetry was not exported to {collector}: {failure}{}",
            note.unwrap_or_default()
        ))
    }
}

/// The span of a command.
#[derive(Debug)]
#[must_use = "`end` sets the exit code"]
pub struct CommandSpan {
    span: Span,
}

impl CommandSpan {
    /// Ends it with the exit code; a failure has the stable word of its error.
    pub fn end(mut self, exit_code: u8, error: Option<&str>) {
        self.span.set_attribute(KeyValue::new(names::EXIT_CODE, i64::from(exit_code)));
        if let Some(error) = error {
            self.span.set_attribute(KeyValue::new(names::ERROR_TYPE, error.to_owned()));
            self.span.set_status(Status::error(""));
        }
        self.span.end();
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// Returns the attributes of the service, from the environment or else from the options.
fn resource(options: &TelemetryOptions) -> Resource {
    let resource = Resource::builder().build();
    let key = opentelemetry::Key::from_static_str("service.name");
    let named =
        resource.get(&key).is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    if named {
        return resource;
    }
    let name = options.service_name.clone().unwrap_or_else(|| SERVICE.to_owned());
    Resource::builder().with_service_name(name).build()
}

fn late(bound: Duration) -> String {
    format!("no answer within {bound:?}")
}

/// The span that the process was started in.
fn caller(options: &TelemetryOptions) -> Context {
    let Some((parent, state)) = &options.parent else { return Context::new() };
    let headers = HashMap::from([
        ("traceparent".to_owned(), parent.clone()),
        ("tracestate".to_owned(), state.clone()),
    ]);
    TraceContextPropagator::new().extract_with_context(&Context::new(), &headers)
}

/// Scheme, host and port of an endpoint: credentials, path and query stay hidden.
fn shown(endpoint: &str) -> String {
    let Ok(url) = reqwest::Url::parse(endpoint) else { return "the collector".to_owned() };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}
