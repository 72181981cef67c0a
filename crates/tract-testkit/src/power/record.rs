//! Records the file operations of a process, with a small preloaded library.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use tract_core::CommitId;

use super::{ACKNOWLEDGED, Act, FileOp, WriteTrace};

/// Reports acknowledged writes from a recorded process.
#[derive(Debug)]
pub struct AckReporter(File);

impl AckReporter {
    /// Opens the reporter in the recorded folder.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(folder: &Path) -> io::Result<Self> {
        File::create(folder.join(ACKNOWLEDGED)).map(Self)
    }

    /// Reports that a commit of a writer was acknowledged.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn add(&mut self, writer: usize, commit: CommitId) -> io::Result<()> {
        // A single write, so that the report has one place among the recorded operations.
        self.0.write_all(format!("{writer} {}\n", commit.to_hex()).as_bytes())
    }
}

/// Builds the library that records writes and flushes in a folder, or makes them fail. Its source
/// lists its environment variables.
///
/// # Errors
/// If there is no C compiler, or it fails.
pub fn library(folder: &Path) -> io::Result<PathBuf> {
    let (source, library) = (folder.join("tape.c"), folder.join("tape.so"));
    std::fs::write(&source, include_str!("tape.c"))?;
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .args(["-ldl", "-lpthread"])
        .status()?;
    if built.success() {
        Ok(library)
    } else {
        Err(io::Error::other("cc does not build the library"))
    }
}

/// Runs a process to its end and returns its operations on the files of a folder; `None` on systems
/// other than Linux, where they cannot be recorded.
///
/// # Errors
/// If the library cannot be built, or the process does not start or fails.
pub fn record(command: &mut Command, folder: &Path) -> io::Result<Option<WriteTrace>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let own = tempfile::tempdir()?;
    let (folder, tape) = (folder.canonicalize()?, own.path().join("tape"));
    let output = command
        .env("LD_PRELOAD", library(own.path())?)
        .env("TRACT_TAPE_OF", &folder)
        .env("TRACT_TAPE", &tape)
        .output()?;
    if !output.status.success() {
        let stdout = String::from_utf8_lossy(&output.stdout);
        return Err(io::Error::other(format!("the recorded process failed: {stdout}")));
    }
    let mut tape = WriteTrace::read(&std::fs::read(tape)?)?;
    for step in &mut tape.steps {
        if let Ok(within) = step.file.strip_prefix(&folder) {
            step.file = within.to_owned();
        }
    }
    Ok(Some(tape))
}

impl WriteTrace {
    /// Reads the output of the library.
    ///
    /// # Errors
    /// `InvalidData` if it is something else.
    pub fn read(mut bytes: &[u8]) -> io::Result<Self> {
        let mut steps = Vec::new();
        while !bytes.is_empty() {
            let mut number = || {
                let (number, rest) = bytes.split_first_chunk::<8>()?;
                bytes = rest;
                Some(u64::from_le_bytes(*number))
            };
            let numbers = (number(), number(), number(), number());
            let (Some(kind), Some(long), Some(offset), Some(length)) = numbers else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let mut part = |length: u64| {
                let (part, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
                bytes = rest;
                Some(part)
            };
            let (Some(path), Some(data)) = (part(long), part(length)) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let act = match kind {
                1 => Act::Write(offset, data.to_vec()),
                2 => Act::Length(offset),
                3 => Act::Flush,
                4 => Act::Remove,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            let path = std::str::from_utf8(path).map_err(|_| io::ErrorKind::InvalidData)?;
            steps.push(FileOp { file: PathBuf::from(path), act });
        }
        Ok(Self { steps })
    }
}
