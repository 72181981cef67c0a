//! Names of models in requests, and the corresponding names in price tables.

/// Regions and companies that hosts put before a name, as in `us.anthropic.claude-opus-4-5`.
const PREFIXES: [&str; 23] = [
    "ai21",
    "amazon",
    "anthropic",
    "apac",
    "ap",
    "au",
    "ca",
    "cohere",
    "deepseek",
    "eu",
    "global",
    "google",
    "jp",
    "meta",
    "minimax",
    "mistral",
    "moonshot",
    "moonshotai",
    "openai",
    "qwen",
    "us",
    "us-gov",
    "zai",
];

/// Returns a name in lower case, without the suffix for a context window: `opus[1m]` is `opus`.
pub(super) fn lower(model: &str) -> String {
    let name = model.trim().to_lowercase();
    match name.split_once('[') {
        Some((head, tail)) if tail.ends_with(']') => head.to_owned(),
        _ => name,
    }
}

/// Returns the names that a model may have in a table, the most exact first. `name` is in lower
/// case and may contain a host, a region, a company, a version of the host and a date.
pub(super) fn variants(name: &str) -> Vec<String> {
    let last = name.rsplit('/').next().unwrap_or(name).replace('@', "-");
    let last = last.strip_suffix("-default").or(last.strip_suffix(":latest")).unwrap_or(&last);
    let last = without_host_version(without_prefixes(without_provider(last)));
    let plain = without_effort(last);
    let mut names: Vec<String> = Vec::new();
    for base in [Some(last), undated(last), plain, plain.and_then(undated)].into_iter().flatten() {
        for base in [Some(base.to_owned()), family_first(base)].into_iter().flatten() {
            for variant in [base.clone(), base.replace('.', "-"), dotted(&base)] {
                if !names.contains(&variant) {
                    names.push(variant);
                }
            }
        }
    }
    names
}

/// Returns whether a name, in lower case, is that of a model on the user's own machine, which has no
/// price even if it is named like one of a vendor. Only Ollama has the tag `latest`.
pub(super) fn is_local(name: &str) -> bool {
    const HOSTS: [&str; 6] =
        ["ollama/", "ollama:", "ollama_chat/", "lmstudio/", "lm_studio/", "llamafile/"];
    name.ends_with(":latest") || HOSTS.iter().any(|host| name.starts_with(host))
}

/// Removes the provider that libraries write before a model: `openai:gpt-5`.
fn without_provider(name: &str) -> &str {
    const PROVIDERS: [&str; 13] = [
        "anthropic",
        "azure",
        "bedrock",
        "deepseek",
        "gemini",
        "google",
        "google-gla",
        "google-vertex",
        "groq",
        "mistral",
        "openai",
        "openrouter",
        "xai",
    ];
    match name.split_once(':') {
        Some((provider, model)) if PROVIDERS.contains(&provider) && !model.is_empty() => model,
        _ => name,
    }
}

/// Returns a name without the effort that editors add to it; `None` if it has none.
fn without_effort(name: &str) -> Option<&str> {
    const EFFORTS: [&str; 6] = ["-xhigh", "-high", "-medium", "-low", "-minimal", "-thinking"];
    EFFORTS.iter().find_map(|effort| name.strip_suffix(effort))
}

/// Writes the family of a Claude model before its version: `claude-4.5-sonnet` is
/// `claude-sonnet-4.5`. `None` for other names; `claude-3-5-sonnet` is a name of its own.
fn family_first(name: &str) -> Option<String> {
    let (version, family) = name.strip_prefix("claude-")?.split_once('-')?;
    let is_version = version.starts_with(|c: char| ('4'..='9').contains(&c))
        && version.chars().all(|c| c.is_ascii_digit() || c == '.');
    let is_family = !family.is_empty() && family.chars().all(|c| c.is_ascii_alphabetic());
    (is_version && is_family).then(|| format!("claude-{family}-{version}"))
}

fn without_prefixes(name: &str) -> &str {
    let mut name = name;
    while let Some((prefix, tail)) = name.split_once('.') {
        if !PREFIXES.contains(&prefix) || tail.is_empty() {
            break;
        }
        name = tail;
    }
    name
}

/// Removes Bedrock's version of a model: `-v1:0`, `-v1`, `:0`.
fn without_host_version(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let name = match name.rsplit_once(':') {
        Some((head, tail)) if is_number(tail) => head,
        _ => name,
    };
    match name.rsplit_once("-v") {
        Some((head, tail)) if is_number(tail) && tail.len() == 1 => head,
        _ => name,
    }
}

