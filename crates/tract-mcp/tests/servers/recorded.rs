use std::fs;
use std::path::PathBuf;

use tract_core::json::{equal, split_array, split_object};
use tract_core::{DynTool, ToolSchema};
use tract_mcp::ServerOptions;
use tract_schema::{Dialect, Lowered, ToolView, diff, lower};
use tract_testkit::data;

use crate::script::start;

/// The files of recorded servers, and whether all are there.
fn recorded() -> (Vec<PathBuf>, bool) {
    let (folder, whole) = data::find("mcp");
    (data::files(&folder, "json"), whole)
}

fn member<'a>(text: &'a str, key: &str) -> &'a str {
    split_object(text).unwrap().into_iter().find(|(name, _)| name == key).unwrap().1
}

#[tokio::test]
async fn every_recorded_tool_comes_back_as_it_was_written() {
    let (files, whole) = recorded();
    let mut count = 0;
    for file in &files {
        let text = fs::read_to_string(file).unwrap();
        let given = split_array(member(member(&text, "result"), "tools")).unwrap();
        // A message is a line, so the text goes out without line breaks between its members.
        let given: Vec<String> =
            given.iter().map(|text| text.lines().map(str::trim_start).collect()).collect();
        let pages: Vec<String> =
            given.chunks(5).map(|page| format!("[{}]", page.join(","))).collect();
        let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
        let server = start(&pages, ServerOptions::default()).await;
        let listing = server.tools().await.unwrap();
        assert!(listing.refused.is_empty(), "{:?}", listing.refused);
        assert_eq!(listing.tools.len(), given.len());
        for (tool, given) in listing.tools.iter().zip(&given) {
            count += 1;
            assert_eq!(tool.definition().text(), given, "every byte");
            assert_eq!(tool.definition().id(), ToolSchema::parse(given).unwrap().id());
            let spec = tool.spec();
            let view = ToolView::parse(given).unwrap();
            assert_eq!(spec.parameters, view.parameters.unwrap());
            assert_eq!(spec.name, view.name);
            // What a server says of itself promises nothing.
            assert!(!spec.traits.read_only && !spec.traits.idempotent && spec.traits.destructive);
            adapters(given);
        }
        server.close().await;
    }
    assert!(count > 0);
    if whole {
        assert_eq!((files.len(), count), (7, 93));
    }
}

/// The parameters as providers accept them: an object that has properties, even if there are none.
fn completed(parameters: &str) -> String {
    let mut schema: serde_json::Value = serde_json::from_str(parameters).unwrap();
    let members = schema.as_object_mut().unwrap();
    members.entry("type").or_insert_with(|| "object".into());
    members.entry("properties").or_insert_with(|| serde_json::json!({}));
    schema.to_string()
}

/// Every provider is sent the tool with its parameters as they are, completed where it requires members
/// that are missing. The other members of a definition are kept, or are not part of the provider's shape.
fn adapters(given: &str) {
    let view = ToolView::parse(given).unwrap();
    for provider in Dialect::ALL {
        let Lowered::Tool { text, .. } = lower(given, provider).unwrap() else {
            panic!("{provider} leaves out {given}")
        };
        let sent = ToolView::parse(&text).unwrap();
        let wanted = completed(view.parameters.unwrap());
        assert!(equal(sent.parameters.unwrap(), &wanted).unwrap(), "{provider}: {text}");
        assert_eq!(sent.description, view.description);
        for (key, raw) in &sent.others {
            if let Some(before) = view.other(key) {
                assert_eq!(diff(before, raw).unwrap(), []);
            }
        }
    }
}
