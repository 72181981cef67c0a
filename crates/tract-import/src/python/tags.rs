//! The tags of the original in the metadata of a commit.

use tract_core::JsonText;
use tract_engine::Error;

/// Adds the tags of a commit to the caller's own facts.
pub(super) fn with_tags(metadata: Option<&JsonText>, tags: &[String]) -> Result<JsonText, Error> {
    let mut members: Vec<(String, String)> = Vec::new();
    if let Some(metadata) = metadata {
        let own = tract_core::json::split_object(metadata.as_str())?;
        members.extend(own.into_iter().map(|(name, value)| (name, value.to_owned())));
    }
    let name = if members.iter().any(|(name, _)| name == "tags") { "python_tags" } else { "tags" };
    members.push((name.to_owned(), quote_all(tags)));
    let members: Vec<String> =
        members.iter().map(|(name, value)| format!("{}:{value}", quote(name))).collect();
    Ok(JsonText::new(&format!("{{{}}}", members.join(",")))?)
}

fn quote_all(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(","))
}

fn quote(text: &str) -> String {
    let mut out = String::new();
    tract_core::json::write_string(&mut out, text, tract_core::json::Escapes::Raw);
    out
}
