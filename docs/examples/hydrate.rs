use tract::tools::{Call, HydrateOptions, Registry, Stage, hydrate, hydrate_with};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let add = r#"{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"},
        "b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}}"#;
    let registry = Registry::builder().definition(add).build()?;
    let calls = [
        Call::new("c1", "add", r#"{"a":1,"b":2}"#), // or a whole reply: `hydrate(&reply, &registry)`
        Call::new("c2", "add", r#"{"a":1,"b":"2"}"#),
        Call::new("c3", "ad", "{'a':1}"),
    ];
    let hydrated = hydrate(&calls[..], &registry);
    assert!(hydrated[0].success() && hydrated[0].is_trusted());
    assert_eq!(hydrated[1].error_text(), r#"/b: expected an integer, found the string "2""#);
    assert_eq!(hydrated[2].errors[0].stage, Stage::Parse);
    assert!(hydrated[2].error_text().contains("did you mean \"add\"?"));

    // Reading more than strict JSON is opt-in, and each change is listed.
    let options = HydrateOptions { coercion: true, ..HydrateOptions::default() };
    let coerced = &hydrate_with(calls[1].clone(), &registry, &options)[0];
    assert!(coerced.success());
    assert_eq!(coerced.provenance.edits[0].before, "\"2\"");
    Ok(())
}
