//! Finds the values of names that identify credentials: members of JSON, variables, flags, headers,
//! elements of XML, parts of a form, and pairs of a name and a value.
//!
//! A pattern finds where a value may begin, and code reads the name before it and the value after
//! it. A value contains no quote of the text around it and no half of an escape, so that JSON whose
//! values are replaced stays valid.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::likely::{
    is_basic, is_credential, is_header_value, is_password, is_plausible, is_token,
};
use crate::mark::outside_marks;
use crate::names::{
    NameClass, class_of, class_of_list, class_of_words, is_credential_header, is_like_a_header,
};
use crate::value::{Ending, Value, value_at};
use crate::{SecretKind, SecretMatch};

/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 100;
/// Number of bytes around a value in which its name is searched.
const NEAR: usize = 512;
/// Number of bytes at the end of a value that are read again if it is not a secret.
const READ_AGAIN: usize = 256;
/// Maximum number of members that are read of one object of headers or cookies.
const MAX_MEMBERS: usize = 128;

/// Quotes: escaped by any number of JSON levels, in a URL, in HTML, or of JavaScript.
const QUOTE: &str = r#"(?:\\*["'`]|%22|&quot;)"#;
/// White space, also escaped by any number of JSON levels.
const SPACE: &str = r"(?:[\ \t\r\n]|\\+[nrt])*";

/// The end of a name, and what separates it from its value.
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?P<word>key|auth(?:[_-]?header|orization)?|token(?:[_-]?value)?|secret(?:s|[_-]?value)?
            |passw(?:or)?d|pass(?:code|phrase)?|pwd|cookies?|credentials?|bearer|jwt|t?otp|pat|dsn
            |sig|signature|assertion|verifier|key[_-]?(?:data|string)|sharedaccesssignature|xamzsignature|sessi?d|connect\.sid
            |[a-z]{2,4}sessi?(?:on)?_?id|key[_-]?id)
          (?P<tail>[_-]?(?:[0-9]{1,2}|base|prod|dev|test|live|old|new)|_[a-z0-9]{1,8})?
          (?: [\ \t]*:[\ \t]*[&'a-z]{2,14}(?:[\ ][a-z]{3,8})?[\ \t]*=[\ \t]*
            | \*{0,2} QUOTE? [\])]? [\ \t]* (?: => | :?=+ | : | %3A | %3D ) \*{0,2} [\ \t]*
            | (?P<comma>QUOTE[\ \t]*,[\ \t]*)
            | (?P<space>[\ \t]+(?:is[\ :]+)?) )
          \[? (?: [bru]?(?P<open>QUOTE) )?
          (?P<scheme>(?:bearer|basic|token|bot|apikey|key|digest)[\ ]+)?",
    )
});
/// The beginning of a list of credentials, such as `"tokens": [`.
static LIST: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?P<word>keys|tokens|passwords)QUOTE?SPACE(?::|=>?)SPACE\[SPACE"));
/// An element of such a list, up to its value.
static LIST_ITEM: LazyLock<Regex> = LazyLock::new(|| pattern(r"^SPACE,?SPACE(?P<open>QUOTE)"));
/// The beginning of an object of headers or cookies.
static OBJECT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?P<of>headers?|cookies?)QUOTE?[\ \t]*(?:[:=]|=>)SPACE(?:dict\(|new[\ ]Headers\()?\{")
});
/// A member of such an object, up to its value.
static MEMBER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^SPACE,?SPACE(?:QUOTE)?(?P<name>[a-z0-9_.-]{1,100})(?:QUOTE)?SPACE(?::|=>)SPACE\[?(?P<open>QUOTE)",
    )
});
/// An element of XML up to its text.
static ELEMENT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:<|&lt;)(?P<name>[a-z0-9_.:-]{1,80})(?P<attributes>\ (?u:[^<>\r\n])*)?(?:>|&gt;)SPACE(?:<!\[CDATA\[)?",
    )
});
/// A part of a form up to its value.
static PART: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"form-data;[\ ]*name=QUOTE?(?P<name>[a-z0-9_.\[\]-]{1,80})QUOTE?(?:;(?u:[^\r\n\\])*)?
          (?:LINE[a-z-]{1,40}:(?u:[^\r\n\\])*)*LINE LINE",
    )
});
/// The value of a pair, such as `"name":"password","value":"…"`.
static PAIR: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"valueQUOTE?SPACE[:=]SPACE(?P<open>QUOTE)?"));
/// The name of a pair.
static PAIR_NAME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?:name|key|header|field)QUOTE?SPACE[:=]SPACEQUOTE?(?P<name>[a-z0-9_.:-]{1,80})")
});
/// The name of an element in a property list, before the element of its value.
static LIST_KEY: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"<key>(?P<name>[a-z0-9_.\ -]{1,80})</key>SPACE$"));

