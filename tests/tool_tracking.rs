//! The tools of a context and of a request, through the facade. `docs/seeds.md` cites these tests by
//! name. Others about tools are in the engine (`tests/planning/tools.rs`) and in the stores' contract
//! (`tract_testkit::contract::tools`).

use serde_json::{Value, json};
use tract::{RequestForms, ToolSchema, block_on};

use crate::Dialect;
use crate::rules::{Accepted, broken};
use crate::walks::{body, memory};

fn tool(name: &str, about: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    json!({"type": "function", "function": {"name": name, "description": about, "parameters": parameters}})
}

fn spoken(tools: &[Value]) -> tract::Compiled {
    let tract = memory();
    block_on(async {
        tract.system("Be brief.").await.unwrap();
        tract.set_tools(tools).await.unwrap();
        tract.user("What is the weather?").await.unwrap();
        tract.compile().await.unwrap()
    })
}

#[test]
fn test_to_openai_params_includes_tools() {
    let tools = [tool("get_weather", "tells"), tool("search", "finds")];
    let found = body(&spoken(&tools).to_openai_params().unwrap());
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the weather?"},
    ]);
    assert_eq!(found, json!({"messages": messages, "tools": tools}));
    let none = body(&spoken(&[]).to_openai_params().unwrap());
    assert_eq!(none, json!({"messages": messages}), "no tools, no key");
}

#[test]
fn test_to_anthropic_params_includes_tools() {
    let given = [tool("get_weather", "tells"), tool("search", "finds")];
    let found = body(&spoken(&given).to_anthropic_params().unwrap());
    for (sent, given) in found["tools"].as_array().unwrap().iter().zip(&given) {
        let given = &given["function"];
        let expected = json!({
            "name": given["name"], "description": given["description"], "input_schema": given["parameters"],
        });
        assert_eq!(*sent, expected, "translated on a copy");
    }
    assert_eq!(found["tools"].as_array().unwrap().len(), 2);
    assert_eq!(broken(Dialect::Anthropic, Accepted::Nothing, &found), [""; 0]);
    let own = json!({"name": "search", "input_schema": {"type": "object", "properties": {}}, "cache_control": {"type": "ephemeral"}});
    let found = body(&spoken(std::slice::from_ref(&own)).to_anthropic_params().unwrap());
    assert_eq!(found["tools"], json!([own]), "its own shape goes as it came");
    assert!(body(&spoken(&[]).to_anthropic_params().unwrap()).get("tools").is_none());
}

#[test]
fn test_to_openai_backward_compat() {
    let params = spoken(&[tool("search", "finds")]).to_openai().unwrap();
    let messages: Vec<serde_json::Map<String, Value>> = params.to().expect("a list of objects");
    assert_eq!(messages.len(), 2, "tools are never messages");
    assert!(messages.iter().all(|message| message["content"].is_string()));
}

#[test]
fn test_deterministic_hash() {
    let text = tool("search", "finds").to_string();
    assert_eq!(ToolSchema::parse(&text).unwrap().id(), ToolSchema::parse(&text).unwrap().id());
    // What CPython's hash_tool_schema gives for {"name": "f", "n": 1.0, "é": [true, null]}.
    let schema = ToolSchema::parse(r#"{"name":"f","n":1.0,"é":[true,null]}"#).unwrap();
    assert_eq!(schema.id().to_hex(), GOLDEN);
}

#[test]
fn test_key_order_independent() {
    let [one, other] = [r#"{"a":1,"b":{"c":2,"d":3}}"#, r#"{ "b": {"d":3, "c":2}, "a": 1 }"#];
    let [one, other] = [one, other].map(|text| ToolSchema::parse(text).unwrap());
    assert_eq!(one.id(), other.id());
    assert_ne!(one.blob().id(), other.blob().id(), "the bytes as given are kept apart");
}

#[test]
fn test_different_schema_different_hash() {
    let [one, other] = ["finds", "finds lines"].map(|about| tool("grep", about).to_string());
    let [one, other] = [one, other].map(|text| ToolSchema::parse(&text).unwrap());
    assert_eq!(one.name(), other.name());
    assert_ne!(one.id(), other.id());
}

const GOLDEN: &str = "72098c3a04d745ab253072bfa5c53b2f0b24c641cb5a90e6be99fe296ad9ce15";
