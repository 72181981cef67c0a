//! Files that earlier builds wrote: they open, verify, and hold the same ids for ever.
//!
//! `tests/data/golden/format-1.*` was written by format 1 from `stream.jsonl` beside it. To add a
//! format, name it below and run this test with `TRACT_GOLDEN=write` once; files of earlier formats
//! stay as they are.

use std::path::{Path, PathBuf};

use tract::block_on;
use tract::engine::{ApplyOptions, ExportOptions, Repo, apply_stream, read_lines};

use crate::backends::{self, Backend};

/// The formats that were released, and that every later build reads.
const FORMATS: [u32; 1] = [1];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/golden")
}

/// All objects and refs, as lines.
fn exported(repo: &Repo) -> String {
    block_on(async {
        let mut export = tract::engine::export(repo, &ExportOptions::default()).await.unwrap();
        let mut lines = String::new();
        while let Some(line) = export.next_line().await.unwrap() {
            lines.push_str(&line);
            lines.push('\n');
        }
        lines
    })
}

fn filled(repo: &Repo) {
    let stream = std::fs::read(folder().join("stream.jsonl")).unwrap();
    let options = ApplyOptions::new().atomic(true);
    let report = block_on(apply_stream(repo, read_lines(&stream[..]), &options, |event| {
        if let Err(error) = event.result {
            panic!("line {}: {error}", event.line);
        }
    }));
    assert!(report.unwrap().done > 20);
}

/// Files are mostly zeros: only blocks that hold something are kept, each after its number.
const BLOCK: usize = 512;

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
    for (number, block) in (0u32..).zip(bytes.chunks(BLOCK)) {
        if block.iter().any(|byte| *byte != 0) {
            out.extend(number.to_le_bytes());
            out.extend(block);
            out.resize(out.len() + BLOCK - block.len(), 0);
        }
    }
    out
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let (length, blocks) = packed.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    let mut bytes = vec![0; length.next_multiple_of(BLOCK)];
    for block in blocks.chunks_exact(4 + BLOCK) {
        let number = u32::from_le_bytes(block[..4].try_into().unwrap()) as usize;
        bytes[number * BLOCK..][..BLOCK].copy_from_slice(&block[4..]);
    }
    bytes.truncate(length);
    bytes
}

fn image(backend: &Backend, format: u32) -> PathBuf {
    folder().join(format!("format-{format}.{}.blocks", backend.name))
}

fn write(backend: &Backend, format: u32) {
    let scratch = tempfile::tempdir().unwrap();
    let tract = backend.open(scratch.path(), "golden");
    filled(tract.repo());
    block_on(tract.store().close()).unwrap();
    drop(tract);
    let bytes = std::fs::read(backend.path(scratch.path(), "golden")).unwrap();
    std::fs::write(image(backend, format), packed(&bytes)).unwrap();
}

fn of_one_file() -> impl Iterator<Item = &'static Backend> {
    backends::ALL.iter().filter(|backend| backend.one_file)
}

#[test]
fn golden_files_open_verify_and_keep_their_ids() {
    let expected = folder().join("export.jsonl");
    if std::env::var_os("TRACT_GOLDEN").is_some_and(|word| word == "write") {
        of_one_file().for_each(|backend| write(backend, FORMATS[FORMATS.len() - 1]));
        let scratch = tempfile::tempdir().unwrap();
        let tract = backends::ALL[0].open(scratch.path(), "golden");
        filled(tract.repo());
        std::fs::write(&expected, exported(tract.repo())).unwrap();
    }
    let expected = std::fs::read_to_string(expected).unwrap();
    for backend in of_one_file() {
        for format in FORMATS {
            let scratch = tempfile::tempdir().unwrap();
            let bytes = unpacked(&std::fs::read(image(backend, format)).unwrap());
            std::fs::write(backend.path(scratch.path(), "golden"), bytes).unwrap();
            let tract = backend.try_open(scratch.path(), "golden", false).unwrap();
            let report = block_on(tract.verify()).unwrap();
            assert!(report.clean, "{} format {format}: {:?}", backend.name, report.damage);
            assert_eq!(exported(tract.repo()), expected, "{} format {format}", backend.name);
            let log = block_on(tract.store().ref_log(tract.repo().name(), &Default::default()));
            assert!(!log.unwrap().is_empty(), "{} format {format}: the ref log", backend.name);
            // It is not only read.
            block_on(tract.user("and on")).unwrap();
            assert!(block_on(tract.verify()).unwrap().clean);
        }
    }
}

#[test]
fn what_is_written_today_has_the_ids_of_the_golden_files() {
    let expected = std::fs::read_to_string(folder().join("export.jsonl")).unwrap();
    for backend in backends::all() {
        let scratch = tempfile::tempdir().unwrap();
        let tract = backend.fast(scratch.path(), "golden");
        filled(tract.repo());
        assert_eq!(exported(tract.repo()), expected, "{}", backend.name);
    }
}
