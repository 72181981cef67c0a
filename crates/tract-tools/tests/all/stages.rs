use std::sync::Arc;
use std::sync::atomic::Ordering;

use tract_core::{RequestMap, RequestTool, ToolContext, ToolSpec, block_on};
use tract_tools::policy::AllowUntrusted;
use tract_tools::{
    Call, Decision, HydrateOptions, NoSchema, PolicyRequest, Registry, Stage, hydrate,
    hydrate_repairing, hydrate_with, sent_in, tool,
};

use crate::support::{Mend, idle, json, reply_with_call};

/// Counts. The schema is wider than the types, so that these have something to refuse.
#[tool(read_only)]
fn count(#[schemars(with = "i64")] from: u8, #[schemars(with = "i64")] to: u8) -> u8 {
    to - from
}

fn counting() -> Registry {
    Registry::builder().tool(Count).build().unwrap()
}

fn one(registry: &Registry, name: &str, arguments: &str) -> tract_tools::Hydrated {
    hydrate(Call::new("c1", name, arguments), registry).remove(0)
}

#[test]
fn a_hydrated_call_runs() {
    let registry = counting();
    let good = one(&registry, "count", " {\"from\": 1, \"to\": 3}\n");
    assert!(good.is_trusted() && good.decision == Decision::Allow);
    let bound = good.bound.as_ref().unwrap();
    let result = block_on(bound.run(&ToolContext::new("c1"))).unwrap();
    assert_eq!(result.value.unwrap().text, "2");
}

