//! Dialects detected, bad input refused by its place, prefixes that extend, replies that are
//! read, and what lowering writes for each revision.

mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use support::{
    cassettes, compiled, compiled_but, fixture, member, of, read_back, same, trajectories,
};
use tract_core::{Content, Draft, Part, StopReason, ToolSchema};
use tract_providers::{
    Dialect, Form, FormOptions, ImportError, Pairing, PrefixSource, ProviderConversation,
    RepairKind, ReplyError, RequestForms, compile_form, detect, read_request, why_miss,
};

#[test]
fn recordings_show_their_dialect_without_their_envelope() {
    for (name, line) in &trajectories() {
        assert_eq!(detect(line), Some(Dialect::OpenAi), "{name}");
    }
    for (provider, dialect) in [
        ("openai", Dialect::OpenAi),
        ("anthropic", Dialect::Anthropic),
        ("ollama", Dialect::Ollama),
    ] {
        for (name, text) in &cassettes(provider) {
            assert_eq!(detect(text), Some(dialect), "{name}");
            let request = member(text, "request").unwrap();
            let found = detect(request);
            // One message of one text is in every shape; then the most common shape is detected.
            let plain = found == Some(Dialect::OpenAi) && dialect != Dialect::OpenAi;
            assert!(found == Some(dialect) || plain, "{name}: {found:?}");
        }
    }
    assert_eq!(detect(&fixture("responses.json")), Some(Dialect::Responses));
    assert_eq!(detect(&fixture("ollama.json")), Some(Dialect::Ollama));
    assert_eq!(detect("{}"), None);
    assert_eq!(detect("7"), None);
    assert_eq!(detect("[[]]"), None);
}

