use tract::schema::{Definition, Target, params, translate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Any shape: OpenAI Chat, Responses, Anthropic, Ollama, MCP, or plain.
    let given = r#"{"name":"fs.read","description":"Reads a file.",
        "annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","properties":{
        "path":{"type":"string"},"limit":{"type":"integer","default":50}},"required":["path"]}}"#;
    let definition = Definition::parse(given)?;
    assert_eq!(definition.schema().text(), given);
    assert!(definition.traits().read_only);

    // A view for people and programs.
    let view = params(definition.parameters().ok_or("no parameters")?)?;
    assert_eq!(view.to_string(), "path: string, required\nlimit: integer, default 50\n");

    // A copy for a provider, and what it cannot carry.
    let sent = translate(given, Target::parse("openai").ok_or("no such provider")?, false)?;
    assert!(sent.sent_name.starts_with("fs_read_")); // OpenAI takes no dots; replies lead back
    let lost: Vec<&str> = sent.losses.iter().map(|loss| loss.path.as_str()).collect();
    assert_eq!(lost, ["annotations", "strict", "name"]);
    Ok(())
}
