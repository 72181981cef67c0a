//! The cases of the JSON Schema Test Suite that are recorded, by the built-in validator.
#![cfg(feature = "validate")]
#![allow(clippy::unwrap_used)] // helpers of tests are tests

use serde_json::Value;
use tract_schema::{JsonSchema, SchemaCompiler, ValidateOptions};
use tract_testkit::data;

fn check(draft: &str, least: usize) {
    let files = data::files(&data::find("jsonschema").0.join(draft), "json");
    let (mut cases, mut wrong) = (0, Vec::new());
    for file in files {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let groups: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for group in groups {
            let mut schema = group["schema"].clone();
            if draft == "draft7"
                && let Some(members) = schema.as_object_mut()
            {
                members
                    .entry("$schema")
                    .or_insert_with(|| "http://json-schema.org/draft-07/schema#".into());
            }
            let mut options = ValidateOptions::default();
            if stem.starts_with("optional-format-") {
                options.formats = true;
            }
            let compiled = JsonSchema.compile(&schema.to_string(), &options);
            for test in group["tests"].as_array().unwrap() {
                cases += 1;
                let name = format!(
                    "{draft}/{stem}: {}: {}",
                    group["description"].as_str().unwrap(),
                    test["description"].as_str().unwrap()
                );
                let outcome = match &compiled {
                    Ok(validator) => validator.validate(&test["data"]).map_err(|invalid| {
                        assert!(
                            !invalid.is_empty() && invalid.iter().all(|i| i.path.starts_with('/'))
                        );
                        invalid.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
                    }),
                    Err(error) => Err(format!("not compiled: {error}")),
                };
                if outcome.is_ok() != test["valid"].as_bool().unwrap() {
                    wrong.push(format!("{name}: {outcome:?}"));
                }
            }
        }
    }
    assert!(cases >= least, "{cases} cases");
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn draft_2020_12_says_what_the_suite_says() {
    check("draft2020-12", 10);
}

#[test]
fn draft_7_says_what_the_suite_says() {
    check("draft7", 10);
}
