use std::sync::Arc;

use tract::tools::select::{Bm25, CatalogEntry, EntryError, PickOptions, ToolIndex, pick};

fn main() -> Result<(), EntryError> {
    let tools = [
        r#"{"name":"get_weather","description":"Current weather in a city.",
            "parameters":{"type":"object","properties":{"city":{"type":"string"}}}}"#,
        r#"{"name":"send_mail","description":"Sends a message.","parameters":{"type":"object"},
            "tags":["post"]}"#,
        r#"{"name":"format_disk","description":"Erases a disk.","parameters":{"type":"object"},
            "unsafe":true}"#,
    ];
    let tools: Vec<_> = tools.into_iter().map(CatalogEntry::parse).collect::<Result<_, _>>()?;

    // A pure function: filter, score, order, cut. The default scorer is token overlap.
    let picked = pick("what is the weather in Oslo?", &tools, &PickOptions::default());
    assert_eq!(picked.candidates[0].name, "get_weather");
    assert_eq!(picked.skipped_unsafe, 1);

    // Another scorer, and other limits.
    let options = PickOptions {
        scorer: Arc::new(Bm25),
        max_candidates: 5,
        min_score: 0.1,
        ..PickOptions::default()
    };
    assert!(pick("post a letter", &tools, &options).candidates.iter().all(|c| c.score >= 0.1));

    // Thousands of tools that come and go: an index, changed in place.
    let mut index: ToolIndex = tools.into_iter().collect();
    index.remove("send_mail");
    assert_eq!(index.pick("weather forecast", &options).candidates.len(), 1);
    Ok(())
}