fn pattern(text: &str) -> Regex {
    let line = r"(?:\r?\n|(?:\\+r)?\\+n)";
    let text = text.replace("QUOTE", QUOTE).replace("SPACE", SPACE).replace("LINE", line);
    Regex::new(&format!("(?ix-u){text}")).expect("the tests compile every pattern")
}

/// Finds the values of names that identify credentials.
pub(crate) fn find(text: &str, found: &mut Vec<SecretMatch>) {
    let finders: [(&Regex, Finder, Filter); 6] = [
        (&ASSIGNMENT, assigned, has_credential_name),
        (&ELEMENT, element, |_, _| true),
        (&PART, part, |_, _| true),
        (&PAIR, pair, |_, _| true),
        (&OBJECT, members, |_, _| true),
        (&LIST, list, |_, _| true),
    ];
    for (regex, finder, may_be_secret) in finders {
        let mut from = 0;
        // Captures cost much more than a match, and most matches have another name.
        while let Some(whole) = regex.find_at(text, from) {
            from = whole.end();
            if !may_be_secret(text, whole.start()) {
                continue;
            }
            let Some(captures) = regex.captures_at(text, whole.start()) else { break };
            let Some(candidate) = finder(text, &captures, found) else { continue };
            let end = candidate.range.end;
            if candidate.is_secret {
                from = end.max(from);
                push(text, candidate.range, found);
            } else {
                // The value may contain the name of another one. Only its end is read again, so
                // that a text made of names is not read once for each of them.
                from = boundary(text, end.saturating_sub(READ_AGAIN)).max(from);
            }
        }
    }
}

/// A value that was read.
struct Candidate {
    range: Range<usize>,
    is_secret: bool,
}

impl Candidate {
    fn new(value: Value, is_secret: bool) -> Option<Self> {
        Some(Self { range: value.range, is_secret })
    }
}

