//! The page about telemetry lists exactly the names of the table.

use std::fmt::Write as _;
use std::path::Path;

use tract_core::telemetry::names::{CONVENTION, METRICS, Measure, SPANS};

const BEGIN: &str =
    "<!-- names: written by TRACT_DOCS=write cargo test -p tract-otel --test page -->\n";
const END: &str = "<!-- /names -->";

/// The tables of spans and metrics, as Markdown.
fn tables() -> String {
    let mut text = String::from("### Spans\n");
    for span in SPANS {
        let named = span.named_by.map(|attribute| format!(" {{{attribute}}}"));
        let (name, kind) = (span.name, span.kind);
        let _ = writeln!(text, "\n`{name}{}`, kind `{kind}`:\n", named.unwrap_or_default());
        text.push_str("| attribute | present |\n| --- | --- |\n");
        for (attribute, presence) in span.attributes {
            let _ = writeln!(text, "| `{attribute}` | {} |", presence.as_str());
        }
    }
    text.push_str("\n### Metrics\n\n| metric | kind, unit | value | counted by |\n");
    text.push_str("| --- | --- | --- | --- |\n");
    for metric in METRICS {
        let (kind, value) = match metric.measure {
            Measure::Duration => ("histogram", format!("seconds of `{}`", metric.span)),
            Measure::Distribution(name) => ("histogram", format!("`{name}`")),
            Measure::Sum(name) => ("counter", format!("sum of `{name}`")),
        };
        let by: Vec<String> = metric.attributes.iter().map(|name| format!("`{name}`")).collect();
        let by = if by.is_empty() { "–".to_owned() } else { by.join(", ") };
        let _ = writeln!(text, "| `{}` | {kind}, {} | {value} | {by} |", metric.name, metric.unit);
    }
    text.push('\n');
    text
}

#[test]
fn the_page_has_every_name_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/telemetry.md");
    let page = std::fs::read_to_string(&path).expect("the page");
    let (before, rest) = page.split_once(BEGIN).expect("the tables begin");
    let (found, after) = rest.split_once(END).expect("the tables end");
    let expected = format!("\n{}", tables());
    if std::env::var("TRACT_DOCS").as_deref() == Ok("write") {
        let page = format!("{before}{BEGIN}{expected}{END}{after}");
        std::fs::write(path, page).expect("the page is written");
        return;
    }
    assert!(found == expected, "run again with TRACT_DOCS=write");
    for part in ["semantic conventions for GenAI", "2026-11-23", "1.44.0"] {
        assert!(before.contains(part) && CONVENTION.contains(part), "{part}");
    }
}
