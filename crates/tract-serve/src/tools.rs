//! The tools of the server.

mod branches;
mod compare;
mod expand;
mod open;
mod search;
mod write;

pub(crate) use self::branches::dated;

use std::sync::Arc;

use tract_core::DynTool;

/// Returns the tools that only read.
pub(crate) fn reading() -> Vec<Arc<dyn DynTool>> {
    vec![
        Arc::new(search::Search),
        Arc::new(open::Open),
        Arc::new(branches::List),
        Arc::new(compare::Diff),
        Arc::new(compare::WhyMiss),
        Arc::new(expand::Expand),
    ]
}

/// Returns the tools that write.
pub(crate) fn writing() -> Vec<Arc<dyn DynTool>> {
    vec![Arc::new(write::Branch), Arc::new(write::Note), Arc::new(write::Commit)]
}
