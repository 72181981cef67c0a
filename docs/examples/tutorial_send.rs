use tract::prelude::*;

#[tokio::main]
async fn main() -> tract::Result<()> {
    let tract = tract::open("memory:").await?;
    tract.user("How much did I save?").await?;

    let context = tract.compile().await?;
    let request = context.to_openai_params()?.with("model", "gpt-5.5").with("temperature", 0.2);
    for repair in &request.repairs {
        eprintln!("{repair}"); // how the request differs from what is recorded
    }
    println!("POST /v1/chat/completions\n{}", request.to_json()); // with any HTTP client

    // The server's answer, as text:
    let body = r#"{"choices":[{"index":0,"finish_reason":"stop",
        "message":{"role":"assistant","content":"You saved $10,519."}}]}"#;
    let reply = request.reply(body)?; // text, calls, usage; the bytes are kept
    tract.commit(&reply).await?; // answers the head that was compiled, or fails with `Conflict`
    assert_eq!(tract.compile().await?.message_count(), 2);
    Ok(())
}
