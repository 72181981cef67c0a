use tract_core::store::{BlobKey, BlockingStore, Walk};
use tract_core::{Applied, Store, block_on};
use tract_store_sqlite::SqliteOptions;

use crate::common::*;

#[test]
fn a_large_content_is_stored_once_and_comes_back() {
    let (_folder, path, store) = fresh();
    let mut text = String::new();
    messages()
        .take_while(|message| {
            text.push_str(message);
            text.len() < 3 << 20
        })
        .for_each(drop);
    let other = format!("{text}.");
    let (mut head, mut contents) = (None, Vec::new());
    for text in [&text, &other, &text] {
        let (batch, id) = appending("main", head, text);
        contents.extend(batch.blobs.iter().cloned().map(Some));
        assert_eq!(apply(&store, batch).unwrap(), Applied::Done);
        head = Some(id);
    }
    assert_eq!(store.store().stats(&repo()).unwrap().blobs, 2);
    block_on(store.close()).unwrap();
    drop(store);
    let store = tract_store_sqlite::open(&path, &SqliteOptions::default()).unwrap();
    let page = store.store().walk(&repo(), Walk::from(head.unwrap())).unwrap();
    let steps = page.entries.iter().rev();
    let keys: Vec<_> = steps
        .map(|entry| BlobKey { id: entry.commit.content.unwrap(), hint: entry.content })
        .collect();
    assert!(store.store().blobs(&repo(), &keys).unwrap() == contents);
    assert_sound(&store);
}

#[test]
fn a_batch_that_joins_a_group_sees_its_writes_and_is_durable_with_it() {
    let (_folder, path, store) = fresh();
    let is_joined = tract_testkit::blocking::groups_are_whole(store, |store| {
        drop(store);
        create(&path)
    });
    assert!(is_joined);
}
