//! An older export of a conversation, imported after a newer one.

mod support;

use serde_json::{Value, json};
use tract_core::block_on;
use tract_import::Source;

use self::support::{import, new_repo, write};

#[test]
fn an_older_export_writes_nothing_after_a_newer_one() {
    let node = |id: &str, parent: Option<&str>, children: &[&str], role: &str, time: f64| {
        let message = json!({"id": id, "author": {"role": role}, "create_time": time,
            "content": {"content_type": "text", "parts": [id]}, "recipient": "all", "metadata": {}});
        (
            id.to_owned(),
            json!({"id": id, "message": message, "parent": parent, "children": children}),
        )
    };
    let export = |nodes: Vec<(String, Value)>, current: &str| {
        let mapping: serde_json::Map<String, Value> = nodes.into_iter().collect();
        json!([{"title": "T", "mapping": mapping, "current_node": current, "conversation_id": "c-1"}]).to_string()
    };
    let plain = vec![
        node("u1", None, &["a1"], "user", 1.0),
        node("a1", Some("u1"), &["u2"], "assistant", 2.0),
        node("u2", Some("a1"), &["a2"], "user", 3.0),
        node("a2", Some("u2"), &[], "assistant", 4.0),
    ];
    let mut edited = plain.clone();
    edited[1] = node("a1", Some("u1"), &["u2", "u3"], "assistant", 2.0);
    edited.push(node("u3", Some("a1"), &["a3"], "user", 5.0));
    edited.push(node("a3", Some("u3"), &[], "assistant", 6.0));
    let mut grown = edited.clone();
    grown[3] = node("a2", Some("u2"), &["u4"], "assistant", 4.0);
    grown.push(node("u4", Some("a2"), &[], "user", 7.0));
    let states = [export(plain, "a2"), export(edited, "a3"), export(grown, "u4")];
    for newer in 1..states.len() {
        for older in 0..newer {
            let repo = new_repo();
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("c.json");
            let read = |state: usize| {
                let file = write(Source::ChatGpt, path.clone(), &states[state]);
                import(&repo, &[file]).pop().expect("a report")
            };
            let refs = || block_on(repo.store().list_refs(repo.name(), "")).expect("it is read");
            read(newer);
            let before = refs();
            for _ in 0..2 {
                let report = read(older);
                assert_eq!(report.anomalies.counts.len(), 0, "{newer} {older}: {report:?}");
                assert_eq!(refs(), before, "{newer} {older}");
                read(newer);
                assert_eq!(refs(), before, "{newer} {older}");
            }
        }
    }
}