/// Returns whether the name at the beginning of a match may be that of a credential.
type Filter = fn(&str, usize) -> bool;
type Finder = fn(&str, &Captures<'_>, &mut Vec<SecretMatch>) -> Option<Candidate>;

fn push(text: &str, range: Range<usize>, found: &mut Vec<SecretMatch>) {
    let range = outside_marks(text, range).filter(|range| !range.is_empty());
    found.extend(range.map(|range| SecretMatch { kind: SecretKind::Assigned, range }));
}

/// Returns whether the name around this offset identifies a credential.
fn has_credential_name(text: &str, at: usize) -> bool {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    let length = rest.iter().take(MAX_NAME).take_while(|byte| is_of_name(byte)).count();
    let end = at + length;
    let name = name_before(text, end).unwrap_or_default();
    let before = text.get(..end - name.len()).unwrap_or_default();
    class_of(name).is_some()
        || is_credential_header(name)
        || class_of_words(before, name).is_some()
        || is_signature(before, name)
}

/// Returns whether a name is that of the signature of a URL. Elsewhere it has other meanings.
fn is_signature(before: &str, name: &str) -> bool {
    name.eq_ignore_ascii_case("signature") && before.ends_with(['?', '&'])
}

/// Returns the value after a name and a separator, if it is a secret.
fn assigned(text: &str, captures: &Captures<'_>, _: &mut Vec<SecretMatch>) -> Option<Candidate> {
    let word = captures.name("word")?;
    let end = captures.name("tail").map_or(word.end(), |tail| tail.end());
    let name = name_before(text, end)?;
    let open = captures.name("open");
    let is_flag = name.starts_with('-');
    let is_prose = captures.name("space").is_some_and(|space| space.as_str().trim() != "");
    if captures.name("space").is_some() && !is_flag && !is_prose
        || captures.name("comma").is_some() && open.is_none()
    {
        return None;
    }
    let start = captures.get(0)?.end();
    let before = text.get(..end - name.len())?;
    if is_credential_header(name) && is_flag_of_header(before) {
        let value = value_at(text, start, None, Ending::Text);
        let is_secret = is_header_value(value.text(text));
        return Candidate::new(value, is_secret);
    }
    // The rules of headers read its whole value, which may contain other names.
    if name.to_ascii_lowercase().ends_with("authorization") {
        return None;
    }
    // A mark contains the name of the kind: `[redacted:url-password:…]`.
    if before.ends_with("redacted:") || text.get(start..)?.starts_with(':') {
        return None;
    }
    let is_header = is_like_a_header(name);
    let is_signature = is_signature(before, name);
    let class = class_of(name)
        .or((is_header || is_signature).then_some(NameClass::Token))
        .or_else(|| class_of_words(before, name))?;
    let ending = match class {
        NameClass::Token => Ending::Token,
        NameClass::Password if before.ends_with(['?', '&']) => Ending::Parameter,
        NameClass::Password => Ending::Field,
    };
    let value = value_at(text, start, open.map(|open| open.as_str()), ending);
    if class == NameClass::Token && before.ends_with(['?', '&']) {
        // Signatures in URLs are often in base64 with escapes.
        let value = value_at(text, start, None, Ending::Parameter);
        let plain = value.text(text).replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
        let plain = plain.replace("%2b", "+").replace("%2f", "/").replace("%3d", "=");
        if plain.len() < value.range.len() && is_token(&plain, false) {
            return Candidate::new(value, true);
        }
    }
    let (secret, is_quoted) = (value.text(text), value.is_quoted);
    let after = text.get(value.range.end..).unwrap_or_default();
    let is_secret = match class {
        NameClass::Password => {
            let is_field = text.get(end..)?.starts_with('=') && is_of_fields(before, after);
            let is_argument = name.starts_with("--") && is_mixed_argument(secret);
            is_field && is_plausible(secret) || is_password(secret, is_quoted) || is_argument
        }
        // A call, or the type of a variable.
        NameClass::Token if !is_quoted && is_of_code(after) => false,
        NameClass::Token => {
            let has_scheme = captures.name("scheme").is_some();
            let is_auth = name.to_ascii_lowercase().ends_with("auth");
            is_token(secret, is_quoted)
                || has_scheme && is_credential(secret) && is_plausible(secret)
                || is_header && is_password(secret, is_quoted)
                || is_auth && is_basic(secret)
        }
    };
    Candidate::new(value, is_secret)
}

/// Returns whether the argument of a flag such as `--password` is a password. Nothing else is in that
/// place, except for the name of a variable or a word of a help text.
fn is_mixed_argument(value: &str) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    value.len() >= 6
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_lowercase)
        && !has(|byte| matches!(byte, b'/' | b'\\' | b'.'))
        && is_plausible(value)
}

/// Finds the credentials among the elements of a list.
fn list(text: &str, captures: &Captures<'_>, found: &mut Vec<SecretMatch>) -> Option<Candidate> {
    let (whole, word) = (captures.get(0)?, captures.name("word")?);
    let class = class_of_list(name_before(text, word.end())?)?;
    let mut at = whole.end();
    for _ in 0..MAX_MEMBERS {
        let captures = LIST_ITEM.captures(text.get(at..)?)?;
        let (item, open) = (captures.get(0)?, captures.name("open")?);
        let value = Value::quoted(text, at + item.end(), open.as_str(), Ending::Text);
        let content = value.text(text);
        let is_secret = match class {
            NameClass::Password => is_password(content, true),
            NameClass::Token => is_token(content, true),
        };
        at = value.range.end + open.as_str().len();
        if is_secret && value.is_quoted {
            push(text, value.range, found);
        }
    }
    None
}

