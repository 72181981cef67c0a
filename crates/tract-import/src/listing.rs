//! Lists the files of a tool.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::detect;
use crate::readers::Source;
use crate::source::{MAX_DEPTH, SessionFile, SessionFilter};

/// The last parts of the names of packed files.
const PACKED: [&str; 5] = ["zst", "gz", "bz2", "xz", "zip"];

/// Lists the files of a tool at some paths. Files are listed unconditionally, folders with all
/// files in them that have the tool's names or are recognized by their bytes. Databases of other
/// programs are left out. Links to folders are not followed.
///
/// # Errors
/// When a path does not exist or a folder cannot be listed, with the path.
pub fn session_files(
    source: Source,
    paths: &[PathBuf],
    filter: &SessionFilter,
) -> Result<Vec<SessionFile>, (PathBuf, io::Error)> {
    let mut files = Vec::new();
    for path in paths {
        let error = |error| (path.clone(), error);
        if fs::metadata(path).map_err(error)?.is_dir() {
            if detect::is_recording_folder(source.reader(), path) {
                files.push(path.clone());
                continue;
            }
            let is_own = source.folders().contains(path);
            list(source, path, is_own, MAX_DEPTH, &mut files)?;
        } else {
            files.push(path.clone());
        }
    }
    files.sort();
    files.dedup();
    let all: HashSet<PathBuf> = files.iter().cloned().collect();
    files.retain(|path| match path.extension().and_then(OsStr::to_str) {
        // If a file also exists compressed, the plain one is the newer.
        Some(end) if PACKED.contains(&end) => !all.contains(&path.with_extension("")),
        Some(end) => source
            .reader()
            .replaced
            .is_none_or(|(old, new)| end != old || !all.contains(&path.with_extension(new))),
        None => true,
    });
    for path in &mut files {
        if let Some(folder) = (source.reader().folder_of)(path) {
            *path = folder;
        }
    }
    files.dedup();
    let mut meant = Vec::with_capacity(files.len());
    for path in files {
        match filter.takes(&path) {
            Ok(true) => meant.push(SessionFile::new(source, path)),
            Ok(false) => {}
            Err(error) => return Err((path, error)),
        }
    }
    Ok(meant)
}

/// Lists the files of a folder. In the tool's own folder, names identify its files.
fn list(
    source: Source,
    folder: &Path,
    is_own: bool,
    depth: usize,
    files: &mut Vec<PathBuf>,
) -> Result<(), (PathBuf, io::Error)> {
    let error = |error| (folder.to_owned(), error);
    for entry in fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(error)?);
        if kind.is_dir() && depth > 0 {
            list(source, &path, is_own, depth - 1, files)?;
        } else if !kind.is_dir() && is_of(source, &path, is_own) {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns whether a file in a folder is one of a tool.
fn is_of(source: Source, path: &Path, is_own: bool) -> bool {
    let has_name = |path: &Path| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| (source.reader().takes)(path, name))
    };
    let is_packed =
        path.extension().and_then(OsStr::to_str).is_some_and(|end| PACKED.contains(&end));
    // A packed file that cannot be read is listed too, so that the import names it.
    match has_name(path) || (is_packed && has_name(&path.with_extension(""))) {
        true => is_own || !detect::is_other_database(path, source),
        false => {
            !is_own
                && path.is_file()
                && matches!(detect::detect(path), Ok(Some(found)) if found == source)
        }
    }
}
