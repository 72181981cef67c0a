//! Tools from Rust: a function and a struct, advertised on a branch, called, and answered.
//!
//! `cargo run -p tract --example typed_tools --features tools`

use tract::core::DynTool;
use tract::prelude::*;
use tract::tools::{ToolContext, ToolError};
use tract::{tool, tool_type};

/// How temperatures are reported.
#[tool_type]
enum Unit {
    /// Degrees Celsius.
    Celsius,
    /// Degrees Fahrenheit.
    Fahrenheit,
}

/// Tells the weather of a city.
///
/// # Arguments
/// - city: the name of the city, such as `Zürich`
/// - unit: how to tell the temperature
#[tool(read_only)]
async fn get_weather(city: String, unit: Option<Unit>) -> Result<String, ToolError> {
    if city.is_empty() {
        return Err(ToolError::validation("expected the name of a city, found none").at("city"));
    }
    Ok(match unit {
        Some(Unit::Fahrenheit) => format!("{city}: 68 °F"),
        Some(Unit::Celsius) | None => format!("{city}: 20 °C"),
    })
}

/// Books a table.
#[tool(destructive, timeout_ms = 2000)]
struct BookTable {
    /// The restaurant.
    restaurant: String,
    /// How many people come.
    #[schemars(range(min = 1, max = 12))]
    guests: u8,
}

impl BookTable {
    async fn run(self, context: &ToolContext) -> Result<String, ToolError> {
        context.check()?;
        Ok(format!("a table for {} at {}", self.guests, self.restaurant))
    }
}

/// Records two calls and their answers; returns what the model reads.
pub(crate) async fn conversation() -> tract::Result<Vec<String>> {
    let tract = tract::open("memory:").await?;
    let tools: [&dyn DynTool; 2] = [&GetWeather, &BookTable::tool()];
    tract.set_tools(tools.map(|tool| tool.spec().definition())).await?;
    tract.user("Is it warm in Zürich? Then a table for 20 at Kronenhalle.").await?;

    let calls = [
        ("c1", 0, r#"{"city":"Zürich","unit":"Celsius"}"#),
        ("c2", 1, r#"{"restaurant":"Kronenhalle","guests":20}"#),
    ];
    let mut reply = Draft::assistant("");
    for (id, tool, arguments) in calls {
        reply = reply.call(id, tools[tool].spec().name, arguments);
    }
    tract.commit(reply).await?;
    for (id, tool, arguments) in calls {
        let answer = match tools[tool].run(arguments, &ToolContext::new(id)).await {
            Ok(result) => result.model_text(),
            Err(error) => error.model_text(), // a failure is an answer
        };
        tract.commit(Draft::tool_result(id, answer)).await?;
    }
    let context = tract.compile().await?;
    assert_eq!((context.tools().len(), context.message_count()), (2, 4));
    Ok(context.messages().skip(2).map(|message| message.content.text()).collect())
}

#[allow(dead_code)] // the tests run the conversation itself
fn main() -> tract::Result<()> {
    for line in tract::block_on(conversation())? {
        println!("{line}");
    }
    Ok(())
}
