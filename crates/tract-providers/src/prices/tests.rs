use super::*;

fn million(input: u64) -> TokenAmounts {
    TokenAmounts { input, ..TokenAmounts::default() }
}

/// The first microsecond of a day.
fn on(day: &str) -> Option<i64> {
    table::day(day)
}

#[track_caller]
fn is(found: Option<f64>, expected: f64) {
    assert!(found.is_some_and(|found| (found - expected).abs() < 1e-9), "{found:?} {expected}");
}

#[test]
fn a_name_has_the_price_of_its_model_wherever_it_is_served() {
    let prices = PriceTable::builtin();
    let cost = |model: &str| prices.cost(model, &million(100_000), on("2026-06-01"));
    for name in [
        "claude-haiku-4-5",
        "claude-haiku-4-5-20251001",
        "claude-haiku-4-5@20251001",
        "claude-haiku-4.5",
        "anthropic/claude-haiku-4.5",
        "openrouter/anthropic/claude-haiku-4.5",
        "us.anthropic.claude-haiku-4-5-20251001-v1:0",
        "bedrock/eu.anthropic.claude-haiku-4-5-20251001-v1:0",
        "arn:aws:bedrock:us-east-1:1:inference-profile/global.anthropic.claude-haiku-4-5-20251001-v1:0",
        "vertex_ai/claude-haiku-4-5@20251001",
        "Claude-Haiku-4-5[1m]",
    ] {
        is(cost(name), 0.1);
    }
    is(cost("models/gemini-2.5-flash"), 0.03);
    assert_eq!(cost("gpt-4o-2024-08-06"), cost("openai/gpt-4o"));
    assert_eq!(cost("azure/gpt-4o"), cost("gpt-4o"));
    assert_eq!(cost("gpt-5-1"), cost("gpt-5.1"));
    assert!(
        cost("us.amazon.nova-lite-v1:0").is_some() && cost("groq/llama-3.1-8b-instant").is_some()
    );
    for name in
        ["", "<synthetic>", "claude-opus-9", "gpt-5.1-of-ours", "llama3:8b", "/", "[", "[1m]"]
    {
        assert_eq!(cost(name), None, "{name:?}");
    }
}

#[test]
fn cache_writes_for_an_hour_cost_twice_the_input() {
    let prices = PriceTable::builtin();
    let written =
        TokenAmounts { cache_write: 100_000, cache_write_1h: 40_000, ..TokenAmounts::default() };
    let cost = prices.cost("claude-haiku-4-5", &written, None);
    is(cost, 0.06 * 1.25 + 0.04 * 2.0);
    // A table that has no price for it, and one that has none for writing.
    let own = r#"{"date":"2026-01-31","per":1,"models":{
        "a":{"input":1,"output":1,"cache_write":1.25},"b":{"input":1,"output":1}}}"#;
    let own = PriceTable::parse(own).expect("a table");
    is(own.cost("a", &written, None), 60_000.0 * 1.25 + 40_000.0 * 2.0);
    is(own.cost("b", &written, None), 100_000.0);
}

#[test]
fn prices_are_those_of_the_day_and_of_the_size_of_the_request() {
    let prices = PriceTable::builtin();
    let cost = |model: &str, day: &str, input| prices.cost(model, &million(input), on(day));
    // o3 became cheaper on 2025-06-10.
    is(cost("o3", "2025-06-09", 1_000_000), 10.0);
    is(cost("o3", "2025-06-10", 1_000_000), 2.0);
    // A long context has its own price, of all its tokens.
    is(cost("gemini-2.5-pro", "2026-01-01", 200_000), 0.25);
    is(cost("gemini-2.5-pro", "2026-01-01", 200_001), 0.200_001 * 2.5);
    let cached = TokenAmounts { cache_read: 250_000, ..million(1) };
    is(prices.cost("gemini-2.5-pro", &cached, None), 0.25 * 0.25 + 2.5e-6);
    // The long context of Sonnet 4.5 ended.
    is(cost("claude-sonnet-4-5", "2026-04-29", 1_000_000), 6.0);
    is(cost("claude-sonnet-4-5", "2026-04-30", 1_000_000), 3.0);
    // DeepSeek is cheaper at night.
    let night = on("2025-06-01").map(|at| at + 20 * 3_600_000_000);
    let day = on("2025-06-01").map(|at| at + 3_600_000_000);
    is(prices.cost("deepseek-reasoner", &million(1_000_000), night), 0.135);
    is(prices.cost("deepseek-reasoner", &million(1_000_000), day), 0.55);
    // Without a time, the prices are those of the day of the table.
    assert_eq!(prices.cost("o3", &million(5), None), cost("o3", "2026-11-10", 5));
}

#[test]
fn a_miss_costs_what_writing_and_sending_cost_more_than_reading() {
    let prices = PriceTable::builtin();
    let cost = |again, cache_write, cache_write_1h| {
        let written = TokenAmounts { cache_write, cache_write_1h, ..TokenAmounts::default() };
        prices.cost_of_miss("claude-sonnet-4", again, &written, PriceBasis::default())
    };
    is(cost(1_000_000, 1_000_000, 0), 3.75 - 0.3);
    is(cost(1_000_000, 2_000_000, 0), 3.75 - 0.3);
    is(cost(1_000_000, 2_000_000, 2_000_000), 6.0 - 0.3);
    is(cost(1_000_000, 1_000_000, 500_000), (6.0 + 3.75) / 2.0 - 0.3);
    is(cost(1_000_000, 0, 0), 3.0 - 0.3);
    is(cost(0, 5, 0), 0.0);
    let none = TokenAmounts::default();
    assert_eq!(prices.cost_of_miss("none", 1, &none, PriceBasis::default()), None);
}

