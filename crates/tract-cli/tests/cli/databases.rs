//! Recordings in a database on a server.

#[path = "../../../tract-store-postgres/tests/all/server.rs"]
mod server;

use crate::support::{COAT, Workspace};

/// Whether the binary was built with what reads them: it is where the whole workspace is.
fn is_built() -> bool {
    let url = "postgres://127.0.0.1:1/agents?retry_for=0&connect_timeout=1";
    let ran = Workspace::new().run(&["import", "langgraph", url]);
    let is_built = !ran.stderr.contains("this build does not read PostgreSQL");
    if !is_built {
        println!("left out: the binary was built without the feature `postgres`");
    }
    is_built
}

/// Runs statements on the server.
fn execute(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (client, connection) = runtime
        .block_on(tokio_postgres::connect(url, tokio_postgres::NoTls))
        .expect("the server answers");
    runtime.spawn(connection);
    runtime.block_on(client.batch_execute(sql)).expect("they run");
}

#[test]
fn a_database_on_a_server_is_named_by_its_url_and_by_nothing_else() {
    let place = Workspace::new();
    let url = "postgres://ada:secret@127.0.0.1:1/agents?retry_for=0&connect_timeout=1";
    place.refused(&["import", "codex", url], 2, "usage", "no format of a database on a server");
    place.refused(&["import", "langgraph", url, "--project", "x"], 2, "usage", "--project");
    place.refused(&["import", "--format", "openai", url], 2, "usage", "read from PostgreSQL");
    #[cfg(feature = "follow")]
    place.refused(&["import", "langgraph", url, "--follow"], 2, "usage", "cannot be followed");
    for arguments in [&["import", "langgraph", url][..], &["import", url, "--json"]] {
        let ran = place.run(arguments).expect(1);
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains("postgres://ada:…@127.0.0.1:1/agents"), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[test]
fn checkpoints_on_a_server_become_branches_and_importing_again_writes_nothing() {
    if !is_built() {
        return;
    }
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let sql = format!(
        r#"CREATE SCHEMA {schema}; SET search_path TO {schema};
        CREATE TABLE checkpoints (thread_id TEXT, checkpoint_ns TEXT, checkpoint_id TEXT,
            parent_checkpoint_id TEXT, type TEXT, checkpoint JSONB, metadata JSONB);
        CREATE TABLE checkpoint_blobs (thread_id TEXT, checkpoint_ns TEXT, channel TEXT,
            version TEXT, type TEXT, blob BYTEA);
        INSERT INTO checkpoints VALUES ('tides', '', '1', NULL, NULL,
            '{{"ts": "2026-07-01T12:00:00+00:00", "channel_versions": {{"messages": "1"}}}}', '{{}}');
        INSERT INTO checkpoint_blobs VALUES ('tides', '', 'messages', '1', 'json', convert_to(
            '[{{"lc": 1, "type": "constructor", "id": ["HumanMessage"],
               "kwargs": {{"type": "human", "id": "m1", "content": "High water?"}}}}]', 'UTF8'))"#
    );
    execute(url, &sql);
    let place = Workspace::new();
    let url = server::with_schema(url, &schema);
    let lines = place.json(&["--json", "import", "langgraph", &url]);
    assert_eq!(lines[0]["branches"][0]["branch"], "langgraph/tides", "{lines:?}");
    assert!(place.ok(&["cat", "langgraph/tides"]).contains("High water?"));
    let again = place.json(&["--json", "import", &url]);
    assert_eq!(again[0]["branches"][0]["status"], "unchanged", "{again:?}");
    assert_eq!(again[1]["summary"]["new"], 0);
    place.is_clean();
}

#[cfg(all(unix, feature = "view"))]
#[test]
fn a_store_on_a_server_is_viewed_and_its_end_is_an_answer() {
    use crate::viewing::Browser;

    if !is_built() {
        return;
    }
    let Some(url) = server::shared() else { return };
    let schema = server::schema();
    let store = format!("{}&partitions=1&retry_for=0", server::with_schema(url, &schema));
    let place = Workspace::empty();
    place.ok(&["--store", &store, "init"]);
    place.feed(&["--store", &store, "apply", "-"], COAT.as_bytes()).expect(0);
    let browser = Browser::open_with(&place, &["--store", &store], &[]);
    assert!(browser.page("/transcript?rev=main").contains("umbrella"));
    place.ok(&["--store", &store, "commit", "user", "And gloves?"]);
    for path in ["/", "/history?rev=main", "/window?rev=main", "/tools?rev=main", "/usage"] {
        browser.page(path);
    }
    assert!(browser.page("/search?words=gloves").contains("gloves"));
    assert!(browser.page("/transcript?rev=main").contains("And gloves?"));
    let drop = format!("DROP SCHEMA {schema} CASCADE");
    execute(url, &drop);
    let gone = browser.get("/transcript?rev=main");
    assert!(gone.status >= 400 && !gone.body.contains("gloves"), "{}", gone.body);
    assert!(browser.get("/").status >= 400);
}