/// Writes a version with a dot: `claude-opus-4-5` is `claude-opus-4.5`.
fn dotted(name: &str) -> String {
    let bytes = name.as_bytes();
    let digit = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at)).is_some_and(|byte| byte.is_ascii_digit())
    };
    let is_between = |at: usize| {
        digit(at.checked_sub(1))
            && !digit(at.checked_sub(2))
            && digit(Some(at + 1))
            && !digit(Some(at + 2))
    };
    let dotted =
        name.char_indices().map(|(at, c)| if c == '-' && is_between(at) { '.' } else { c });
    dotted.collect()
}

/// Returns a name without the date of its version; `None` if there is none.
fn undated(name: &str) -> Option<&str> {
    if let Some(name) = name.strip_suffix("-latest") {
        return Some(name);
    }
    // `-20250514` and `-2024-08-06`; other digits belong to the name.
    for length in [9, 11] {
        let at = name.len().checked_sub(length)?;
        let (head, tail) = (name.get(..at)?, name.get(at..)?);
        let is_date = tail.starts_with("-20")
            && tail.chars().filter(char::is_ascii_digit).count() == 8
            && tail.chars().all(|c| c.is_ascii_digit() || c == '-');
        if is_date {
            return Some(head);
        }
    }
    None
}

/// Returns whether a name matches a pattern: `*` is any text, `#` a digit.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut tail) = strip_digits(first, name) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return tail.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return part.is_empty() || tail.ends_with(part);
        }
        let Some(at) = tail.find(part) else { return false };
        tail = tail.get(at + part.len()..).unwrap_or_default();
    }
    true
}

/// Removes a prefix, in which `#` is any digit.
fn strip_digits<'a>(start: &str, name: &'a str) -> Option<&'a str> {
    let mut chars = name.chars();
    for expected in start.chars() {
        let found = chars.next()?;
        if found != expected && !(expected == '#' && found.is_ascii_digit()) {
            return None;
        }
    }
    Some(chars.as_str())
}

/// Returns whether a path segment names a host: `together_ai` is `together`.
pub(super) fn is_host(part: &str, host: &str) -> bool {
    let letters =
        |text: &str| -> String { text.chars().filter(char::is_ascii_alphanumeric).collect() };
    let (part, host) = (letters(part), letters(host));
    part == host || part.strip_suffix("ai") == Some(host.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_any_text_and_digits() {
        let cases = [
            ("gpt-5", "gpt-5", true),
            ("gpt-5", "gpt-5.1", false),
            ("gpt-5*", "gpt-5.1", true),
            ("*nova-lite*", "us.amazon.nova-lite-v1:0", true),
            ("*nova-lite", "us.amazon.nova-lite-v1:0", false),
            ("*nova-lite", "amazon.nova-lite", true),
            ("o3-####-##-##", "o3-2025-04-16", true),
            ("o3-####-##-##", "o3-2025-04-1x", false),
            ("gemini-4-#*", "gemini-4-001", true),
            ("gemini-4-#*", "gemini-4-flash", false),
            ("", "", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_name_loses_what_hosts_add_to_it() {
        for name in [
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
            "vertex_ai/claude-sonnet-4-5@20250929",
            "publishers/anthropic/models/claude-sonnet-4-5@20250929",
            "anthropic/claude-sonnet-4.5",
            "Claude-Sonnet-4-5[1m]",
            "claude-sonnet-4-5@default",
            "anthropic:claude-sonnet-4-5",
            "claude-4.5-sonnet",
            "claude-4.5-sonnet-thinking",
            "claude-sonnet-4-5:latest",
        ] {
            let names = variants(&lower(name));
            assert!(names.iter().any(|name| name == "claude-sonnet-4-5"), "{name}: {names:?}");
        }
        for name in ["openai:gpt-5", "gpt-5-high", "openai/gpt-5-minimal", "gpt-5:latest"] {
            assert!(variants(name).contains(&"gpt-5".to_owned()), "{name}");
        }
        assert!(variants("gpt-5-1").contains(&"gpt-5.1".to_owned()));
        assert_eq!(variants("gpt-4o-2024-08-06"), ["gpt-4o-2024-08-06", "gpt-4o"]);
    }
}
