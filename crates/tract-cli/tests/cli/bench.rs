use crate::support::Workspace;

#[test]
fn figures_are_next_to_the_floor_and_nothing_is_left() {
    let place = Workspace::empty();
    for (store, floor) in [("sqlite:agent.db", true), ("redb:agent.redb", true), ("memory:", false)]
    {
        let lines = place.json(&["--store", store, "bench", "--messages", "40", "--json"]);
        let figures = lines[0]["figures"].as_array().expect("a list");
        let of = |what: &str| figures.iter().find(|figure| figure["what"] == what);
        for what in ["append, one a write", "append, 100 a write", "append, 16 writers", "fork"] {
            let figure = of(what).unwrap_or_else(|| panic!("{what} in {lines:?}"));
            assert!(figure["value"].as_f64().is_some_and(|value| value > 0.0), "{figure}");
        }
        for what in ["append, one a write", "append, 100 a write", "append, 16 writers", "fork"] {
            let figure = of(what).expect("it is measured");
            let positive = figure["floor"].as_f64().is_some_and(|floor| floor > 0.0);
            assert_eq!(positive, floor, "{figure}");
            assert_eq!(figure["of_floor"].is_number(), floor, "{figure}");
        }
        for what in ["open and compile, cold", "bytes a message"] {
            let positive = of(what).and_then(|figure| figure["floor"].as_f64());
            assert_eq!(positive.is_some_and(|floor| floor > 0.0), floor, "{what} in {lines:?}");
        }
        let people = place.ok(&["--store", store, "bench", "--messages", "40"]);
        assert_eq!(people.contains("no floor"), !floor, "{people}");
    }
    let left = std::fs::read_dir(place.path(".")).expect("a folder").count();
    assert_eq!(left, 0, "neither the store of the url nor a scratch one");
    place.refused(&["--store", "sqlite:nowhere/x.db", "bench"], 2, "file", "nowhere");
}
