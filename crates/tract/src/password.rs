//! Redaction of passwords in URLs, for messages.

/// The text that is shown instead of a password.
const HIDDEN: &str = "…";

/// Returns whether a character ends a URL in a text.
fn ends_url(character: char) -> bool {
    character.is_whitespace() || character.is_control() || matches!(character, '\'' | '"' | '`')
}

/// Replaces the passwords of URLs in a text by `…`.
///
/// The password is everything between the first colon of a URL's authority and the last `@`, even
/// if it is not encoded, and the value of a parameter whose name ends in `password`.
///
/// ```
/// use tract::store::hide_passwords;
/// let text = "cannot open postgres://me:se@cr/et@db/agents?sslmode=require";
/// assert_eq!(hide_passwords(text), "cannot open postgres://me:…@db/agents?sslmode=require");
/// ```
pub fn hide_passwords(text: &str) -> String {
    let is_url = |word: &str| word.contains("://") || word.starts_with("postgres");
    hide(text, is_url)
}

/// As [`hide_passwords`], for a text such as a command line, in which everything with a colon and
/// an `@` may be a URL.
pub fn hide_anywhere(text: &str) -> String {
    hide(text, |_| true)
}

fn hide(text: &str, is_url: impl Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(ends_url).unwrap_or(rest.len()));
        let word = if is_url(word) { hide_userinfo(word) } else { word.to_owned() };
        out.push_str(&word);
        let mut characters = after.chars();
        out.extend(characters.next());
        rest = characters.as_str();
    }
    hide_parameters(&out)
}

fn hide_userinfo(word: &str) -> String {
    let (scheme, rest) = match word.find("://") {
        Some(at) => word.split_at(at + 3),
        None => ("", word),
    };
    match rest.rsplit_once('@').and_then(|(user, place)| Some((user.split_once(':')?.0, place))) {
        Some((user, place)) => format!("{scheme}{user}:{HIDDEN}@{place}"),
        None => word.to_owned(),
    }
}

/// Replaces the values after `password=`: up to the closing quote of a quoted value, else to its
/// end.
fn hide_parameters(text: &str) -> String {
    const NAME: &str = "password=";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Names are ASCII, so lowercasing does not change positions.
    while let Some(at) = rest.to_ascii_lowercase().find(NAME) {
        let (before, value) = rest.split_at(at + NAME.len());
        out.push_str(before);
        let quote = value.chars().next().filter(|first| matches!(first, '\'' | '"'));
        let end = match quote {
            Some(quote) => value[1..].find(quote).map_or(value.len(), |end| end + 2),
            None => value.find(|end| end == '&' || ends_url(end)).unwrap_or(value.len()),
        };
        if end > 0 {
            out.push_str(HIDDEN);
        }
        rest = &value[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_however_they_are_written() {
        for url in [
            "postgres://u:SECRET@h/db",
            "postgresql://u:SECRET@h:5432,other/db?sslmode=require",
            "postgres://u:SE:CRET/SECRET@SECRET?SECRET@h/db",
            "postgres://u:%53SECRET@h/db",
            "postgres://:SECRET@h",
            "postgres://h/db?user=u&password=SECRET",
            "postgres://h/db?PASSWORD=SECRET&sslmode=require",
            "postgres:u:SECRET@h/db",
            "host=h user=u password=SECRET",
            "host=h password='SECRET and SECRET' user=u",
            "postgres://h/db?sslpassword=SECRET",
        ] {
            for text in
                [url.to_owned(), format!("cannot open '{url}': no"), format!("{url}\n{url}")]
            {
                let hidden = hide_passwords(&text);
                assert!(!hidden.contains("SECRET"), "{text}: {hidden}");
                assert!(hidden.contains('h'), "{hidden}");
            }
        }
        assert!(!hide_anywhere("unrecognized subcommand 'u:SECRET@h/db'").contains("SECRET"));
    }

    #[test]
    fn text_outside_of_passwords_stays() {
        for text in [
            "",
            "sqlite:agent@home.db",
            "postgres://u@h/db",
            "postgres://h:5432/db?schema=a",
            "mail me: me@example.org at 12:00",
            "Grüße: \u{1f980} 'x' \"y\"",
        ] {
            assert_eq!(hide_passwords(text), text);
        }
        assert_eq!(hide_passwords("password="), "password=");
    }
}
