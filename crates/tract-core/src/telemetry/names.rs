//! The names of all spans, attributes and metrics.
//!
//! The GenAI conventions are still in development, and names change between versions. An update
//! changes only this file and the page that lists the names (`docs/telemetry.md`).

use self::Presence::{Always, Content, Failed, Known};

/// The conventions that the names follow, and the date of the version that was read.
pub const CONVENTION: &str = "OpenTelemetry semantic conventions for GenAI (development), \
     2026-11-23, and general semantic conventions 1.44.0";

/// The `tracing` target of the spans.
pub const TARGET: &str = "tract::telemetry";

/// Environment variable that enables content in spans: prompts, answers, arguments and results.
pub const CONTENT_VARIABLE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

macro_rules! names {
    ($($(#[$doc:meta])* $constant:ident = $name:literal;)*) => {
        $($(#[$doc])* pub const $constant: &str = $name;)*
    };
}

names! {
    /// Span of a command of the `tract` binary; displayed as `tract VERB`.
    COMMAND = "tract";
    /// Span of a request to a model; displayed as `chat MODEL`.
    MODEL_CALL = "chat";
    /// Span of an agent's run, or of one turn.
    AGENT_RUN = "invoke_agent";
    /// Span of a tool call; displayed as `execute_tool TOOL`.
    TOOL = "execute_tool";
    /// Span of compiling a head.
    COMPILE = "tract.compile";
    /// Span of writing a batch to a store.
    STORE_WRITE = "tract.store.apply";
    /// The kind of operation: `chat`, `invoke_agent`, `execute_tool`.
    OPERATION = "gen_ai.operation.name";
    /// The provider of the model.
    PROVIDER = "gen_ai.provider.name";
    /// The requested model.
    REQUEST_MODEL = "gen_ai.request.model";
    /// Whether the answer was streamed.
    REQUEST_STREAM = "gen_ai.request.stream";
    /// The limit on output tokens.
    REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens";
    /// The temperature.
    REQUEST_TEMPERATURE = "gen_ai.request.temperature";
    /// The nucleus sampling threshold (top p).
    REQUEST_TOP_P = "gen_ai.request.top_p";
    /// The conversation: `REPOSITORY/BRANCH`.
    CONVERSATION = "gen_ai.conversation.id";
    /// The provider's id of the answer.
    RESPONSE_ID = "gen_ai.response.id";
    /// The model that answered.
    RESPONSE_MODEL = "gen_ai.response.model";
    /// The reasons that the model stopped: a list.
    FINISH_REASONS = "gen_ai.response.finish_reasons";
    /// Seconds from the request to the first piece of the answer.
    TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk";
    /// Tokens of the request, including cached ones.
    INPUT_TOKENS = "gen_ai.usage.input_tokens";
    /// Tokens of the answer, including reasoning.
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens";
    /// Tokens of the request that were read from the provider's cache.
    CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens";
    /// Tokens of the answer spent on reasoning.
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens";
    /// The tool's name.
    TOOL_NAME = "gen_ai.tool.name";
    /// The provider's id of the call.
    TOOL_CALL_ID = "gen_ai.tool.call.id";
    /// The kind of tool: `function`.
    TOOL_TYPE = "gen_ai.tool.type";
    /// The context without instructions, as JSON.
    INPUT_MESSAGES = "gen_ai.input.messages";
    /// The answer, as JSON.
    OUTPUT_MESSAGES = "gen_ai.output.messages";
    /// The instructions at the start of the context, as JSON.
    SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions";
    /// The tools in force, as JSON.
    TOOL_DEFINITIONS = "gen_ai.tool.definitions";
    /// The arguments of a call, as passed to the tool.
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments";
    /// The result of a call, as the model gets it.
    TOOL_RESULT = "gen_ai.tool.call.result";
    /// Host of the server.
    SERVER_ADDRESS = "server.address";
    /// Port of the server.
    SERVER_PORT = "server.port";
    /// The stable name of an error.
    ERROR_TYPE = "error.type";
    /// The store's engine: `sqlite`, `postgresql`, `redb`, `sled`, `memory`.
    DB_SYSTEM = "db.system.name";
    /// The repository that is written.
    DB_NAMESPACE = "db.namespace";
    /// The operation of the store: `apply`.
    DB_OPERATION = "db.operation.name";
    /// The name of the program: `tract`.
    EXECUTABLE = "process.executable.name";
    /// The id of the process.
    PROCESS_ID = "process.pid";
    /// The exit code.
    EXIT_CODE = "process.exit.code";
    /// The verb of the command, such as `run`.
    TRACT_VERB = "tract.verb";
    /// The commit whose context was sent, compiled, answered or written.
    TRACT_COMMIT = "tract.commit";
    /// The id of the view; views with equal ids have equal messages and tools.
    TRACT_VIEW = "tract.view";
    /// The id of the tools in force.
    TRACT_TOOLSET = "tract.toolset";
    /// The id of the definition of the tool that ran.
    TRACT_TOOL = "tract.tool";
    /// The operation that wrote: `commit`, `merge`, `import` and so on.
    TRACT_OPERATION = "tract.operation";
    /// The outcome of a call, or of a write: `done`, `already`, `conflict`, `moved`.
    TRACT_OUTCOME = "tract.outcome";
    /// Number of times that the tool ran.
    TRACT_ATTEMPTS = "tract.attempts";
    /// Number of messages in the context.
    TRACT_MESSAGES = "tract.messages";
    /// Number of tokens in the context, by tract's counter.
    TRACT_TOKENS = "tract.tokens";
    /// Number of commits in the batch.
    TRACT_COMMITS = "tract.commits";
    /// The reason that the run stopped.
    TRACT_STOP = "tract.stop";
    /// Number of requests to the model in this run.
    TRACT_STEPS = "tract.steps";
    /// Number of calls answered in this run.
    TRACT_CALLS = "tract.calls";
    /// The display name of the span, for `tracing` layers.
    OTEL_NAME = "otel.name";
    /// The kind of the span, for `tracing` layers.
    OTEL_KIND = "otel.kind";
    /// `ERROR` if the operation failed, for `tracing` layers.
    OTEL_STATUS = "otel.status_code";
}

/// The condition under which a span has an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// On every such span.
    Always,
    /// If the value is known.
    Known,
    /// If the operation failed.
    Failed,
    /// Only if content is enabled.
    Content,
}

impl Presence {
    /// Returns the words used in the documentation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Known => "where known",
            Self::Failed => "when it failed",
            Self::Content => "with content",
        }
    }
}

/// A span in the documentation: its name, its kind, and its attributes.
#[derive(Clone, Copy, Debug)]
pub struct SpanSpec {
    /// The name in `tracing`.
    pub name: &'static str,
    /// The attribute that follows the name when the span is displayed.
    pub named_by: Option<&'static str>,
    /// `client` or `internal`.
    pub kind: &'static str,
    /// The attributes.
    pub attributes: &'static [(&'static str, Presence)],
}

