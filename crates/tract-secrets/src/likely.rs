//! Heuristics that distinguish random values from words, examples and variables.

/// Returns the Shannon entropy of a text, in bits per character.
pub(crate) fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let length = text.len() as f64;
    counts.iter().filter(|count| **count > 0).fold(0.0, |sum, count| {
        let share = f64::from(*count) / length;
        sum - share * share.log2()
    })
}

/// Returns whether the body of a key looks random: many distinct characters, no long repeat, no
/// alphabetic sequence, and no word that marks it as an example.
pub(crate) fn is_random(text: &str) -> bool {
    let (entropy_needed, least) = match text.len() {
        0..16 => (2.5, 6),
        16..24 => (2.8, 8),
        _ => (3.0, 9),
    };
    let mut seen = [false; 256];
    text.bytes().for_each(|byte| seen[usize::from(byte)] = true);
    seen.iter().filter(|seen| **seen).count() >= least
        && entropy(text) >= entropy_needed
        && !has_long_run(text)
        && !is_example(text)
}

/// Returns whether a text contains six equal bytes in a row, or eight consecutive ascending ones.
fn has_long_run(text: &str) -> bool {
    let (mut equal, mut rising, mut last) = (1, 1, 0u8);
    for byte in text.bytes() {
        equal = if byte == last { equal + 1 } else { 1 };
        rising = if last.checked_add(1) == Some(byte) { rising + 1 } else { 1 };
        if equal >= 6 || rising >= 8 {
            return true;
        }
        last = byte;
    }
    false
}

/// Returns whether a value contains a word that marks it as a placeholder.
fn is_example(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    const WORDS: [&str; 12] = [
        "example",
        "placeholder",
        "your_",
        "your-",
        "yourkey",
        "changeme",
        "change_me",
        "dummy",
        "redacted",
        "insert",
        "xxxx",
        "fake",
    ];
    WORDS.iter().any(|word| lower.contains(word))
}

/// Returns whether a value assigned to a name such as `api_key` is a secret: random, with letters
/// and digits mixed within one word; not an identifier, a path or a version.
pub(crate) fn is_assigned_secret(value: &str) -> bool {
    let longest = value
        .split(|c: char| !c.is_ascii_alphanumeric())
        .max_by_key(|word| word.len())
        .unwrap_or_default();
    let digits = longest.bytes().filter(u8::is_ascii_digit).count();
    let letters = longest.len() - digits;
    longest.len() >= 12
        && digits >= 2
        && letters >= 2
        && is_random(value)
        && entropy(value) >= 3.2
        && changes(longest) * 5 >= longest.len()
}

/// Returns whether a word of an identifier looks like a credential: random, and not in the form of a
/// UUID, a ULID, a hash, or a session id of opencode.
pub(crate) fn is_secret_word(word: &str) -> bool {
    let is_hex = word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_ulid = word.len() == 26
        && word.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    !is_hex && !is_ulid && !word.starts_with("ses_") && is_assigned_secret(word)
}

/// Counts the transitions between lower case, upper case and digits. Words have few, keys have
/// many.
fn changes(word: &str) -> usize {
    let class = |byte: u8| match byte {
        b'0'..=b'9' => 0,
        b'A'..=b'Z' => 1,
        _ => 2,
    };
    let bytes = word.as_bytes();
    bytes.windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count()
}

/// Values that documentation and tests use as a password.
const DEFAULTS: [&str; 26] = [
    "password",
    "passwd",
    "pass",
    "pwd",
    "secret",
    "token",
    "user",
    "username",
    "root",
    "admin",
    "postgres",
    "mysql",
    "guest",
    "test",
    "testing",
    "changeme",
    "example",
    "mypassword",
    "your_password",
    "yourpassword",
    "my_password",
    "db_password",
    "hunter2",
    "key",
    "api_key",
    "apikey",
];

/// Returns whether the password of a URL is a real one, not a variable, a default or a mask.
pub(crate) fn is_url_password(user: &str, password: &str) -> bool {
    let lower = password.to_ascii_lowercase();
    let same = password.bytes().all(|byte| Some(byte) == password.bytes().next());
    !same
        && password.len() <= 200
        && lower != user.to_ascii_lowercase()
        && !DEFAULTS.contains(&lower.as_str())
        && !password.contains(['$', '{', '}', '(', ')', '[', ']', '*', '…', '|'])
        && !password.starts_with('%')
        && !password.contains("...")
        && !is_example(password)
}

/// Returns whether a password could be a real one, also one that is a word: not a variable, a
/// template, code, a default or a mask.
pub(crate) fn is_plausible(value: &str) -> bool {
    const TEMPLATES: [&str; 15] = [
        "${",
        "$(",
        "{{",
        "}}",
        "%(",
        "#{",
        "<%",
        "***",
        "...",
        "…",
        "://",
        "process.env",
        "environ",
        "getenv",
        "secrets.",
    ];
    let lower = value.to_ascii_lowercase();
    let word = lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == '!');
    let mut bytes = value.bytes();
    let first = bytes.next();
    let is_variable = first == Some(b'$')
        && bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let is_call = value.contains('(') && value.ends_with(')');
    let is_indexed = value.contains('[') && value.contains(']');
    let is_path = value.starts_with(['/', '~']) || value.starts_with("./");
    let is_code = is_variable || is_call || is_indexed || is_path || value.starts_with(['{', '<']);
    let is_masked = value.bytes().all(|byte| Some(byte) == first)
        || TEMPLATES.iter().any(|part| value.contains(part))
        || value.starts_with('%') && value.ends_with('%');
    let is_default = DEFAULTS.contains(&lower.as_str()) || DEFAULTS.contains(&word);
    (3..=4096).contains(&value.len()) && !(is_code || is_masked || is_default || is_example(value))
}