#[test]
fn fixtures_of_our_own_come_back() {
    let keys = ["instructions", "input", "tools"];
    let imported = read_back("responses.json", Dialect::Responses, &keys);
    let parts = imported.drafts.iter().flat_map(|draft| draft.content.parts());
    let encrypted = |part: &Part| matches!(part, Part::Reasoning { encrypted: Some(_), .. });
    assert_eq!(parts.filter(|part| encrypted(part)).count(), 1);

    let imported = read_back("ollama.json", Dialect::Ollama, &["messages", "tools"]);
    assert_eq!(imported.anomalies, []);

    let whole = r#"{"model":"m","input":"Hi"}"#;
    let params =
        of(&read_request(whole, Dialect::Responses).unwrap()).to_responses_params().unwrap();
    assert_eq!(params.get("input"), Some(r#""Hi""#));
}

/// What lowering writes of a provider's own messages is frozen for each revision, since it decides
/// what is stored next to them: a change there is a new revision. Of others' messages, as here, and
/// of tools nothing that is stored depends on it; it changes where a provider asks for something
/// else, and then `UPDATE_GOLDEN=1` writes the files.
#[test]
fn lowering_is_frozen() {
    let drafts = [
        Draft::system("Be brief."),
        Draft::user("Hé \"you\"").part(Part::Image {
            media_type: Some("image/png".into()),
            source: tract_core::ImageSource::Base64("AAAA".into()),
        }),
        Draft::assistant("Looking.").call("c1", "now", r#"{"zone": "UTC", "n": 1.0}"#),
        Draft::tool_result("c1", "noon").tool_name("now"),
        Draft::assistant("").call("c2", "now", ""),
        Draft::tool_result("c2", "no clock").is_error(true),
        Draft::assistant("Noon."),
        Draft::user("Thanks."),
    ];
    let tool = r#"{"name":"now","description":"The time.","input_schema":{"type":"object","properties":{}}}"#;
    let context = compiled(&drafts, Some(&[ToolSchema::parse(tool).unwrap()]));
    for form in Form::all().filter(|form| *form != Form::Messages) {
        let params = compile_form(&context, form, &FormOptions::default()).unwrap();
        assert_eq!(params.repairs, [], "{form}");
        let golden = format!("golden-{form}.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/own");
            fs::write(folder.join(&golden), params.to_json() + "\n").unwrap();
        }
        let expected = fixture(&golden);
        assert_eq!(params.to_json(), expected.trim_end(), "{form}");
    }
}

#[test]
fn a_request_of_every_dialect_is_read() {
    let read = |text, dialect| read_request(text, dialect).unwrap().drafts;
    let drafts = read(r#"[{"role":"user","content":"Hi"}]"#, Dialect::OpenAi);
    assert_eq!((drafts[0].content.text().as_str(), &drafts[0].verbatim), ("Hi", &None));
    let drafts = read(
        r#"[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"now","arguments":{}}}]},
            {"role":"tool","tool_name":"now","content":"noon"}]"#,
        Dialect::Ollama,
    );
    assert_eq!(drafts[0].content.calls().next().map(|call| call.id.as_str()), Some("call_0_0"));
    let text = r#"{"systemInstruction":{"parts":[{"text":"Be brief."}]},
        "contents":[{"role":"user","parts":[{"text":"Hi"}]}]}"#;
    assert_eq!(read(text, Dialect::Gemini).len(), 2);
    assert_eq!(read(r#"{"instructions":"Be brief.","input":"Hi"}"#, Dialect::Responses).len(), 2);
}

#[track_caller]
fn refused(text: &str, dialect: Dialect, path: &str) {
    let error = read_request(text, dialect).expect_err("bad input");
    assert_eq!(error.path(), path, "{error}");
}

#[test]
fn bad_input_is_refused_by_its_place() {
    refused("nonsense", Dialect::OpenAi, "");
    refused("{}", Dialect::OpenAi, "");
    refused(r#"{"messages":{}}"#, Dialect::OpenAi, "messages");
    refused(r#"{"messages":[{"content":"a"}]}"#, Dialect::OpenAi, "messages[0]");
    refused(r#"[{"role":"user","content":7}]"#, Dialect::OpenAi, "messages[0].content");
    refused(r#"[{"role":"user","content":[7]}]"#, Dialect::OpenAi, "messages[0].content[0]");
    refused(r#"[{"role":"tool","content":"a"}]"#, Dialect::OpenAi, "messages[0]");
    let call = r#"[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":1}}]}]"#;
    refused(call, Dialect::OpenAi, "messages[0].tool_calls[0].function.name");
    refused(r#"{"messages":[],"tools":[1]}"#, Dialect::OpenAi, "tools[0]");
    refused(r#"{"messages":[],"system":3}"#, Dialect::Anthropic, "system");
    let block = r#"[{"role":"user","content":[{"type":"tool_result"}]}]"#;
    refused(block, Dialect::Anthropic, "messages[0].content[0]");
    refused(r#"{"input":3}"#, Dialect::Responses, "input");
    refused(r#"{"input":[{"type":"function_call"}]}"#, Dialect::Responses, "input[0]");
    refused(r#"[{"role":"user","images":1}]"#, Dialect::Ollama, "messages[0].images");
    refused(r#"{"contents":{}}"#, Dialect::Gemini, "contents");
    let parts = |parts: &str| format!(r#"{{"contents":[{{"role":"user","parts":[{parts}]}}]}}"#);
    refused(&parts("7"), Dialect::Gemini, "contents[0].parts[0]");
    refused(&parts(r#"{"text":7}"#), Dialect::Gemini, "contents[0].parts[0].text");
    let instructions = r#"{"contents":[],"systemInstruction":"x"}"#;
    refused(instructions, Dialect::Gemini, "systemInstruction");
    // What another dialect would pass over is refused.
    let foreign = r#"{"messages":[{"role":"user","parts":[{"text":"Hi"}]}]}"#;
    let error = ProviderConversation::read(foreign, Some(Dialect::OpenAi)).unwrap_err();
    assert!(error.to_string().contains("gemini"));
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(matches!(read_request(&deep, Dialect::OpenAi), Err(ImportError::Json { .. })));
    assert!(ProviderConversation::read(&deep, None).is_err());
    assert!(
        ProviderConversation::read("{\"a\":1}", None).unwrap_err().to_string().contains("\"a\"")
    );
    assert!(matches!(
        read_request(r#"[{"role":"user","content":"\ud800"}]"#, Dialect::OpenAi),
        Err(ImportError::Json { .. })
    ));
}

#[test]
fn anomalies_are_reported() {
    let text = r#"[
        {"role":"assistant","content":null,"tool_calls":[
            {"id":"a","type":"function","function":{"name":"f","arguments":"{"}},
            {"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"b","content":"x"},
        {"role":"critic","content":"x"}]"#;
    let found = read_request(text, Dialect::OpenAi).unwrap().anomalies;
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "messages[0].tool_calls[0].function.arguments: arguments are no JSON object",
            "messages[0].tool_calls[1]: tool call id \"a\" reused",
            "messages[1]: result for \"b\" answers no call",
            "messages[2]: unknown role \"critic\"",
            "messages[0].tool_calls[0]: tool call \"a\" unanswered",
            "messages[0].tool_calls[1]: tool call \"a\" unanswered",
        ]
    );
    // The recordings' own lists: reused ids and unanswered calls.
    for (name, line) in &trajectories() {
        let line_says: Vec<String> =
            serde_json::from_str(member(line, "anomalies").unwrap()).unwrap();
        let found = ProviderConversation::read(line, None).unwrap().imported.anomalies;
        let reused = |text: &str| text.contains("reused");
        let ours = found.iter().any(|anomaly| reused(&anomaly.what));
        assert_eq!(ours, line_says.iter().any(|text| reused(text)), "{name}: {found:?}");
        let unanswered = |text: &str| text.contains("unanswered");
        let theirs = line_says.iter().any(|text| unanswered(text));
        assert!(!theirs || found.iter().any(|anomaly| unanswered(&anomaly.what)), "{name}");
    }
}

#[test]
fn an_append_extends_the_blocks_of_its_parent() {
    for (name, line) in trajectories().iter().step_by(7) {
        let imported = ProviderConversation::read(line, None).unwrap().imported;
        let tools = imported.tools.as_deref();
        for form in [
            Form::Conversation(Dialect::OpenAi),
            Form::Params(Dialect::OpenAi),
            Form::Params(Dialect::Anthropic),
            Form::Params(Dialect::Responses),
        ] {
            let make = |count: usize| {
                let context = compiled(&imported.drafts[..count], tools);
                compile_form(&context, form, &FormOptions::default()).unwrap()
            };
            let mut before = make(0);
            for count in 1..=imported.drafts.len() {
                let after = make(count);
                // A repaired tail is not part of the promise, nor are late instructions.
                let miss = why_miss(&before, &after);
                let promised = before.repairs.is_empty() && after.repairs.is_empty();
                assert!(miss.is_none() || !promised, "{name} {form} {count}: {miss:?}");
                assert_eq!(after.prefix.len(), after.origins().len());
                before = after;
            }
        }
    }
}

#[test]
fn why_miss_names_the_block() {
    let drafts = [Draft::system("s"), Draft::user("a"), Draft::assistant("b"), Draft::user("c")];
    let tool = ToolSchema::parse(r#"{"name":"t","input_schema":{"type":"object"}}"#).unwrap();
    let with_tool = compiled(&drafts, Some(std::slice::from_ref(&tool)));
    let first = compiled(&drafts, None).to_anthropic_params().unwrap();
    let second = with_tool.to_anthropic_params().unwrap();
    let miss = why_miss(&first, &second).unwrap();
    assert_eq!(miss.same_blocks, 0);
    assert_eq!(miss.second, Some(PrefixSource::Tool { index: 0, name: "t".into() }));
    let mut edited = drafts.to_vec();
    edited[2] = Draft::assistant("B");
    let third = compiled(&edited, None).to_anthropic_params().unwrap();
    let miss = why_miss(&first, &third).unwrap();
    assert_eq!(miss.same_blocks, 2);
    assert!(matches!(miss.first, Some(PrefixSource::Message(_))));
    assert_eq!(why_miss(&first, &first), None);
    let fewer = compiled(&drafts[..2], None).to_anthropic_params().unwrap();
    assert_eq!(why_miss(&fewer, &first), None);
    // All of the second request is in the cache: nothing is read again.
    assert_eq!(why_miss(&first, &fewer), None);
}

#[test]
fn results_of_one_message_rejoin() {
    let text = r#"{"messages":[
        {"role":"user","content":"Begin."},
        {"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]},
        {"role":"user","content":[
            {"type":"tool_result","tool_use_id":"b","content":"2","cache_control":{"type":"ephemeral"}},
            {"type":"text","text":"between"},
            {"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"1"}],"is_error":false},
            {"type":"text","text":"end","x":1}],"extra":true}]}"#;
    let imported = read_request(text, Dialect::Anthropic).unwrap();
    let kept: Vec<bool> = imported.drafts.iter().map(|draft| draft.verbatim.is_some()).collect();
    assert_eq!(kept, [true, false, true, false, false, true]);
    let params = of(&imported).to_anthropic_params().unwrap();
    assert!(same(member(text, "messages"), params.get("messages")), "{}", params.to_json());
    assert_eq!(params.repairs, []);
    // A skipped result keeps its place, and what was next to it is still sent.
    let context = compiled_but(&imported.drafts, None, |place| place == 2);
    let params = context.to_anthropic_params().unwrap();
    let body: Value = params.to().unwrap();
    assert_eq!(body["messages"].as_array().unwrap().len(), 3);
    assert_eq!(body["messages"][2]["content"][0]["content"][0]["text"], "[skipped]");
    assert!(params.repairs.iter().any(|repair| repair.kind == RepairKind::SkippedResult));
}

#[test]
fn edit_drops_verbatim() {
    let text = r#"[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]"#;
    let mut drafts = read_request(text, Dialect::Anthropic).unwrap().drafts;
    let sent = |drafts: &[Draft]| compiled(drafts, None).to_anthropic().unwrap().to_json();
    assert!(sent(&drafts).contains("cache"));
    drafts[0] = Draft::user("b");
    assert!(!sent(&drafts).contains("cache"));
}

#[test]
fn recorded_replies_are_read_and_go_back() {
    let mut read = 0;
    for (provider, dialect) in [("openai", Dialect::OpenAi), ("anthropic", Dialect::Anthropic)] {
        for (name, text) in &cassettes(provider) {
            let mut conversation = ProviderConversation::read(text, None).unwrap();
            if conversation.is_answered {
                conversation.imported.drafts.pop();
            }
            let response = member(text, "response").unwrap();
            if !response.starts_with('{') {
                continue; // a stream
            }
            let params = of(&conversation.imported).to_params(dialect).unwrap();
            if member(response, "choices").is_none() && member(response, "role").is_none() {
                continue; // no answer of a chat
            }
            let reply = params.reply(response).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(reply.usage.is_some_and(|usage| usage.input_tokens.is_some()), "{name}");
            assert!(reply.stop_reason.is_some() && reply.model.is_some(), "{name}");
            assert_eq!(reply.head, params.head());
            // Stored as a draft, it goes back as it was answered.
            let mut drafts = conversation.imported.drafts.clone();
            let mut draft = Draft::new(reply.content.clone());
            draft.form = reply.form.clone();
            draft.verbatim = reply.verbatim.clone();
            drafts.push(draft);
            let context = compiled(&drafts, None);
            let keep = FormOptions { pairing: Some(Pairing::Keep), ..FormOptions::default() };
            let sent = compile_form(&context, Form::Params(dialect), &keep).unwrap();
            let sent: Value = sent.to().unwrap();
            let answer: Value = serde_json::from_str(response).unwrap();
            let message = sent["messages"].as_array().unwrap().last().unwrap();
            match dialect {
                Dialect::OpenAi => assert_eq!(*message, answer["choices"][0]["message"], "{name}"),
                _ => assert_eq!(message["content"], answer["content"], "{name}"),
            }
            read += 1;
        }
    }
    println!("{read} replies");
    assert!(read > 0);
}

#[test]
fn replies_carry_the_names_that_were_given() {
    let tool = ToolSchema::parse(r#"{"name":"fs.read","inputSchema":{"type":"object"}}"#).unwrap();
    let context = compiled(&[Draft::user("?")], Some(&[tool]));
    let params = context.to_openai_params().unwrap();
    let alias = params.aliases().next().unwrap().0.to_owned();
    let answer = json!({"id": "x", "model": "m", "choices": [{"finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": alias, "arguments": "{}"}}]}}]});
    let reply = params.reply(&answer.to_string()).unwrap();
    assert_eq!(reply.calls().next().unwrap().name, "fs.read");
    assert_eq!(reply.stop_reason, Some(StopReason::ToolUse));
    let error = params.reply(r#"{"error":{"message":"no credit"}}"#).unwrap_err();
    assert!(matches!(&error, ReplyError::Provider { message } if message == "no credit"));
    assert!(params.reply("{}").is_err());
    assert!(context.to_openai().unwrap().reply("{}").is_err());

    let answer = fixture("responses-reply.json");
    let reply = context.to_responses_params().unwrap().reply(&answer).unwrap();
    assert_eq!(reply.calls().count(), 1);
    assert_eq!(reply.usage.unwrap().reasoning_tokens, Some(64));
    assert!(matches!(&reply.content, Content::Assistant(body) if body.parts.len() == 2));
    let answer = fixture("ollama-reply.json");
    let reply = context.to_ollama_params().unwrap().reply(&answer).unwrap();
    assert_eq!(reply.calls().next().unwrap().arguments, r#"{"city":"Paris"}"#);
}

#[test]
fn strict_refuses_and_says_what_repair_would_do() {
    let drafts = [Draft::user("?"), Draft::assistant("").call("c", "f", "{}")];
    let context = compiled(&drafts, None);
    let strict = FormOptions { pairing: Some(Pairing::Strict), ..FormOptions::default() };
    let error = compile_form(&context, Form::Params(Dialect::Anthropic), &strict).unwrap_err();
    assert!(error.to_string().contains("call \"c\" has no result"), "{error}");
    assert_eq!(error.notes().len(), 2);
    assert!("yaml".parse::<Form>().is_err());
    assert_eq!("anthropic-params".parse::<Form>().unwrap(), Form::Params(Dialect::Anthropic));
}

#[test]
fn a_request_says_how_its_tools_went_out_and_its_reply_carries_that_along() {
    let text = r#"{"name":"fs.read","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}}"#;
    let open = r#"{"name":"any","inputSchema":{"type":"object","properties":{},"additionalProperties":true}}"#;
    let tools = [text, open].map(|text| ToolSchema::parse(text).unwrap());
    let context = compiled(&[Draft::user("Read it.")], Some(&tools));
    for (form, key, strict, null_for_absent) in [
        (Form::Params(Dialect::OpenAi), "parameters", true, true),
        (Form::Params(Dialect::Responses), "parameters", true, true),
        (Form::Params(Dialect::Anthropic), "input_schema", true, false),
        (Form::Params(Dialect::Ollama), "parameters", false, false),
    ] {
        let params = compile_form(
            &context,
            form,
            &FormOptions { strict_tools: true, ..FormOptions::default() },
        )
        .unwrap();
        let sent: Vec<_> = params.sent().iter().collect();
        assert_eq!(sent.len(), 2, "{form}");
        assert_eq!((sent[0].name.as_str(), sent[0].tool), ("fs.read", tools[0].id()));
        assert_eq!((sent[0].strict, sent[0].null_for_absent), (strict, null_for_absent), "{form}");
        assert!(!sent[1].strict, "{form}: it takes anything");
        let body: Value = params.to().unwrap();
        for (tool, sent) in body["tools"].as_array().unwrap().iter().zip(&sent) {
            let function = tool.get("function").unwrap_or(tool);
            assert_eq!(function["name"], sent.sent_name.as_str());
            assert!(function.get(key).is_some());
            if form != Form::Params(Dialect::Ollama) {
                assert_eq!(function["strict"], sent.strict, "{form}: it is always said");
            }
        }
        let repairs: Vec<_> = params.repairs.iter().map(|repair| repair.kind.as_str()).collect();
        let expected: &[_] =
            if form == Form::Params(Dialect::Ollama) { &[] } else { &["not_strict"] };
        assert_eq!(repairs, expected, "{form}: what was asked for and is not so");
        let plain = compile_form(&context, form, &FormOptions::default()).unwrap();
        assert!(plain.sent().iter().all(|sent| !sent.strict && !sent.null_for_absent));
    }
    let options = FormOptions { strict_tools: true, ..FormOptions::default() };
    let params = compile_form(&context, Form::Params(Dialect::OpenAi), &options).unwrap();
    let reply = params
        .reply(
            r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[
            {"id":"c1","type":"function","function":{"name":"fs_read_8a61f454","arguments":"{\"n\":null}"}}]}}]}"#,
        )
        .unwrap();
    let call = reply.calls().next().unwrap();
    assert_eq!(call.arguments.as_str(), r#"{"n":null}"#, "as received");
    let sent = reply.sent.find(&call.name).unwrap();
    assert_eq!((sent.sent_name.as_str(), sent.null_for_absent), ("fs_read_8a61f454", true));
}

#[test]
fn anthropic_is_sent_no_more_strict_tools_than_it_takes_in_one_request() {
    let tool = |n: usize| {
        let text =
            r#"{"name":"tN","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}}}"#;
        ToolSchema::parse(&text.replace("tN", &format!("t{n}"))).unwrap()
    };
    let tools: Vec<ToolSchema> = (0..23).map(tool).collect();
    let context = compiled(&[Draft::user("Go.")], Some(&tools));
    let options = FormOptions { strict_tools: true, ..FormOptions::default() };
    for (form, expected) in
        [(Form::Params(Dialect::Anthropic), 20), (Form::Params(Dialect::OpenAi), 23)]
    {
        let params = compile_form(&context, form, &options).unwrap();
        assert_eq!(params.sent().iter().filter(|sent| sent.strict).count(), expected, "{form}");
        let body: Value = params.to().unwrap();
        let strict = body["tools"].as_array().unwrap().iter();
        let strict = strict.map(|tool| tool.get("function").unwrap_or(tool)["strict"].as_bool());
        let sent = params.sent().iter().map(|sent| Some(sent.strict));
        assert!(strict.eq(sent), "{form}: each says which");
        assert_eq!(params.repairs.len(), 23 - expected, "{form}: and the report says why");
        assert!(params.repairs.iter().all(|repair| repair.text.contains("20 strict tools")));
    }
}
