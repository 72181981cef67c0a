use std::sync::Arc;

use tract::{ChatOptions, JsonText, ReplyDelta, models::HttpModel};

fn print_text(piece: &ReplyDelta) {
    if let ReplyDelta::Text(text) = piece {
        print!("{text}");
    }
}

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("sqlite:agent.db").await?;
    let model = HttpModel::from_env("anthropic/claude-opus-4-7")?; // key: ANTHROPIC_API_KEY
    let answer = tract.chat(&model, "Do I need a coat in Paris?").await?; // both are commits
    println!("{}", answer.text());
    let options = ChatOptions {
        parameters: Some(JsonText::new(r#"{"temperature":0.2}"#)?),
        on_piece: Some(Arc::new(print_text)),
        ..ChatOptions::default()
    };
    tract.generate_with(&model, &options).await?; // continue from here, streamed
    Ok(())
}
