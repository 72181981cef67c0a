//! Schemas and arguments that are small and ask for very much: each is answered within a bounded
//! number of steps and a bounded amount of memory, for any schema.

use std::process::Command;

use serde_json::{Value, json};
use tract_tools::{Call, Registry, hydrate};

/// Tells the child which case it runs.
const CASE: &str = "TRACT_TEST_EXHAUSTION_CASE";

/// What one case may take of memory, above what the process has before.
const MOST_BYTES: usize = 256 << 20;

/// The most memory that this process ever had, in bytes; only Linux tells.
fn peak() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse::<usize>().ok().map(|kib| kib * 1024)
}

/// A name, the code of the refusal, and what makes the schema and the arguments: only where the case
/// is run alone.
type Case = (&'static str, &'static str, fn() -> (Value, Value));

fn list_of(items: Value) -> Value {
    json!({"type": "object", "properties": {"xs": {"type": "array", "items": items}}})
}

fn constants(count: usize) -> Value {
    json!({"anyOf": (0..count).map(|n| json!({"const": n})).collect::<Vec<_>>()})
}

fn texts(count: usize, text: &str) -> Value {
    json!({"xs": vec![text; count]})
}

/// Values that are all different, and of which a hash over the leaves alone says the same: the
/// ways in which a list of leaves can be put in brackets.
fn bracketings(count: usize) -> Vec<Value> {
    let one = |n: usize| {
        let mut items = Vec::new();
        for bit in 0..18 {
            items.push(if n >> bit & 1 == 1 { json!([0]) } else { json!(0) });
        }
        Value::Array(items)
    };
    (0..count).map(one).collect()
}

fn wide() -> Value {
    let members = (0..10_000).map(|n| (format!("name{n}"), json!(n)));
    Value::Object(members.collect())
}

const CASES: &[Case] = &[
    ("a thousand constants", "const", || (list_of(constants(1_000)), texts(3_000, "x"))),
    ("forty thousand constants", "schema", || (list_of(constants(40_000)), texts(3_000, "x"))),
    ("forms of which the last fits", "work", || {
        let empty = json!({"type": "string", "maxLength": 0});
        let mut forms = vec![empty; 2_000];
        forms.push(json!({"type": "string"}));
        (list_of(json!({"anyOf": forms})), texts(20_000, "x"))
    }),
    ("forms of an object with many properties", "schema", || {
        let closed = |n: usize| {
            json!({"type": "object", "additionalProperties": false,
                    "properties": {"k": {"const": n}}, "required": ["k"]})
        };
        let forms: Vec<Value> = (0..1_000).map(closed).collect();
        (list_of(json!({"anyOf": forms})), json!({"xs": [wide(), wide(), wide()]}))
    }),
    ("forms of a large value", "const", || {
        let schema = json!({"type": "object", "properties": {"xs": constants(20_000)}});
        (schema, texts(2_000, &"x".repeat(1_000)))
    }),
    ("names that are long", "schema", || {
        let name = "n".repeat(1 << 20);
        (list_of(json!({"additionalProperties": constants(2_000)})), json!({"xs": [{name: "x"}]}))
    }),
    ("many large patterns", "bad_schema", || {
        let pattern = |n: usize| json!({"pattern": format!("\\pL{{500}}{n}")});
        let patterns: Vec<Value> = (0..10_000).map(pattern).collect();
        (list_of(json!({"allOf": patterns})), texts(10, "x"))
    }),
    ("a few patterns that compile to very much", "bad_schema", || {
        let pattern = |n: usize| json!({"pattern": format!("(\\pL{{40}}){{5}}{n}")});
        let patterns: Vec<Value> = (0..100).map(pattern).collect();
        (list_of(json!({"allOf": patterns})), texts(10, "x"))
    }),
    ("a large pattern on a long text", "work", || {
        (list_of(json!({"pattern": "^(x?){4000}y$"})), texts(1, &"x".repeat(200_000)))
    }),
    ("control characters in a pattern", "bad_schema", || {
        (list_of(json!({"pattern": "\\cA".repeat(10_000)})), texts(1, "x"))
    }),
    ("references that may mean many places", "refused", || {
        let named = |n: usize| (format!("d{n}"), json!({"$id": format!("a{n}"), "$ref": "#"}));
        let named: serde_json::Map<_, _> = (0..8_000).map(named).collect();
        (json!({"type": "object", "$defs": named}), json!({}))
    }),
    ("unique items that look alike", "required", || {
        let schema = json!({"type": "object", "required": ["other"],
                "properties": {"xs": {"type": "array", "uniqueItems": true}}});
        (schema, json!({"xs": bracketings(50_000)}))
    }),
];

#[test]
fn the_child_runs_one_case() {
    let Ok(name) = std::env::var(CASE) else { return };
    let (_, _, make) = CASES.iter().find(|(known, ..)| *known == name).unwrap();
    let (schema, arguments) = make();
    let tool = json!({"name": "f", "parameters": schema}).to_string();
    let call = Call::new("c", "f", arguments.to_string());
    drop((schema, arguments));
    let before = peak().unwrap_or(0);
    let (code, count, longest, text) = match Registry::builder().definition(&tool).build() {
        Ok(registry) => {
            let errors = hydrate(call, &registry).remove(0).errors;
            let longest = errors.iter().map(|error| error.message.len()).max().unwrap_or(0);
            (errors[0].code.clone(), errors.len(), longest, errors[0].to_string())
        }
        Err(error) => ("refused".to_owned(), 1, error.to_string().len(), error.to_string()),
    };
    let peak = peak().unwrap_or(0) - before;
    println!("\ncode {code} of {count}\nlongest {longest}\npeak {peak}\nsays {text}");
}

#[test]
fn an_excessive_request_is_refused_in_little_memory() {
    let mut wrong = Vec::new();
    for (name, expected, _) in CASES {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["exhaustion::the_child_runs_one_case", "--exact", "--nocapture"])
            .env(CASE, name)
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let number = |key: &str| -> Option<usize> {
            stdout.lines().find_map(|line| line.strip_prefix(key))?.parse().ok()
        };
        let code = stdout.lines().find_map(|line| line.strip_prefix("code ")).unwrap_or("none");
        let (code, count) = code.split_once(" of ").unwrap_or((code, "0"));
        let (peak, longest) = (number("peak ").unwrap_or(usize::MAX), number("longest "));
        println!("{name}: {code}, {count} errors, {} MiB", peak >> 20);
        if code != *expected
            || peak > MOST_BYTES
            || longest.is_none_or(|longest| longest > 4096)
            || count.parse::<usize>().is_ok_and(|count| count > 33)
        {
            wrong.push(format!("{name}: expected {expected}, found {stdout}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
