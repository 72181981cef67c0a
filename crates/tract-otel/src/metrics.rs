//! The metrics of the table, computed from spans as they end.

use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, Value};
use tract_core::telemetry::names::{METRICS, Measure, MetricSpec};

/// The instruments, one for each row of the table.
pub(crate) struct Instruments {
    rows: Vec<(&'static MetricSpec, Instrument)>,
}

enum Instrument {
    Histogram(Histogram<f64>),
    Counter(Counter<u64>),
}

impl Instruments {
    pub(crate) fn new(meter: &Meter) -> Self {
        let rows = METRICS.iter().map(|spec| (spec, instrument(meter, spec))).collect();
        Self { rows }
    }

    /// Adds the figures of a span.
    pub(crate) fn add(&self, span: &str, took: Duration, attributes: &[KeyValue]) {
        for (spec, instrument) in self.rows.iter().filter(|(spec, _)| spec.span == span) {
            let value = |name: &str| {
                let found = attributes.iter().find(|attribute| attribute.key.as_str() == name);
                found.map(|attribute| &attribute.value)
            };
            let by = || {
                let named =
                    |attribute: &&KeyValue| spec.attributes.contains(&attribute.key.as_str());
                attributes.iter().filter(named).cloned().collect::<Vec<KeyValue>>()
            };
            match (instrument, spec.measure) {
                (Instrument::Histogram(histogram), Measure::Duration) => {
                    histogram.record(took.as_secs_f64(), &by());
                }
                (Instrument::Histogram(histogram), Measure::Distribution(name)) => {
                    if let Some(value) = value(name).and_then(number) {
                        histogram.record(value, &by());
                    }
                }
                (Instrument::Counter(counter), Measure::Sum(name)) => {
                    if let Some(Value::I64(count)) = value(name) {
                        counter.add(u64::try_from(*count).unwrap_or(0), &by());
                    }
                }
                (Instrument::Histogram(_), Measure::Sum(_)) | (Instrument::Counter(_), _) => {}
            }
        }
    }
}

fn instrument(meter: &Meter, spec: &MetricSpec) -> Instrument {
    match spec.measure {
        Measure::Duration | Measure::Distribution(_) => Instrument::Histogram(
            meter
                .f64_histogram(spec.name)
                .with_unit(spec.unit)
                .with_description(spec.description)
                .with_boundaries(spec.boundaries.to_vec())
                .build(),
        ),
        Measure::Sum(_) => Instrument::Counter(
            meter
                .u64_counter(spec.name)
                .with_unit(spec.unit)
                .with_description(spec.description)
                .build(),
        ),
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::F64(number) => Some(*number),
        Value::I64(count) => Some(*count as f64),
        _ => None,
    }
}
