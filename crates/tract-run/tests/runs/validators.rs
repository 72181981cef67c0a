//! The validator of an agent's registry judges calls, with all tools that the agent adds to it.

use std::sync::{Arc, RwLock};

use serde_json::Value;
use tract_core::Draft;
use tract_schema::{Invalid, SchemaCompiler, SchemaError, ValidateOptions, Validator};
use tract_tools::prompt::{Bindings, Prompt, Section};
use tract_tools::select::{SearchTools, ToolIndex};
use tract_tools::{Registry, tool};

use crate::support::{agent_on, call, fresh, run, texts};

/// Tells the time.
#[tool(read_only)]
async fn clock() -> &'static str {
    "noon"
}

struct Mine;

impl SchemaCompiler for Mine {
    fn name(&self) -> &str {
        "mine"
    }

    fn version(&self) -> &str {
        "1"
    }

    fn compile(&self, _: &str, _: &ValidateOptions) -> Result<Arc<dyn Validator>, SchemaError> {
        Ok(Arc::new(Mine))
    }
}

impl Validator for Mine {
    fn validate(&self, _: &Value) -> Result<(), Vec<Invalid>> {
        Err(vec![Invalid::new("mine", "/", "what I like", "what I do not")])
    }
}

#[test]
fn an_agents_own_validator_judges_calls_also_with_a_prompt_and_a_search() {
    for kind in ["plain", "prompt", "search"] {
        let (repo, says) = (fresh(), [call("c1", "clock", "{}"), Draft::assistant("well")]);
        let registry = Registry::builder().tool(Clock).compiler(Arc::new(Mine)).build().unwrap();
        let agent = agent_on(&repo, says, registry);
        let agent = match kind {
            "prompt" => {
                let section = Section::new("a", "A", "Be brief.");
                let prompt = Prompt::builder("tests", "own").section(section).build().unwrap();
                agent.prompt(prompt, Bindings::new()).unwrap()
            }
            "search" => {
                let nothing = Arc::new(RwLock::new(ToolIndex::default()));
                agent.search_tools(SearchTools::new(nothing)).unwrap()
            }
            _ => agent,
        };
        run(&agent, "what time is it?");
        let texts = texts(&repo);
        assert!(texts.iter().any(|line| line.contains("what I like")), "{kind}: {texts:?}");
    }
}
