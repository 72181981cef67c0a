//! Contents that are too large for one message go in portions: whole or not at all, like others.

use tract_core::store::{BlobKey, ObjectRepository, RefRepository};
use tract_core::{Applied, Batch, Blob, CommitId, RepoName, Store, block_on};
use tract_store_postgres::{PostgresOptions, PostgresStore};
use tract_testkit::fixtures::{advance, batch, branch, done, push};

use crate::proxy::Proxy;
use crate::{server, support};

const PORTION: usize = 8 << 20;

/// Bytes that no portion of them equals another.
fn blob(length: usize, seed: u64) -> Blob {
    let words = (seed..).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    Blob::seal(words.flatten().take(length).collect::<Vec<u8>>())
}

/// A commit, and blobs of lengths about those of one portion, of two, and of none.
fn large(head: Option<CommitId>, seed: u64) -> (Batch, CommitId, Vec<Blob>) {
    let mut writing = batch("commit");
    let next = push(&mut writing, head, "with a lot next to it").id();
    let lengths = [0, 1, PORTION - 1, PORTION, PORTION + 1, 2 * PORTION + 17];
    let large = (1..).zip(lengths).map(|(n, length)| blob(length, seed * n));
    // Small ones share messages.
    let small = (1..=300).map(|n| blob(n as usize * 9, seed * 1000 + n));
    let blobs: Vec<Blob> = large.chain(small).collect();
    writing.blobs.extend(blobs.iter().cloned());
    writing.refs.push(advance("main", head, next));
    (writing, next, blobs)
}

fn found(store: &PostgresStore, blobs: &[Blob]) -> Vec<Option<Blob>> {
    let keys: Vec<BlobKey> = blobs.iter().map(|blob| blob.id().into()).collect();
    block_on(store.blobs(&RepoName::default(), &keys)).expect("they are read")
}

#[test]
fn large_contents_come_back_whole() {
    let Some(url) = server::shared() else { return };
    for row_security in [false, true] {
        let url = support::role(url, row_security);
        let options = PostgresOptions { row_security, ..support::options() };
        let url = server::with_schema(&url, &server::schema());
        let store = block_on(tract_store_postgres::open(&url, &options)).expect("it opens");
        let (repo, mut head) = (RepoName::default(), None);
        // The second write would have the short way that a known repository gives.
        for seed in [1, 2] {
            let (writing, next, blobs) = large(head, seed);
            done(block_on(store.apply(&repo, writing.clone()))).expect("it is written");
            assert!(found(&store, &blobs).into_iter().eq(blobs.iter().cloned().map(Some)));
            let again = block_on(store.apply(&repo, writing)).expect("it is found");
            assert_eq!(again, Applied::Already);
            head = Some(next);
        }
        let (writing, _, blobs) = large(None, 3);
        let lost = block_on(store.apply(&repo, writing)).expect("a lost race is a value");
        assert!(matches!(lost, Applied::Conflict(_)), "{lost:?}");
        // Of no bytes and of one there is but one blob each.
        assert!(found(&store, &blobs).iter().skip(2).all(Option::is_none));
        assert_eq!(block_on(store.check(&repo, false)).expect("it is checked"), []);
    }
}

#[test]
fn a_large_write_whose_answers_are_lost_happens_once() {
    let Some(url) = server::shared() else { return };
    let proxy = Proxy::before(url);
    let url = server::with_schema(proxy.url(), &server::schema());
    let options = PostgresOptions { pool_size: 1, ..support::options() };
    let store = block_on(tract_store_postgres::open(&url, &options)).expect("it opens");
    let (repo, mut head) = (RepoName::default(), None);
    for seed in 1..=4 {
        let (writing, next, blobs) = large(head, seed);
        match seed % 2 {
            0 => proxy.lose_answer(),
            _ => proxy.lose_request(),
        }
        let answer = block_on(store.apply(&repo, writing)).expect("it is resolved");
        assert!(matches!(answer, Applied::Done | Applied::Already), "{answer:?}");
        assert!(found(&store, &blobs).iter().all(Option::is_some));
        let target = block_on(store.refs(&repo, &[branch("main")])).expect("it is read");
        assert_eq!(target[0].as_ref().and_then(|to| to.commit()), Some(next));
        let log = block_on(store.ref_log(&repo, &Default::default())).expect("it is read");
        assert_eq!(log.len() as u64, seed);
        head = Some(next);
    }
}
