//! Extracts the texts of a tool's parameters from their JSON Schema, in one pass.

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::weights::Field;

/// Maximum nesting depth that is read; deeper parts of a schema are ignored.
const MAX_DEPTH: usize = 32;

/// Calls `each` with the names, descriptions and fixed values of a JSON Schema; fails if the text
/// is not JSON.
pub(crate) fn each_text(
    schema: &str,
    each: &mut dyn FnMut(Field, &str),
) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(schema);
    Walk { each, of: SchemaPosition::Schema, depth: 0 }.deserialize(&mut json)?;
    json.end()
}

/// The kind of value at a place in a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    /// A schema, or a value with schemas inside.
    Schema,
    /// Schemas under the names of parameters.
    Properties,
    /// Text about a parameter.
    Text,
    /// Values that a parameter may have.
    Values,
}

struct Walk<'a> {
    each: &'a mut dyn FnMut(Field, &str),
    of: SchemaPosition,
    depth: usize,
}

impl Walk<'_> {
    fn inner(&mut self, of: SchemaPosition) -> Walk<'_> {
        Walk { each: &mut *self.each, of, depth: self.depth + 1 }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth >= MAX_DEPTH {
            deserializer.deserialize_ignored_any(IgnoredAny).map(|_| ())
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

/// The kind of value under a key of a schema.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Properties,
    #[serde(rename = "description", alias = "title")]
    Text,
    #[serde(rename = "enum", alias = "const")]
    Values,
    #[serde(rename = "default", alias = "examples", alias = "required")]
    #[serde(alias = "$defs", alias = "definitions")]
    Annotation,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON Schema")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        match self.of {
            SchemaPosition::Text => (self.each)(Field::ParameterText, text),
            SchemaPosition::Values => (self.each)(Field::Value, text),
            SchemaPosition::Schema | SchemaPosition::Properties => {}
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let of = self.of;
        while items.next_element_seed(self.inner(of))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        if self.of == SchemaPosition::Properties {
            while let Some(name) = members.next_key::<String>()? {
                (self.each)(Field::ParameterName, &name);
                members.next_value_seed(self.inner(SchemaPosition::Schema))?;
            }
            return Ok(());
        }
        while let Some(key) = members.next_key::<Key>()? {
            match key {
                Key::Properties => {
                    members.next_value_seed(self.inner(SchemaPosition::Properties))?
                }
                Key::Text => members.next_value_seed(self.inner(SchemaPosition::Text))?,
                Key::Values => members.next_value_seed(self.inner(SchemaPosition::Values))?,
                Key::Annotation => {
                    members.next_value::<IgnoredAny>()?;
                }
                Key::Other => members.next_value_seed(self.inner(SchemaPosition::Schema))?,
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        if number.is_finite() {
            Ok(())
        } else {
            Err(E::custom("expected a number that a double can hold"))
        }
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Checks that a text is one JSON object.
pub(crate) fn check_object(text: &str) -> Result<(), serde_json::Error> {
    if text.trim_start().starts_with('{') {
        serde_json::from_str::<IgnoredAny>(text).map(|_| ())
    } else {
        Err(serde_json::Error::custom("expected a JSON object"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_parameters_are_found_at_every_level() {
        let schema = r#"{"type":"object","title":"Trip","properties":{
            "city":{"type":"string","description":"Where to","enum":["Paris","Lyon"]},
            "stops":{"type":"array","items":{"anyOf":[{"properties":{"title":{"const":"via"}}}]}},
            "description":true},"required":["city"],"x-big":123456789012345678901234567890}"#;
        let mut words = Vec::new();
        each_text(schema, &mut |field, text| words.push(format!("{field:?}: {text}")))
            .expect("it is JSON");
        assert_eq!(
            words,
            [
                "ParameterText: Trip",
                "ParameterName: city",
                "ParameterText: Where to",
                "Value: Paris",
                "Value: Lyon",
                "ParameterName: stops",
                "ParameterName: title",
                "Value: via",
                "ParameterName: description",
            ]
        );
        assert!(each_text("{", &mut |_, _| {}).is_err());
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert!(each_text(&deep, &mut |_, _| {}).is_ok());
    }
}
