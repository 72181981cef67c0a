//! Creates files with the access rights of another file.

use std::fs::File;
use std::io;
use std::path::Path;

use tract_core::store::{Ownership, copy_access};

/// Creates an empty file with the mode, owner and group of `like`. Until it has them, only this
/// process's user can open it. If the group cannot be kept, its members get no more access than all
/// others.
///
/// # Errors
/// `PermissionDenied` if the owner is required and cannot be kept; then no file is left. Other
/// errors of the operating system.
pub(crate) fn create_like(path: &Path, like: &Path, owner: Ownership) -> io::Result<File> {
    // A leftover of a killed process may have other rights.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    let copied = copy_access(&file, like, owner);
    if copied.is_err() {
        let _ = std::fs::remove_file(path);
    }
    copied.map(|()| file)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn a_new_file_has_the_access_rights_of_the_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        std::fs::write(&old, "").expect("written");
        for mode in [0o600, 0o640, 0o666, 0o604] {
            std::fs::set_permissions(&old, std::fs::Permissions::from_mode(mode)).expect("a mode");
            // Only root may give a file away; elsewhere the owner stays.
            let _ = chown(&old, Some(65534), Some(65534));
            std::fs::write(&new, "of a killed process").expect("written");
            drop(create_like(&new, &old, Ownership::Required).expect("it is created"));
            let rights = |path| {
                let file = std::fs::metadata(path).expect("a file");
                (file.mode() & 0o777, file.uid(), file.gid(), file.len())
            };
            assert_eq!(rights(&new), rights(&old));
        }
    }
}
