//! What came in from a provider goes out to it as it was.

mod support;

use support::{cassettes, member, of, same, trajectories};
use tract_providers::{Dialect, ProviderConversation, RequestForms};

#[test]
fn every_trajectory_comes_back() {
    let (lines, all) = trajectories();
    assert!(!all || lines.len() == 193, "{} trajectories", lines.len());
    let mut verbatim = 0;
    for (name, line) in &lines {
        let conversation =
            ProviderConversation::read(line, None).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(conversation.dialect, Dialect::OpenAi, "{name}");
        let context = of(&conversation.imported);
        let params = context.to_openai().unwrap();
        let given = member(line, "messages");
        assert!(same(given, Some(&params.to_json())), "{name}:\n{}\n{given:?}", params.to_json());
        assert!(params.repairs.is_empty(), "{name}");
        let tools = context.to_messages().unwrap();
        let given = member(line, "tools").filter(|raw| *raw != "null" && *raw != "[]");
        assert!(same(given, tools.get("tools")), "{name}");
        verbatim += conversation.imported.drafts.iter().filter(|d| d.verbatim.is_some()).count();
    }
    println!("{} conversations, {verbatim} messages with verbatim bytes", lines.len());
}

/// Checks that the requests of a provider's exchanges come back.
fn all_come_back(provider: &str, dialect: Dialect) {
    let (exchanges, _) = cassettes(provider);
    assert!(!exchanges.is_empty(), "{provider}");
    let mut differing = Vec::new();
    for (name, text) in &exchanges {
        let request = member(text, "request").expect("an exchange has a request");
        let conversation = match ProviderConversation::read(text, Some(dialect)) {
            Ok(conversation) => conversation,
            Err(error) => {
                differing.push(format!("{name}: {error}"));
                continue;
            }
        };
        let context = of(&conversation.imported);
        let params = context.to_params(dialect);
        let params = params.expect("repair refuses nothing");
        for key in ["messages", "system", "tools", "input", "instructions"] {
            let given = member(request, key).filter(|raw| *raw != "null");
            let given = given.filter(|raw| key != "tools" || *raw != "[]");
            if !same(given, params.get(key)) {
                differing.push(format!(
                    "{name}: {key}\n  given {}\n  sent  {}\n  {:?}",
                    given.unwrap_or("nothing"),
                    params.get(key).unwrap_or("nothing"),
                    params.repairs.iter().map(ToString::to_string).collect::<Vec<_>>()
                ));
            }
        }
    }
    println!("{provider}: {} exchanges, {} differ", exchanges.len(), differing.len());
    assert!(differing.is_empty(), "{provider}: {}", differing.join("\n"));
}

#[test]
fn every_exchange_comes_back() {
    for (provider, dialect) in [
        ("openai", Dialect::OpenAi),
        ("anthropic", Dialect::Anthropic),
        ("ollama", Dialect::Ollama),
        ("openai_compat", Dialect::OpenAi),
        ("anthropic_compat", Dialect::Anthropic),
    ] {
        all_come_back(provider, dialect);
    }
}