/// Returns whether the text after a value shows that the value is a part of code.
fn is_of_code(after: &str) -> bool {
    after.starts_with(['(', '<']) || after.starts_with('[') && !after.starts_with("[redacted:")
}

/// Returns the name that ends here.
fn name_before(text: &str, end: usize) -> Option<&str> {
    let name = text.get(..end)?;
    let length = name.bytes().rev().take(MAX_NAME).take_while(is_of_name).count();
    let mut name = name.get(name.len() - length..)?;
    // The letter of an escape before the name, as in `\npassword`, is not a part of it.
    if text.get(..end - length)?.ends_with('\\') {
        name = name.get(1..)?;
    }
    Some(name)
}

fn is_of_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Returns whether a text ends with the flag of a header, as in `curl -H 'X-Foo-Auth: …'`.
fn is_flag_of_header(before: &str) -> bool {
    let before = before.trim_end_matches(['"', '\'', '\\']).trim_end_matches([' ', '=']);
    before.ends_with("-H") || before.ends_with("--header")
}

/// Returns whether a name between these texts is one of several fields: of a URL, a form, or a
/// connection string. The value of a field is a value, also if it is a word.
fn is_of_fields(before: &str, after: &str) -> bool {
    let near = before.trim_end_matches(' ');
    let has_field_before = near.ends_with(['?', '&', ';'])
        || before.ends_with(' ') && {
            let line = near.get(boundary(near, near.len().saturating_sub(80))..);
            let word = line.unwrap_or_default().rsplit([' ', '\n', '"', '\'']).next();
            word.unwrap_or_default().split_once('=').is_some_and(|(name, value)| {
                !name.is_empty()
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                    && !value.is_empty()
                    && !value.ends_with([',', '('])
            })
        };
    let field_after = after.strip_prefix([';', '&']).unwrap_or_default();
    has_field_before || starts_with_field(field_after)
}

/// Returns whether a text starts with `name=`. A name may have spaces, as in `User Id`.
pub(crate) fn starts_with_field(text: &str) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b' ' | b'-');
    let length = text.bytes().take(40).take_while(is_name).count();
    length > 0 && text.as_bytes().get(length) == Some(&b'=')
}

/// Returns the text of an element of XML whose name identifies a credential.
fn element(text: &str, captures: &Captures<'_>, _: &mut Vec<SecretMatch>) -> Option<Candidate> {
    let whole = captures.get(0)?;
    let name = captures.name("name")?.as_str();
    let of_list = || {
        let before = near_before(text, whole.start());
        Some(LIST_KEY.captures(before)?.name("name")?.as_str().replace(' ', ""))
    };
    let of_attributes = || {
        let attributes = captures.name("attributes")?.as_str();
        Some(PAIR_NAME.captures(attributes)?.name("name")?.as_str().to_owned())
    };
    let class = class_of(name)
        .or_else(|| class_of(&of_attributes()?))
        .or_else(|| (name == "string").then(of_list).flatten().and_then(|name| class_of(&name)))?;
    let value = value_at(text, whole.end(), None, Ending::Text).of_element(text);
    let after = text.get(value.range.end..)?.trim_start_matches(|c: char| c.is_whitespace());
    let after = after.trim_start_matches("]]>").trim_start_matches(['\\', 'n', 'r', 't', ' ']);
    let is_end = after.starts_with("</") || after.starts_with("<\\") || after.starts_with("&lt;");
    let is_secret = is_end && is_field_secret(class, value.text(text));
    Candidate::new(value, is_secret)
}

