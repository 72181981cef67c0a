use std::borrow::Cow;

use tract::core::{DynTool, Tool, ToolContext, ToolError, ToolResult};
use tract::tools::{Args, typed};

#[tract::tool_type]
struct Roll {
    sides: u8,
}

struct Dice {
    seed: u8,
}

#[tract::tools::async_trait]
impl Tool for Dice {
    type Params = Args<Roll>;
    type Output = u8;

    fn name(&self) -> Cow<'_, str> {
        "dice".into()
    }

    fn description(&self) -> Cow<'_, str> {
        "Rolls a die.".into()
    }

    async fn call(&self, args: Args<Roll>, _: &ToolContext) -> Result<ToolResult<u8>, ToolError> {
        let Args(roll) = args;
        Ok(ToolResult {
            message: "rolled".to_owned(),
            ..ToolResult::ok(self.seed % roll.sides.max(1) + 1)
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), ToolError> {
    let answer = Dice { seed: 8 }.run(r#"{"sides":6.0}"#, &ToolContext::new("c")).await?;
    assert_eq!(answer.model_text(), "rolled\n\n3");
    assert!(typed::derived::<Roll>().is_ok()); // the schema of a type, or why it has none
    Ok(())
}
