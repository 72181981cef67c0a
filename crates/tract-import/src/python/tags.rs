//! Adds the tags of the original to the metadata of a commit.

use serde_json::json;
use tract_core::JsonText;
use tract_core::json::split_object;
use tract_engine::Error;

/// Adds the tags of a commit to the caller's metadata.
pub(super) fn with_tags(metadata: Option<&JsonText>, tags: &[String]) -> Result<JsonText, Error> {
    let own = metadata.map_or(Ok(Vec::new()), |metadata| split_object(metadata.as_str()))?;
    let name = if own.iter().any(|(name, _)| name == "tags") { "python_tags" } else { "tags" };
    let tags = json!(tags).to_string();
    let members = own.iter().map(|(name, value)| (name.as_str(), *value)).chain([(name, &*tags)]);
    let members: Vec<String> =
        members.map(|(name, value)| format!("{}:{value}", json!(name))).collect();
    Ok(JsonText::new(&format!("{{{}}}", members.join(",")))?)
}