/// Returns the value of a part of a form whose name identifies a credential.
fn part(text: &str, captures: &Captures<'_>, _: &mut Vec<SecretMatch>) -> Option<Candidate> {
    let class = class_of(captures.name("name")?.as_str())?;
    let value = value_at(text, captures.get(0)?.end(), None, Ending::Text);
    let is_secret = is_field_secret(class, value.text(text));
    Candidate::new(value, is_secret)
}

/// Returns the value of a pair whose name identifies a credential.
fn pair(text: &str, captures: &Captures<'_>, _: &mut Vec<SecretMatch>) -> Option<Candidate> {
    let whole = captures.get(0)?;
    let near = near_before(text, whole.start());
    let before = near.get(near.rfind(['{', '<', '[']).map_or(0, |at| at + 1)..)?;
    let open = captures.name("open").map(|open| open.as_str());
    let value = value_at(text, whole.end(), open, Ending::Text);
    let secret = value.text(text);
    let end = value.range.end;
    let after = text.get(end..boundary(text, end.saturating_add(NEAR)))?;
    let after = after.get(..after.find(['}', '>', ']']).unwrap_or(0))?;
    let last = PAIR_NAME.captures_iter(before).last();
    let name = last.or_else(|| PAIR_NAME.captures(after))?.name("name")?.as_str();
    let is_cookie = ["httpOnly", "sameSite", "http_only", "same_site"]
        .iter()
        .any(|mark| before.contains(mark) || after.contains(mark));
    let is_secret = match class_of(name) {
        _ if is_cookie => is_cookie_value(secret),
        Some(NameClass::Password) => is_password(secret, value.is_quoted),
        Some(NameClass::Token) => is_token(secret, value.is_quoted) || is_credential(secret),
        None => name.contains('-') && is_credential_header(name) && is_header_value(secret),
    };
    Candidate::new(value, is_secret)
}

/// Finds the credentials among the members of an object of headers or cookies.
fn members(text: &str, captures: &Captures<'_>, found: &mut Vec<SecretMatch>) -> Option<Candidate> {
    let (whole, of) = (captures.get(0)?, captures.name("of")?);
    let is_cookies = of.as_str().to_ascii_lowercase().starts_with("cookie");
    let mut at = whole.end();
    for _ in 0..MAX_MEMBERS {
        let captures = MEMBER.captures(text.get(at..)?)?;
        let (member, name, open) =
            (captures.get(0)?, captures.name("name")?, captures.name("open")?);
        let value = Value::quoted(text, at + member.end(), open.as_str(), Ending::Text);
        let is_header = !is_cookies && is_credential_header(name.as_str());
        let is_whole = is_cookies || name.as_str().to_ascii_lowercase().ends_with("cookie");
        let secret = if is_whole { value.clone() } else { value.without_scheme(text) };
        let content = secret.text(text);
        let is_secret = match is_cookies {
            true => is_cookie_value(content),
            false => is_header && is_header_value(content) && (is_whole || !content.contains(' ')),
        };
        at = value.range.end + open.as_str().len();
        if text.get(at..).is_some_and(|rest| rest.starts_with(']')) {
            at += 1;
        }
        if is_secret {
            push(text, secret.range, found);
        }
    }
    None
}

/// Returns whether the text of an element or of a part of a form is a secret.
fn is_field_secret(class: NameClass, value: &str) -> bool {
    match class {
        NameClass::Password => is_plausible(value),
        NameClass::Token => is_token(value, true) || is_password(value, true) || is_basic(value),
    }
}

fn is_cookie_value(value: &str) -> bool {
    value.len() >= 8 && (is_credential(value) || is_token(value, true))
}

/// Returns the first boundary of characters that is not before this offset.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

fn near_before(text: &str, end: usize) -> &str {
    let start = boundary(text, end.saturating_sub(NEAR));
    text.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_valid() {
        let names = [&PAIR_NAME, &LIST_KEY, &LIST, &LIST_ITEM];
        let all = [&ASSIGNMENT, &OBJECT, &MEMBER, &ELEMENT, &PART, &PAIR];
        for regex in all.into_iter().chain(names) {
            assert!(!regex.is_match(""));
        }
    }
}
