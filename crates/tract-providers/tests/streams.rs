//! Recorded streams, however they are cut, become what the vendors' own SDKs make of them.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod support;

use support::streams::{Exchange, assemble, exchanges, goldens, params};
use tract_core::Reply;
use tract_providers::Dialect;
use tract_providers::stream::{Assembler, StreamError};
use tract_testkit::power::SeededRng;

#[test]
fn every_recorded_answer_is_what_the_sdk_makes_of_it() {
    let goldens = goldens();
    let (mut streams, mut wholes, mut wrong) = (0, 0, Vec::new());
    for exchange in exchanges() {
        let golden = &goldens[&exchange.file];
        let (dialect, body) = (exchange.dialect(), exchange.body());
        let params = params(dialect);
        if !exchange.is_stream() {
            wholes += 1;
            match params.reply(&body) {
                Ok(reply) => wrong.extend(golden.check(&reply, dialect).err()),
                Err(error) => wrong.push(format!("{}: {error}", exchange.file)),
            }
            continue;
        }
        streams += 1;
        let (streamed, reply, _) = assemble(&params, body.as_bytes(), []);
        match reply {
            Ok(reply) => {
                streamed.check(&reply, &exchange.file);
                wrong.extend(golden.check(&reply, dialect).err());
            }
            Err(StreamError::Provider { .. }) if golden.failed => {}
            Err(error) => wrong.push(format!("{}: {error}", exchange.file)),
        }
    }
    println!("{streams} streams and {wholes} whole answers");
    assert!(streams >= 8 && wholes >= 15, "{streams} streams, {wholes} whole answers");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn cuts_make_no_difference() {
    for exchange in exchanges().iter().filter(|exchange| exchange.is_stream()) {
        let (params, body) = (params(exchange.dialect()), exchange.body());
        let body = body.as_bytes();
        let (streamed, whole, _) = assemble(&params, body, []);
        let same = |cuts: Vec<usize>, how: &str| {
            let (again, reply, _) = assemble(&params, body, cuts);
            assert_eq!(again.text, streamed.text, "{} {how}", exchange.file);
            assert_eq!(again.calls, streamed.calls, "{} {how}", exchange.file);
            match (&whole, reply) {
                (Ok(whole), Ok(reply)) => assert_eq!(*whole, reply, "{} {how}", exchange.file),
                (Err(whole), Err(error)) => assert_eq!(whole.to_string(), error.to_string()),
                (whole, reply) => panic!("{} {how}: {whole:?} and {reply:?}", exchange.file),
            }
        };
        same(exchange.boundaries(), "at every event");
        same((1..body.len()).collect(), "at every byte");
        for seed in 0..8 {
            let mut random = SeededRng(seed);
            let mut cuts: Vec<usize> =
                (0..=random.below(40)).map(|_| random.below(body.len())).collect();
            cuts.sort_unstable();
            same(cuts, &format!("by seed {seed}"));
        }
    }
}

/// Where a stream that is whole at this place may end: the answer is whole there, too.
fn may_end_early(exchange: &Exchange, reply: &Reply) -> bool {
    exchange.dialect() == Dialect::OpenAi && reply.stop_reason.is_some()
}

#[test]
fn a_stream_that_ends_too_early_differs_from_one_that_fails() {
    let (mut cut, mut failed) = (0, 0);
    for exchange in exchanges().iter().filter(|exchange| exchange.is_stream()) {
        let (params, body) = (params(exchange.dialect()), exchange.body());
        let (streamed, _, _) = assemble(&params, body.as_bytes(), []);
        let mut boundaries = exchange.boundaries();
        let last = boundaries.pop().unwrap();
        // Between two events, and in the midst of one.
        for at in boundaries.into_iter().flat_map(|at| [at, at + 11]).chain([0, 3]) {
            let Some(start) = body.as_bytes().get(..at.min(last - 1)) else { continue };
            let (so_far, reply, assembler) = assemble(&params, start, []);
            assert!(streamed.text.starts_with(&so_far.text), "{} at {at}", exchange.file);
            let partial = assembler.partial();
            assert_eq!(partial.text, so_far.text, "{} at {at}", exchange.file);
            match reply {
                Ok(reply) => assert!(may_end_early(exchange, &reply), "{} at {at}", exchange.file),
                Err(StreamError::Cut) => {
                    cut += 1;
                    for (call, (name, arguments)) in partial.calls.iter().zip(&so_far.calls) {
                        assert_eq!(&call.call.name, name, "{} at {at}", exchange.file);
                        let whole = tract_core::json::split_object(arguments).is_ok();
                        assert!(whole || arguments.is_empty() || !call.whole, "{}", exchange.file);
                    }
                }
                Err(StreamError::Provider { message, .. }) => {
                    failed += 1;
                    assert!(!message.is_empty());
                }
                Err(error) => panic!("{} at {at}: {error}", exchange.file),
            }
        }
    }
    assert!(cut > 100 && failed > 0, "{cut} cut, {failed} failed");
    println!("{cut} cut streams, {failed} failed ones");
}

#[test]
fn arguments_are_whole_or_it_is_an_error() {
    let stopped = |reason: &str| {
        [
            r#"data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":"}}]}}]}"#.to_owned(),
            format!(r#"data: {{"choices":[{{"index":0,"delta":{{}},"finish_reason":{reason}}}]}}"#),
            "data: [DONE]".to_owned(),
            String::new(),
        ]
        .join("\n\n")
    };
    let openai = params(Dialect::OpenAi);
    for reason in ["\"length\"", "null"] {
        let (_, reply, assembler) = assemble(&openai, stopped(reason).as_bytes(), []);
        assert!(matches!(&reply, Err(StreamError::Arguments { name }) if name == "f"), "{reply:?}");
        assert_eq!(assembler.partial().calls[0].call.arguments, "{\"x\":");
    }
    // What a model calls whole is passed on as it wrote it.
    let (_, reply, _) = assemble(&openai, stopped("\"tool_calls\"").as_bytes(), []);
    assert_eq!(reply.unwrap().calls().next().unwrap().arguments, "{\"x\":");

    let anthropic = params(Dialect::Anthropic);
    let stream = [
        r#"data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"c","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}"#,
        r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#,
        r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\": [1,"}}"#,
        r#"data: {"type":"content_block_stop","index":0}"#,
        r#"data: {"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}"#,
        r#"data: {"type":"message_stop"}"#,
        "",
    ]
    .join("\n\n");
    let (_, reply, assembler) = assemble(&anthropic, stream.as_bytes(), []);
    assert!(matches!(&reply, Err(StreamError::Arguments { name }) if name == "f"), "{reply:?}");
    let partial = assembler.partial();
    assert!(!partial.calls[0].whole);
    assert_eq!(partial.usage.unwrap().output_tokens, Some(9));
}

