//! Folds commits into a view, and compiles a view into a provider-neutral context.
#![forbid(unsafe_code)]

mod cache;
mod chain;
mod compiled;
mod compiler;
mod error;
mod fact;
mod fetch;
mod find;
mod fold;
mod history;
mod ids;
mod load;
mod pair;
mod places;
mod readable;
mod settle;
mod shape;
mod snapshot;
mod state;
mod time;
mod tokens;
mod tools;
mod verify;
mod view;
mod view_id;

pub use crate::compiled::{Compiled, TokenCount};
pub use crate::compiler::{Compiler, DEFAULT_CACHE_BYTES, UnstoredObjects};
pub use crate::error::{CompileError, Result};
pub use crate::fact::{RowFact, stated_priority};
pub use crate::fold::{
    FoldRows, InvalidChange, appended, fold, fold_change, fold_rows, inverse, resolved,
};
pub use crate::history::{History, HistoryCounts, WeakHistory};
pub use crate::ids::{IdHasher, IdMap, IdSet};
pub use crate::pair::{
    Item, PairedMessages, Pairing, PlaceholderResult, Repair, RepairKind, Rules, Speaker, Unpaired,
    pair, speaker,
};
pub use crate::readable::Unreadable;
pub use crate::shape::{BadShape, Changed, shape};
pub use crate::tokens::count_content;
pub use crate::verify::{FoldedHistory, SnapshotCheck};
pub use crate::view::{Row, RowKey, View};

/// Counts the rows and changes that a fold or a check visits, so that tests can bound them.
fn visit(_count: usize) {
    #[cfg(test)]
    tract_testkit::visits::add(_count);
}