/// Returns whether a value assigned to a name such as `password` is a real password: letters and
/// digits, in an order that words and identifiers do not have. A value in quotes is a text, and not
/// a piece of code, so less is required of it.
pub(crate) fn is_password(value: &str, is_quoted: bool) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    let (lower, upper) = (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase));
    let is_special = |byte: u8| byte.is_ascii_punctuation() && !b"._-/:@,".contains(&byte);
    let is_mixed = (lower || upper) && has(u8::is_ascii_digit);
    let mixes = scrambles(value);
    value.len() >= 6
        && is_mixed
        && is_plausible(value)
        && (is_quoted || !value.contains('('))
        && (value.bytes().any(is_special)
            || mixes >= 2
            || mixes >= 1 && lower && upper && value.len() >= 8
            || is_quoted && value.len() >= 8
            || is_assigned_secret(value))
}

/// Returns whether a value assigned to a name such as `token` is a secret.
pub(crate) fn is_token(value: &str, is_quoted: bool) -> bool {
    let has = |is: fn(&u8) -> bool| value.bytes().any(|byte| is(&byte));
    let is_special = |byte: &u8| byte.is_ascii_punctuation() && !b"._-/:@,".contains(byte);
    let is_strong = is_quoted
        && value.len() >= 8
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
        && has(is_special);
    let is_padded = value.len() >= 20
        && value.ends_with('=')
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
        && is_random(value);
    is_plausible(value)
        && (is_assigned_secret(value)
            || is_uuid(value)
            || is_padded
            || is_strong
            || is_quoted && value.len() >= 10 && scrambles(value) >= 2)
}

/// Returns whether the value of a header whose name identifies a credential can be one: not a
/// scheme, a flag or a number.
pub(crate) fn is_header_value(value: &str) -> bool {
    const OTHERS: [&str; 10] = [
        "basic",
        "bearer",
        "true",
        "false",
        "none",
        "null",
        "required",
        "optional",
        "no-cache",
        "undefined",
    ];
    value.len() >= 6
        && !value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && !OTHERS.contains(&value.to_ascii_lowercase().as_str())
        && is_plausible(value)
}

/// Returns how often a text has digits between letters, as in `s3cr3t`.
fn scrambles(text: &str) -> usize {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    words
        .map(|word| {
            let inner = word.trim_matches(|c: char| c.is_ascii_digit());
            inner
                .split(|c: char| c.is_ascii_alphabetic())
                .filter(|digits| !digits.is_empty())
                .count()
        })
        .sum()
}

/// Returns whether a text is a UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
        && !text.bytes().all(|byte| matches!(byte, b'0' | b'-'))
}

/// Returns whether a text is the base64 of `user:password`, as in the header of basic
/// authentication and in the configuration of docker.
pub(crate) fn is_basic(text: &str) -> bool {
    let plain = text.trim_end_matches('=');
    let mut decoded = Vec::with_capacity(plain.len());
    let (mut bits, mut count) = (0_u32, 0);
    for byte in plain.bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return false,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count & 0xFF) as u8);
        }
    }
    let colon = decoded.iter().position(|byte| *byte == b':');
    text.len() >= 8
        && decoded.iter().all(|byte| byte.is_ascii_graphic())
        && colon.is_some_and(|at| at + 3 < decoded.len())
}

/// Returns whether the value of an authorization header contains credentials.
pub(crate) fn is_credential(value: &str) -> bool {
    let digits = value.bytes().any(|byte| byte.is_ascii_digit());
    digits && is_random(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_counts_bits() {
        assert_eq!(entropy("aaaa"), 0.0);
        assert_eq!(entropy("abab"), 1.0);
        assert_eq!(entropy("abcd"), 2.0);
        assert_eq!(entropy(""), 0.0);
    }

    #[test]
    fn passwords_are_told_from_words_and_code() {
        for value in ["Tr0ub4dor", "h7Gk2pQz9v", "Summer24!", "s3cr3t-t0ken", "P@$$w0rd*1"] {
            assert!(is_password(value, false), "{value}");
        }
        assert!(is_password("kitten2019", true) && !is_password("kitten2019", false));
        for value in
            ["letmein", "12345678", "password123", "user.password2", "$PASS_1", "/run/p4s5w0rd"]
        {
            assert!(!is_password(value, false) && !is_token(value, true), "{value}");
        }
    }

    #[test]
    fn basic_credentials_are_read() {
        assert!(is_basic("YWRhOmg3R2sycFF6") && is_basic("YWRhOmxldG1laW4="));
        assert!(!is_basic("YWRhLWxldG1laW4=") && !is_basic("authentication"));
    }

    #[test]
    fn runs_are_not_random() {
        assert!(has_long_run("ab000000cd"));
        assert!(has_long_run("abcdefgh"));
        assert!(!has_long_run("abcdefg1abcdefg"));
    }
}
