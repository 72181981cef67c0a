//! Helpers shared by the formats: times, texts, usage.

use std::collections::HashMap;

use serde::de::value::{BoolDeserializer, MapDeserializer};
use serde::de::{IntoDeserializer, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::value::RawValue;
use tract_core::time::parse_rfc3339;
use tract_core::{AuthorKind, Draft, ImageSource, JsonText, Origin, Part, ToolSchema, json};

use crate::misfits;
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
    lenient(raw)
}

/// Reads a value; `None` if it has another format. A value that fits no request is reported, see
/// [`misfits`]. Of an object, the members of an unexpected type are left out, if they are optional.
pub(crate) fn lenient<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Option<T> {
    let raw = raw?;
    let value = match serde_json::from_str(raw.get()) {
        // serde reads a list as the members of a struct in order.
        Ok(_) if raw.get().starts_with('[') && is_struct::<T>() => None,
        Ok(value) => Some(value),
        Err(_) if raw.get().starts_with('{') => fitting_members(raw),
        Err(_) => None,
    };
    match value {
        Some(_) => misfits::clear(raw),
        None => misfits::note(raw),
    }
    value
}

/// Reads a record as [`lenient`] does.
///
/// # Errors
/// When it is not an object in JSON, or lacks a member.
pub(crate) fn read_record<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> serde_json::Result<T> {
    match serde_json::from_slice(bytes) {
        Err(error) => {
            let raw: Raw<'a> = serde_json::from_slice(bytes).ok();
            raw.and_then(|raw| lenient(Some(raw))).ok_or(error)
        }
        Ok(_) if bytes.starts_with(b"[") => Err(serde::de::Error::custom("a list, not an object")),
        Ok(value) => Ok(value),
    }
}

/// The members of an object, of which some may be left out.
struct Members<I>(I);

impl<'de, N, I> serde::Deserializer<'de> for Members<I>
where
    N: IntoDeserializer<'de, serde_json::Error>,
    I: Iterator<Item = (N, &'de RawValue)>,
{
    type Error = serde_json::Error;

    // Only as an object: unlike serde's own type, which is also read as a list of pairs.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> serde_json::Result<V::Value> {
        visitor.visit_map(MapDeserializer::new(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}

/// Returns a required member of a document.
///
/// # Errors
/// When it is absent, or has an unexpected type.
pub(crate) fn required<T>(member: Option<T>, name: &'static str) -> serde_json::Result<T> {
    member.ok_or_else(|| serde::de::Error::missing_field(name))
}

/// Returns whether a type is read from an object without members.
fn needs_no_member<'a, T: Deserialize<'a>>() -> bool {
    T::deserialize(Members(std::iter::empty::<(&str, &'a RawValue)>())).is_ok()
}

/// Returns whether a type is read from the members of an object, and not from any value.
fn is_struct<'a, T: Deserialize<'a>>() -> bool {
    let is_any = T::deserialize(BoolDeserializer::<serde_json::Error>::new(true)).is_ok();
    !is_any && needs_no_member::<T>()
}

/// Reads an object without the members that have an unexpected type, which are noted. `None` if the
/// type requires a member, or is not read from an object.
fn fitting_members<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    if !needs_no_member::<T>() {
        return None;
    }
    let mut members: HashMap<String, &'a RawValue> = serde_json::from_str(raw.get()).ok()?;
    members.retain(|name, member| {
        let fits = T::deserialize(Members(std::iter::once((name.as_str(), *member)))).is_ok();
        if !fits {
            misfits::note(member);
        }
        fits
    });
    T::deserialize(Members(members.into_iter())).ok()
}

/// Reads a member with [`lenient`], so that a value of another type does not make its object
/// unreadable, and of an inner object only the member of the other type is left out.
pub(crate) fn member<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    member: D,
) -> Result<Option<T>, D::Error> {
    let raw: Raw<'de> = Deserialize::deserialize(member)?;
    Ok(lenient(given(raw)))
}

/// Reads a list with [`lenient`], element by element.
pub(crate) fn members<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(
    member: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let raw: Raw<'de> = Deserialize::deserialize(member)?;
    Ok(elements(given(raw)))
}

/// Reads the elements of a list, each with [`lenient`]; `None` if it is not a list.
pub(crate) fn elements<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Option<Vec<T>> {
    let list: Vec<&RawValue> = lenient(raw)?;
    Some(list.into_iter().filter_map(|element| lenient(Some(element))).collect())
}

/// Returns whether an object has all of these members.
pub(crate) fn has_members(text: &str, names: &[&str]) -> bool {
    let members = json::split_object(text).unwrap_or_default();
    names.iter().all(|name| members.iter().any(|(member, _)| member == name))
}

/// Returns a value as the text that a model reads: the text of a string, the JSON of any other
/// value.
pub(crate) fn shown(raw: &RawValue) -> String {
    text(Some(raw)).unwrap_or_else(|| canonical(raw))
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
    misfits::keep(raw);
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
pub(crate) fn element(raw: &RawValue) -> Option<Vec<Part>> {
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

/// Returns the valid tool definitions. The others are reported, see [`misfits`].
pub(crate) fn tools(definitions: &[&RawValue]) -> Vec<ToolSchema> {
    let read = |raw: &&RawValue| {
        let tool = ToolSchema::parse(raw.get()).ok();
        if tool.is_none() {
            misfits::note(raw);
        }
        tool
    };
    definitions.iter().filter_map(read).collect()
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
