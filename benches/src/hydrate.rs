//! Hydration of a valid call of nine fields, against bare parsing and validating with the same
//! crates; a definition's translation, first and again; and how soon hostile arguments are refused.

use std::hint::black_box;
use std::time::Instant;

use tract::schema::{Target, translate};
use tract::tools::{Call, Registry, hydrate};

use crate::table::{Figure, Table, median};

const TOOL: &str = r##"{"name":"book","description":"Books a trip.","parameters":{"type":"object","properties":{
    "from":{"type":"string","minLength":2},"to":{"type":"string"},"date":{"type":"string","pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
    "adults":{"type":"integer","minimum":1,"maximum":9},"cabin":{"type":"string","enum":["economy","business","first"]},
    "flexible":{"type":"boolean"},"budget":{"type":"number"},"stops":{"type":"array","items":{"type":"string"},"maxItems":4},
    "contact":{"$ref":"#/$defs/contact"}},"required":["from","to","date","adults"],"additionalProperties":false,
    "$defs":{"contact":{"type":"object","properties":{"name":{"type":"string"},"mail":{"type":["string","null"]}},
    "required":["name"],"additionalProperties":false}}}}"##;

const CALL: &str = r#"{"from":"BSL","to":"LIS","date":"2026-11-22","adults":2,"cabin":"economy","flexible":true,
    "budget":420.5,"stops":["MAD"],"contact":{"name":"A. Person","mail":null}}"#;

/// Nanoseconds of one run.
fn nanos(each: usize, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..each).for_each(|_| run());
    start.elapsed().as_secs_f64() * 1e9 / each as f64
}

/// Nanoseconds of one run, the median of rounds.
fn settled(rounds: usize, each: usize, mut run: impl FnMut()) -> f64 {
    median((0..rounds).map(|_| nanos(each, &mut run)).collect())
}

/// The floor, ours and the ratio of both, the medians of rounds. Both take turns, so that a machine
/// which is slower for a while is so for both.
fn compared(
    rounds: usize,
    each: usize,
    mut floor: impl FnMut(),
    mut ours: impl FnMut(),
) -> (f64, f64, f64) {
    let round = |_| (nanos(each, &mut floor), nanos(each, &mut ours));
    let taken: Vec<(f64, f64)> = (0..rounds).map(round).collect();
    let ratio = median(taken.iter().map(|(floor, ours)| floor / ours).collect());
    let (floors, ours) = taken.into_iter().unzip();
    (median(floors), median(ours), ratio)
}

