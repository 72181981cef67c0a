//! Creates files with the access rights of another file.

use std::fs::File;
use std::io;
use std::path::Path;

/// Whether a new file must have the owner of the file that it is created for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It replaces the file, which must not change hands.
    Required,
    /// It is a copy, and may belong to this process's user.
    IfPermitted,
}

/// Creates an empty file with the mode, owner and group of `like`. Until it has them, only this
/// process's user can open it. If the group cannot be kept, its members get no more access than all
/// others.
///
/// # Errors
/// `PermissionDenied` if the owner is required and cannot be kept; then no file is left. Other
/// errors of the operating system.
pub(crate) fn create_like(path: &Path, like: &Path, owner: Owner) -> io::Result<File> {
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

#[cfg(unix)]
fn copy_access(file: &File, like: &Path, owner: Owner) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let (new, old) = (file.metadata()?, std::fs::metadata(like)?);
    // Each is changed only if it differs, because some file systems permit no change at all. The
    // mode comes last: a change of the owner or group may clear bits of it.
    let has_group = new.gid() == old.gid() || fchown(file, None, Some(old.gid())).is_ok();
    let has_owner = new.uid() == old.uid() || fchown(file, Some(old.uid()), None).is_ok();
    if !has_owner && owner == Owner::Required {
        let message = format!(
            "the file belongs to user {}, and the new file that replaces it would belong to user \
             {}: run the command as its owner",
            old.uid(),
            new.uid()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    file.set_permissions(std::fs::Permissions::from_mode(mode(old.mode(), has_group)))
}

/// Access rights depend on the folder on other systems.
#[cfg(not(unix))]
fn copy_access(_: &File, _: &Path, _: Owner) -> io::Result<()> {
    Ok(())
}

/// Returns the mode of the new file. Another group gets the rights that all others have.
#[cfg(unix)]
fn mode(old: u32, has_group: bool) -> u32 {
    let group = if has_group { 0o070 } else { (old & 0o007) << 3 };
    old & (0o707 | group)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn another_group_gets_no_more_than_all_others() {
        assert_eq!(mode(0o100_660, true), 0o660);
        assert_eq!(mode(0o100_660, false), 0o600);
        assert_eq!(mode(0o100_664, false), 0o644);
        assert_eq!(mode(0o100_600, false), 0o600);
    }

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
            drop(create_like(&new, &old, Owner::Required).expect("it is created"));
            let rights = |path| {
                let file = std::fs::metadata(path).expect("a file");
                (file.mode() & 0o777, file.uid(), file.gid(), file.len())
            };
            assert_eq!(rights(&new), rights(&old));
        }
    }
}