/// All spans.
pub const SPANS: &[SpanSpec] = &[
    SpanSpec {
        name: COMMAND,
        named_by: Some(TRACT_VERB),
        kind: "internal",
        attributes: &[
            (EXECUTABLE, Always),
            (PROCESS_ID, Always),
            (EXIT_CODE, Always),
            (TRACT_VERB, Always),
            (ERROR_TYPE, Failed),
        ],
    },
    SpanSpec {
        name: MODEL_CALL,
        named_by: Some(REQUEST_MODEL),
        kind: "client",
        attributes: &[
            (OPERATION, Always),
            (PROVIDER, Always),
            (REQUEST_MODEL, Known),
            (REQUEST_STREAM, Always),
            (REQUEST_MAX_TOKENS, Known),
            (REQUEST_TEMPERATURE, Known),
            (REQUEST_TOP_P, Known),
            (CONVERSATION, Known),
            (SERVER_ADDRESS, Known),
            (SERVER_PORT, Known),
            (RESPONSE_ID, Known),
            (RESPONSE_MODEL, Known),
            (FINISH_REASONS, Known),
            (TIME_TO_FIRST_CHUNK, Known),
            (INPUT_TOKENS, Known),
            (OUTPUT_TOKENS, Known),
            (CACHE_READ_TOKENS, Known),
            (REASONING_TOKENS, Known),
            (ERROR_TYPE, Failed),
            (TRACT_COMMIT, Known),
            (TRACT_VIEW, Known),
            (TRACT_TOOLSET, Known),
            (INPUT_MESSAGES, Content),
            (OUTPUT_MESSAGES, Content),
            (SYSTEM_INSTRUCTIONS, Content),
            (TOOL_DEFINITIONS, Content),
        ],
    },
    SpanSpec {
        name: AGENT_RUN,
        named_by: None,
        kind: "internal",
        attributes: &[
            (OPERATION, Always),
            (CONVERSATION, Always),
            (INPUT_TOKENS, Known),
            (OUTPUT_TOKENS, Known),
            (ERROR_TYPE, Failed),
            (TRACT_COMMIT, Known),
            (TRACT_STOP, Known),
            (TRACT_STEPS, Known),
            (TRACT_CALLS, Known),
        ],
    },
    SpanSpec {
        name: TOOL,
        named_by: Some(TOOL_NAME),
        kind: "internal",
        attributes: &[
            (OPERATION, Always),
            (TOOL_NAME, Always),
            (TOOL_CALL_ID, Always),
            (TOOL_TYPE, Always),
            (ERROR_TYPE, Failed),
            (TRACT_COMMIT, Known),
            (TRACT_VIEW, Known),
            (TRACT_TOOLSET, Known),
            (TRACT_TOOL, Known),
            (TRACT_OUTCOME, Always),
            (TRACT_ATTEMPTS, Always),
            (TOOL_ARGUMENTS, Content),
            (TOOL_RESULT, Content),
        ],
    },
    SpanSpec {
        name: COMPILE,
        named_by: None,
        kind: "internal",
        attributes: &[
            (ERROR_TYPE, Failed),
            (TRACT_COMMIT, Known),
            (TRACT_VIEW, Known),
            (TRACT_TOOLSET, Known),
            (TRACT_MESSAGES, Known),
            (TRACT_TOKENS, Known),
        ],
    },
    SpanSpec {
        name: STORE_WRITE,
        named_by: None,
        kind: "client",
        attributes: &[
            (DB_SYSTEM, Always),
            (DB_NAMESPACE, Always),
            (DB_OPERATION, Always),
            (ERROR_TYPE, Failed),
            (TRACT_OPERATION, Always),
            (TRACT_COMMITS, Always),
            (TRACT_COMMIT, Known),
            (TRACT_TOOLSET, Known),
            (TRACT_OUTCOME, Known),
        ],
    },
];

