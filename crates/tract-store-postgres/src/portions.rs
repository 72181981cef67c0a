//! Sends and reads contents that are too large for one message in portions, so that the client
//! never holds a second copy of them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use tract_core::{Batch, Blob, StoreResult};

use crate::args::{Args, Raw};
use crate::error::Failed;
use crate::link::{Connector, Scope, first_column};
use crate::schema::MAX_BYTES;

/// Maximum bytes of content in one message. While a message is sent, its contents are in memory two
/// more times: in the encoded message and in the output buffer.
pub(crate) const PORTION: usize = 8 << 20;

/// The table in which portions wait for the statement that uses them; dropped with the transaction.
/// They are not compressed here, because the target table compresses them.
const TABLE: &str = "CREATE TEMPORARY TABLE tract_portions \
     (blob integer NOT NULL, part integer NOT NULL, data bytea NOT NULL) ON COMMIT DROP; \
     ALTER TABLE pg_temp.tract_portions ALTER COLUMN data SET STORAGE EXTERNAL";
const SEND: &str = "INSERT INTO pg_temp.tract_portions SELECT * FROM unnest($1, $2, $3)";
/// The expression for the sent contents, in order, which replaces a parameter with their list.
pub(crate) const SENT: &str = "(SELECT array_agg(data ORDER BY blob) FROM \
     (SELECT blob, string_agg(data, ''::bytea ORDER BY part) AS data \
     FROM pg_temp.tract_portions GROUP BY blob) AS whole)";

/// Returns whether the contents of a batch are sent in portions.
pub(crate) fn is_large(batch: &Batch) -> bool {
    batch.blobs.iter().map(|blob| blob.bytes().len()).sum::<usize>() > PORTION
}

/// Pieces of contents in one message, each with the number of its content and its own number.
#[derive(Default)]
struct ContentChunk {
    blobs: Vec<i32>,
    parts: Vec<i32>,
    data: Vec<Raw>,
    bytes: usize,
}

impl ContentChunk {
    fn put(&mut self, blob: i32, part: i32, data: Bytes) {
        self.bytes += data.len();
        self.blobs.push(blob);
        self.parts.push(part);
        self.data.push(Raw(data));
    }

    fn args(self) -> Args {
        Args::new()
            .with(self.blobs, Type::INT4_ARRAY)
            .with(self.parts, Type::INT4_ARRAY)
            .raws(self.data)
    }
}

/// Returns the number of messages for the contents of a batch, at least one.
fn messages(batch: &Batch) -> u32 {
    let bytes = batch.blobs.iter().map(|blob| blob.bytes().len()).sum::<usize>();
    u32::try_from(bytes / PORTION).unwrap_or(u32::MAX).saturating_add(1)
}

/// Returns the time limit of a write, including waiting and retries: one statement timeout for each
/// message that its contents need.
pub(crate) fn write_limit(link: &Connector, batch: &Batch) -> Duration {
    link.options.statement_timeout.saturating_mul(messages(batch))
}

/// Runs a statement that takes these contents by [`SENT`], once.
pub(crate) async fn once(
    link: &Connector,
    op: &'static str,
    blobs: &[&Blob],
    sql: &str,
    args: &Args,
    deadline: Instant,
) -> Result<Vec<Row>, Failed> {
    let deadline = Some(deadline);
    link.steps(op, &Scope::Own, deadline, async |object| {
        link.in_time(op, deadline, object.batch_execute(TABLE)).await?;
        let mut portion = ContentChunk::default();
        for (number, blob) in (0..).zip(blobs) {
            let mut rest = blob.bytes().clone();
            for part in 0.. {
                let room = PORTION - portion.bytes;
                portion.put(number, part, rest.split_to(rest.len().min(room)));
                if portion.bytes == PORTION {
                    let args = std::mem::take(&mut portion).args();
                    link.in_time(op, deadline, object.query_typed(SEND, &args.as_params())).await?;
                }
                if rest.is_empty() {
                    break;
                }
            }
        }
        let last = portion.args();
        link.in_time(op, deadline, object.query_typed(SEND, &last.as_params())).await?;
        link.in_time(op, deadline, object.query_typed(sql, &args.as_params())).await
    })
    .await
}

/// Returns the statement with which [`read`] reads the contents of a table.
pub(crate) fn portion_of(table: &str, content: &str) -> String {
    format!(
        "SELECT substring({content} FROM $3 FOR $4) FROM {{s}}.{table} \
         WHERE repo = $1 AND hash = $2"
    )
}

/// Reads a content of `length` bytes. Returns fewer if it ends early, `None` if the row is gone.
pub(crate) async fn read<F: Future<Output = StoreResult<Vec<Row>>>>(
    statement: impl Fn(Args) -> F,
    op: &'static str,
    repo: i64,
    id: &[u8; 32],
    length: usize,
) -> StoreResult<Option<Vec<u8>>> {
    let most = i32::try_from(PORTION).unwrap_or(i32::MAX);
    let mut bytes = Vec::with_capacity(length.min(MAX_BYTES));
    while bytes.len() < length {
        let at = i32::try_from(bytes.len() + 1).unwrap_or(i32::MAX);
        let args = Args::new().int(repo).id(id).with(at, Type::INT4).with(most, Type::INT4);
        let rows = statement(args).await?;
        let Some(portion) = first_column::<&[u8]>(op, &rows)? else { return Ok(None) };
        if portion.is_empty() {
            break;
        }
        bytes.extend_from_slice(portion);
    }
    Ok(Some(bytes))
}
