//! A JSON object whose members are read one by one, in their original text.

use std::collections::HashMap;

use serde_json::value::RawValue;
use tract_core::text::snake_case;

use crate::misfits;
use crate::values::{self, Raw, given, lenient};

/// The members of an object. A member of another type than requested is treated as absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object<'a>(HashMap<String, &'a RawValue>);

impl<'a> Object<'a> {
    /// Reads an object; `None` for any other value.
    pub(crate) fn of(raw: Raw<'a>) -> Option<Self> {
        lenient(raw).map(Self)
    }

    /// Parses an object.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }

    /// Returns the text of a member that is not null.
    pub(crate) fn raw(&self, name: &str) -> Raw<'a> {
        given(self.0.get(name).copied())
    }

    /// Returns the first of these members that exists and is not null.
    pub(crate) fn first(&self, names: &[&str]) -> Raw<'a> {
        names.iter().find_map(|name| self.raw(name))
    }

    /// Returns a member that some programs write in snake case: `functionCall`, or `function_call`.
    pub(crate) fn in_any_case(&self, name: &str) -> Raw<'a> {
        self.raw(name).or_else(|| self.raw(&snake_case(name)))
    }

    /// Sets a member that is stored elsewhere.
    pub(crate) fn set(&mut self, name: &str, raw: &'a RawValue) {
        self.0.insert(name.to_owned(), raw);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    pub(crate) fn has_all(&self, names: &[&str]) -> bool {
        names.iter().all(|name| self.0.contains_key(*name))
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        values::text(self.raw(name))
    }

    /// Returns a text that is not empty.
    pub(crate) fn filled(&self, name: &str) -> Option<String> {
        self.text(name).filter(|text| !text.is_empty())
    }

    pub(crate) fn object(&self, name: &str) -> Option<Self> {
        Self::of(self.raw(name))
    }

    /// Returns the elements of a list; empty if the member is not a list.
    pub(crate) fn list(&self, name: &str) -> Vec<&'a RawValue> {
        lenient(self.raw(name)).unwrap_or_default()
    }

    /// Returns a count. Also accepts whole numbers written as fractions, such as `12.0`.
    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        let raw = self.raw(name);
        lenient(raw).or_else(|| {
            let number: f64 = lenient(raw)?;
            let is_count = number >= 0.0 && number.fract() == 0.0 && number < 9e15;
            is_count.then_some(number as u64)
        })
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        lenient(self.raw(name))
    }

    pub(crate) fn is_true(&self, name: &str) -> bool {
        lenient(self.raw(name)) == Some(true)
    }

    /// Returns a text, or the text of a number, since ids may be either.
    pub(crate) fn id(&self, name: &str) -> Option<String> {
        self.text(name).or_else(|| lenient::<i64>(self.raw(name)).map(|id| id.to_string()))
    }

    /// Returns a time: RFC 3339, or seconds or milliseconds since 1970. Tools use both; a number of
    /// seconds is below 100 billion until the year 5138.
    pub(crate) fn time(&self, name: &str) -> Option<i64> {
        let raw = self.raw(name)?;
        let at = match self.text(name) {
            Some(text) => values::time(Some(&text)),
            None => time_of(self.number(name)?),
        };
        if at.is_none() {
            misfits::note(raw);
        }
        at
    }

    /// Returns the names of the members, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

/// Converts seconds or milliseconds since 1970 to microseconds.
pub(crate) fn time_of(number: f64) -> Option<i64> {
    const MOST_SECONDS: f64 = 1e11;
    let micros = if number.abs() < MOST_SECONDS { number * 1e6 } else { number * 1e3 };
    (micros.abs() < 9e18).then_some(micros.round() as i64)
}
