//! The validator of an agent's registry judges calls, with all tools that the agent adds to it.

use std::sync::{Arc, RwLock};

use serde_json::Value;
use tract_core::{Draft, block_on};
use tract_run::Agent;
use tract_schema::{Invalid, SchemaCompiler, SchemaError, ValidateOptions, Validator};
use tract_tools::prompt::{Bindings, Prompt, Section};
use tract_tools::select::{SearchTools, ToolIndex};
use tract_tools::{Registry, tool};

use crate::support::{Script, main_branch, memory, messages, repo_on, texts};

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
    block_on(async {
        for kind in ["plain", "prompt", "search"] {
            let repo = repo_on(&memory()).await;
            let asks = Draft::assistant("").call("c1", "clock", "{}");
            let model = Script::new([asks, Draft::assistant("well")]);
            let registry =
                Registry::builder().tool(Clock).compiler(Arc::new(Mine)).build().unwrap();
            let agent = Agent::new(repo.clone(), main_branch(), model, registry);
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
            agent.run(Some(Draft::user("what time is it?"))).await.unwrap();
            let texts = texts(&messages(&repo).await);
            assert!(texts.iter().any(|line| line.contains("what I like")), "{kind}: {texts:?}");
        }
    });
}
