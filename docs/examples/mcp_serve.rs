use tract::serve::{ServeOptions, host};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tract = tract::open("sqlite:agent.db").await?;
    let options = ServeOptions { exclude: vec!["scratch".to_owned()], ..ServeOptions::default() };
    host(tract.repo().clone(), options).serve_stdio().await?;
    Ok(())
}