/// The value that a metric aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The duration of the span in seconds: a histogram.
    Duration,
    /// The sum of an attribute of the span: a counter.
    Sum(&'static str),
    /// The distribution of an attribute of the span: a histogram.
    Distribution(&'static str),
}

/// A metric, computed from the spans with one name.
#[derive(Clone, Copy, Debug)]
pub struct MetricSpec {
    /// The name.
    pub name: &'static str,
    /// The unit, in UCUM notation.
    pub unit: &'static str,
    /// The description.
    pub description: &'static str,
    /// The span that adds a value when it ends.
    pub span: &'static str,
    /// The value.
    pub measure: Measure,
    /// The span attributes by which the metric is grouped; empty values are left out.
    pub attributes: &'static [&'static str],
    /// The upper bounds of a histogram's buckets.
    pub boundaries: &'static [f64],
}

const MODEL_ATTRIBUTES: &[&str] =
    &[OPERATION, PROVIDER, REQUEST_MODEL, RESPONSE_MODEL, SERVER_ADDRESS, SERVER_PORT];
const MODEL_OUTCOME: &[&str] =
    &[OPERATION, PROVIDER, REQUEST_MODEL, RESPONSE_MODEL, SERVER_ADDRESS, SERVER_PORT, ERROR_TYPE];
const SECONDS: &[f64] =
    &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const RUN_SECONDS: &[f64] =
    &[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
const STORE_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];
const COUNTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

const fn tokens(
    name: &'static str,
    attribute: &'static str,
    description: &'static str,
) -> MetricSpec {
    MetricSpec {
        name,
        unit: "{token}",
        description,
        span: MODEL_CALL,
        measure: Measure::Sum(attribute),
        attributes: MODEL_ATTRIBUTES,
        boundaries: &[],
    }
}

