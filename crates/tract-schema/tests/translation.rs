//! Recorded tools, written for every provider, compared, and translated back.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tract_core::json::{equal, split_array, split_object};
use tract_schema::{
    Aliases, Change, Definition, Dialect, LossKind, Lowered, Shape, Target, ToolView, accepts,
    diff, lower, lower_as, translate,
};
use tract_testkit::data;

fn member<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    split_object(text).unwrap().into_iter().find(|(name, _)| name == key).map(|(_, raw)| raw)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let all = paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] });
    all.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
}

/// The distinct definitions of all recorded requests.
fn recorded() -> BTreeSet<String> {
    let mut tools = BTreeSet::new();
    for path in files(&data::find("cassettes").0) {
        let text = std::fs::read_to_string(path).unwrap();
        let request = member(&text, "request").unwrap();
        if let Some(list) = member(request, "tools").filter(|raw| raw.starts_with('[')) {
            tools.extend(split_array(list).unwrap().into_iter().map(str::to_owned));
        }
    }
    assert!(!tools.is_empty());
    tools
}

/// All tools that MCP servers list.
fn listed() -> Vec<String> {
    let mut tools = Vec::new();
    for path in files(&data::find("mcp").0) {
        let text = std::fs::read_to_string(path).unwrap();
        let list = member(member(&text, "result").unwrap(), "tools").unwrap();
        tools.extend(split_array(list).unwrap().into_iter().map(str::to_owned));
    }
    tools
}

fn targets() -> impl Iterator<Item = Target> {
    Dialect::ALL.map(Target::Provider).into_iter().chain([Target::Mcp])
}

fn home(shape: Shape) -> Target {
    match shape {
        Shape::Flat => Target::Provider(Dialect::Responses),
        Shape::Anthropic => Target::Provider(Dialect::Anthropic),
        Shape::Mcp => Target::Mcp,
        _ => Target::Provider(Dialect::OpenAi),
    }
}

/// Says what of `given` is not in `back`, by member.
fn missing(given: &str, back: &str) -> BTreeSet<String> {
    let (a, b) = (ToolView::parse(given).unwrap(), ToolView::parse(back).unwrap());
    let mut missing = BTreeSet::new();
    let same = |a: Option<&str>, b: Option<&str>| match (a, b) {
        (Some(a), Some(b)) => equal(a, b).unwrap(),
        (a, b) => a.is_none_or(|raw| raw == "null") && b.is_none_or(|raw| raw == "null"),
    };
    let facts = [
        ("name", a.name == b.name),
        ("description", same(a.description, b.description)),
        ("parameters", same(a.parameters, b.parameters)),
    ];
    missing.extend(facts.iter().filter(|(_, same)| !same).map(|(key, _)| (*key).to_owned()));
    for (key, _) in a.others.iter().chain(&b.others) {
        if !same(a.other(key), b.other(key)) {
            missing.insert(key.clone());
        }
    }
    if a.shape == Shape::Nested {
        let outer = split_object(given).unwrap();
        let others = outer.iter().filter(|(key, _)| key != "function" && key != "type");
        for (key, raw) in others {
            if !same(Some(raw), member(back, key)) {
                missing.insert(key.clone());
            }
        }
    }
    missing
}

#[test]
fn every_recorded_definition_goes_to_every_other_shape_and_back_or_the_report_says_what_is_lost() {
    let (mut whole, mut reported, mut apart) = (0, 0, 0);
    for given in recorded() {
        let definition = Definition::parse(&given).unwrap();
        for to in targets() {
            let sent = translate(&given, to, false).unwrap();
            let Some(text) = &sent.text else {
                assert!(definition.is_of_provider(), "{given}");
                assert_eq!(sent.losses[0].kind, LossKind::NotExpressible);
                apart += 1;
                continue;
            };
            if definition.is_of_provider() {
                assert_eq!(text, &given);
                continue;
            }
            let back = translate(text, home(definition.shape()), false).unwrap();
            let missing = missing(&given, back.text.as_deref().unwrap());
            let fields: BTreeSet<String> =
                sent.losses.iter().chain(&back.losses).map(|loss| loss.path.clone()).collect();
            assert!(missing.is_subset(&fields), "{to:?} {given}\n{missing:?} {fields:?}");
            if missing.is_empty() { whole += 1 } else { reported += 1 }
        }
    }
    println!("{whole} whole, {reported} with a report, {apart} of one provider alone");
    assert!(whole > 0);
}

