//! The strict profile: names and descriptions of this program's own tools, within narrower limits
//! than those of providers. Definitions from elsewhere are not checked.

use tract_core::ToolSpec;

/// Maximum number of characters of a description.
const DESCRIPTION: usize = 200;

/// Returns the violations of the profile: a name must match `^[a-z0-9_-]{1,64}$`, and a trimmed
/// description must have 1 to 200 ASCII characters.
pub(crate) fn faults(spec: &ToolSpec) -> Vec<String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let mut faults = Vec::new();
    if !(1..=64).contains(&spec.name.len()) || !spec.name.chars().all(fits) {
        let name = &spec.name;
        faults.push(format!("expected a name of 1 to 64 of a-z, 0-9, _ and -, found {name:?}"));
    }
    faults.extend(description(&spec.description));
    faults
}

/// Returns the violation of the profile by the description of a tool or an example, if any.
pub(crate) fn description(text: &str) -> Option<String> {
    let text = text.trim();
    let length = text.chars().count();
    if !(1..=DESCRIPTION).contains(&length) {
        return Some(format!(
            "expected a description of 1 to {DESCRIPTION} characters, found {length}"
        ));
    }
    let other = text.chars().find(|c| !c.is_ascii())?;
    Some(format!("expected a description in ASCII, found {other:?}"))
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::Arc;

    use tract_core::{DynTool, ToolResult};

    use super::*;
    use crate::fs::add_fs_tools;
    use crate::planning::{Planning, Strategy};
    use crate::prompt::{ExampleText, Prompt, PromptFault, Section};
    use crate::typed::ClosureTool;
    use crate::{RegisterError, Registry, Session};

    fn named(name: &str, description: &str) -> ClosureTool {
        let spec = ToolSpec::new(name, description, r#"{"type":"object"}"#);
        ClosureTool::new(spec, |_, _| ready(Ok(ToolResult::<()>::done("done"))))
    }

    const LONGEST: &str = "a_name_of_sixty-four_characters_which_is_as_long_as_they_may_be_";

    fn cases() -> Vec<(ClosureTool, Option<&'static str>)> {
        let name = Some("expected a name of 1 to 64 of a-z, 0-9, _ and -, found \"Look\"");
        vec![
            (named(LONGEST, "x"), None),
            (named("l-00k", &"x".repeat(200)), None),
            (named("look", &format!("  {}\n", "x".repeat(200))), None),
            (named("Look", "Looks."), name),
            (
                named("look", &"x".repeat(201)),
                Some("expected a description of 1 to 200 characters, found 201"),
            ),
            (named("look", " \n"), Some("expected a description of 1 to 200 characters, found 0")),
            (named("look", "Schaut für"), Some("expected a description in ASCII, found 'ü'")),
        ]
    }

    #[test]
    fn the_strict_profile_holds_ones_own_tools_to_the_narrower_limits() {
        assert_eq!(LONGEST.len(), 64);
        for (tool, wrong) in cases() {
            let (name, tool): (_, Arc<dyn DynTool>) = (tool.spec().name, Arc::new(tool));
            let builder = || Registry::builder().dyn_tool(Arc::clone(&tool));
            assert!(
                builder().build().is_ok(),
                "{name} is accepted where strictness was not asked for"
            );
            match (builder().strict().build(), wrong) {
                (Ok(_), None) => {}
                (Err(error), Some(wrong)) => {
                    assert_eq!(error.to_string(), format!("tool {name:?}: {wrong}"));
                    assert!(matches!(&error.0[..], [RegisterError::Strict { .. }]));
                    assert!(!error.notes().is_empty());
                }
                (built, wrong) => panic!("{name}: expected {wrong:?}, found {built:?}"),
            }
            let section = || Section::new("tools", "Tools", "Use them.");
            let with_tool = |section: Section| section.dyn_tool(Arc::clone(&tool));
            let prompt = || Prompt::builder("tests", "strict").section(with_tool(section()));
            assert!(prompt().build().is_ok());
            let faults = prompt().strict().build().err().map(|error| error.0);
            let expected = wrong.map(|wrong| {
                vec![PromptFault::Strict {
                    path: "tools".to_owned(),
                    tool: name.clone(),
                    why: wrong.to_owned(),
                }]
            });
            assert_eq!(faults, expected, "{name}");
        }
        // Definitions of others are accepted unchanged.
        let foreign = r#"{"name":"Look","description":"für","parameters":{"type":"object"}}"#;
        assert!(Registry::builder().strict().definition(foreign).build().is_ok());
    }

    #[test]
    fn examples_keep_the_strict_rule_for_descriptions() {
        let section = Section::new("tools", "Tools", "Use them.").tool(named("look", "Looks."));
        let example = ExampleText {
            description: "schöner".to_owned(),
            input: tract_core::JsonText::new("{}").expect("it is JSON"),
            output: String::new(),
            value: None,
        };
        let prompt =
            || Prompt::builder("tests", "strict").section(section.clone().example(example.clone()));
        assert!(prompt().build().is_ok());
        let error = prompt().strict().build().expect_err("it is not ASCII");
        assert!(error.to_string().contains("found 'ö'"), "{error}");
    }

    #[test]
    fn the_tools_that_come_along_are_strict() {
        let session = Session::new();
        let section = Planning::section_of(&session, Strategy::React).expect("a session");
        assert!(Prompt::builder("tests", "plan").section(section).strict().build().is_ok());
        assert!(add_fs_tools(Registry::builder()).strict().build().is_ok());
    }
}
