//! Replaces images that providers reject by placeholders, or corrects their types.

use std::borrow::Cow;

use tract_compile::{Compiled, Repair, RepairKind};
use tract_core::{Content, ImageSource, Message, Part};
use tract_schema::Dialect;

use crate::raw::{Node, camel};

/// The provider that a request is for.
#[derive(Clone, Copy)]
pub(crate) struct ImageProvider<'a> {
    pub(crate) dialect: Dialect,
    /// Its name for people.
    pub(crate) title: &'static str,
    /// Returns whether a message was recorded in a request to it.
    pub(crate) is_own: &'a dyn Fn(&Message) -> bool,
}

/// Replaces invalid images of a context by texts, and reports each. A tool may have put words into
/// the base64 of an image, or left out its type. Every provider rejects a request with such an
/// image, and so each later request of the conversation. A type that the data contradicts is
/// corrected where the provider compares them.
pub(crate) fn without_invalid<'a>(
    compiled: &'a Compiled,
    provider: ImageProvider<'_>,
    repairs: &mut Vec<Repair>,
) -> Cow<'a, Compiled> {
    let is_invalid = |message: &Message| {
        let is_own = (provider.is_own)(message);
        message.content.parts().iter().any(|part| fault(part, provider.dialect, is_own).is_some())
    };
    if !compiled.messages().any(is_invalid) {
        return Cow::Borrowed(compiled);
    }
    let messages =
        compiled.messages().map(|message| repaired(message, provider, repairs)).collect();
    Cow::Owned(compiled.with_messages(messages))
}

fn repaired(message: &Message, provider: ImageProvider<'_>, repairs: &mut Vec<Repair>) -> Message {
    let is_own = (provider.is_own)(message);
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
        let mut last = None;
        // An address that contains the data is replaced by the data, which may have a fault too.
        for _ in 0..4 {
            let Some(fault) = fault(part, provider.dialect, is_own) else { break };
            let (kind, text) = fault.repair(part, provider);
            if last.as_ref() == Some(&text) {
                break;
            }
            repairs.push(Repair::new(kind, Some(message.slot), text.clone()));
            last = Some(text);
            // The recorded bytes contain the image.
            message.verbatim = None;
        }
    }
    message
}