#[test]
fn the_table_of_litellm_is_read_with_its_tiers() {
    let table = r#"{
        "sample_spec": {"input_cost_per_token": 0, "output_cost_per_token": 0},
        "bedrock/us.anthropic.claude-z-v1:0": {"input_cost_per_token": 3e-06,
            "output_cost_per_token": 1.5e-05, "cache_creation_input_token_cost": 3.75e-06,
            "cache_creation_input_token_cost_above_1hr": 6e-06, "cache_read_input_token_cost": "3e-07",
            "input_cost_per_token_above_200k_tokens": 6e-06, "litellm_provider": "bedrock"},
        "dall-e": {"input_cost_per_pixel": 1}}"#;
    let prices = PriceTable::parse(table).expect("a table");
    let tokens = TokenAmounts {
        input: 1_000,
        output: 1_000,
        cache_read: 1_000,
        cache_write: 2_000,
        cache_write_1h: 1_000,
        requests: 1,
    };
    let one = 0.003 + 0.015 + 0.0003 + 0.00375 + 0.006;
    is(prices.cost("claude-z", &tokens, None), one);
    is(prices.cost("us.anthropic.claude-z-v1:0", &tokens, None), one);
    is(prices.cost("claude-z", &million(300_000), None), 1.8);
    assert_eq!(prices.cost("dall-e", &tokens, None), None);
    assert_eq!(prices.cost("sample_spec", &tokens, None), None);
    assert_eq!((prices.date(), prices.currency()), ("LiteLLM", "USD"));
}

#[test]
fn tiers_of_litellm_are_prices_by_the_size_of_the_request() {
    let table = r#"{"qwen-z": {"litellm_provider": "dashscope", "tiered_pricing": [
        {"input_cost_per_token": 2e-06, "output_cost_per_token": 4e-06, "range": [256000.0, 1000000.0]},
        {"input_cost_per_token": 1e-06, "output_cost_per_token": 3e-06, "range": [0, 256000.0]}]}}"#;
    let prices = PriceTable::parse(table).expect("a table");
    is(prices.cost("dashscope/qwen-z", &million(100_000), None), 0.1);
    is(prices.cost("qwen-z", &million(256_000), None), 0.256);
    is(prices.cost("qwen-z", &million(300_000), None), 0.6);
}

#[test]
fn negative_prices_are_refused_with_the_model() {
    for (table, expected) in [
        (
            r#"{"date":"2026-01-31","models":{"a":{"input":-1,"output":2}}}"#,
            "invalid price of \"a\": -1 (expected 0 or more)",
        ),
        (
            r#"{"b":{"input_cost_per_token":1e-06,"output_cost_per_token":"-0.5"}}"#,
            "invalid price of \"b\": -0.5 (expected 0 or more)",
        ),
        (
            r#"{"c":{"input_cost_per_token":"inf"}}"#,
            "invalid price of \"c\": inf (expected 0 or more)",
        ),
        (
            r#"{"date":"2026-01-31","per":0,"models":{"a":{"input":1,"output":2}}}"#,
            "invalid number of tokens per price: 0 (expected more than 0)",
        ),
    ] {
        let error = PriceTable::parse(table).expect_err(table);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_local_model_that_is_named_like_one_of_a_vendor_has_no_price() {
    let prices = PriceTable::builtin();
    for name in ["gpt-4o:latest", "ollama/gpt-4o", "ollama_chat/gpt-4o", "ollama:gpt-4o"] {
        assert_eq!(prices.cost(name, &million(1), None), None, "{name}");
        assert_eq!(prices.context_window(name), None, "{name}");
    }
    let own = r#"{"date":"2026-01-31","models":{"gpt-4o":{"input":1,"output":1}}}"#;
    let own = PriceTable::parse(own).expect("a table");
    is(own.cost("gpt-4o:latest", &million(1_000_000), None), 1.0);
}

#[test]
fn a_text_that_is_not_a_table_is_refused_with_the_place() {
    let error = PriceTable::parse("{\"date\":\n 7}").expect_err("a number is not a date");
    assert_eq!(error.to_string(), "no table of prices: line 2, column 2");
    for text in ["", "{}", "[]", r#"{"a":{}}"#, r#"{"sample_spec":{"input_cost_per_token":1}}"#] {
        assert!(PriceTable::parse(text).is_err(), "{text}");
    }
}

#[test]
fn the_builtin_table_is_compact() {
    assert!(BUILTIN.len() < 200_000, "{} bytes", BUILTIN.len());
    let models = BUILTIN.lines().filter(|line| line.starts_with("[\"")).count();
    assert!(models > 1_000, "{models} rows");
}

#[test]
fn lookups_of_any_number_of_names_take_bounded_memory() {
    let table = PriceTable::builtin();
    let tokens = TokenAmounts { input: 1_000_000, ..TokenAmounts::default() };
    let known = table.cost("gpt-5", &tokens, None);
    assert!(known.is_some());
    for n in 0..3 * MAX_LOOKUPS {
        assert_eq!(table.cost(&format!("unknown-{n}"), &tokens, None), None);
        assert!(table.found.lock().unwrap().len() <= MAX_LOOKUPS);
    }
    assert_eq!(table.cost("gpt-5", &tokens, None), known);
}