/// Inputs that demand the most validation work: a name, a schema and arguments.
fn hostile() -> [(&'static str, String, String); 4] {
    let list = |items: &str| {
        format!(r#"{{"type":"object","properties":{{"xs":{{"type":"array","items":{items}}}}}}}"#)
    };
    let texts = |count: usize, text: &str| {
        format!(r#"{{"xs":[{}]}}"#, vec![format!("{text:?}"); count].join(","))
    };
    let constants: Vec<String> = (0..1_000).map(|n| format!(r#"{{"const":{n}}}"#)).collect();
    let forms = vec![r#"{"type":"string","maxLength":0}"#; 2_000].join(",");
    let patterns: Vec<String> =
        (0..500).map(|n| format!(r#"{{"pattern":"(\\pL{{40}}){{5}}{n}"}}"#)).collect();
    [
        (
            "3,000 texts against a thousand constants",
            list(&format!(r#"{{"anyOf":[{}]}}"#, constants.join(","))),
            texts(3_000, "x"),
        ),
        (
            "20,000 texts against 2,000 forms of which the last fits",
            list(&format!(r#"{{"anyOf":[{forms},{{"type":"string"}}]}}"#)),
            texts(20_000, "x"),
        ),
        (
            "200 KB against a pattern of 4,000 choices",
            list(r#"{"pattern":"^(x?){4000}y$"}"#),
            texts(1, &"x".repeat(200_000)),
        ),
        (
            "500 patterns that compile to very much",
            list(&format!(r#"{{"allOf":[{}]}}"#, patterns.join(","))),
            texts(1, "x"),
        ),
    ]
}

/// How long it takes until hostile arguments, or a hostile schema, are refused.
fn refusals(table: &mut Table) {
    for (what, schema, arguments) in hostile() {
        let tool = format!(r#"{{"name":"f","parameters":{schema}}}"#);
        let start = Instant::now();
        let registry = Registry::builder().definition(&tool).build().unwrap();
        let refused = !hydrate(Call::new("c", "f", arguments), &registry)[0].success();
        let took = start.elapsed();
        let ours = format!("{:.0} ms until refused", took.as_secs_f64() * 1e3);
        table.limit(what, ours, "10 s, the deadline", refused && took.as_secs() < 10);
    }
}

/// How many steps the validator takes until it stops at a schema whose references double forty times.
fn doublings(table: &mut Table) {
    use tract::schema::{JsonSchema, SchemaCompiler as _, SchemaLimits, ValidateOptions};

    let next = |n: usize| serde_json::json!({ "$ref": format!("#/$defs/d{n}") });
    let limits = SchemaLimits { work: u64::MAX, ..SchemaLimits::default() };
    let options = ValidateOptions { limits, ..ValidateOptions::default() };
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let double = |n: usize| serde_json::json!({ keyword: [next(n + 1), next(n + 1)] });
        let mut defs: serde_json::Map<String, serde_json::Value> =
            (0..40).map(|n| (format!("d{n}"), double(n))).collect();
        // A form that fits would end anyOf at once, and one that does not the others.
        let leaf = match keyword {
            "anyOf" => serde_json::json!({ "type": "string" }),
            _ => serde_json::json!({}),
        };
        defs.insert("d40".to_owned(), leaf);
        let schema = serde_json::json!({ "properties": { "x": next(0) }, "$defs": defs });
        let validator = JsonSchema.compile(&schema.to_string(), &options).unwrap();
        let start = Instant::now();
        let (result, steps) = validator.validate_counting(&serde_json::json!({ "x": 1 }));
        let took = start.elapsed();
        let ours = format!("{steps} steps, {:.0} ms until stopped", took.as_secs_f64() * 1e3);
        let most = limits.steps + limits.steps / 100;
        let what = format!("2⁴⁰ schemas by {keyword}, without the estimate");
        let is_bounded = result.is_err() && steps <= most;
        table.limit(what, ours, "20,000,000 steps, the limit", is_bounded);
    }
}

pub(crate) fn run(table: &mut Table, quick: bool) {
    let (rounds, each) = if quick { (5, 2_000) } else { (31, 10_000) };
    let registry = Registry::builder().definition(TOOL).build().unwrap();
    registry.compile_all().unwrap();
    let tool: serde_json::Value = serde_json::from_str(TOOL).unwrap();
    let bare = jsonschema::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .offline()
        .build(&tool["parameters"])
        .unwrap();
    let call = Call::new("call_1", "book", CALL);
    let by_hand = || {
        let value: serde_json::Value = serde_json::from_str(black_box(CALL)).unwrap();
        assert!(bare.is_valid(black_box(&value)));
    };
    let hydrating = || {
        let hydrated = hydrate(std::slice::from_ref(black_box(&call)), &registry);
        assert!(black_box(&hydrated)[0].success());
    };
    // Rounds of some milliseconds: short enough that what disturbs one disturbs few.
    let (floor, ours, ratio) = compared(rounds * 10, each / 10, by_hand, hydrating);
    table.add(Figure {
        what: "hydration of a valid call of nine fields".to_owned(),
        ours: format!("{:.2} µs", ours / 1e3),
        floor: format!("{:.2} µs (parse and validate)", floor / 1e3),
        ratio: Some(ratio),
        wanted: "0.5",
        met: Some(ratio >= 0.5),
    });
    let to = Target::parse("openai").unwrap();
    let translated = settled(rounds, each / 10, || {
        black_box(translate(black_box(TOOL), to, false).unwrap());
    });
    let tool = registry.iter().next().unwrap();
    let again = settled(rounds, each, || {
        black_box(tool.sent_to(tract::schema::Dialect::OpenAi));
    });
    let ours = format!("{:.2} µs, again {again:.0} ns", translated / 1e3);
    table.limit("translation of its definition", ours, "cached", again * 10.0 < translated);
    refusals(table);
    doublings(table);
}
