//! Two floors of a durable commit: a smaller statement, and the store's own, both sent by a bare client.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tract_core::{Batch, CommitId, RepoName};
use tract_store_postgres::PostgresStore;

use super::{NEXT, append, connect, rate, runtime};
use crate::sessions::batch;

/// The statement that a hand-written program would send: the ref's compare-and-swap drives the
/// inserts. It keeps no log, knows no retries, and checks nothing else.
pub(super) const BARE_TABLES: &str = "
    CREATE SCHEMA bare;
    CREATE TABLE bare.blobs (repo bigint, hash bytea, data bytea, PRIMARY KEY (repo, hash));
    CREATE TABLE bare.commits (repo bigint, hash bytea, seg bigint, pos bigint, rec bytea,
        PRIMARY KEY (repo, hash), UNIQUE (repo, seg, pos));
    CREATE TABLE bare.refs (repo bigint, name text, head bytea, seg bigint, pos bigint,
        PRIMARY KEY (repo, name)) WITH (fillfactor = 50);";
const BARE: &str = "
    WITH r AS (UPDATE bare.refs SET head = $4, pos = pos + 1
               WHERE repo = $1 AND name = $2 AND head = $3 RETURNING repo, seg, pos),
         b AS (INSERT INTO bare.blobs SELECT r.repo, $5, $6 FROM r ON CONFLICT DO NOTHING),
         c AS (INSERT INTO bare.commits SELECT r.repo, $4, r.seg, r.pos, $7 FROM r)
    SELECT count(*) FROM r";

/// How many batches are made before they are sent by all bare clients together.
const SENT: usize = 40_000;

/// A bare client: its own connection, the statement prepared once.
pub(super) fn bare(url: &str, clients: usize, time: Duration) -> f64 {
    let runtime = runtime();
    rate(clients, time, |client, go_on| {
        runtime.block_on(async {
            let client_ = connect(url).await;
            let statement = client_.prepare(BARE).await.unwrap();
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let branch = format!("heads/b{client}-{n}");
            let mut head = vec![0u8; 32];
            client_
                .execute(
                    "INSERT INTO bare.refs VALUES (1, $1, $2, $3, 0)",
                    &[&branch, &head, &(n as i64)],
                )
                .await
                .unwrap();
            let mut done = 0;
            let mut parent = None;
            while go_on() {
                // The same work of making and hashing as the store's clients do.
                let (batch, id) = batch(parent, "x", NEXT.fetch_add(1, Ordering::Relaxed));
                let next = id.as_bytes().to_vec();
                let blob = &batch.blobs[0];
                let (hash, data) = (blob.id().as_bytes().to_vec(), blob.bytes().to_vec());
                let rec = batch.commits[0].encode();
                let row = client_
                    .query_one(&statement, &[&1i64, &branch, &head, &next, &hash, &data, &rec])
                    .await
                    .unwrap();
                assert_eq!(row.get::<_, i64>(0), 1);
                (head, parent) = (next, Some(id));
                done += 1;
            }
            done
        })
    })
}

/// The arguments of a store's statement for one batch: of the same sizes as those that the store
/// sends; only the checksums are left out, which no server looks at.
struct Sent {
    batch: Vec<u8>,
    note: Vec<u8>,
    is: Vec<u8>,
    to: Vec<u8>,
    blob: (Vec<u8>, Vec<u8>),
    parent: Vec<u8>,
    commit: (Vec<u8>, Vec<u8>),
}

impl Sent {
    fn new(batch: &Batch, parent: CommitId) -> Self {
        let (blob, commit) = (&batch.blobs[0], &batch.commits[0]);
        let target = |id: CommitId| [&[1], id.as_bytes().as_slice()].concat();
        let texts = batch.note.what.len() + batch.note.who.len();
        Self {
            batch: batch.id.as_bytes().to_vec(),
            note: vec![0; 49 + texts],
            is: target(parent),
            to: target(commit.id()),
            blob: (blob.id().as_bytes().to_vec(), blob.bytes().to_vec()),
            parent: parent.as_bytes().to_vec(),
            commit: (commit.id().as_bytes().to_vec(), commit.encode()),
        }
    }
}

/// A store, and the way to its server.
pub(super) struct Own<'a> {
    pub(super) url: &'a str,
    pub(super) schema: &'a str,
    pub(super) store: &'a PostgresStore,
    pub(super) named: bool,
}

/// The statement of the store itself, sent by a bare client: its arguments were made before.
pub(super) fn sent(own: &Own<'_>, clients: usize, time: Duration) -> f64 {
    let Own { url, schema, store, named } = *own;
    let runtime = runtime();
    let place = format!(
        "SELECT repo, substring(tableoid::regclass::text FROM '[0-9]+$') FROM {schema}.commits LIMIT 1"
    );
    let lines: Vec<_> = (0..clients)
        .map(|client| {
            let branch = format!("s{client}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
            let mut head = append(store, None, &branch);
            let mut line = Vec::with_capacity(SENT / clients);
            for _ in 0..SENT / clients {
                let (batch, id) = batch(Some(head), &branch, NEXT.fetch_add(1, Ordering::Relaxed));
                line.push(Sent::new(&batch, head));
                head = id;
            }
            (format!("heads/{branch}"), line)
        })
        .collect();
    let (number, part): (i64, String) = runtime.block_on(async {
        let row = connect(url).await.query_one(&place, &[]).await.unwrap();
        (row.get(0), row.get(1))
    });
    let parameters: Vec<String> = (1..=22).map(|n| format!("${n}")).collect();
    let sql = format!("SELECT {schema}.append_{part}({})", parameters.join(", "));
    rate(clients, time, |client, go_on| {
        runtime.block_on(async {
            let (branch, line) = &lines[client];
            let client = connect(url).await;
            let prepared = client.prepare(&sql).await.unwrap();
            let none: Option<Vec<Vec<u8>>> = None;
            let mut done = 0;
            for one in line.iter().take_while(|_| go_on()) {
                let values: [(&(dyn ToSql + Sync), Type); 22] = [
                    (&RepoName::DEFAULT, Type::TEXT),
                    (&number, Type::INT8),
                    (&one.batch, Type::BYTEA),
                    (&one.note, Type::BYTEA),
                    (&10_000i32, Type::INT4),
                    (&false, Type::BOOL),
                    (branch, Type::TEXT),
                    (&one.is, Type::BYTEA),
                    (&one.to, Type::BYTEA),
                    (&0i64, Type::INT8),
                    (&0i64, Type::INT8),
                    (&none, Type::BYTEA_ARRAY),
                    (&none, Type::BYTEA_ARRAY),
                    (&one.parent, Type::BYTEA),
                    (&one.commit.0, Type::BYTEA),
                    (&one.commit.1, Type::BYTEA),
                    (&none, Type::BYTEA_ARRAY),
                    (&none, Type::BYTEA_ARRAY),
                    (&one.blob.0, Type::BYTEA),
                    (&one.blob.1, Type::BYTEA),
                    (&none, Type::BYTEA_ARRAY),
                    (&none, Type::BYTEA_ARRAY),
                ];
                let rows = if named {
                    client.query(&prepared, &values.map(|(value, _)| value)).await
                } else {
                    client.query_typed(&sql, &values).await
                };
                let row = &rows.unwrap()[0];
                // Any other value means that the statement fell back to its slow path.
                assert_eq!(row.get::<_, Option<Vec<Option<Vec<u8>>>>>(0), None);
                done += 1;
            }
            done
        })
    })
}
