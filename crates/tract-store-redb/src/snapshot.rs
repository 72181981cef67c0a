//! Reads one consistent state of the file.

use std::cell::OnceCell;
use std::sync::RwLockReadGuard;

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, TableError};
use tract_core::StoreResult;
use tract_kv::{KvRead, Scan, Space, Visit};

use crate::engine::{File, table};
use crate::error::{contained, engine};

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// A consistent state of the file. Tables are opened on first use.
pub(crate) struct Snapshot<'a> {
    tables: [OnceCell<Option<Table>>; Space::ALL.len()],
    transaction: ReadTransaction,
    /// Keeps the file from being closed or checked while the snapshot exists.
    _file: RwLockReadGuard<'a, Option<File>>,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn new(
        transaction: ReadTransaction,
        file: RwLockReadGuard<'a, Option<File>>,
    ) -> Self {
        Self { tables: Default::default(), transaction, _file: file }
    }

    /// Opens a table; `None` if nothing was ever written to it.
    fn table(&self, space: Space) -> StoreResult<Option<&Table>> {
        let cell = &self.tables[space as usize];
        if let Some(table) = cell.get() {
            return Ok(table.as_ref());
        }
        let opened = match self.transaction.open_table(table(space)) {
            Ok(opened) => Some(opened),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(engine("read")(error)),
        };
        Ok(cell.get_or_init(|| opened).as_ref())
    }
}

impl KvRead for Snapshot<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        contained("read", || match self.table(space)? {
            Some(table) => get(table, key),
            None => Ok(None),
        })
    }

    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()> {
        contained("read", || match self.table(scan.space)? {
            Some(table) => self::scan(table, scan, visit),
            None => Ok(()),
        })
    }
}

type Bytewise = &'static [u8];

/// Reads one value of a table.
pub(crate) fn get(
    table: &impl ReadableTable<Bytewise, Bytewise>,
    key: &[u8],
) -> StoreResult<Option<Bytes>> {
    let found = table.get(key).map_err(engine("read"))?;
    Ok(found.map(|value| Bytes::copy_from_slice(value.value())))
}

/// Visits a range of a table.
pub(crate) fn scan(
    table: &impl ReadableTable<Bytewise, Bytewise>,
    scan: &Scan,
    visit: &mut Visit<'_>,
) -> StoreResult<()> {
    // redb rejects an inverted range, which is empty by our definition.
    if scan.is_empty() {
        return Ok(());
    }
    let from = scan.from.as_slice();
    let mut range = match scan.to.as_deref() {
        Some(to) => table.range(from..to),
        None => table.range(from..),
    }
    .map_err(engine("read"))?;
    loop {
        let next = if scan.reverse { range.next_back() } else { range.next() };
        let Some((key, value)) = next.transpose().map_err(engine("read"))? else {
            return Ok(());
        };
        if visit(key.value(), value.value())?.is_break() {
            return Ok(());
        }
    }
}