#[test]
fn numbers_of_streamed_arguments_stay_as_written() {
    let exchange = exchanges().into_iter().find(|e| e.file == "responses/tool_call_stream");
    let params = params(Dialect::Responses);
    let (_, reply, _) = assemble(&params, exchange.unwrap().body().as_bytes(), []);
    let reply = reply.unwrap();
    assert_eq!(reply.calls().next().unwrap().arguments, r#"{"city":"Paris","days":1.50}"#);
}

#[test]
fn a_stream_over_its_limit_is_refused() {
    let mut assembler = Assembler::new(Dialect::OpenAi).limit(10);
    let found = assembler.push(b"data: 12345\n\n", &mut |_| {});
    assert!(matches!(found, Err(StreamError::TooLarge { limit_bytes: 10 })), "{found:?}");
}

#[test]
fn an_invalid_stream_is_an_error_and_no_panic() {
    for dialect in Dialect::ALL {
        let params = params(dialect);
        for text in [
            "",
            "\n\n",
            "data: []\n\n",
            "data: {\n\n",
            "data: null\n\n",
            "[]\n",
            "{}\n",
            "<html>\n\n",
            "data: {\"choices\":7}\n\n",
            "data: {\"choices\":[{\"delta\":[]}]}\n\n",
            "data: {\"type\":\"content_block_delta\",\"index\":4,\"delta\":{}}\n\n",
            "data: {\"type\":\"message_delta\"}\n\n",
            "data: {\"type\":\"response.completed\"}\n\n",
            "{\"message\":7,\"done\":\"yes\"}\n",
        ] {
            let (_, reply, _) = assemble(&params, text.as_bytes(), []);
            assert!(reply.is_err(), "{dialect}: {text:?}");
        }
    }
}

/// A stream of chunks of a chat completion with these deltas.
fn chunks(deltas: &[&str]) -> String {
    let chunk =
        |delta: &&str| format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
    let end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    deltas.iter().map(chunk).collect::<String>() + end
}

#[test]
fn an_emoji_that_is_split_over_two_deltas_is_joined_and_half_of_one_is_replaced() {
    let stream = chunks(&[
        r#"{"content":"tree \ud83c"}"#,
        r#"{"content":"\udf33 and \ud83c"}"#,
        r#"{"content":" done"}"#,
    ]);
    let (mut assembler, mut pieces) = (Assembler::new(Dialect::OpenAi), Vec::new());
    assembler.push(stream.as_bytes(), &mut |piece| pieces.push(piece)).unwrap();
    assert_eq!(assembler.partial().text, "tree 🌳 and \u{fffd} done");
    let body = assembler.end().unwrap();
    assert!(body.contains("tree 🌳 and \u{fffd} done"), "{body}");
    let text: String = pieces
        .iter()
        .map(|piece| match piece {
            tract_core::ReplyDelta::Text(text) => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(text, "tree 🌳 and \u{fffd} done");
    // The arguments of a call are JSON of their own.
    let stream = concat!(
        r#"data: {"type":"message_start","message":{"role":"assistant","content":[]}}"#,
        "\n\n",
        r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#,
        "\n\n",
        r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\":\"\\ud83c"}}"#,
        "\n\n",
        r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\\udf33 \\ud83c\"}"}}"#,
        "\n\n",
        r#"data: {"type":"message_stop"}"#,
        "\n\n",
    );
    let mut assembler = Assembler::new(Dialect::Anthropic);
    assembler.push(stream.as_bytes(), &mut |_| {}).unwrap();
    let reply = tract_providers::read_reply(Dialect::Anthropic, &assembler.end().unwrap()).unwrap();
    let call = reply.calls().next().unwrap();
    assert_eq!(call.arguments, "{\"a\":\"\\ud83c\\udf33 \u{fffd}\"}");
}

