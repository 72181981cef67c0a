//! The engines compared with each other, and each with its own floor. These run when they are asked
//! for by name.

mod group;
mod long;
mod million;
mod walk;

use std::path::Path;

use tract::store::WriteMode;
use tract::{OpenOptions, Tract, block_on};

pub(crate) use self::group::run as group;
pub(crate) use self::long::run as long;
pub(crate) use self::million::run as million;
#[cfg(feature = "postgres")]
pub(crate) use self::million::{compare, measure};
pub(crate) use self::walk::run as walk;

/// The engines that are compared.
pub(crate) const ENGINES: [&str; 2] = ["sqlite", "redb"];

pub(crate) fn url(engine: &str, folder: &Path) -> String {
    format!("{engine}:{}", folder.join("tract.store").display())
}

pub(crate) fn open(engine: &str, folder: &Path, mode: WriteMode) -> Tract {
    block_on(OpenOptions::new().write_mode(mode).open(&url(engine, folder))).unwrap()
}
