//! Selection: an index of thousands of tools, and a query of it.

use tract::tools::select::{CatalogEntry, PickOptions, ToolIndex};
use tract_testkit::data;

use crate::table::{Table, median, micros, timed};

/// How many tools the index has.
const TOOLS: usize = 5_000;

pub(crate) fn run(table: &mut Table, quick: bool) {
    let (folder, _) = data::find("toolcatalog");
    let text = std::fs::read_to_string(folder.join("tools.jsonl")).unwrap();
    let recorded: Vec<CatalogEntry> =
        text.lines().map(|line| CatalogEntry::parse(line).unwrap()).collect();
    // Recorded tools, again and again under other ids and names until there are enough.
    let tools: Vec<CatalogEntry> = (0..TOOLS)
        .map(|n| {
            let tool = &recorded[n % recorded.len()];
            let round = n / recorded.len();
            let name = format!("{}_{}", tool.name(), (b'a' + (round % 26) as u8) as char);
            CatalogEntry::new(format!("{n}"), name, tool.description())
                .parameters(tool.schema().unwrap_or("{}"))
                .unwrap()
        })
        .collect();
    let mut took_ms = Vec::new();
    let mut index = ToolIndex::new();
    for _ in 0..if quick { 3 } else { 9 } {
        let tools = tools.clone();
        let (built, took) = timed(|| tools.into_iter().collect::<ToolIndex>());
        took_ms.push(micros(took) / 1e3);
        index = built;
    }
    assert_eq!(index.len(), TOOLS);
    let built = median(took_ms);
    let what = format!("index of {TOOLS} tools, built");
    table.limit(what, format!("{built:.0} ms"), "< 100 ms", built < 100.0);

    let queries = std::fs::read_to_string(folder.join("queries.jsonl")).unwrap();
    let queries: Vec<String> = queries
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|query| query["query"].as_str().unwrap().to_owned())
        .collect();
    let options = PickOptions { max_candidates: 5, ..PickOptions::default() };
    let mut took_us = Vec::new();
    for query in &queries {
        let (picked, took) = timed(|| index.pick(query, &options));
        assert!(picked.candidates.len() <= 5);
        took_us.push(micros(took));
    }
    let each = median(took_us);
    let what = format!("one of {} queries of it", queries.len());
    table.limit(what, format!("{each:.0} µs"), "< 1 ms", each < 1e3);

    let mut took_us = Vec::new();
    for tool in tools.iter().take(200) {
        let (before, took) = timed(|| index.insert(tool.clone()));
        assert!(before.is_some());
        took_us.push(micros(took));
    }
    let each = median(took_us);
    table.limit("one tool of it replaced in place", format!("{each:.0} µs"), "< 1 ms", each < 1e3);
}
