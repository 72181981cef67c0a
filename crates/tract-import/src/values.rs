//! Helpers shared by the formats: times, texts, usage.

use serde::Deserialize;
use serde_json::value::RawValue;
use tract_core::time::parse_rfc3339;
use tract_core::{AuthorKind, Draft, ImageSource, JsonText, Origin, Part, ToolSchema, json};

use crate::report::TokenTotals;

/// The text of a JSON value.
pub(crate) type Raw<'a> = Option<&'a RawValue>;

/// Parses a time. Without a zone it is UTC.
pub(crate) fn time(text: Option<&str>) -> Option<i64> {
    let text = text?;
    parse_rfc3339(text).or_else(|_| parse_rfc3339(&format!("{}Z", text.replacen(' ', "T", 1)))).ok()
}

/// Reads a text; `None` for any other value.
pub(crate) fn text(raw: Raw<'_>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

/// Reads a value; `None` if it has another format.
pub(crate) fn lenient<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

/// Returns whether an object has all of these members.
pub(crate) fn has_members(text: &str, names: &[&str]) -> bool {
    let members = json::split_object(text).unwrap_or_default();
    names.iter().all(|name| members.iter().any(|(member, _)| member == name))
}

/// Returns a value as the text that a model reads: the text of a string, the JSON of any other
/// value.
pub(crate) fn shown(raw: &RawValue) -> String {
    serde_json::from_str(raw.get()).unwrap_or_else(|_| canonical(raw))
}

/// Reads a member as [`shown`] does, so that a value of another type does not make its object
/// unreadable. `None` for null.
pub(crate) fn shown_member<'de, D: serde::Deserializer<'de>>(
    member: D,
) -> Result<Option<String>, D::Error> {
    let raw: Raw<'de> = Deserialize::deserialize(member)?;
    Ok(given(raw).map(shown))
}

/// Returns a JSON value in canonical form, or unchanged if it lacks one.
pub(crate) fn canonical(raw: &RawValue) -> String {
    JsonText::new(raw.get()).map_or_else(|_| raw.get().to_owned(), |text| text.as_str().to_owned())
}

/// Reads a content that is a text, or a list of texts and images in any provider's format.
/// Consecutive texts are joined. What has an unknown format is kept as its JSON, and `unread`
/// gets a description of it.
pub(crate) fn content_parts(raw: Raw<'_>, unread: &mut Vec<String>) -> Vec<Part> {
    let Some(raw) = given(raw) else { return Vec::new() };
    if let Some(text) = text(Some(raw)) {
        return if text.is_empty() { Vec::new() } else { vec![Part::text(text)] };
    }
    let Some(elements) = lenient::<Vec<&RawValue>>(Some(raw)) else {
        unread.push("content: neither a text nor a list, kept as its JSON".to_owned());
        return vec![Part::text(canonical(raw))];
    };
    let mut parts: Vec<Part> = Vec::new();
    let read = |(n, raw)| match text(Some(raw)) {
        Some(text) => vec![Part::text(text)],
        None => element(raw).unwrap_or_else(|| {
            unread.push(format!("content[{n}]: an element of an unknown kind, kept as its JSON"));
            vec![Part::text(canonical(raw))]
        }),
    };
    for part in elements.into_iter().enumerate().flat_map(read) {
        match (parts.last_mut(), part) {
            (Some(Part::Text { text: last }), Part::Text { text }) => {
                last.push('\n');
                last.push_str(&text);
            }
            (_, part) => parts.push(part),
        }
    }
    parts
}

/// Returns the parts of a content, at least one: an empty content is an empty text.
pub(crate) fn message_parts(raw: Raw<'_>, unread: &mut Vec<String>) -> Vec<Part> {
    let parts = content_parts(raw, unread);
    if parts.is_empty() { vec![Part::text("")] } else { parts }
}

/// Reads an element of a content: a text, or images.
fn element(raw: &RawValue) -> Option<Vec<Part>> {
    #[derive(Deserialize)]
    struct Element<'a> {
        #[serde(rename = "type", borrow)]
        element_type: Raw<'a>,
        #[serde(borrow)]
        text: Raw<'a>,
        #[serde(borrow)]
        image_url: Raw<'a>,
        #[serde(borrow)]
        image_urls: Raw<'a>,
        #[serde(borrow)]
        url: Raw<'a>,
        #[serde(borrow)]
        source: Raw<'a>,
        #[serde(borrow)]
        path: Raw<'a>,
        #[serde(borrow)]
        data: Raw<'a>,
        #[serde(borrow)]
        image: Raw<'a>,
        #[serde(alias = "mediaType", alias = "mime_type", alias = "mimeType", borrow)]
        media_type: Raw<'a>,
    }
    let element: Element<'_> = lenient(Some(raw))?;
    if let Some(text) = text(element.text) {
        return Some(vec![Part::text(text)]);
    }
    let media_type = text(element.media_type);
    let is_image = text(element.element_type).is_some_and(|kind| kind.contains("image"))
        || media_type.as_deref().is_some_and(|kind| kind.starts_with("image/"));
    if !is_image {
        return None;
    }
    if let Some(urls) = lenient::<Vec<&RawValue>>(element.image_urls) {
        return Some(
            urls.into_iter().filter_map(|url| Some(image(text(Some(url))?, None))).collect(),
        );
    }
    // The image is in the element, or in an object in it.
    let place = [element.source, element.image_url].into_iter().find_map(given);
    if let Some(inner) = place {
        return match text(Some(inner)) {
            Some(url) => Some(vec![image(url, media_type)]),
            None => {
                let inner: Element<'_> = lenient(Some(inner))?;
                let media_type = text(inner.media_type).or(media_type);
                let found = [inner.url, inner.data, inner.path].into_iter().find_map(text)?;
                Some(vec![image(found, media_type)])
            }
        };
    }
    let found = [element.url, element.data, element.image].into_iter().find_map(text)?;
    Some(vec![image(found, media_type)])
}

