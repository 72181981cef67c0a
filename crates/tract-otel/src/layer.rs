//! The layer of `tracing` that makes OpenTelemetry's spans of tract's.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _,
};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context as Registered;
use tracing_subscriber::registry::LookupSpan;
use tract_core::telemetry::names;
use tract_secrets::Scanner;

use crate::metrics::Instruments;

/// The state that all spans of a process share.
pub(crate) struct Shared {
    pub(crate) tracer: SdkTracer,
    pub(crate) instruments: Option<Instruments>,
    /// The parent of spans without one in `tracing`: the command, else the caller's span.
    pub(crate) root: OnceLock<Context>,
    pub(crate) caller: Context,
}

impl Shared {
    fn root(&self) -> &Context {
        self.root.get().unwrap_or(&self.caller)
    }
}

/// The layer. It takes in the spans of tract's target and nothing else.
pub(crate) struct SpanLayer {
    pub(crate) shared: Arc<Shared>,
}

/// A span that has not ended.
struct OpenSpan {
    span: Span,
    context: SpanContext,
    began: Instant,
    fields: Fields,
}

/// The attributes recorded in a span.
#[derive(Default)]
struct Fields {
    name: Option<String>,
    client: bool,
    failed: bool,
    attributes: Vec<KeyValue>,
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, registered: Registered<'_, S>) {
        let Some(span) = registered.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let kind = if fields.client { SpanKind::Client } else { SpanKind::Internal };
        let builder = SpanBuilder::from_name(span.metadata().name())
            .with_kind(kind)
            .with_start_time(SystemTime::now());
        let parent = span.scope().skip(1).find_map(|above| {
            above.extensions().get::<OpenSpan>().map(|open| open.context.clone())
        });
        let shared = &self.shared;
        let opened = match parent {
            Some(parent) => {
                let parent = Context::new().with_remote_span_context(parent);
                shared.tracer.build_with_context(builder, &parent)
            }
            None => shared.tracer.build_with_context(builder, shared.root()),
        };
        let context = opened.span_context().clone();
        let open = OpenSpan { span: opened, context, began: Instant::now(), fields };
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, registered: Registered<'_, S>) {
        let Some(span) = registered.span(id) else { return };
        if let Some(open) = span.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut open.fields);
        }
    }

    fn on_close(&self, id: Id, registered: Registered<'_, S>) {
        let Some(span) = registered.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<OpenSpan>() else { return };
        let OpenSpan { span: mut opened, began, fields, .. } = open;
        if let Some(instruments) = &self.shared.instruments {
            instruments.add(span.metadata().name(), began.elapsed(), &fields.attributes);
        }
        if let Some(name) = fields.name {
            opened.update_name(name);
        }
        if fields.failed {
            opened.set_status(Status::error(""));
        }
        opened.set_attributes(fields.attributes);
        opened.end();
    }
}

impl Fields {
    /// Sets an attribute; of two values the later one counts.
    fn set(&mut self, name: &'static str, value: Value) {
        match self.attributes.iter_mut().find(|known| known.key.as_str() == name) {
            Some(known) => known.value = value,
            None => self.attributes.push(KeyValue::new(name, value)),
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            names::OTEL_NAME => self.name = Some(value.to_owned()),
            names::OTEL_KIND => self.client = value == "client",
            names::OTEL_STATUS => self.failed = value == "ERROR",
            // Fields of `tracing` cannot be lists.
            name @ names::FINISH_REASONS => {
                let list = vec![StringValue::from(value.to_owned())];
                self.set(name, Value::Array(Array::String(list)));
            }
            name if names::is_content(name) => {
                let redacted = Scanner::builtin().redact(value).map(|redacted| redacted.text);
                let text = redacted.unwrap_or_else(|| value.to_owned());
                self.set(name, Value::String(text.into()));
            }
            name => self.set(name, Value::String(value.to_owned().into())),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field.name(), Value::I64(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field.name(), Value::I64(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field.name(), Value::F64(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field.name(), Value::Bool(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
