#![doc = include_str!("select/docs.md")]

mod bm25;
mod entry;
mod index;
mod overlap;
mod parameters;
mod pick;
mod scorer;
mod search_tool;
mod weights;
mod words;

pub use self::bm25::Bm25;
pub use self::entry::{CatalogEntry, EntryError};
pub use self::index::ToolIndex;
pub use self::overlap::TokenOverlap;
pub use self::pick::{Candidate, PickOptions, PickReport, ScoreSource, pick};
pub use self::scorer::{OutOfTime, Score, Scorer, SelectionDeadline, WordMatch};
pub use self::search_tool::{FoundTool, LoadedTools, SearchQuery, SearchTools};
