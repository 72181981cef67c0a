//! Walking 10,000 commits with their content, against a raw walk over integer ids that hashes
//! what it reads.

use tract::store::{BlobKey, Walk, WriteMode};
use tract::{Tract, block_on};
use tract_benches::bare;

use super::{ENGINES, open};
use crate::messages;
use crate::table::{Table, median, timed};

const COMMITS: u64 = 10_000;

pub(crate) fn run(table: &mut Table, _quick: bool) {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let tract = open(engine, folder.path(), WriteMode::InPlace);
        messages::fill(&tract, 0, COMMITS + 100);
        let raw = tempfile::tempdir().unwrap();
        messages::close(tract);
        let tract = open(engine, folder.path(), WriteMode::InPlace);
        let mut floor = bare::create(engine, raw.path(), &tract).unwrap().unwrap();
        (0..=COMMITS / 100).for_each(|_| floor.write(100).unwrap());
        let (mut ours, mut floors) = (Vec::new(), Vec::new());
        for _ in 0..9 {
            let (read, took) = timed(|| floor.walk(COMMITS).unwrap());
            assert_eq!(read, 2 * COMMITS);
            floors.push(took.as_secs_f64() * 1e3);
            let (read, took) = timed(|| walk(&tract));
            assert_eq!(read as u64, COMMITS);
            ours.push(took.as_secs_f64() * 1e3);
        }
        let (ours, floor) = (median(ours), median(floors));
        let what = format!("{engine}, walk of 10,000 commits with content");
        let note = "by number, hashing";
        table.compare(what, "ms", [ours, floor], note, "≤ 2 ×", ours <= 2.0 * floor);
    }
}

/// Walks and reads the contents, in pages; gives how many there were.
fn walk(tract: &Tract) -> usize {
    let (store, repo) = (tract.store(), tract.repo().name());
    let mut next = block_on(tract.head()).unwrap();
    let mut read = 0;
    while let Some(head) = next.filter(|_| read < COMMITS as usize) {
        let limit = (COMMITS as usize - read).min(4096);
        let page = block_on(store.walk(repo, Walk { limit, ..Walk::from(head) })).unwrap();
        let keys: Vec<BlobKey> = page
            .entries
            .iter()
            .filter_map(|entry| Some(BlobKey { id: entry.commit.content?, hint: entry.content }))
            .collect();
        let contents = block_on(store.blobs(repo, &keys)).unwrap();
        read += contents.iter().flatten().count();
        next = page.next;
    }
    read
}
