//! The loss of power at any moment: what was not flushed is on the disk or not, in any mixture.
//!
//! A process appends under a small library that takes down its writes and flushes; images of the
//! disk are made from that, and opened.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tract_core::store::{BlockingStore, Walk};
use tract_core::{CommitId, RefTarget, Store, block_on};
use tract_store_sqlite::{SqliteOptions, SqliteStore};

use crate::common::*;

const FOLDER: &str = "TRACT_TAPE_OF";
/// Set when the child gives the promise up.
const UNSAFE: &str = "TRACT_TAPE_UNSAFE";

/// What was done to a file.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Write(u64, Vec<u8>),
    Length(u64),
    Flush,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) file: PathBuf,
    pub(crate) act: Act,
}

fn number(bytes: &mut &[u8]) -> u64 {
    let (number, rest) = bytes.split_at(8);
    *bytes = rest;
    u64::from_le_bytes(number.try_into().expect("eight bytes"))
}

pub(crate) fn tape(mut bytes: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    while !bytes.is_empty() {
        let [kind, long, offset, length] = std::array::from_fn(|_| number(&mut bytes));
        let (path, rest) = bytes.split_at(long as usize);
        let (data, rest) = rest.split_at(length as usize);
        bytes = rest;
        let act = match kind {
            1 => Act::Write(offset, data.to_vec()),
            2 => Act::Length(offset),
            3 => Act::Flush,
            _ => continue,
        };
        let file = PathBuf::from(String::from_utf8(path.to_vec()).expect("a path in UTF-8"));
        steps.push(Step { file, act });
    }
    steps
}

fn carry_out(image: &mut Vec<u8>, act: &Act) {
    match act {
        Act::Write(offset, data) => {
            let (from, to) = (*offset as usize, *offset as usize + data.len());
            if image.len() < to {
                image.resize(to, 0);
            }
            image[from..to].copy_from_slice(data);
        }
        Act::Length(length) => image.resize(*length as usize, 0),
        Act::Flush => {}
    }
}

/// Pseudo-random numbers from a fixed seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % most.max(1)
    }
}