/// The reason for which a provider rejects an image.
enum Fault {
    /// It cannot be sent.
    Invalid(&'static str),
    /// The provider does not accept its media type.
    NotAccepted,
    /// Its media type is not the one of its data, which is this one.
    Type(&'static str),
    /// Its data is base64 of another alphabet, or without padding.
    Alphabet,
    /// Its address contains the data, which the provider accepts only as data.
    Inline,
    /// The provider does not read addresses of this kind.
    Address,
}

impl Fault {
    /// Repairs a part that has this fault, and returns the report.
    fn repair(self, part: &mut Part, provider: ImageProvider<'_>) -> (RepairKind, String) {
        let title = provider.title;
        let why = match (self, &mut *part) {
            (Self::Type(found), Part::Image { media_type, .. }) => {
                *media_type = Some(found.to_owned());
                let text = format!("an image gets the media type of its data: {found}");
                return (RepairKind::Changed, text);
            }
            (Self::Alphabet, Part::Image { source: ImageSource::Base64(data), .. }) => {
                *data = standard_base64(data);
                let text = "the data of an image is written in standard base64";
                return (RepairKind::Changed, text.to_owned());
            }
            (Self::Inline, Part::Image { media_type, source }) => {
                if let ImageSource::Url(url) = source
                    && let Some((kind, data)) = inline_data(url)
                {
                    *media_type = Some(kind.to_owned());
                    *source = ImageSource::Base64(data.to_owned());
                }
                let text = "an image at a data: address is sent as its data";
                return (RepairKind::Changed, text.to_owned());
            }
            (Self::Invalid(why), _) => Cow::Borrowed(why),
            (Self::Address, _) => {
                Cow::Owned(format!("{title} does not read addresses of this kind"))
            }
            (Self::NotAccepted | Self::Type(_) | Self::Alphabet | Self::Inline, _) => {
                Cow::Owned(format!("{title} does not accept its media type"))
            }
        };
        *part = Part::text(format!("[image left out: {why}]"));
        (RepairKind::PartLeftOut, format!("an image is replaced by a text: {why}"))
    }
}

/// Returns the media type and the base64 of an address that contains its data.
fn inline_data(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let head = head.strip_suffix(";base64")?;
    Some((head.split(';').next().unwrap_or_default(), data))
}

/// Writes base64 of any alphabet in the standard one, with padding.
fn standard_base64(data: &str) -> String {
    let digits = data.trim_end_matches('=');
    let mut written: String = digits
        .chars()
        .map(|digit| match digit {
            '-' => '+',
            '_' => '/',
            digit => digit,
        })
        .collect();
    while !written.len().is_multiple_of(4) {
        written.push('=');
    }
    written
}

/// Returns whether base64 has the standard alphabet and padding.
fn is_standard_base64(data: &str) -> bool {
    data.len().is_multiple_of(4) && !data.bytes().any(|byte| matches!(byte, b'-' | b'_'))
}

/// Maximum length in bytes of the JSON of an image without a source.
const SHORT_BYTES: usize = 4 << 10;

/// Returns whether a part that was kept as received is an image without a source, in the format of
/// any provider.
fn lacks_source(json: &str) -> bool {
    let Ok(fields) = Node::root(json).object() else { return false };
    let object = |name: &str| fields.some_object(name).ok().flatten();
    match fields.text("type").as_deref() {
        Some("image") => {
            object("source").is_none_or(|source| match source.text("type").as_deref() {
                Some("base64") => source.text("data").is_none(),
                Some("url") => source.text("url").is_none(),
                Some("file") => source.text("file_id").is_none(),
                Some(_) => false,
                None => true,
            })
        }
        Some("image_url") => {
            let inner = object("image_url").and_then(|inner| inner.text("url"));
            fields.text("image_url").or(inner).is_none()
        }
        Some("input_image") => fields.text("image_url").or(fields.text("file_id")).is_none(),
        Some(_) => false,
        None => {
            let kinds = [("inlineData", "data"), ("fileData", "fileUri")];
            let mut members = fields.nodes().filter_map(|(name, node)| {
                let (_, data) = kinds.iter().find(|(kind, _)| camel(name) == *kind)?;
                Some((node, *data))
            });
            members.any(|(node, data)| {
                let is_data =
                    |(name, node): (&str, Node<'_>)| camel(name) == data && node.is_string();
                node.object().map_or(true, |blob| !blob.nodes().any(is_data))
            })
        }
    }
}

const NOT_AN_IMAGE: &str = "its media type is not one of an image";

/// Returns why a provider rejects a part that is an image. What `is_own` was recorded in a request to
/// the provider, and a server that is compatible with it may accept more types.
fn fault(part: &Part, dialect: Dialect, is_own: bool) -> Option<Fault> {
    if let Part::Opaque { json, .. } = part {
        // One with its data is longer, and costs more to read.
        let is_short = json.len() <= SHORT_BYTES;
        return (is_short && lacks_source(json)).then_some(Fault::Invalid("it has no source"));
    }
    let Part::Image { media_type, source } = part else { return None };
    if media_type.as_deref().is_some_and(|kind| !is_image_type(kind)) {
        return Some(Fault::Invalid(NOT_AN_IMAGE));
    }
    let is_rejected = |kind: &str| is_svg(kind) || (!is_own && !is_accepted(kind, dialect));
    let invalid = match source {
        ImageSource::Base64(data) => match why_not_base64(data).or_else(|| why_not_image(data)) {
            Some(why) => Some(why),
            // Gemini reads both alphabets.
            None if dialect != Dialect::Gemini && !is_standard_base64(data) => {
                return Some(Fault::Alphabet);
            }
            None => return type_fault(media_type.as_deref(), data, dialect, is_own),
        },
        ImageSource::Url(_) | ImageSource::File(_)
            if media_type.as_deref().is_some_and(is_rejected) =>
        {
            return Some(Fault::NotAccepted);
        }
        ImageSource::Url(url) if data_type(url).is_some_and(is_rejected) => {
            return Some(Fault::NotAccepted);
        }
        ImageSource::Url(url) if is_inline(dialect) && is_image_address(url) => {
            return Some(Fault::Inline);
        }
        ImageSource::Url(url) => match url.strip_prefix("data:") {
            Some(data) => match data.split_once(',') {
                Some((head, data)) if head.ends_with(";base64") => {
                    let kind = head.split(';').next().unwrap_or_default();
                    if is_image_type(kind) { why_not_base64(data) } else { Some(NOT_AN_IMAGE) }
                }
                _ => Some("its data is not in base64"),
            },
            None if media_type.is_none() && is_svg_address(url) => return Some(Fault::NotAccepted),
            None => match why_not_address(url) {
                None if !reads_address(url, dialect, is_own) => return Some(Fault::Address),
                why => why,
            },
        },
        ImageSource::File(id) => id.is_empty().then_some("its address is empty"),
    };
    invalid.map(Fault::Invalid)
}

/// Returns the media type of an image at a `data:` address.
fn data_type(url: &str) -> Option<&str> {
    let kind = url.strip_prefix("data:")?.split([';', ',']).next()?;
    is_image_type(kind).then_some(kind)
}

/// Returns whether a type is SVG. No provider or server decodes drawings.
fn is_svg(kind: &str) -> bool {
    let kind = kind.split(';').next().unwrap_or_default().trim_end();
    kind.eq_ignore_ascii_case("image/svg+xml") || kind.eq_ignore_ascii_case("image/svg")
}

/// Returns whether the path of an address ends as that of a drawing.
fn is_svg_address(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').is_some_and(|(_, end)| end.eq_ignore_ascii_case("svg"))
}

/// The beginnings of `<svg` and `<?xml ` in base64.
const SVG_DATA: [&str; 2] = ["PHN2Z", "PD94bWwg"];

/// Returns whether a provider accepts a type of images, by its documentation. Ollama's API does not
/// have types; these are the ones that its decoders read.
fn is_accepted(kind: &str, dialect: Dialect) -> bool {
    let accepted: &[&str] = match dialect {
        Dialect::OpenAi | Dialect::Responses | Dialect::Anthropic => {
            &["image/png", "image/jpeg", "image/gif", "image/webp"]
        }
        Dialect::Gemini => &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"],
        Dialect::Ollama => {
            &["image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/x-ms-bmp"]
        }
    };
    // The unregistered name of JPEG is corrected where a provider compares names.
    kind.eq_ignore_ascii_case("image/jpg")
        || accepted.iter().any(|known| kind.eq_ignore_ascii_case(known))
}

/// Types of images, and the beginnings of their data in base64.
const TYPES: [(&str, &str); 4] = [
    ("image/png", "iVBORw0KGg"),
    ("image/jpeg", "/9j/"),
    ("image/gif", "R0lGOD"),
    ("image/webp", "UklGR"),
];

/// Returns the type of an image by its data in base64; `None` if it is another type.
pub(crate) fn type_of(data: &str) -> Option<&'static str> {
    TYPES.iter().find(|(_, begin)| data.starts_with(begin)).map(|(kind, _)| *kind)
}

/// Returns why a provider rejects the type of an image. Anthropic compares it with the data, and
/// Gemini requires a type.
fn type_fault(kind: Option<&str>, data: &str, dialect: Dialect, is_own: bool) -> Option<Fault> {
    if SVG_DATA.iter().any(|begin| data.starts_with(begin)) {
        return Some(Fault::NotAccepted);
    }
    let of_data = type_of(data).filter(|found| is_accepted(found, dialect));
    let is_listed = kind.is_none_or(|kind| is_accepted(kind, dialect) || (is_own && !is_svg(kind)));
    let is_right = match dialect {
        Dialect::Anthropic => {
            kind == of_data.or(kind) && TYPES.iter().any(|(k, _)| kind == Some(k))
        }
        Dialect::Gemini => kind.is_some() && is_listed,
        Dialect::OpenAi | Dialect::Responses => is_listed,
        Dialect::Ollama => is_listed || of_data.is_some(),
    };
    (!is_right).then(|| match (of_data, kind) {
        (Some(found), _) => Fault::Type(found),
        (None, Some(kind)) if kind.eq_ignore_ascii_case("image/jpg") => Fault::Type("image/jpeg"),
        (None, None) => Fault::Invalid("it has no media type"),
        (None, Some(_)) => Fault::NotAccepted,
    })
}

/// Returns why a provider cannot read an image at an address.
fn why_not_address(url: &str) -> Option<&'static str> {
    if url.trim().is_empty() {
        return Some("its address is empty");
    }
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_readable = scheme.is_some_and(|it| ["http", "https", "gs", "s3"].contains(&it.as_str()));
    (!is_readable).then_some("no provider can read its address")
}

/// Returns whether a provider requires the data of an image apart from an address.
fn is_inline(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::Anthropic | Dialect::Gemini | Dialect::Ollama)
}

