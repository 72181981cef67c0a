//! A collector on loopback: it takes in OTLP over HTTP and compares it with the table of names.
#![allow(dead_code, reason = "each test uses its part")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;
use tract::core::telemetry::names::{self, METRICS, Measure, Presence, SPANS, SpanSpec};
use tract_testkit::loopback::{HttpAnswer, HttpEnd, HttpRequest, Loopback};

pub(crate) type Attributes = BTreeMap<String, String>;

/// A collector.
pub(crate) struct Receiver {
    loopback: Loopback,
}

/// A span that arrived.
#[derive(Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) name: String,
    pub(crate) client: bool,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) failed: bool,
    /// When it began and ended: nanoseconds since 1970, UTC.
    pub(crate) time_ns: (u64, u64),
    pub(crate) attributes: Attributes,
}

/// A metric that arrived, with each of its points: attributes and value (of a histogram, its
/// count).
#[derive(Debug)]
pub(crate) struct ReceivedMetric {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) histogram: bool,
    pub(crate) bounds: Vec<f64>,
    pub(crate) points: Vec<(Attributes, u64)>,
}

/// All that arrived.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) spans: Vec<ReceivedSpan>,
    pub(crate) metrics: Vec<ReceivedMetric>,
    pub(crate) resource: Attributes,
    pub(crate) scopes: BTreeSet<String>,
    /// All bodies, for words that must not be in them.
    pub(crate) bytes: Vec<u8>,
    pub(crate) requests: Vec<HttpRequest>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::answering(|| HttpAnswer::new(200, "application/x-protobuf", ""))
    }

    pub(crate) fn refusing(status: u16, text: &'static str) -> Self {
        Self::answering(move || HttpAnswer::new(status, "text/plain", text))
    }

    pub(crate) fn ending(end: HttpEnd) -> Self {
        Self::answering(move || HttpAnswer::new(200, "application/x-protobuf", "xx").end(end))
    }

    fn answering(answer: impl Fn() -> HttpAnswer + Send + Sync + 'static) -> Self {
        Self { loopback: Loopback::start(move |_| answer()).expect("a port") }
    }

    pub(crate) fn url(&self) -> String {
        self.loopback.url("")
    }

    /// Returns what arrived since the last call.
    pub(crate) fn take(&self) -> Received {
        let mut received = Received::default();
        for request in self.loopback.take_requests() {
            assert_eq!(request.method, "POST");
            assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
            let mut body = request.bytes.clone();
            if request.header("content-encoding") == Some("gzip") {
                body.clear();
                let mut reader = flate2::read::GzDecoder::new(request.bytes.as_slice());
                reader.read_to_end(&mut body).expect("gzip");
            }
            received.bytes.extend(&body);
            let body = body.as_slice();
            match request.path.as_str() {
                "/v1/traces" => received.add_spans(body),
                "/v1/metrics" => received.add_metrics(body),
                other => panic!("{other} is no path of OTLP"),
            }
            received.requests.push(request);
        }
        received
    }
}

fn text(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Any::StringValue(text)) => text.clone(),
        Some(Any::BoolValue(flag)) => flag.to_string(),
        Some(Any::IntValue(number)) => number.to_string(),
        Some(Any::DoubleValue(number)) => number.to_string(),
        Some(Any::ArrayValue(list)) => {
            let each = list.values.iter().map(|value| text(Some(value)));
            format!("[{}]", each.collect::<Vec<_>>().join(","))
        }
        other => panic!("{other:?} is no value of an attribute of ours"),
    }
}

