//! Results of reducers, and the common reducers.

/// The change that a reducer makes to a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceOp<T> {
    /// Leaves the slice unchanged.
    Keep,
    /// Appends an item.
    Append(T),
    /// Replaces all items.
    Replace(Vec<T>),
}

/// Appends the event to its own slice.
///
/// ```
/// # use tract_tools::session::{append, SliceOp};
/// assert_eq!(append(&[1], &2), SliceOp::Append(2));
/// ```
pub fn append<T: Clone>(_: &[T], event: &T) -> SliceOp<T> {
    SliceOp::Append(event.clone())
}

/// Replaces all items by the event.
///
/// ```
/// # use tract_tools::session::{replace_latest, SliceOp};
/// assert_eq!(replace_latest(&[1, 2], &3), SliceOp::Replace(vec![3]));
/// ```
pub fn replace_latest<T: Clone>(_: &[T], event: &T) -> SliceOp<T> {
    SliceOp::Replace(vec![event.clone()])
}

/// Removes the items with the event's key, and appends the event.
///
/// ```
/// # use tract_tools::session::{upsert_by, SliceOp};
/// let by_name = upsert_by(|(name, _): &(char, u8)| *name);
/// let slice = [('a', 1), ('b', 1)];
/// assert_eq!(by_name(&slice, &('a', 2)), SliceOp::Replace(vec![('b', 1), ('a', 2)]));
/// ```
pub fn upsert_by<T: Clone, K: PartialEq>(
    key: impl Fn(&T) -> K + Send + Sync + 'static,
) -> impl Fn(&[T], &T) -> SliceOp<T> + Send + Sync + 'static {
    move |slice, event| {
        let own = key(event);
        let mut items: Vec<T> = slice.iter().filter(|item| key(item) != own).cloned().collect();
        items.push(event.clone());
        SliceOp::Replace(items)
    }
}
