//! The Rust half of `overhead.py`: `baseline COMMITS_URL COMPILE_URL COUNT` prints the commits per
//! second and the seconds of a cold compile.

use std::time::Instant;

use tract::{Draft, OpenOptions, RequestForms};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: baseline COMMITS_URL COMPILE_URL COUNT");
    let (commits, compile, count) = (next()?, next()?, next()?.parse::<u32>()?);
    let text = |n: u32| format!("{n} {}", "x".repeat(500));
    let tract = tract::open(&commits).await?;
    tract.commit_all([Draft::user(text(0))]).await?;
    let started = Instant::now();
    for n in 0..count {
        tract.commit_all([Draft::user(text(n))]).await?;
    }
    let rate = f64::from(count) / started.elapsed().as_secs_f64();
    let tract = OpenOptions::new().create(false).open(&compile).await?;
    let started = Instant::now();
    let body = tract.compile().await?.to_openai_params()?.to_json();
    let seconds = started.elapsed().as_secs_f64();
    std::hint::black_box(body);
    println!("[{rate}, {seconds}]");
    Ok(())
}