fn attributes(list: &[KeyValue]) -> Attributes {
    let read: Attributes =
        list.iter().map(|pair| (pair.key.clone(), text(pair.value.as_ref()))).collect();
    assert_eq!(read.len(), list.len(), "each attribute once: {list:?}");
    read
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Received {
    fn add_spans(&mut self, body: &[u8]) {
        let request = ExportTraceServiceRequest::decode(body).expect("spans");
        for group in request.resource_spans {
            self.resource = attributes(&group.resource.expect("a resource").attributes);
            for scope in group.scope_spans {
                self.scopes.insert(scope.scope.expect("a scope").name);
                self.spans.extend(scope.spans.into_iter().map(|span| ReceivedSpan {
                    client: span.kind() == SpanKind::Client,
                    trace: hex(&span.trace_id),
                    id: hex(&span.span_id),
                    parent: hex(&span.parent_span_id),
                    failed: span.status.as_ref().is_some_and(|status| {
                        assert_eq!(status.message, "", "messages may repeat content");
                        status.code() == StatusCode::Error
                    }),
                    time_ns: (span.start_time_unix_nano, span.end_time_unix_nano),
                    attributes: attributes(&span.attributes),
                    name: span.name,
                }));
            }
        }
    }

    fn add_metrics(&mut self, body: &[u8]) {
        let request = ExportMetricsServiceRequest::decode(body).expect("metrics");
        let scopes = request.resource_metrics.into_iter().flat_map(|group| group.scope_metrics);
        for metric in scopes.flat_map(|scope| scope.metrics) {
            let (histogram, bounds, points) = match metric.data.expect("data") {
                Data::Histogram(histogram) => {
                    let points = histogram.data_points;
                    let bounds = points.first().map(|point| point.explicit_bounds.clone());
                    let points =
                        points.iter().map(|point| (attributes(&point.attributes), point.count));
                    (true, bounds.unwrap_or_default(), points.collect())
                }
                Data::Sum(sum) => {
                    assert!(sum.is_monotonic, "{} only grows", metric.name);
                    let points = sum.data_points.iter().map(|point| {
                        let value = match point.value.expect("a value") {
                            Number::AsInt(number) => u64::try_from(number).expect("a count"),
                            Number::AsDouble(number) => panic!("{number} is no count"),
                        };
                        (attributes(&point.attributes), value)
                    });
                    (false, Vec::new(), points.collect())
                }
                other => panic!("{}: {other:?}", metric.name),
            };
            let (name, unit) = (metric.name, metric.unit);
            self.metrics.push(ReceivedMetric { name, unit, histogram, bounds, points });
        }
    }

    /// The spans of a name of the table.
    pub(crate) fn named(&self, name: &str) -> Vec<&ReceivedSpan> {
        self.spans.iter().filter(|span| span.spec().name == name).collect()
    }

    /// Returns the only span of a name.
    #[track_caller]
    pub(crate) fn one(&self, name: &str) -> &ReceivedSpan {
        let found = self.named(name);
        let [span] = found.as_slice() else { panic!("one {name}: {found:?}") };
        span
    }

    /// The metric of a name.
    pub(crate) fn metric(&self, name: &str) -> Option<&ReceivedMetric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }

    /// Compares all of it with the table, name by name and attribute by attribute.
    #[track_caller]
    pub(crate) fn is_as_the_table_says(&self, content: bool) {
        for span in &self.spans {
            span.is_as_the_table_says(content);
        }
        for metric in &self.metrics {
            let name = &metric.name;
            let spec = METRICS.iter().find(|spec| spec.name == name);
            let spec = spec.unwrap_or_else(|| panic!("{name} is not in the table"));
            let histogram = !matches!(spec.measure, Measure::Sum(_));
            assert_eq!((metric.unit.as_str(), metric.histogram), (spec.unit, histogram), "{name}");
            assert_eq!(metric.bounds, spec.boundaries, "{name}");
            for key in metric.points.iter().flat_map(|(attributes, _)| attributes.keys()) {
                assert!(spec.attributes.contains(&key.as_str()), "{name} is counted by {key}");
            }
        }
    }

    /// Whether a text is anywhere in what arrived.
    pub(crate) fn contains(&self, text: &str) -> bool {
        let text = text.as_bytes();
        self.bytes.windows(text.len()).any(|window| window == text)
    }

    /// The attributes of the table that no span had.
    pub(crate) fn attributes_not_seen(&self, names: &[&str]) -> Vec<String> {
        let specs = SPANS.iter().filter(|spec| names.contains(&spec.name));
        let all = specs.flat_map(|spec| spec.attributes.iter().map(move |row| (spec.name, row.0)));
        let seen = |name: &str, attribute: &str| {
            self.named(name).iter().any(|span| span.attributes.contains_key(attribute))
        };
        let missing = all.filter(|(name, attribute)| !seen(name, attribute));
        missing.map(|(name, attribute)| format!("{name}: {attribute}")).collect()
    }
}

impl ReceivedSpan {
    pub(crate) fn get(&self, attribute: &str) -> Option<&str> {
        self.attributes.get(attribute).map(String::as_str)
    }

    fn spec(&self) -> &'static SpanSpec {
        let first = self.name.split(' ').next().unwrap_or_default();
        names::span(first).unwrap_or_else(|| panic!("{:?} is not in the table", self.name))
    }

    #[track_caller]
    fn is_as_the_table_says(&self, content: bool) {
        let spec = self.spec();
        assert_eq!(self.client, spec.kind == "client", "{self:?}");
        let named = spec.named_by.and_then(|attribute| self.get(attribute));
        let name = named.map_or(spec.name.to_owned(), |named| format!("{} {named}", spec.name));
        assert_eq!(self.name, name, "{self:?}");
        for key in self.attributes.keys() {
            assert!(
                spec.attributes.iter().any(|(name, _)| name == key),
                "{key} is not in the table: {self:?}"
            );
        }
        for (attribute, presence) in spec.attributes {
            let present = self.attributes.contains_key(*attribute);
            match presence {
                Presence::Always => assert!(present, "no {attribute}: {self:?}"),
                Presence::Failed => assert_eq!(present, self.failed, "{attribute}: {self:?}"),
                Presence::Content => assert!(!present || content, "{attribute}: {self:?}"),
                Presence::Known => {}
            }
        }
    }
}
