//! Names that identify credentials, of members, variables, parameters, headers and elements.

/// Names that identify credentials, in lower case and without separators.
const NAMES: [&str; 27] = [
    "accesskeyid",
    "assertion",
    "auth",
    "authheader",
    "authorizationtoken",
    "bearer",
    "clientassertion",
    "codeverifier",
    "cookies",
    "credential",
    "dsn",
    "jwt",
    "otp",
    "passcode",
    "passphrase",
    "pat",
    "proxyauth",
    "pwd",
    "secrets",
    "secretvalue",
    "setcookie",
    "sharedaccesssignature",
    "sig",
    "tokenvalue",
    "totp",
    "xamzsignature",
    "xgoogsignature",
];

/// Suffixes of names that identify credentials, as in `github_token`.
const ENDINGS: [&str; 24] = [
    "accesskey",
    "accountkey",
    "apikey",
    "apikeys",
    "apikeystring",
    "authkey",
    "authorization",
    "basicauth",
    "connectionstring",
    "cookie",
    "credentials",
    "encryptionkey",
    "functionskey",
    "licensekey",
    "masterkey",
    "passwd",
    "password",
    "privatekey",
    "secret",
    "secretkey",
    "sharedkey",
    "signingkey",
    "subscriptionkey",
    "token",
];

/// Services whose name before `key` identifies a credential, as in `openai_key`.
const SERVICES: [&str; 30] = [
    "anthropic",
    "aws",
    "azure",
    "cerebras",
    "claude",
    "cohere",
    "deepgram",
    "deepseek",
    "elevenlabs",
    "fireworks",
    "gemini",
    "github",
    "gitlab",
    "google",
    "groq",
    "huggingface",
    "langfuse",
    "langsmith",
    "mistral",
    "openai",
    "openrouter",
    "perplexity",
    "pinecone",
    "replicate",
    "sendgrid",
    "serper",
    "stripe",
    "tavily",
    "twilio",
    "xai",
];

/// Names that end with `token` and are part of the request: tokens of a text, or positions.
const OTHER_TOKENS: [&str; 23] = [
    "bos",
    "cancel",
    "cancellation",
    "cls",
    "continuation",
    "cursor",
    "eos",
    "idempotency",
    "image",
    "mask",
    "max",
    "next",
    "nextpage",
    "pad",
    "page",
    "pagination",
    "previouspage",
    "progress",
    "sep",
    "special",
    "stop",
    "sync",
    "unk",
];

/// Returns a name in lower case and without separators.
pub(crate) fn normal(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' '));
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns whether a name in its normal form identifies a credential.
pub(crate) fn is_credential_name(name: &str) -> bool {
    let is_other = |prefix: &str| OTHER_TOKENS.contains(&prefix);
    let has_ending = ENDINGS.iter().any(|ending| name.ends_with(ending));
    let service = name.strip_suffix("key").unwrap_or_default();
    let is_of_service = SERVICES.iter().any(|known| service.ends_with(known));
    NAMES.contains(&name)
        || is_of_service
        || has_ending && !name.strip_suffix("token").is_some_and(is_other)
}

/// What the value of a name is, which decides how a secret is told from another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameClass {
    /// A person may have chosen it: short, with letters and digits.
    Password,
    /// A program made it: long, and random.
    Token,
}

/// Names of passwords, as suffixes in normal form.
const PASSWORDS: [&str; 5] = ["password", "passwd", "pwd", "passphrase", "passcode"];

/// Names of session cookies that are specific enough to identify them anywhere, in normal form.
const SESSION_COOKIES: [&str; 4] = ["phpsessid", "jsessionid", "connectsid", "aspnetsessionid"];

/// Returns the class of a name as it is written; `None` if it does not identify a credential. Of a
/// path such as `spring.mail.password`, the last name counts.
pub(crate) fn class_of(name: &str) -> Option<NameClass> {
    let whole = normal(name);
    if SESSION_COOKIES.contains(&whole.as_str()) {
        return Some(NameClass::Token);
    }
    let last = name.rsplit(['.', ':']).next().unwrap_or_default();
    let last = last.trim_start_matches(['-', '_']);
    let last = without_variant(last);
    let plain = normal(last);
    let is_pass = plain == "pass"
        || ["_pass", "_PASS", "-pass", "Pass"].iter().any(|ending| last.ends_with(ending));
    if is_pass || PASSWORDS.iter().any(|ending| plain.ends_with(ending)) {
        return Some(NameClass::Password);
    }
    let is_other = plain == "clientkeydata" || last.ends_with("_pat") || last.ends_with("_PAT");
    (is_credential_name(&plain) || is_other).then_some(NameClass::Token)
}

/// Returns the class of the elements of a list with this name, such as `tokens` or `api_keys`.
pub(crate) fn class_of_list(name: &str) -> Option<NameClass> {
    class_of(name.strip_suffix(['s', 'S'])?)
}

/// Returns the class of a name that is written with a space, such as `API key`. `before` is the text
/// before its last word.
pub(crate) fn class_of_words(before: &str, last: &str) -> Option<NameClass> {
    let before = before.strip_suffix(' ').filter(|_| last.eq_ignore_ascii_case("key"))?;
    let length = before.bytes().rev().take(16).take_while(u8::is_ascii_alphanumeric).count();
    let first = before.get(before.len() - length..)?;
    is_credential_name(&normal(&format!("{first}key"))).then_some(NameClass::Token)
}

/// Returns a name without a number or a word for one of several values, as in `PASSWORD_2` and
/// `SECRET_KEY_BASE`.
fn without_variant(name: &str) -> &str {
    const VARIANTS: [&str; 8] = ["base", "prod", "dev", "test", "live", "old", "new", "staging"];
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['_', '-']);
    match name.rsplit_once(['_', '-']) {
        Some((start, end)) if VARIANTS.iter().any(|word| end.eq_ignore_ascii_case(word)) => start,
        _ => name,
    }
}

/// Parts of the names of headers that contain credentials.
const HEADER_PARTS: [&str; 5] = ["auth", "token", "secret", "key", "cookie"];

/// Parts of the names of headers that contain something else: counts, people, ids of a request.
const OTHER_HEADER_PARTS: [&str; 10] = [
    "author",
    "tokens",
    "idempotency",
    "websocket",
    "surrogate",
    "public",
    "cache",
    "www-authenticate",
    "keyboard",
    "monkey",
];

/// Returns whether a header of this name contains a credential.
pub(crate) fn is_credential_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_other = OTHER_HEADER_PARTS.iter().any(|part| name.contains(part));
    let is_authorization = name.ends_with("authorization");
    HEADER_PARTS.iter().any(|part| name.contains(part)) && (!is_other || is_authorization)
}

/// Returns whether a name is written like that of a header of an application: `X-Foo-Auth`.
pub(crate) fn is_like_a_header(name: &str) -> bool {
    let is_own = name.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("x-"));
    is_own && is_credential_header(name)
}