/// The process that is taken down; it does nothing when it is run as a test.
#[test]
fn power_loss_child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let unsafely = std::env::var_os(UNSAFE).is_some();
    let options = SqliteOptions::new().create(true).unsafe_lose_on_power_loss(unsafely);
    let store = tract_store_sqlite::open(folder.join("agent.db"), &options).expect("it opens");
    // What is acknowledged goes the same way, so that the tape has it in its place.
    let mut told = std::fs::File::create(folder.join("acknowledged")).expect("a file");
    let mut parent = None;
    for (n, text) in messages().take(60).enumerate() {
        let (batch, id) = appending(&branch("main"), parent, &text);
        assert_eq!(apply(&store, batch).expect("it is written"), tract_core::Applied::Done);
        told.write_all(id.to_hex().as_bytes()).expect("it is told");
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

/// Builds the library, and gives what a process did under it; `None` where that cannot be.
fn recorded(folder: &Path, unsafely: bool) -> Option<Vec<Step>> {
    if !cfg!(target_os = "linux") {
        println!("left out: the loss of power under SQLite, which needs LD_PRELOAD");
        return None;
    }
    let library = tract_testkit::power::library(folder).expect("cc builds the library");
    let stores = folder.join("stores");
    std::fs::create_dir(&stores).expect("a folder");
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    if unsafely {
        child.env(UNSAFE, "1");
    }
    let output = child
        .args(["--exact", "power_loss::power_loss_child", "--test-threads", "1"])
        .env("LD_PRELOAD", &library)
        .env(FOLDER, &stores)
        .env("TRACT_TAPE", folder.join("tape"))
        .output()
        .expect("the child starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    Some(tape(&std::fs::read(folder.join("tape")).expect("the tape")))
}

/// The files as they may be after the power went at a step.
fn image(steps: &[Step], dice: &mut Dice) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (place, step) in steps.iter().enumerate() {
        let name = step.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != "agent.db" && name != "agent.db-wal" {
            continue;
        }
        let file = files.entry(name).or_default();
        let flushed = steps[place..]
            .iter()
            .any(|later| later.file == step.file && matches!(later.act, Act::Flush));
        // Lost, there, or torn in the middle of a sector.
        match (dice.below(3), &step.act) {
            _ if flushed => carry_out(file, &step.act),
            (0, _) => {}
            (1, Act::Write(offset, data)) => {
                let torn = data[..dice.below(data.len())].to_vec();
                carry_out(file, &Act::Write(*offset, torn));
            }
            (_, act) => carry_out(file, act),
        }
    }
    files
}

/// What became of the images.
#[derive(Debug, Default)]
struct Outcome {
    images: usize,
    /// Where a write that was acknowledged is not there.
    lost: usize,
    /// Where the write that was not yet acknowledged is there.
    in_flight: usize,
}

fn after_losses_of_power(unsafely: bool) -> Option<Outcome> {
    let folder = tempfile::tempdir().expect("a folder");
    let steps = recorded(folder.path(), unsafely)?;
    let told: Vec<(usize, CommitId)> = steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.file.file_name().is_some_and(|name| name == "acknowledged"))
        .filter_map(|(place, step)| match &step.act {
            Act::Write(_, hex) => Some((place, std::str::from_utf8(hex).ok()?.parse().ok()?)),
            Act::Length(_) | Act::Flush => None,
        })
        .collect();
    assert_eq!(told.len(), 60, "every message was told");
    let begun = told[0].0;
    let mut dice = Dice(11);
    let mut outcome = Outcome::default();
    let mut images = tract_testkit::rounds(1000, 60);
    for n in images.by_ref() {
        let cut = begun + dice.below(steps.len() - begun + 1);
        let scratch = tempfile::tempdir().expect("a folder");
        for (name, bytes) in image(&steps[..cut], &mut dice) {
            std::fs::write(scratch.path().join(name), bytes).expect("an image");
        }
        let known = told.iter().filter(|(place, _)| *place < cut).count();
        let what = format!("image {n}, cut at {cut}, {known} acknowledged");
        let options = SqliteOptions::new();
        let store = match SqliteStore::open(&scratch.path().join("agent.db"), &options) {
            Ok(store) => store,
            Err(_) if unsafely => {
                outcome.lost += 1;
                continue;
            }
            Err(error) => panic!("{what}: {error}"),
        };
        let found = store.refs(&repo(), &[branch("main")]).expect("refs").swap_remove(0);
        let found = found.as_ref().and_then(RefTarget::commit);
        // The rest is whole, however much was lost.
        let there = found.map_or(0, |head| {
            let at = told.iter().position(|(_, id)| *id == head);
            at.unwrap_or_else(|| panic!("{what}: {head} was never written")) + 1
        });
        outcome.lost += usize::from(there < known);
        outcome.in_flight += usize::from(there == known + 1);
        assert!(there <= known + 1, "{what}: {there} are there");
        let Some(head) = found else { continue };
        let page = store.walk(&repo(), Walk::from(head)).expect("a line");
        assert_eq!(page.steps.len(), there, "{what}");
        assert_eq!(store.check(&repo(), false).expect("it checks itself"), [], "{what}");
    }
    outcome.images = images.done();
    let Outcome { images, lost, in_flight } = outcome;
    let finding = if unsafely {
        format!("{images} images without the promise, as a check: {lost} lost something")
    } else {
        format!(
            "{images} images: {lost} acknowledged lost, {in_flight} times the write in flight was \
             there"
        )
    };
    tract_testkit::figure("T2 loss of power", "sqlite", finding);
    Some(outcome)
}

#[test]
fn a_loss_of_power_loses_nothing_acknowledged() {
    let Some(outcome) = after_losses_of_power(false) else { return };
    assert_eq!(outcome.lost, 0, "{outcome:?}");
}

#[test]
fn without_the_promise_a_loss_of_power_is_noticed() {
    let Some(outcome) = after_losses_of_power(true) else { return };
    assert!(outcome.lost > 0, "{outcome:?}");
}
