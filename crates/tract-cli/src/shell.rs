//! Quotes words for shells: a name from elsewhere must stay a single word.

use tract::core::text::is_format_control;

/// Returns whether a shell treats the character literally, even within a word.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, '_' | '-' | '.' | '/' | ':' | '+' | '=' | '@' | '%' | ',')
}

/// Quotes a text as one word for a POSIX shell, on one line: `'x; y'`. Control characters, and
/// those that steer a terminal, are removed, because no legitimate name or session id contains
/// them.
pub(crate) fn quoted(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control() && !is_format_control(*c)).collect();
    let is_word = !text.is_empty() && !text.starts_with(['-', '=']) && text.chars().all(is_plain);
    if is_word { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Quotes a value that Bash inserts; `None` if it cannot be one word. Backslashes are used because
/// Bash adds a space after a closing quote, even for a folder.
pub(crate) fn bash_word(value: &str) -> Option<String> {
    if value.contains(|c: char| c.is_control()) {
        return None;
    }
    let mut word = String::with_capacity(value.len());
    for c in value.chars() {
        if !is_plain(c) && c.is_ascii() {
            word.push('\\');
        }
        word.push(c);
    }
    Some(word)
}

/// Quotes a value that PowerShell inserts; `None` if it cannot be one word.
pub(crate) fn powershell_word(value: &str) -> Option<String> {
    if value.contains(|c: char| c.is_control()) {
        return None;
    }
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '=');
    if !value.is_empty() && value.chars().all(is_plain) {
        return Some(value.to_owned());
    }
    let mut word = String::from("'");
    for c in value.chars() {
        // PowerShell treats typographic quotes as quotes.
        if matches!(c, '\'' | '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}') {
            word.push(c);
        }
        word.push(c);
    }
    word.push('\'');
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_word() {
        assert_eq!(quoted("f2c71dd1-a"), "f2c71dd1-a");
        assert_eq!(quoted("x; touch y #"), "'x; touch y #'");
        assert_eq!(quoted("a'b\u{202e}"), r"'a'\''b'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("-rf"), "'-rf'");
        assert_eq!(bash_word("ev;touch${IFS}P;x").unwrap(), r"ev\;touch\$\{IFS\}P\;x");
        assert_eq!(bash_word("folder name/").unwrap(), r"folder\ name/");
        assert_eq!(bash_word("grün").unwrap(), "grün");
        assert_eq!(bash_word("a\nb"), None);
        assert_eq!(powershell_word("main").unwrap(), "main");
        assert_eq!(powershell_word("x;calc'’").unwrap(), "'x;calc''’’'");
    }
}
