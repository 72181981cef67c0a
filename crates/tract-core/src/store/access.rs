//! The access rights of files that replace a store's file, or are copies of it.

use std::fs::File;
use std::io;
use std::path::Path;

/// Whether a new file must have the owner of the file that it is created for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// It replaces the file, which must not change hands.
    Required,
    /// It is a copy, and may belong to this process's user.
    IfPermitted,
}

/// Gives a new file the mode, owner and group of `like`. Create it with mode 0600, so that no other user
/// can open it before. If the group cannot be kept, its members get no more access than all others. On
/// systems other than Unix, rights depend on the folder, and this does nothing.
///
/// # Errors
/// `PermissionDenied` if the owner is required and cannot be kept. Other errors of the operating
/// system.
#[cfg(unix)]
pub fn copy_access(file: &File, like: &Path, owner: Ownership) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
    let (new, old) = (file.metadata()?, std::fs::metadata(like)?);
    // Each is changed only if it differs, because some file systems permit no change at all. The
    // mode comes last: a change of the owner or group may clear bits of it.
    let has_group = new.gid() == old.gid() || fchown(file, None, Some(old.gid())).is_ok();
    let has_owner = new.uid() == old.uid() || fchown(file, Some(old.uid()), None).is_ok();
    if !has_owner && owner == Ownership::Required {
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

/// Rights depend on the folder.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn copy_access(_: &File, _: &Path, _: Ownership) -> io::Result<()> {
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
    use super::mode;

    #[test]
    fn another_group_gets_no_more_than_all_others() {
        assert_eq!(mode(0o100_660, true), 0o660);
        assert_eq!(mode(0o100_660, false), 0o600);
        assert_eq!(mode(0o100_664, false), 0o644);
        assert_eq!(mode(0o100_600, false), 0o600);
    }
}