#[test]
fn each_stage_says_where_it_failed() {
    let registry = counting();
    for (name, arguments, stage, code, path, says) in [
        ("count", "{", Stage::Parse, "invalid_json", "/", "no JSON"),
        ("cuont", "{}", Stage::Lookup, "unknown_tool", "/", "cuont"),
        ("count", r#"{"from":1}"#, Stage::Validate, "required", "/", "\"to\""),
        ("count", r#"{"from":1,"to":"2"}"#, Stage::Validate, "type", "/to", "an integer"),
        ("count", "[]", Stage::Validate, "type", "/", "an object"),
        ("count", r#"{"from":1,"to":999}"#, Stage::Instantiate, "validation", "/", "u8"),
    ] {
        let failed = one(&registry, name, arguments);
        let error = &failed.errors[0];
        assert_eq!((error.stage, error.code.as_str()), (stage, code), "{error}");
        assert_eq!(error.path, path, "{error}");
        assert!(error.message.contains(says), "{error}");
        assert!(!failed.success() && failed.bound.is_none() && failed.arguments.is_none());
        assert_eq!(failed.provenance.raw_arguments.as_ref(), arguments);
    }
    let near = one(&registry, "cuont", "{}");
    assert!(near.error_text().contains("did you mean \"count\"?"), "{}", near.error_text());
    let extra = one(&registry, "count", r#"{"from":1,"to":2,"form":3}"#);
    assert!(extra.error_text().contains("did you mean \"from\"?"), "{}", extra.error_text());
}

#[test]
fn no_arguments_at_all_mean_none() {
    let registry =
        Registry::builder().definition(r#"{"name":"now","parameters":{"type":"object"}}"#);
    let registry = registry.build().unwrap();
    for raw in ["", " \n", "{}"] {
        assert_eq!(one(&registry, "now", raw).arguments.unwrap().as_str(), "{}");
    }
    assert!(!one(&registry, "now", "null").success());
}

#[test]
fn one_is_given_for_each_call_in_order() {
    let registry = counting();
    let calls: Vec<Call> = (0..20)
        .map(|n| Call::new(format!("c{n}"), if n % 2 == 0 { "count" } else { "absent" }, "{}"))
        .collect();
    let ids: Vec<String> = hydrate(calls, &registry).into_iter().map(|one| one.id).collect();
    assert_eq!(ids, (0..20).map(|n| format!("c{n}")).collect::<Vec<_>>());
}

#[test]
fn duplicate_and_bad_names_are_one_error_with_all_of_them() {
    let named = |name| idle(ToolSpec::new(name, "", r#"{"type":"object"}"#));
    let error = Registry::builder()
        .tool(Count)
        .tool(named("count"))
        .tool(named("Send Mail!"))
        .definition("[]")
        .build()
        .unwrap_err();
    let codes: Vec<&str> = error.0.iter().map(|error| error.code()).collect();
    assert_eq!(codes, ["bad_name", "invalid_json", "duplicate_name"], "{error}");
    assert!(error.notes().iter().any(|note| note.contains("\"send_mail\"")), "{error}");
}

#[test]
fn without_a_validator_every_call_with_a_schema_is_refused() {
    let registry = Registry::builder().tool(Count).without_compiler().build().unwrap();
    let refused = one(&registry, "count", r#"{"from":1,"to":2}"#);
    assert_eq!(refused.errors[0].code, "no_validator");
    assert!(refused.bound.is_none());
}

#[test]
fn without_a_schema_a_mode_and_a_policy_decide() {
    let bare = r#"{"name":"bare","annotations":{"readOnlyHint":true},"inputSchema":null}"#;
    let with = |mode, policy: Option<Decision>| {
        let mut builder = Registry::builder().definition(bare).no_schema(mode);
        if let Some(decision) = policy {
            builder =
                builder.policy(AllowUntrusted::all()).policy(move |call: &PolicyRequest<'_>| {
                    assert!(!call.validated);
                    decision.clone()
                });
        }
        one(&builder.build().unwrap(), "bare", r#"{"any":1}"#)
    };
    assert_eq!(with(NoSchema::Refuse, Some(Decision::Allow)).errors[0].code, "no_schema");
    assert_eq!(with(NoSchema::Full, None).decision, Decision::NeedsApproval);
    assert_eq!(with(NoSchema::Full, Some(Decision::Allow)).decision, Decision::Allow);
    assert_eq!(with(NoSchema::ReadOnly, Some(Decision::Allow)).decision, Decision::Allow);
    let human = with(NoSchema::HumanApproval, Some(Decision::Allow));
    assert_eq!(human.decision, Decision::NeedsApproval);
    assert!(human.success() && !human.is_trusted());
    let denied = with(NoSchema::Full, Some(Decision::deny("not today")));
    assert_eq!(
        (denied.errors[0].stage, denied.error_text().as_str()),
        (Stage::Policy, "not today")
    );
    // A tool of this program has to have a schema, unless the builder says that none is meant.
    let writes = r#"{"name":"bare"}"#;
    let registry = Registry::builder().definition(writes).no_schema(NoSchema::ReadOnly);
    let refused = one(&registry.build().unwrap(), "bare", "{}");
    assert_eq!(refused.errors[0].stage, Stage::Policy);
}

#[test]
fn profiles_are_opt_in_and_list_what_they_changed() {
    let registry = counting();
    let raw = "```json\n{'from': '1', \"to\": 2,}\n```";
    assert!(!one(&registry, "count", raw).success());
    let options = HydrateOptions { tolerant: true, coercion: true, ..HydrateOptions::default() };
    let mended = hydrate_with(Call::new("c", "count", raw), &registry, &options).remove(0);
    assert!(mended.success(), "{:?}", mended.errors);
    let kinds: Vec<&str> = mended.provenance.edits.iter().map(|edit| edit.kind).collect();
    assert_eq!(kinds, ["code_fence", "single_quotes", "single_quotes", "trailing_comma", "type"]);
    let text = r#""{\"from\":1,\"to\":2}""#;
    assert!(!one(&registry, "count", text).success());
    let unwrapped = hydrate_with(Call::new("c", "count", text), &registry, &options).remove(0);
    assert_eq!(unwrapped.provenance.edits[0].kind, "unwrapped_text");
}

#[test]
fn a_repair_is_asked_once_and_what_it_gives_is_not_trusted() {
    let registry = counting();
    let options = HydrateOptions::default();
    let calls = vec![
        Call::new("c1", "count", "from 1 to 3"),
        Call::new("c2", "count", r#"{"from":1,"to":3}"#),
        Call::new("c3", "absent", "{"),
    ];
    let mend = Mend::new(r#"{"from":1,"to":3}"#);
    let hydrated = block_on(hydrate_repairing(calls, &registry, &options, &mend));
    assert_eq!(mend.calls.load(Ordering::SeqCst), 1);
    let [repaired, untouched, unknown] = hydrated.as_slice() else { panic!("three calls") };
    assert!(repaired.success() && repaired.provenance.repaired && !repaired.is_trusted());
    assert_eq!(repaired.decision, Decision::NeedsApproval);
    let record = repaired.provenance.repair.as_ref().unwrap();
    assert_ne!(Some(&record.before), record.after.as_ref());
    assert_eq!(record.errors[0].stage, Stage::Parse);
    assert_eq!(repaired.provenance.raw_arguments.as_ref(), "from 1 to 3");
    assert!(untouched.is_trusted() && untouched.provenance.repair.is_none());
    assert!(!unknown.success() && unknown.provenance.repair.is_none());

    let useless = Mend::new("still not");
    let call = Call::new("c1", "count", "from 1 to 3");
    let failed = block_on(hydrate_repairing(call, &registry, &options, &useless)).remove(0);
    assert_eq!(useless.calls.load(Ordering::SeqCst), 1);
    assert!(!failed.success() && !failed.provenance.repaired);
    assert!(failed.provenance.repair.unwrap().failure.is_some());
}

#[test]
fn provenance_says_all_and_serializes() {
    let registry = counting();
    registry.compile_all().unwrap();
    let raw = r#"{ "to": 3, "from": 1 }"#;
    let call =
        Call { sent_name: Some("count_1a2b3c4d".to_owned()), ..Call::new("c1", "count", raw) };
    let good = hydrate(call, &registry).remove(0);
    let document = json(good.provenance.to_json().unwrap().as_str());
    assert_eq!(document["call_id"], "c1");
    assert_eq!(document["name_mapping"]["received"], "count_1a2b3c4d");
    assert_eq!(document["name_mapping"]["name"], "count");
    assert_eq!(
        document["definition"],
        registry.iter().next().unwrap().definition().id().to_string()
    );
    assert_eq!(document["raw_arguments"], raw);
    assert_eq!(document["parsed"], document["validated"]);
    assert_eq!(document["validated"]["to"], 3);
    assert_eq!(document["validator"]["name"], "jsonschema");
    assert_eq!(document["validator"]["eager"], true);
    assert!(document["validator"]["compiled_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(document["repaired"], false);
    assert!(document["duration_us"].is_u64());
    let failed = one(&registry, "count", "{");
    let document = json(failed.provenance.to_json().unwrap().as_str());
    assert_eq!(document["raw_arguments"], "{");
}

#[test]
fn a_schema_that_cannot_run_refuses_its_calls_and_no_others() {
    let registry = Registry::builder()
        .definition(r#"{"name":"bad","parameters":{"type":"object","properties":{"a":{"type":"strng"}}}}"#)
        .definition(r#"{"name":"look","parameters":{"type":"object","properties":{"a":{"pattern":"(?=x)y"}}}}"#)
        .definition(r#"{"name":"good","parameters":{"type":"object"}}"#)
        .build()
        .unwrap();
    assert_eq!(registry.compile_all().unwrap_err().0.len(), 2);
    assert_eq!(one(&registry, "bad", "{}").errors[0].code, "bad_schema");
    let look = one(&registry, "look", r#"{"a":"y"}"#);
    assert_eq!(look.errors[0].code, "bad_schema");
    assert!(look.error_text().contains("look-around"), "{}", look.error_text());
    assert!(one(&registry, "good", "{}").success());
}

#[test]
fn registries_are_shared_between_threads() {
    let registry = Arc::new(counting());
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let registry = Arc::clone(&registry);
            std::thread::spawn(move || one(&registry, "count", r#"{"from":1,"to":2}"#).success())
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
}

#[test]
fn a_translation_is_made_once() {
    let registry = counting();
    let tool = registry.iter().next().unwrap();
    let first = tool.sent_to(tract_schema::Dialect::Anthropic);
    assert!(std::ptr::eq(first, tool.sent_to(tract_schema::Dialect::Anthropic)));
    assert!(first.text.as_deref().unwrap().contains("input_schema"));
    let again = tool.clone();
    assert!(std::ptr::eq(first, again.sent_to(tract_schema::Dialect::Anthropic)));
}

#[test]
fn of_several_tools_of_one_name_the_one_that_was_sent_is_meant() {
    let texts = ["integer", "string"].map(|kind| {
        format!(r#"{{"name":"f","parameters":{{"type":"object","properties":{{"a":{{"type":"{kind}"}}}}}}}}"#)
    });
    let mut builder = Registry::builder().shared_names();
    for text in &texts {
        builder = builder.definition(text);
    }
    let registry = builder.build().unwrap();
    let tools: Vec<_> = registry.iter().map(|tool| tool.definition().id()).collect();
    let call = || Call::new("c1", "f", r#"{"a":"x"}"#);
    let refused = hydrate(call(), &registry).remove(0);
    assert_eq!(refused.errors[0].code, "ambiguous_tool");
    for (tool, fits) in [(tools[0], false), (tools[1], true)] {
        let map: RequestMap = [RequestTool::new("f", "f", tool)].into_iter().collect();
        let one = hydrate(sent_in(vec![call()], &map), &registry).remove(0);
        assert_eq!((one.success(), one.definition()), (fits, Some(tool)));
        assert_eq!(one.provenance.name_mapping.as_ref().unwrap().sent, Some(tool));
    }
    // A reply that knows its request says so itself.
    let mut reply = reply_with_call("f", r#"{"a":"x"}"#);
    reply.sent = [RequestTool::new("f", "f", tools[1])].into_iter().collect();
    assert!(hydrate(&reply, &registry)[0].success());
}
