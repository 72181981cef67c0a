//! A store of one's own: a folder with one file for each write. An agent lives in it, and continues
//! after the folder was opened again.
//!
//! `cargo run -p tract --example custom_store --features run`
//!
//! An engine of ordered keys is all that it takes; `KvStore` does the rest.
//! `docs/writing-a-store.md` walks through a store that is more careful (`tests/example-store`: one
//! file, a lock, damage at every byte), and names the test that every store has to pass.

use std::error::Error;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use tract::core::kv::{
    Bytes, Durability, KvBatch, KvEngine, KvMap, KvOutcome, KvRead, KvStore, Scan, Space, Visit,
};
use tract::core::store::{Capabilities, ThreadedStore};
use tract::core::{ModelRequest, StoreResult};
use tract::tools::Registry;
use tract::{ChatModel, Content, ModelError, OpenOptions, Reply};

/// Keys in memory, and each write in a file of its own.
struct FolderEngine {
    folder: PathBuf,
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    map: KvMap,
    written: u64,
}

/// Opens a folder, by one process at a time.
fn open(folder: &Path) -> StoreResult<ThreadedStore<KvStore<FolderEngine>>> {
    fs::create_dir_all(folder)?;
    let mut state = State::default();
    loop {
        match fs::read(folder.join(format!("{:08}", state.written))) {
            Ok(bytes) => {
                for batch in KvBatch::decode_all(&bytes)? {
                    batch.apply_to(&mut state.map);
                }
                state.written += 1;
            }
            Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => break,
            Err(error) => return Err(error.into()),
        }
    }
    KvStore::open(FolderEngine { folder: folder.to_owned(), state: RwLock::new(state) })
}

/// Readers see the state at which they began: writers wait for them.
struct Snapshot<'a>(RwLockReadGuard<'a, State>);

impl KvRead for Snapshot<'_> {
    fn get(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        self.0.map.get(space, key)
    }

    fn scan(&self, scan: &Scan, visit: &mut Visit<'_>) -> StoreResult<()> {
        self.0.map.scan(scan, visit)
    }
}

impl KvEngine for FolderEngine {
    const NAME: &'static str = "folder";

    fn capabilities(&self) -> Capabilities {
        Capabilities::ONE_PROCESS
    }

    fn read(&self) -> StoreResult<Box<dyn KvRead + '_>> {
        Ok(Box::new(Snapshot(self.state.read().unwrap_or_else(PoisonError::into_inner))))
    }

    fn write(&self, batch: &KvBatch, durability: Durability) -> StoreResult<KvOutcome> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(conflict) = batch.check(&state.map)? {
            return Ok(conflict);
        }
        // A file has its name once all of it is there: a crash leaves a whole write, or none.
        let unfinished = self.folder.join("unfinished");
        let mut file = File::create(&unfinished)?;
        file.write_all(&batch.encode())?;
        if durability == Durability::Immediate {
            file.sync_all()?;
        }
        fs::rename(&unfinished, self.folder.join(format!("{:08}", state.written)))?;
        #[cfg(unix)]
        if durability == Durability::Immediate {
            File::open(&self.folder)?.sync_all()?;
        }
        state.written += 1;
        batch.apply_to(&mut state.map);
        Ok(KvOutcome::Committed)
    }
}

/// Says how often it was spoken to.
struct Counter;

#[tract::tools::async_trait]
impl ChatModel for Counter {
    async fn chat(&self, request: &ModelRequest) -> Result<Reply, ModelError> {
        let questions = request
            .messages
            .iter()
            .filter(|questions| matches!(questions.content, Content::User(_)));
        Ok(Reply::new(Content::assistant(format!("That was message {}.", questions.count()))))
    }
}

/// One life of an agent in the folder; returns what the model said.
pub(crate) async fn life(folder: &Path) -> Result<String, Box<dyn Error>> {
    let tract = OpenOptions::new().open_store(open(folder)?).await?;
    let agent = tract.agent(Arc::new(Counter), Registry::builder().build()?);
    let report = agent.run("Hello?").await?;
    assert!(tract.verify().await?.clean);
    tract.store().close().await?;
    Ok(report.text)
}

#[allow(dead_code)] // the tests live lives themselves
fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    for _ in 0..2 {
        println!("{}", tract::block_on(life(folder.path()))?);
    }
    println!("{} files", fs::read_dir(folder.path())?.count());
    Ok(())
}