#[test]
fn all_mcp_tools_import_with_nothing_lost() {
    let tools = listed();
    for tool in &tools {
        let definition = Definition::parse(tool).unwrap();
        assert_eq!(definition.schema().text(), tool, "bytes back");
        let again = translate(tool, Target::Mcp, false).unwrap();
        assert_eq!((again.text.as_deref(), again.losses.len()), (Some(&**tool), 0));
        let known = ["name", "description", "inputSchema"];
        let members = split_object(tool).unwrap();
        for (key, raw) in members.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            assert_eq!(definition.other(key), Some(*raw));
        }
        for to in targets() {
            let sent = translate(tool, to, false).unwrap();
            let view = ToolView::parse(sent.text.as_deref().unwrap()).unwrap();
            // Providers require `type` and `properties`. Where they are missing, the report lists them.
            let given = definition.parameters().unwrap();
            let members = split_object(given).unwrap();
            let has = |name: &str| members.iter().any(|(member, _)| member == name);
            if has("type") && has("properties") || to == Target::Mcp {
                assert_eq!(view.parameters, Some(given), "JSON as it is");
                continue;
            }
            let mut completed: Value = serde_json::from_str(given).unwrap();
            let object = completed.as_object_mut().unwrap();
            object.entry("type").or_insert_with(|| "object".into());
            object.entry("properties").or_insert_with(|| serde_json::json!({}));
            let sent_parameters: Value = serde_json::from_str(view.parameters.unwrap()).unwrap();
            assert_eq!(sent_parameters, completed);
            assert!(!sent.losses.is_empty(), "{to:?}: the added members are reported");
        }
    }
    assert!(!tools.is_empty());
    println!("{} tools", tools.len());
}

#[test]
fn strict_copies_change_nothing_of_what_was_given_and_always_say_strict() {
    let (mut strict, mut not) = (0, 0);
    for given in recorded() {
        let definition = Definition::parse(&given).unwrap();
        if definition.is_of_provider() {
            continue;
        }
        for provider in [Dialect::OpenAi, Dialect::Responses] {
            let made = translate(&given, Target::Provider(provider), true).unwrap();
            let value: Value = serde_json::from_str(made.text.as_deref().unwrap()).unwrap();
            let function = value.get("function").unwrap_or(&value);
            match function["strict"].as_bool() {
                Some(true) => {
                    strict += 1;
                    assert_eq!(function["parameters"]["additionalProperties"], false);
                    let properties = function["parameters"]["properties"].as_object();
                    let required = function["parameters"]["required"].as_array().unwrap();
                    assert_eq!(required.len(), properties.map_or(0, serde_json::Map::len));
                }
                Some(false) => {
                    not += 1;
                    assert!(made.losses.iter().any(|l| l.kind == LossKind::NotExpressible));
                }
                None => panic!("strict is not said: {value}"),
            }
        }
        assert_eq!(definition.schema().text(), given.trim());
    }
    println!("{strict} strict, {not} not");
    assert!(strict > 0);
}

/// All tools that MCP servers list, and those of the catalog in the plain shape.
fn tools() -> Vec<String> {
    let mut tools = listed();
    let catalog = std::fs::read_to_string(data::find("toolcatalog/tools.jsonl").0).unwrap();
    for line in catalog.lines() {
        let plain = ["name", "description", "parameters"].map(|key| member(line, key).unwrap());
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
            // A schema that lacks what providers require gets it; of others, numbers and key order stay.
            let losses = translate(&given, Target::Provider(provider), false).unwrap().losses;
            let is_completed = losses.iter().any(|loss| loss.path == "parameters");
            assert!(is_completed || sent.parameters == view.parameters, "{text}");
            assert_eq!(sent.description, view.description);
            // And on to every other, by way of this one.
            for onward in Dialect::ALL {
                let direct = lower_as(&given, onward, "x").unwrap();
                let Lowered::Tool { text: direct, .. } = direct else { panic!("left out") };
                let Lowered::Tool { text: twice, .. } = lower_as(&text, onward, "x").unwrap()
                else {
                    panic!("left out")
                };
                let strict =
                    |change: &Change| change.path == "strict" || change.path == "output_schema";
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
