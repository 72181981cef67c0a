//! Tools that the model has to look for before it can call them.

use std::sync::{Arc, RwLock};

use tract_core::{Draft, block_on};
use tract_run::{Agent, OnResume};
use tract_tools::select::{CatalogEntry, SearchTools, ToolIndex};
use tract_tools::{Registry, tool};

use crate::support::{Script, call, commit_at, fresh, head, main_branch, reopened, run, texts};

/// Tells the weather in a city.
#[tool(read_only)]
async fn get_weather(city: String) -> String {
    format!("rain in {city}")
}

/// Books a table at a restaurant.
#[tool(read_only)]
async fn book_table(restaurant: String) -> String {
    format!("a table at {restaurant}")
}

/// Tells the time.
#[tool(read_only)]
async fn now() -> &'static str {
    "noon"
}

fn agent(repo: &tract_engine::Repo, branch: tract_core::RefName, model: &Arc<Script>) -> Agent {
    let entries = [CatalogEntry::of(&GetWeather).unwrap(), CatalogEntry::of(&BookTable).unwrap()];
    let index: ToolIndex = entries.into_iter().collect();
    let registry = Registry::builder().tool(GetWeather).tool(BookTable).tool(Now).build().unwrap();
    Agent::new(repo.clone(), branch, Arc::<Script>::clone(model), registry)
        .search_tools(SearchTools::new(Arc::new(RwLock::new(index))))
        .unwrap()
}

#[test]
fn tools_are_kept_back_until_the_model_has_found_them() {
    let repo = fresh();
    let weather = |id: &str| call(id, "get_weather", r#"{"city":"Bern"}"#);
    let model = Script::new([
        weather("c1"),
        call("c2", "search_tools", r#"{"query":"weather in a city","limit":1}"#).call(
            "c3",
            "get_weather",
            r#"{"city":"Bern"}"#,
        ),
        weather("c4"),
        Draft::assistant("rain"),
    ]);
    run(&agent(&repo, main_branch(), &model), "go");
    assert_eq!(model.offered(0), ["now", "search_tools"]);
    assert_eq!(model.offered(1), ["now", "search_tools"]);
    assert_eq!(model.offered(2), ["get_weather", "now", "search_tools"]);
    let texts = texts(&repo);
    assert!(texts[2].contains("not available") && texts[2].contains("<c1! get_weather>"));
    assert!(texts[4].contains("get_weather") && texts[4].contains("<c2 search_tools>"));
    assert!(texts[5].contains("<c3! get_weather>"), "no model has seen it yet: {}", texts[5]);
    assert_eq!(texts[7], "tool: rain in Bern <c4 get_weather>");

    // Another process knows what was found, and the commit which tools the model saw.
    let found = head(&repo);
    let model = Script::new([Draft::assistant("yes")]);
    let again = reopened(&repo);
    run(&agent(&again, main_branch(), &model), "still?");
    assert_eq!(model.offered(0), ["get_weather", "now", "search_tools"]);
    assert_eq!(block_on(repo.compile(Some(found))).unwrap().tools().len(), 3);

    // A fork from before the search has to search for itself.
    let branch = block_on(repo.create_branch("fork", commit_at(&repo, 0))).unwrap();
    let model = Script::new([Draft::assistant("I don't know")]);
    run(&agent(&again, branch, &model).on_resume(OnResume::Run), None);
    assert_eq!(model.offered(0), ["now", "search_tools"]);
}
