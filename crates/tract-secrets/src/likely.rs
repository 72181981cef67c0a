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

/// Returns whether the password of a URL is a real one, not a variable, a default or a mask.
pub(crate) fn is_url_password(user: &str, password: &str) -> bool {
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
    fn runs_are_not_random() {
        assert!(has_long_run("ab000000cd"));
        assert!(has_long_run("abcdefgh"));
        assert!(!has_long_run("abcdefg1abcdefg"));
    }
}
