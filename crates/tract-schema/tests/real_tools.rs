//! Recorded tools, lowered to every provider and compared.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::BTreeSet;
use std::fs;

use tract_core::json::{equal, split_array, split_object};
use tract_schema::{Aliases, Dialect, Lowered, Shape, ToolView, accepts, diff, lower, lower_as};
use tract_testkit::data;

fn member<'a>(text: &'a str, key: &str) -> &'a str {
    split_object(text).unwrap().into_iter().find(|(name, _)| name == key).unwrap().1
}

/// All tools that MCP servers list, and those of the catalog in the plain shape.
fn tools() -> Vec<String> {
    let mut tools = Vec::new();
    for entry in fs::read_dir(data::find("mcp").0).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let listed = split_array(member(member(&text, "result"), "tools")).unwrap();
        tools.extend(listed.into_iter().map(str::to_owned));
    }
    let catalog = fs::read_to_string(data::find("toolcatalog/tools.jsonl").0).unwrap();
    for line in catalog.lines() {
        let plain = ["name", "description", "parameters"].map(|key| member(line, key));
        let [name, description, parameters] = plain;
        tools.push(format!(
            r#"{{"name":{name},"description":{description},"parameters":{parameters}}}"#
        ));
    }
    assert!(tools.len() > 12);
    tools
}

#[test]
fn every_tool_goes_to_every_provider_with_its_parameters() {
    for given in tools() {
        let view = ToolView::parse(&given).unwrap();
        assert!(matches!(view.shape, Shape::Mcp | Shape::Plain), "{given}");
        for provider in Dialect::ALL {
            let Lowered::Tool { text, name, .. } = lower(&given, provider).unwrap() else {
                panic!("left out: {given}")
            };
            let sent = ToolView::parse(&text).unwrap();
            assert!(sent.shape.is_of(provider), "{text}");
            assert!(accepts(provider, &name) && sent.name == name, "{text}");
            assert_eq!(sent.parameters, view.parameters, "numbers and key order stay");
            assert_eq!(sent.description, view.description);
            // And on to every other, by way of this one.
            for onward in Dialect::ALL {
                let direct = lower_as(&given, onward, "x").unwrap();
                let Lowered::Tool { text: direct, .. } = direct else { panic!("left out") };
                let Lowered::Tool { text: twice, .. } = lower_as(&text, onward, "x").unwrap()
                else {
                    panic!("left out")
                };
                let strict = |change: &tract_schema::Change| {
                    change.path == "strict" || change.path == "output_schema"
                };
                let changes = diff(&direct, &twice).unwrap();
                assert!(changes.iter().all(strict), "{direct}\n{twice}");
            }
        }
    }
}

#[test]
fn all_names_of_a_request_have_aliases_of_their_own() {
    let tools = tools();
    let names: BTreeSet<String> =
        tools.iter().map(|tool| ToolView::parse(tool).unwrap().name).collect();
    for provider in Dialect::ALL {
        let aliases = Aliases::of(provider, names.iter().map(String::as_str));
        let sent: BTreeSet<String> =
            names.iter().map(|name| aliases.sent(name).into_owned()).collect();
        assert_eq!(sent.len(), names.len());
        assert!(sent.iter().all(|name| accepts(provider, name)));
        assert!(names.iter().all(|name| aliases.original(&aliases.sent(name)) == name));
    }
}

#[test]
fn a_schema_differs_from_another_and_not_from_itself() {
    let tools = tools();
    for pair in tools.windows(2) {
        let [a, b] = pair else { continue };
        assert_eq!(diff(a, a).unwrap(), []);
        assert_eq!(diff(a, b).unwrap().is_empty(), equal(a, b).unwrap());
    }
}
