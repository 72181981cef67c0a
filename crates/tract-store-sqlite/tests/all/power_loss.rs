//! The loss of power at any moment: what was not flushed is on the disk or not, in any mixture.
//!
//! A process appends under a small library that takes down its writes and flushes; images of the
//! disk are made from that, and opened.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tract_core::{Store, block_on};
use tract_store_sqlite::SqliteOptions;
use tract_testkit::power::{self, LossOfPower, Losses};

use crate::common::*;

const FOLDER: &str = "TRACT_TAPE_OF";
/// Set when the child gives the promise up.
const UNSAFE: &str = "TRACT_TAPE_UNSAFE";
const MESSAGES: usize = 60;

/// The process that is taken down; it does nothing when it is run as a test.
#[test]
fn power_loss_child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let unsafely = std::env::var_os(UNSAFE).is_some();
    let options = SqliteOptions {
        create: true,
        unsafe_lose_on_power_loss: unsafely,
        ..SqliteOptions::default()
    };
    let store = tract_store_sqlite::open(folder.join("agent.db"), &options).expect("it opens");
    let mut acknowledged = power::AckReporter::create(&folder).expect("a file");
    let mut parent = None;
    for (n, text) in messages().take(MESSAGES).enumerate() {
        let (batch, id) = appending("writer-0", parent, &text);
        assert_eq!(apply(&store, batch).expect("it is written"), tract_core::Applied::Done);
        acknowledged.add(0, id).expect("a line");
        parent = Some(id);
        if n % 20 == 19 {
            // A checkpoint: the log goes into the file, and begins again.
            let connection = rusqlite::Connection::open(folder.join("agent.db")).expect("it opens");
            let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
            connection.query_row(checkpoint, [], |_| Ok(())).expect("a checkpoint");
        }
    }
    block_on(store.close()).expect("it closes");
}

/// Cuts the power at many moments of what the child did; `None` where that cannot be taken down.
fn after_losses_of_power(unsafely: bool) -> Option<Result<Losses, LossOfPower>> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", "power_loss::power_loss_child", "--test-threads", "1"]);
    if unsafely {
        child.env(UNSAFE, "1");
    }
    let Some(tape) = power::record(&mut child, folder.path()).expect("it is recorded") else {
        println!("left out: the loss of power under SQLite, which needs LD_PRELOAD");
        return None;
    };
    let acks = tape.steps.iter().filter(|step| {
        step.file.ends_with("acknowledged") && matches!(step.act, power::Act::Write(..))
    });
    assert_eq!(acks.count(), MESSAGES, "every message was told");
    let open = |image: &power::Image| {
        let place = folder.path().join(image.number().to_string());
        image.write_to(&place).expect("an image");
        let store = tract_store_sqlite::open(place.join("agent.db"), &SqliteOptions::default())?;
        Ok(Arc::new(store) as Arc<dyn Store>)
    };
    Some(power::losses(&tape, &mut tract_testkit::rounds(1000, 60), open))
}

#[test]
fn a_loss_of_power_loses_nothing_acknowledged() {
    let Some(losses) = after_losses_of_power(false) else { return };
    let losses = losses.expect("nothing is lost");
    let finding = format!(
        "{} images: 0 acknowledged lost, {} times the write in flight was there",
        losses.images, losses.in_flight
    );
    tract_testkit::figure("T2 loss of power", "sqlite", finding);
}

#[test]
fn without_the_promise_a_loss_of_power_is_noticed() {
    let Some(losses) = after_losses_of_power(true) else { return };
    losses.expect_err("something is lost");
}
