use tract::core::{DynTool, ToolContext, ToolError};
use tract::tool;

/// Translates a text.
///
/// Everything below the first paragraph is for readers of the code.
///
/// # Arguments
/// - text: the text to translate
#[tool(read_only)]
async fn translate(
    text: String,
    /// The language, as ISO 639-1.
    #[tool(default = "fr".into())]
    to: String,
    context: &ToolContext,
) -> Result<String, ToolError> {
    context.progress(format_args!("{} letters", text.len()));
    Ok(format!("{text} in {to}"))
}

#[tokio::main]
async fn main() -> Result<(), ToolError> {
    let spec = Translate.spec(); // the macro makes `Translate` and `TranslateParams`
    assert_eq!(
        (spec.name.as_str(), spec.description.as_str()),
        ("translate", "Translates a text.")
    );
    println!("{}", spec.parameters);
    let answer = Translate.run(r#"{"text":"moon"}"#, &ToolContext::new("call-1")).await?;
    assert_eq!(answer.model_text(), "moon in fr");
    Ok(())
}
