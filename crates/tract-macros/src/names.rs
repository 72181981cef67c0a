//! Names of tools and of the types generated for them.

use proc_macro2::Span;
use syn::{Error, Result};

/// Maximum length of a tool's name.
const MOST: usize = 64;

/// Checks a name: `[A-Za-z0-9_-]{1,64}`, which all providers accept.
pub(crate) fn check(name: &str, span: Span) -> Result<()> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let message = match (name.chars().find(|letter| !plain(*letter)), name.len()) {
        (None, 0) => "a tool's name has 1 to 64 characters, found none".to_owned(),
        (None, ..=MOST) => return Ok(()),
        (None, length) => {
            format!("a tool's name has 1 to 64 characters, found {length}: shorten it")
        }
        (Some(letter), _) => {
            let better = name.chars().map(|letter| if plain(letter) { letter } else { '_' });
            let better: String = better.take(MOST).collect();
            format!(
                "a tool's name has letters, digits, `_` and `-` only, found {letter:?}: \
                 write {better:?}"
            )
        }
    };
    Err(Error::new(span, message))
}

/// Converts snake case to Pascal case: `get_weather` → `GetWeather`.
pub(crate) fn pascal(name: &str) -> String {
    name.split('_')
        .filter(|word| !word.is_empty())
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().into_iter().flat_map(char::to_uppercase).chain(letters)
        })
        .collect()
}

/// Converts Pascal case to snake case: `GetHTTPStatus` → `get_http_status`.
pub(crate) fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let next_is_lower = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let starts = letter.is_uppercase()
            && before
                .is_some_and(|before| before != '_' && (!before.is_uppercase() || next_is_lower));
        if starts {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_change_their_case() {
        for (snake_name, pascal_name) in
            [("get_weather", "GetWeather"), ("add", "Add"), ("a_b2_c", "AB2C"), ("größe", "Größe")]
        {
            assert_eq!(pascal(snake_name), pascal_name);
        }
        for (pascal_name, snake_name) in [
            ("GetWeather", "get_weather"),
            ("GetHTTPStatus", "get_http_status"),
            ("A", "a"),
            ("HTTP", "http"),
            ("Sha256Sum", "sha256_sum"),
        ] {
            assert_eq!(snake(pascal_name), snake_name);
        }
    }

    #[test]
    fn refused_names_come_with_a_better_one() {
        let error = check("get weather", Span::call_site()).unwrap_err();
        assert!(error.to_string().contains("write \"get_weather\""), "{error}");
        check("Get-Weather_2", Span::call_site()).unwrap();
        assert!(check("", Span::call_site()).is_err());
        assert!(check(&"x".repeat(65), Span::call_site()).is_err());
    }
}