/// All metrics.
pub const METRICS: &[MetricSpec] = &[
    MetricSpec {
        name: "gen_ai.client.inference.duration",
        unit: "s",
        description: "Duration of requests to models",
        span: MODEL_CALL,
        measure: Measure::Duration,
        attributes: MODEL_OUTCOME,
        boundaries: SECONDS,
    },
    MetricSpec {
        name: "gen_ai.client.inference.time_to_first_chunk",
        unit: "s",
        description: "Time from a request to the first piece of its answer",
        span: MODEL_CALL,
        measure: Measure::Distribution(TIME_TO_FIRST_CHUNK),
        attributes: MODEL_ATTRIBUTES,
        boundaries: SECONDS,
    },
    tokens(
        "gen_ai.client.inference.usage.input_tokens",
        INPUT_TOKENS,
        "Tokens of requests, cached ones included",
    ),
    tokens(
        "gen_ai.client.inference.usage.output_tokens",
        OUTPUT_TOKENS,
        "Tokens of answers, reasoning included",
    ),
    tokens(
        "gen_ai.client.inference.usage.cache_read.input_tokens",
        CACHE_READ_TOKENS,
        "Tokens of requests that were read from the provider's cache",
    ),
    tokens(
        "gen_ai.client.inference.usage.reasoning.output_tokens",
        REASONING_TOKENS,
        "Tokens of answers that were spent on reasoning",
    ),
    MetricSpec {
        name: "gen_ai.invoke_agent.duration",
        unit: "s",
        description: "Duration of agent runs",
        span: AGENT_RUN,
        measure: Measure::Duration,
        attributes: &[ERROR_TYPE],
        boundaries: RUN_SECONDS,
    },
    MetricSpec {
        name: "gen_ai.invoke_agent.inference_calls",
        unit: "{inference_call}",
        description: "Requests to the model per agent run",
        span: AGENT_RUN,
        measure: Measure::Distribution(TRACT_STEPS),
        attributes: &[],
        boundaries: COUNTS,
    },
    MetricSpec {
        name: "gen_ai.invoke_agent.tool_calls",
        unit: "{tool_call}",
        description: "Answered calls per agent run",
        span: AGENT_RUN,
        measure: Measure::Distribution(TRACT_CALLS),
        attributes: &[],
        boundaries: COUNTS,
    },
    MetricSpec {
        name: "gen_ai.execute_tool.duration",
        unit: "s",
        description: "Duration of tool executions",
        span: TOOL,
        measure: Measure::Duration,
        attributes: &[TOOL_NAME, TOOL_TYPE, ERROR_TYPE],
        boundaries: SECONDS,
    },
    MetricSpec {
        name: "tract.compile.duration",
        unit: "s",
        description: "Duration of compiles",
        span: COMPILE,
        measure: Measure::Duration,
        attributes: &[ERROR_TYPE],
        boundaries: STORE_SECONDS,
    },
    MetricSpec {
        name: "db.client.operation.duration",
        unit: "s",
        description: "Duration of writes to the store",
        span: STORE_WRITE,
        measure: Measure::Duration,
        attributes: &[DB_SYSTEM, DB_OPERATION, ERROR_TYPE],
        boundaries: STORE_SECONDS,
    },
];

/// Returns the span with this name.
pub fn span(name: &str) -> Option<&'static SpanSpec> {
    SPANS.iter().find(|span| span.name == name)
}

/// Returns whether an attribute contains content.
pub fn is_content(attribute: &str) -> bool {
    // A literal list: exporters call this for each text of each span, and scanning the whole table
    // would be slower.
    [
        INPUT_MESSAGES,
        OUTPUT_MESSAGES,
        SYSTEM_INSTRUCTIONS,
        TOOL_DEFINITIONS,
        TOOL_ARGUMENTS,
        TOOL_RESULT,
    ]
    .contains(&attribute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_what_the_table_of_spans_says() {
        for (attribute, presence) in SPANS.iter().flat_map(|span| span.attributes) {
            assert_eq!(is_content(attribute), *presence == Content, "{attribute}");
        }
    }
}