#[test]
fn calls_with_equal_or_reversed_numbers_are_told_apart() {
    let call = |index: usize, id: &str, name: &str, arguments: &str| {
        let arguments = serde_json::to_string(arguments).unwrap();
        format!(
            r#"{{"tool_calls":[{{"index":{index},"id":"{id}","function":{{"name":"{name}","arguments":{arguments}}}}}]}}"#
        )
    };
    let (a, b) = (r#"{"kind":"apple"}"#, r#"{"kind":"pear"}"#);
    for deltas in [
        [call(0, "c1", "count", a), call(0, "c2", "weigh", b)],
        [call(0, "", "count", a), call(0, "", "weigh", b)],
        [call(1, "c2", "weigh", b), call(0, "c1", "count", a)],
    ] {
        let stream = chunks(&[&deltas[0], &deltas[1]]);
        let mut assembler = Assembler::new(Dialect::OpenAi);
        assembler.push(stream.as_bytes(), &mut |_| {}).unwrap();
        let partial: Vec<String> = assembler
            .partial()
            .calls
            .iter()
            .map(|call| format!("{} {}", call.call.name, call.call.arguments))
            .collect();
        assert_eq!(partial, [format!("count {a}"), format!("weigh {b}")], "{deltas:?}");
        let body = assembler.end().unwrap();
        let (first, second) = (body.find("apple").unwrap(), body.find("pear").unwrap());
        assert!(first < second && !body.contains("countweigh"), "{body}");
    }
}

#[test]
fn every_choice_of_a_stream_is_kept_however_it_is_numbered() {
    let openai = |choices: &[&str]| -> String {
        let chunks = choices.iter().map(|choice| format!("data: {{\"choices\":[{choice}]}}\n\n"));
        chunks.collect::<String>() + "data: [DONE]\n\n"
    };
    let gemini = |candidates: &[&str]| -> String {
        let chunks = candidates.iter();
        chunks.map(|one| format!("data: {{\"candidates\":[{one}]}}\n\n")).collect()
    };
    let content =
        |text: &str| format!(r#""content":{{"role":"model","parts":[{{"text":"{text}"}}]}}"#);
    let (tea, coffee) = (content("Tea."), content("Coffee."));
    for (dialect, stream, first, other) in [
        // The choices of one chunk have no numbers.
        (
            Dialect::OpenAi,
            openai(&[
                r#"{"delta":{"content":"Tea."}},{"delta":{"content":"Coffee."}}"#,
                r#"{"delta":{},"finish_reason":"stop"},{"delta":{},"finish_reason":"stop"}"#,
            ]),
            "Tea.",
            Some("Coffee."),
        ),
        // They do not begin with 0.
        (
            Dialect::OpenAi,
            openai(&[r#"{"index":1,"delta":{"content":"Tea."},"finish_reason":"stop"}"#]),
            "Tea.",
            None,
        ),
        // The first one ends before the second one begins.
        (
            Dialect::OpenAi,
            openai(&[
                r#"{"index":0,"delta":{"content":"Tea."},"finish_reason":"stop"}"#,
                r#"{"index":1,"delta":{"content":"Coffee."}}"#,
                r#"{"index":1,"delta":{},"finish_reason":"length"}"#,
            ]),
            "Tea.",
            Some("Coffee."),
        ),
        (
            Dialect::Gemini,
            gemini(&[&format!(
                r#"{{{tea},"finishReason":"STOP"}},{{{coffee},"finishReason":"STOP"}}"#
            )]),
            "Tea.",
            Some("Coffee."),
        ),
        (
            Dialect::Gemini,
            gemini(&[&format!(r#"{{"index":2,{tea},"finishReason":"STOP"}}"#)]),
            "Tea.",
            None,
        ),
        (
            Dialect::Gemini,
            gemini(&[
                &format!(r#"{{"index":1,{}}}"#, content("Cof")),
                &format!(r#"{{"index":0,{tea},"finishReason":"STOP"}}"#),
                &format!(r#"{{"index":1,{},"finishReason":"STOP"}}"#, content("fee.")),
            ]),
            "Tea.",
            Some("Coffee."),
        ),
    ] {
        let mut assembler = Assembler::new(dialect);
        let mut delivered = String::new();
        assembler
            .push(stream.as_bytes(), &mut |piece| delivered.push_str(&format!("{piece:?}")))
            .unwrap();
        assert!(!delivered.contains("Cof"), "{stream}: {delivered}");
        let body = assembler.end().unwrap();
        let reply = tract_providers::read_reply(dialect, &body).unwrap();
        assert_eq!(reply.text(), first, "{stream}");
        let others: Vec<String> = reply.other_choices.iter().map(ToString::to_string).collect();
        match other {
            Some(text) => assert!(others.len() == 1 && others[0].contains(text), "{others:?}"),
            None => assert!(others.is_empty(), "{others:?}"),
        }
    }
    // A stream that waits for another candidate has not ended.
    let mut assembler = Assembler::new(Dialect::Gemini);
    let chunks = [
        format!(r#"{{"index":1,{}}}"#, content("Cof")),
        format!(r#"{{"index":0,{tea},"finishReason":"STOP"}}"#),
    ];
    let stream = gemini(&[&chunks[0], &chunks[1]]);
    assembler.push(stream.as_bytes(), &mut |_| {}).unwrap();
    assert!(!assembler.is_ended());
    assert!(assembler.end().unwrap().contains("Cof"));
}

#[test]
fn pieces_of_many_calls_are_delivered_once_each() {
    let mut deltas = Vec::new();
    for n in 0..2_000 {
        deltas.push(format!(
            r#"{{"tool_calls":[{{"index":{n},"id":"c{n}","function":{{"name":"f{n}","arguments":"{{\"n\":"}}}}]}}"#
        ));
        deltas.push(format!(
            r#"{{"tool_calls":[{{"index":{n},"function":{{"arguments":"{n}}}"}}}}]}}"#
        ));
    }
    let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
    let stream = chunks(&deltas);
    let (mut assembler, mut names, mut arguments) = (Assembler::new(Dialect::OpenAi), 0, vec![]);
    let mut take = |piece: tract_core::ReplyDelta| match piece {
        tract_core::ReplyDelta::Call { index, name } => {
            assert_eq!(name, format!("f{index}"));
            arguments.push(String::new());
            names += 1;
        }
        tract_core::ReplyDelta::Arguments { index, text } => arguments[index] += &text,
        other => panic!("{other:?}"),
    };
    assembler.push(stream.as_bytes(), &mut take).unwrap();
    assert_eq!(names, 2_000);
    for (n, text) in arguments.iter().enumerate() {
        assert_eq!(*text, format!("{{\"n\":{n}}}"));
    }
}