/// Returns whether an address contains the data of an image.
fn is_image_address(url: &str) -> bool {
    inline_data(url)
        .is_some_and(|(kind, data)| is_image_type(kind) && why_not_base64(data).is_none())
}

/// Returns whether a provider reads addresses of this scheme. Servers that are compatible with OpenAI
/// read others too.
fn reads_address(url: &str, dialect: Dialect, is_own: bool) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_of = |schemes: &[&str]| scheme.is_some_and(|scheme| schemes.contains(&scheme.as_str()));
    match dialect {
        Dialect::Anthropic => is_of(&["https"]),
        Dialect::OpenAi | Dialect::Responses => is_own || is_of(&["http", "https"]),
        Dialect::Gemini => is_own || is_of(&["http", "https", "gs"]),
        // It is left out when it is written.
        Dialect::Ollama => true,
    }
}

/// The beginnings of files that are not images, in base64: PDF, ZIP, HTML.
const OTHER_DATA: [&str; 5] = ["JVBERi0", "UEsDB", "PCFET0NUWVBF", "PCFkb2N0eXBl", "PGh0bWw"];

/// Returns why data is not that of an image, if its beginning shows it.
fn why_not_image(data: &str) -> Option<&'static str> {
    // Sound and video have the same beginning as WebP, which has its name at byte 8.
    let is_other_riff =
        data.starts_with("UklGR") && data.get(12..16).is_some_and(|name| name != "RUJQ");
    let is_other = is_other_riff || OTHER_DATA.iter().any(|begin| data.starts_with(begin));
    is_other.then_some("its data is not that of an image")
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
            let part = Part::Image { media_type: kind.map(str::to_owned), source };
            fault(&part, Dialect::Ollama, false).is_some()
        };
        let base64 = |text: &str| ImageSource::Base64(text.to_owned());
        let url = |text: &str| ImageSource::Url(text.to_owned());
        for kind in [None, Some("image/png"), Some("IMAGE/Gif")] {
            assert!(!of(kind, base64("iVBORw0KGgo=")), "{kind:?}");
            assert!(!of(kind, url("https://x/a.png")), "{kind:?}");
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
            "file:///home/ada/a.png",
            "blob:https://x/1",
            "see above",
            "data:image/png;base64,é",
        ] {
            assert!(of(None, url(address)), "{address:?}");
        }
        let address = url("data:image/png;base64,iVBORw0KGgo=");
        let part = Part::Image { media_type: None, source: address };
        assert!(fault(&part, Dialect::OpenAi, false).is_none());
        assert!(matches!(fault(&part, Dialect::Ollama, false), Some(Fault::Inline)));
    }

    fn repaired_part(mut part: Part, dialect: Dialect) -> Part {
        let provider = ImageProvider { dialect, title: "It", is_own: &|_| true };
        while let Some(fault) = fault(&part, dialect, true) {
            fault.repair(&mut part, provider);
        }
        part
    }

    #[test]
    fn data_is_sent_in_the_alphabet_that_providers_read() {
        let image = |kind: &str, data: &str| Part::Image {
            media_type: Some(kind.to_owned()),
            source: ImageSource::Base64(data.to_owned()),
        };
        let png = "iVBORw0KGgo_-w";
        for dialect in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Ollama] {
            let sent = repaired_part(image("image/png", png), dialect);
            assert_eq!(sent, image("image/png", "iVBORw0KGgo/+w=="), "{dialect}");
        }
        let sent = repaired_part(image("image/png", png), Dialect::Gemini);
        assert_eq!(sent, image("image/png", png));
        // The type of an address that contains data is that of the data.
        let source = ImageSource::Url("data:image/gif;base64,iVBORw0KGgo=".to_owned());
        let address = Part::Image { media_type: None, source };
        let sent = repaired_part(address, Dialect::Anthropic);
        assert_eq!(sent, image("image/png", "iVBORw0KGgo="));
        for data in ["JVBERi0xLjQK", "PGh0bWw+", "UklGRiQAAABXQVZF"] {
            let sent = repaired_part(image("image/png", data), Dialect::OpenAi);
            assert!(matches!(sent, Part::Text { .. }), "{data}: {sent:?}");
        }
    }

    #[test]
    fn addresses_that_a_provider_does_not_read_are_replaced() {
        let of = |url: &str, dialect, is_own| {
            let source = ImageSource::Url(url.to_owned());
            let fault = fault(&Part::Image { media_type: None, source }, dialect, is_own);
            fault.is_some()
        };
        for url in ["http://x/a.png", "s3://b/a.png", "gs://b/a.png"] {
            assert!(of(url, Dialect::Anthropic, false) && of(url, Dialect::Anthropic, true));
        }
        assert!(!of("https://x/a.png", Dialect::Anthropic, false));
        assert!(!of("http://x/a.png", Dialect::OpenAi, false));
        assert!(of("s3://b/a.png", Dialect::OpenAi, false));
        assert!(!of("s3://b/a.png", Dialect::OpenAi, true));
        assert!(!of("gs://b/a.png", Dialect::Gemini, false));
    }

    #[test]
    fn the_type_of_a_picture_is_that_of_its_data_where_a_provider_compares_them() {
        let fault_of = |kind: Option<&str>, data: &str, dialect| {
            let source = ImageSource::Base64(data.to_owned());
            let part = Part::Image { media_type: kind.map(str::to_owned), source };
            match fault(&part, dialect, true) {
                Some(Fault::Type(found)) => Some(found),
                Some(_) => Some("invalid"),
                None => None,
            }
        };
        let (png, other) = ("iVBORw0KGgo=", "AAAA");
        for (kind, data, expected) in [
            (Some("image/png"), png, None),
            (Some("image/webp"), other, None),
            (None, png, Some("image/png")),
            (Some("image/gif"), png, Some("image/png")),
            (Some("image/jpg"), other, Some("image/jpeg")),
            (Some("image/bmp"), other, Some("invalid")),
            (None, other, Some("invalid")),
        ] {
            assert_eq!(fault_of(kind, data, Dialect::Anthropic), expected, "{kind:?} {data}");
            assert_eq!(fault_of(kind, data, Dialect::OpenAi), None, "{kind:?} {data}");
        }
        let svg = Some("image/svg+xml");
        for dialect in [Dialect::OpenAi, Dialect::Responses, Dialect::Anthropic, Dialect::Gemini] {
            assert_eq!(fault_of(svg, png, dialect), Some("image/png"), "{dialect}");
        }
        // It is sent without a type.
        assert_eq!(fault_of(svg, png, Dialect::Ollama), None);
        assert_eq!(fault_of(None, "/9j/4AAQ", Dialect::Gemini), Some("image/jpeg"));
        assert_eq!(fault_of(Some("image/heic"), other, Dialect::Gemini), None);
    }

    #[test]
    fn each_provider_gets_the_types_that_it_accepts() {
        let of = |kind: &str, source, dialect, is_own| {
            let part = Part::Image { media_type: Some(kind.to_owned()), source };
            match fault(&part, dialect, is_own) {
                Some(Fault::Invalid(why)) => why.to_owned(),
                Some(Fault::NotAccepted) => "not accepted".to_owned(),
                Some(Fault::Type(found)) => found.to_owned(),
                Some(Fault::Alphabet | Fault::Inline | Fault::Address) => "changed".to_owned(),
                None => "sent".to_owned(),
            }
        };
        let base64 = || ImageSource::Base64("AAAA".to_owned());
        let address = || ImageSource::Url("https://x/a".to_owned());
        let sent = |dialect| {
            let kinds = [
                "png", "jpeg", "jpg", "gif", "webp", "heic", "heif", "avif", "bmp", "tiff",
                "svg+xml",
            ];
            let sent = kinds.into_iter().filter(|kind| {
                let kind = format!("image/{kind}");
                let data = ImageSource::Url(format!("data:{kind};base64,AAAA"));
                let part = Part::Image { media_type: None, source: data };
                let is_sent = of(&kind, address(), dialect, false) == "sent";
                let is_rejected = matches!(
                    fault(&part, dialect, false),
                    Some(Fault::NotAccepted | Fault::Invalid(_))
                );
                assert_eq!(!is_rejected, is_sent, "{dialect} {kind}");
                is_sent
            });
            sent.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(sent(Dialect::OpenAi), "png jpeg jpg gif webp");
        assert_eq!(sent(Dialect::Responses), "png jpeg jpg gif webp");
        assert_eq!(sent(Dialect::Anthropic), "png jpeg jpg gif webp");
        assert_eq!(sent(Dialect::Gemini), "png jpeg jpg webp heic heif");
        assert_eq!(sent(Dialect::Ollama), "png jpeg jpg gif webp bmp");
        for dialect in Dialect::ALL {
            // No server decodes SVG, so it is never sent, even if the request was recorded.
            for is_own in [false, true] {
                for kind in ["image/svg+xml", "IMAGE/SVG+XML"] {
                    assert_eq!(of(kind, base64(), dialect, is_own), "not accepted", "{dialect}");
                    assert_eq!(of(kind, address(), dialect, is_own), "not accepted", "{dialect}");
                }
                for data in ["PHN2ZyB4bWxucz0i", "PD94bWwgdmVyc2lvbj0i"] {
                    let data = ImageSource::Base64(data.to_owned());
                    let mistyped = of("image/png", data.clone(), dialect, is_own);
                    assert_eq!(mistyped, "not accepted", "{dialect}");
                    let part = Part::Image { media_type: None, source: data };
                    let why = fault(&part, dialect, is_own);
                    assert!(matches!(why, Some(Fault::NotAccepted)), "{dialect}");
                }
            }
        }
        for dialect in [Dialect::OpenAi, Dialect::Responses, Dialect::Gemini] {
            let why = of("image/tiff", base64(), dialect, false);
            assert_eq!(why, "not accepted", "{dialect}");
            // A server that is compatible with the provider may have accepted what was recorded.
            assert_eq!(of("image/tiff", base64(), dialect, true), "sent", "{dialect}");
            let png = ImageSource::Base64("iVBORw0KGgo=".to_owned());
            assert_eq!(of("image/svg+xml", png, dialect, false), "image/png", "{dialect}");
        }
        let gif = ImageSource::Base64("R0lGODlh".to_owned());
        let why = of("image/gif", gif, Dialect::Gemini, false);
        assert_eq!(why, "not accepted");
    }
}
