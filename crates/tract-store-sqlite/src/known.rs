//! Asking of many contents at once whether any of them may be stored.

use std::fmt::Write as _;
use std::sync::LazyLock;

use rusqlite::ToSql;
use tract_core::StoreResult;

use crate::write::Tx;

/// How many prefixes one statement looks up. Fewer than a third of them are asked for one by one.
const WIDE: usize = 25;

/// Looks for any of many contents.
static ANY_BLOB: LazyLock<String> = LazyLock::new(|| {
    let mut sql = "SELECT 1 FROM (VALUES (?2)".to_owned();
    for n in 3..WIDE + 2 {
        let _ = write!(sql, ", (?{n})"); // writing to a String cannot fail
    }
    sql.push_str(") AS asked CROSS JOIN blobs ON repo = ?1 AND h = asked.column1 LIMIT 1");
    sql
});

impl Tx<'_> {
    /// Tells of each prefix whether it is sure that no blob with it is stored; `false` means that
    /// the blob has to be looked for.
    pub(crate) fn surely_new(&mut self, repo: i64, prefixes: &[i64]) -> StoreResult<Vec<bool>> {
        let mut new = Vec::with_capacity(prefixes.len());
        for chunk in prefixes.chunks(WIDE) {
            let none_there = match chunk {
                [first, ..] if chunk.len() * 3 >= WIDE => {
                    let mut values: Vec<&dyn ToSql> = vec![&repo];
                    values.extend(chunk.iter().map(|prefix| prefix as &dyn ToSql));
                    values.resize(WIDE + 1, first);
                    self.number(&ANY_BLOB, &values)?.is_none()
                }
                _ => false,
            };
            new.resize(new.len() + chunk.len(), none_there);
        }
        Ok(new)
    }
}
