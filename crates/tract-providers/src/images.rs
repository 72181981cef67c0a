//! Replaces images that every provider rejects by placeholders.

use std::borrow::Cow;

use tract_compile::{Compiled, Repair, RepairKind};
use tract_core::{Content, ImageSource, Message, Part};

/// Replaces invalid images of a context by texts, and reports each. A tool may have put words into
/// the base64 of an image, or left out its type. Every provider rejects a request with such an
/// image, and so each later request of the conversation.
pub(crate) fn without_invalid<'a>(
    compiled: &'a Compiled,
    repairs: &mut Vec<Repair>,
) -> Cow<'a, Compiled> {
    let is_invalid = |part: &Part| why_invalid(part).is_some();
    if !compiled.messages().any(|message| message.content.parts().iter().any(is_invalid)) {
        return Cow::Borrowed(compiled);
    }
    let messages = compiled.messages().map(|message| repaired(message, repairs)).collect();
    Cow::Owned(compiled.with_messages(messages))
}

fn repaired(message: &Message, repairs: &mut Vec<Repair>) -> Message {
    let mut message = message.clone();
    let parts = match &mut message.content {
        Content::System(body)
        | Content::User(body)
        | Content::Assistant(body)
        | Content::Reasoning(body)
        | Content::Custom { body, .. } => &mut body.parts,
        Content::ToolResult(answer) => &mut answer.parts,
        Content::Artifact(_) | Content::Note(_) => return message,
    };
    for part in parts {
        let Some(why) = why_invalid(part) else { continue };
        *part = Part::text(format!("[image left out: {why}]"));
        let text = format!("an image is replaced by a text: {why}");
        repairs.push(Repair::new(RepairKind::PartLeftOut, Some(message.slot), text));
        // The recorded bytes contain the image.
        message.verbatim = None;
    }
    message
}

/// Returns why every provider rejects a part that is an image.
fn why_invalid(part: &Part) -> Option<&'static str> {
    let Part::Image { media_type, source } = part else { return None };
    if media_type.as_deref().is_some_and(|kind| !is_image_type(kind)) {
        return Some("its media type is not one of an image");
    }
    match source {
        ImageSource::Base64(data) => why_not_base64(data),
        ImageSource::Url(url) => match url.strip_prefix("data:") {
            Some(data) => match data.split_once(',') {
                Some((head, data)) if head.ends_with(";base64") => {
                    let kind = head.split(';').next().unwrap_or_default();
                    match is_image_type(kind) {
                        true => why_not_base64(data),
                        false => Some("its media type is not one of an image"),
                    }
                }
                _ => Some("its data is not in base64"),
            },
            None => url.trim().is_empty().then_some("its address is empty"),
        },
        ImageSource::File(id) => id.is_empty().then_some("its address is empty"),
    }
}

fn is_image_type(kind: &str) -> bool {
    let Some((group, name)) = kind.split_once('/') else { return false };
    group.eq_ignore_ascii_case("image")
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(&byte))
}

/// Both alphabets are accepted, with padding or without.
fn why_not_base64(data: &str) -> Option<&'static str> {
    let digits = data.trim_end_matches('=');
    if digits.is_empty() {
        return Some("it is empty");
    }
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
    let is_whole = digits.bytes().all(is_digit) && data.len() - digits.len() <= 2;
    (!is_whole || digits.len() % 4 == 1).then_some("its data is not base64")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_invalid_by_its_type_and_by_its_data() {
        let of = |kind: Option<&str>, source| {
            why_invalid(&Part::Image { media_type: kind.map(str::to_owned), source }).is_some()
        };
        let base64 = |text: &str| ImageSource::Base64(text.to_owned());
        let url = |text: &str| ImageSource::Url(text.to_owned());
        for kind in [None, Some("image/png"), Some("IMAGE/svg+xml")] {
            assert!(!of(kind, base64("iVBORw0KGgo=")), "{kind:?}");
            assert!(!of(kind, url("https://x/a.png")) && !of(kind, base64("_-8")), "{kind:?}");
            for data in ["", "=", "Script completed\niVBORw0KGgo=", "a", "ab===", "a=b="] {
                assert!(of(kind, base64(data)), "{kind:?} {data:?}");
            }
        }
        for kind in ["image", "image/", "text/plain", "", "image/a b"] {
            assert!(of(Some(kind), base64("iVBORw0KGgo=")), "{kind:?}");
        }
        for address in [
            "data:image;base64,iVBORw0KGgo=",
            "data:image/png,raw",
            "data:",
            "",
            "data:image/png;base64,é",
        ] {
            assert!(of(None, url(address)), "{address:?}");
        }
        assert!(!of(None, url("data:image/png;base64,iVBORw0KGgo=")));
    }
}
