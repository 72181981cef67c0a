//! Checks of redb's header that redb does not make itself. The layout is documented in redb's
//! `docs/design.md`.

/// The first bytes of every redb file.
pub(crate) const MAGIC: &[u8] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// Number of header bytes to read.
pub(crate) const LEN: u64 = 320;

const FLAGS: usize = 9;
const SECOND_SLOT: u8 = 1;
const OPEN: u8 = 2;
const SLOTS: [usize; 2] = [64, 192];
const TRANSACTION: usize = 104;

/// Returns whether the last writer closed the file.
pub(crate) fn is_closed(header: &[u8]) -> bool {
    header.starts_with(MAGIC) && header.get(FLAGS).is_some_and(|flags| flags & OPEN == 0)
}

/// Returns whether the header of a closed file selects the older of its two states. The selecting
/// bit is not covered by a checksum, so a single flipped bit can do that. In a file that was not
/// closed, the selection may be correct.
pub(crate) fn is_set_back(header: &[u8]) -> bool {
    let transaction = |slot: usize| {
        let at = slot + TRANSACTION;
        let bytes = header.get(at..at + 8)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    };
    let [first, second] = SLOTS.map(transaction);
    match header.get(FLAGS) {
        Some(flags) if flags & OPEN == 0 => match flags & SECOND_SLOT {
            0 => second > first,
            _ => first > second,
        },
        _ => false,
    }
}
