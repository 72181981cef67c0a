use tract::mcp::{McpServer, ServerOptions, ServerUrl};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = ServerUrl::new("https://example.com/mcp").bearer(std::env::var("EXAMPLE_TOKEN")?);
    let server = McpServer::connect("example", url, ServerOptions::default()).await?;
    println!("{}", server.tools().await?.tools.len());
    server.close().await; // ends the session
    Ok(())
}
