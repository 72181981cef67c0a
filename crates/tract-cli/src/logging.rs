//! The log on stderr: events that tract's crates report through `tracing`. Off by default.
//!
//! Events go only to stderr, one line each, so that stdout contains only the answer. Passwords in
//! URLs are redacted, and control characters are escaped, because the texts come from tools and
//! servers.

use std::io::{self, Write};

use tracing_subscriber::filter::{LevelFilter, Targets};
#[cfg(not(feature = "otel"))]
use tracing_subscriber::layer::Identity;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};
use tract::store::hide_passwords;

use crate::escape;

/// Prefix of the targets of tract's own events (`tract::dispatch`, `tract_mcp::…`).
const OWN: &str = "tract";

/// Parses a filter: directives separated by commas, each `LEVEL` or `TARGET=LEVEL`.
///
/// A bare level applies to tract's own events. Other libraries are logged only if they are named,
/// as their events about connections may contain secrets.
pub(crate) fn parse_filter(text: &str) -> Result<Targets, String> {
    let mut directives = text.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    directives.try_fold(Targets::new(), |targets, directive| {
        let (target, level) = directive.split_once('=').unwrap_or((OWN, directive));
        // `LevelFilter` also parses numbers, which are rejected here.
        let word = Some(level).filter(|level| level.starts_with(|c: char| c.is_ascii_alphabetic()));
        let level = word.and_then(|word| word.parse::<LevelFilter>().ok()).ok_or_else(|| {
            let expected = "expected LEVEL or TARGET=LEVEL";
            let levels = "off, error, warn, info, debug, trace";
            format!("{directive:?}: {expected} (levels: {levels})")
        })?;
        Ok(targets.with_target(target, level))
    })
}

/// The layer for spans in a build without telemetry.
#[cfg(not(feature = "otel"))]
pub(crate) const NO_LAYER: Option<Identity> = None;

/// Starts the log, if a filter or `-v` asks for one, and the layer for spans.
pub(crate) fn start<L>(filter: Option<Targets>, verbose: u8, spans: Option<L>)
where
    L: Layer<Registry> + Send + Sync,
{
    let level = match verbose {
        0 => None,
        1 => Some(LevelFilter::INFO),
        2 => Some(LevelFilter::DEBUG),
        _ => Some(LevelFilter::TRACE),
    };
    let targets = match (filter, level) {
        (None, None) if spans.is_none() => return,
        (None, None) => None,
        (filter, None) => filter,
        (filter, Some(level)) => Some(filter.unwrap_or_default().with_target(OWN, level)),
    };
    let lines = targets.map(|targets| {
        tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .log_internal_errors(false)
            .with_writer(|| EscapedStderr)
            // Telemetry spans would be a prefix of each line.
            .with_filter(
                targets.with_target(tract::core::telemetry::names::TARGET, LevelFilter::OFF),
            )
    });
    // It fails if a log was started before, which then continues.
    let _ = tracing_subscriber::registry().with(spans).with(lines).try_init();
}

/// Standard error. An event is one call of `write`, so it becomes one line.
struct EscapedStderr;

impl Write for EscapedStderr {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let text = hide_passwords(text.trim_end_matches('\n'));
        let line = format!("{}\n", escape::line(&text));
        // If stderr is closed, the event is dropped.
        let _ = io::stderr().write_all(line.as_bytes());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
