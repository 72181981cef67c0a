use tract::core::{DynTool, ToolContext, ToolError};
use tract::{tool, tool_type};

/// How to sort.
#[tool_type]
#[derive(Debug)]
enum Sort {
    /// The oldest first.
    Oldest,
    Newest,
}

/// Searches notes.
#[tool(read_only)]
#[derive(Debug)]
struct SearchNotes {
    /// What to look for.
    query: String,
    sort: Option<Sort>,
    #[schemars(range(min = 1, max = 50))]
    #[serde(default = "ten")]
    limit: u8,
}

fn ten() -> u8 {
    10
}

impl SearchNotes {
    async fn run(self, context: &ToolContext) -> Result<Vec<String>, ToolError> {
        context.check()?;
        Ok(vec![format!("{} ({:?})", self.query, self.sort)])
    }
}

#[tokio::main]
async fn main() -> Result<(), ToolError> {
    let tool = SearchNotes::tool();
    let call = tool.instantiate(r#"{"query":"moon","sort":"Newest"}"#)?;
    assert_eq!((call.query.as_str(), call.limit), ("moon", 10));
    if let Err(error) = tool.instantiate(r#"{"qery":"moon","limit":99}"#) {
        println!("{}", error.model_text()); // names the property, and suggests `query`
    }
    let answer = tool.run(r#"{"query":"moon"}"#, &ToolContext::new("call-1")).await?;
    assert_eq!(answer.model_text(), r#"["moon (None)"]"#);
    Ok(())
}
