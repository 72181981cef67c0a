//! Files that earlier builds wrote: they open, verify, and hold the same ids for ever.
//!
//! `tests/data/golden/format-1.*` was written by format 1 from `stream.jsonl` next to it, `format-2.*` by
//! format 2, and repacked: files as their blocks, a folder as its files, PostgreSQL as the dump of a schema. To add a format, name
//! it below and run this test with `TRACT_GOLDEN=write` once; what is there stays as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use tract::block_on;
use tract::engine::{ApplyOptions, Repo};

use crate::backends::{self, Backend};
use crate::support::{done, exported};
use crate::walks::assert_clean;

/// The formats that were released, and that every later build reads.
fn formats(backend: &Backend) -> &'static [u32] {
    match backend.name {
        // Its blobs are compressed by the server.
        "postgres" => &[1],
        _ => &[1, 2],
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/golden")
}

/// Fills a store as the format has it: the second has enough messages to train a dictionary on.
fn filled(repo: &Repo, format: u32) {
    let mut stream = std::fs::read_to_string(folder().join("stream.jsonl")).unwrap();
    for number in 0..if format == 1 { 0 } else { 150u64 } {
        let topic = ["index", "retry loop", "lock", "test"][number as usize % 4];
        let text = format!(
            "Please look at the {topic} in src/module_{}.rs once more, line {}.",
            number % 17,
            number * 7
        );
        let at = format!("2026-11-0{}T10:{:02}:00Z", 1 + number / 60 % 9, number % 60);
        stream += &format!("{}\n", serde_json::json!({"op": "user", "text": text, "at": at}));
    }
    assert!(
        done(repo, &stream, &ApplyOptions { atomic: true, ..ApplyOptions::default() }).done > 20
    );
}

/// The hash of what format 2 holds, exported.
const SECOND: &str = "0d1aaae649a0263aef2377b91e82d68000e96ac0e1f20bf49ed9002d3aef0226";

fn assert_exported(repo: &Repo, format: u32, backend: &Backend) {
    let found = exported(repo);
    if format == 1 {
        let expected = std::fs::read_to_string(folder().join("export.jsonl")).unwrap();
        assert_eq!(found, expected, "{} format {format}", backend.name);
    } else {
        let found = tract_core::hash::blob(found.as_bytes()).to_string();
        assert_eq!(found, SECOND, "{} format {format}", backend.name);
    }
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
    let kind = if backend.name == "postgres" { "sql" } else { "blocks" };
    folder().join(format!("format-{format}.{}.{kind}", backend.name))
}

/// The files of a folder, by their paths in it.
pub(crate) fn files(folder: &Path, within: &str) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder.join(within)).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{within}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(folder, &format!("{name}/")))
        } else {
            drop(found.insert(name, std::fs::read(entry.path()).unwrap()))
        }
    }
    found
}

/// A store's files as one: of a folder each with its name before it.
fn kept(path: &Path) -> Vec<u8> {
    if path.is_file() {
        return packed(&std::fs::read(path).unwrap());
    }
    let mut out = Vec::new();
    for (name, bytes) in files(path, "") {
        let blocks = packed(&bytes);
        out.extend((name.len() as u64).to_le_bytes());
        out.extend((blocks.len() as u64).to_le_bytes());
        out.extend(name.as_bytes());
        out.extend(blocks);
    }
    out
}

/// Puts files where they were.
fn put_back(backend: &Backend, kept: &[u8], path: &Path) {
    if backend.one_file {
        return std::fs::write(path, unpacked(kept)).unwrap();
    }
    let mut rest = kept;
    while !rest.is_empty() {
        let mut length = || {
            let (length, after) = rest.split_at(8);
            rest = after;
            u64::from_le_bytes(length.try_into().unwrap()) as usize
        };
        let (name, blocks) = (length(), length());
        let (name, after) = rest.split_at(name);
        let (blocks, after) = after.split_at(blocks);
        rest = after;
        let file = path.join(std::str::from_utf8(name).unwrap());
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, unpacked(blocks)).unwrap();
    }
}

/// The schema that a dump names.
const SCHEMA: &str = "golden_store";

/// The statements that make the store's schema, as `pg_dump` writes them.
fn dumped(schema: &str) -> String {
    let dump = Command::new("pg_dump")
        .args(["--inserts", "--no-owner", "--no-privileges", "--schema", schema])
        .arg(crate::server::shared().unwrap())
        .output()
        .unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let text = String::from_utf8(dump.stdout).unwrap().replace(schema, SCHEMA);
    // Comments, and words for `psql` alone.
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("--") && !line.starts_with('\\'));
    lines.flat_map(|line| [line, "\n"]).collect()
}

fn restored(dump: &str, folder: &Path) {
    let schema = crate::server::schema();
    std::fs::write(folder.join("golden.postgres"), &schema).unwrap();
    execute(&dump.replace(SCHEMA, &schema));
}

/// Runs statements on the PostgreSQL server.
pub(crate) fn execute(sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = crate::server::shared().unwrap();
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
    });
}

fn write(backend: &Backend, format: u32) {
    let scratch = tempfile::tempdir().unwrap();
    let tract = backend.open(scratch.path(), "golden");
    filled(tract.repo(), format);
    if tract.store().capabilities().repacks {
        let report = block_on(tract.repack(None)).unwrap();
        assert!(report.written > 150 && report.after * 2 < report.before, "{report:?}");
    }
    block_on(tract.store().close()).unwrap();
    drop(tract);
    let path = backend.path(scratch.path(), "golden");
    let bytes = match backend.name {
        "postgres" => dumped(&std::fs::read_to_string(path).unwrap()).into_bytes(),
        _ => kept(&path),
    };
    std::fs::write(image(backend, format), bytes).unwrap();
}

#[test]
fn golden_files_open_verify_and_keep_their_ids() {
    if std::env::var_os("TRACT_GOLDEN").is_some_and(|word| word == "write") {
        // Those that are there belong to builds that went out.
        for backend in backends::all() {
            let newest = formats(backend).iter().copied().max().unwrap();
            if !image(backend, newest).exists() {
                write(backend, newest);
            }
        }
    }
    for backend in backends::all() {
        for &format in formats(backend) {
            let scratch = tempfile::tempdir().unwrap();
            let bytes = std::fs::read(image(backend, format)).unwrap();
            match backend.name {
                "postgres" => restored(std::str::from_utf8(&bytes).unwrap(), scratch.path()),
                _ => put_back(backend, &bytes, &backend.path(scratch.path(), "golden")),
            }
            let tract = backend.try_open(scratch.path(), "golden", false).unwrap();
            assert_clean(&tract, &format!("{} format {format}", backend.name));
            assert_exported(tract.repo(), format, backend);
            let log = block_on(tract.store().ref_log(tract.repo().name(), &Default::default()));
            assert!(!log.unwrap().is_empty(), "{} format {format}: the ref log", backend.name);
            // It is not only read.
            block_on(tract.user("and on")).unwrap();
            assert!(block_on(tract.verify()).unwrap().clean);
            let finding = format!("a store of format {format} opens, verifies, keeps its ids");
            tract_testkit::figure("T13 golden stores", backend.name, finding);
        }
    }
}

#[test]
fn todays_writes_have_the_ids_of_the_golden_files() {
    for backend in backends::all() {
        for &format in formats(backend) {
            let scratch = tempfile::tempdir().unwrap();
            let tract = backend.fast(scratch.path(), "golden");
            filled(tract.repo(), format);
            assert_exported(tract.repo(), format, backend);
        }
    }
}