/// Returns an image given as a url, a data url, or base64.
pub(crate) fn image(text: String, media_type: Option<String>) -> Part {
    if let Some((head, data)) = text.split_once(";base64,") {
        let media_type = head.strip_prefix("data:").map(str::to_owned).or(media_type);
        return Part::Image { media_type, source: ImageSource::Base64(data.to_owned()) };
    }
    let is_url = text.contains("://");
    let source = if is_url { ImageSource::Url(text) } else { ImageSource::Base64(text) };
    Part::Image { media_type, source }
}

/// Reads a content that is a text or a list of blocks. `part` reads a block.
pub(crate) fn parts(
    content: &serde_json::Value,
    part: impl Fn(&serde_json::Value) -> Option<Part>,
) -> Vec<Part> {
    use serde_json::Value;

    match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![Part::text(text)],
        Value::Array(blocks) => blocks.iter().filter_map(part).collect(),
        _ => Vec::new(),
    }
}

/// Returns the valid tool definitions.
pub(crate) fn tools(definitions: &[&RawValue]) -> Vec<ToolSchema> {
    definitions.iter().filter_map(|raw| ToolSchema::parse(raw.get()).ok()).collect()
}

/// Returns a value that exists and is not null.
pub(crate) fn given(raw: Raw<'_>) -> Raw<'_> {
    raw.filter(|raw| raw.get() != "null")
}

/// Returns the origin of an imported draft, with the message's id in the recording.
pub(crate) fn origin(id: Option<&str>) -> Origin {
    Origin { id: id.map(str::to_owned), ..AuthorKind::Import.into() }
}

/// Completes an imported draft with its origin and time.
pub(crate) fn recorded(mut draft: Draft, id: Option<&str>, at: Option<i64>) -> Draft {
    draft.origin = origin(id);
    draft.created_at = at;
    draft
}

/// Returns the generation config that names a model.
pub(crate) fn model_config(model: Option<&str>) -> Option<JsonText> {
    JsonText::of(&serde_json::json!({ "model": model? })).ok()
}

/// Adds the tokens that were written to a cache for an hour to a usage. A usage without them is
/// unchanged, which keeps the ids of existing commits.
pub(crate) fn set_hour(usage: &mut serde_json::Value, tokens: u64) {
    if let (Some(members), 1..) = (usage.as_object_mut(), tokens) {
        members.insert("cache_write_1h_tokens".to_owned(), tokens.into());
    }
}

/// Members of metadata. As in all importers, the tokens of a request include those read from a
/// cache.
#[derive(Debug, Default)]
pub(crate) struct Metadata(serde_json::Map<String, serde_json::Value>);

impl Metadata {
    pub(crate) fn set(&mut self, name: &str, value: impl Into<serde_json::Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub(crate) fn set_some(&mut self, name: &str, value: Option<impl Into<serde_json::Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    pub(crate) fn usage(&mut self, usage: &TokenTotals) {
        let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let mut members = serde_json::json!({
            "input_tokens": input,
            "output_tokens": usage.output,
            "cached_tokens": usage.cache_read,
            "cache_write_tokens": usage.cache_write,
        });
        set_hour(&mut members, usage.cache_write_1h);
        self.set("usage", members);
    }

    pub(crate) fn json(&self) -> Option<JsonText> {
        if self.0.is_empty() { None } else { JsonText::of(&self.0).ok() }
    }
}
