//! Fetch from and push to remotes: other stores with the same conversations.

mod fetch;
mod negotiate;
mod push;
mod refs;
mod transfer;

pub use self::fetch::{FetchOptions, FetchReport, PullBranches, fetch, fetch_bundle};
pub(crate) use self::negotiate::{MissingCommits, incomplete, lacking_commits};
pub use self::push::{PushOptions, PushReport, push};
pub(crate) use self::refs::{PlannedRef, RefRule, begin_at, move_refs};
pub use self::refs::{TransferStatus, TransferredRef};
pub(crate) use self::transfer::index_moved;
