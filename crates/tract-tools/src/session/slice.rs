//! Type-erased slices, and their reducers.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tract_core::JsonText;

use super::{Result, SessionError, SessionItem, SliceOp, SlicePolicy};

/// An item whose type is not registered.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct UntypedItem(pub(super) JsonText);

impl SessionItem for UntypedItem {
    const NAME: &'static str = "";
}

/// Items of one erased type, with the functions for that type. Cheap to clone.
#[derive(Clone)]
pub(super) struct Slice {
    pub(super) policy: SlicePolicy,
    pub(super) items: Items,
    /// Increases with every change, so that code that stores the slice can detect changes.
    pub(super) revision: u64,
    of: TypeId,
    name: &'static str,
    write: fn(&Items, usize) -> std::result::Result<Vec<JsonText>, serde_json::Error>,
    parse: fn(&str) -> std::result::Result<Items, serde_json::Error>,
    none: fn() -> Items,
    push: fn(&mut Items, &dyn Any) -> bool,
}

/// A shared `Vec<T>`.
#[derive(Clone)]
pub(super) struct Items {
    shared: Arc<dyn Any + Send + Sync>,
    length: usize,
}

impl Items {
    fn of<T: SessionItem>(items: Vec<T>) -> Self {
        Self { length: items.len(), shared: Arc::new(items) }
    }

    fn typed<T: SessionItem>(&self) -> Option<Arc<Vec<T>>> {
        Arc::clone(&self.shared).downcast::<Vec<T>>().ok()
    }

    /// Appends an item; returns whether it has the type of the others. A list that no snapshot
    /// shares grows in place, otherwise it is copied first.
    fn push<T: SessionItem>(&mut self, item: T) -> bool {
        let Some(mut items) = self.typed::<T>() else { return false };
        // Drop our own reference first. With two references `make_mut` would copy the whole list
        // for every item.
        self.shared = Arc::new(());
        Arc::make_mut(&mut items).push(item);
        *self = Self { length: items.len(), shared: items };
        true
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }
}

/// Shows the number of items.
impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.items.len().fmt(f)
    }
}

impl Slice {
    pub(super) fn empty<T: SessionItem>(name: &'static str) -> Self {
        Self {
            policy: SlicePolicy::State,
            items: Items::of::<T>(Vec::new()),
            revision: 0,
            of: TypeId::of::<T>(),
            name,
            write: |items, from| match items.typed::<T>() {
                Some(items) => items.iter().skip(from).map(JsonText::of).collect(),
                None => Ok(Vec::new()),
            },
            parse: |text| serde_json::from_str::<Vec<T>>(text).map(Items::of),
            none: || Items::of::<T>(Vec::new()),
            push: |items, item| {
                item.downcast_ref::<T>().is_some_and(|item| items.push(item.clone()))
            },
        }
    }

    /// Returns whether no type has claimed its items yet.
    pub(super) fn is_untyped(&self) -> bool {
        self.is_of::<UntypedItem>()
    }

    /// Appends an item if it has the slice's type; returns whether it does.
    pub(super) fn append_any(&mut self, item: &dyn Any) -> bool {
        let was = (self.push)(&mut self.items, item);
        self.revision += u64::from(was);
        was
    }

    pub(super) fn is_of<T: SessionItem>(&self) -> bool {
        self.of == TypeId::of::<T>()
    }

    pub(super) fn typed<T: SessionItem>(&self) -> Result<Arc<Vec<T>>> {
        self.items.typed().ok_or(SessionError::NameTaken { name: self.name })
    }

    pub(super) fn apply<T: SessionItem>(&mut self, op: SliceOp<T>) -> Result<()> {
        match op {
            SliceOp::Keep => return Ok(()),
            SliceOp::Replace(items) => {
                self.typed::<T>()?;
                self.items = Items::of(items);
            }
            SliceOp::Append(item) => {
                self.typed::<T>()?;
                self.items.push(item);
            }
        }
        self.revision += 1;
        Ok(())
    }

    pub(super) fn clear(&mut self) {
        if self.items.len() > 0 {
            self.items = (self.none)();
            self.revision += 1;
        }
    }

    /// Restores the items of an earlier state.
    pub(super) fn put(&mut self, before: &Self) {
        if self.revision != before.revision {
            self.items = before.items.clone();
            // A rollback is a change too. The old revision would now name different items than
            // those that were stored under it.
            self.revision += 1;
        }
    }

    /// Returns the items from an index on, as JSON.
    pub(super) fn json_from(&self, from: usize) -> Result<Vec<JsonText>> {
        (self.write)(&self.items, from)
            .map_err(|source| SessionError::NoJson { name: self.name.to_owned(), source })
    }

    pub(super) fn json(&self) -> Result<JsonText> {
        JsonText::of(&self.json_from(0)?)
            .map_err(|source| SessionError::NoJson { name: self.name.to_owned(), source })
    }

    pub(super) fn read(&mut self, list: &JsonText) -> Result<()> {
        let shape = |source| SessionError::Shape { name: self.name.to_owned(), source };
        self.items = (self.parse)(list.as_str()).map_err(shape)?;
        self.revision += 1;
        Ok(())
    }
}

/// A type-erased reducer.
pub(super) struct Reducer {
    /// The slice that it changes.
    pub(super) slice: &'static str,
    pub(super) reduce: Box<Reduce>,
}

type Reduce = dyn Fn(&mut Slice, &dyn Any) -> Result<()> + Send + Sync;

impl Reducer {
    pub(super) fn new<T: SessionItem, E: 'static>(
        reducer: impl Fn(&[T], &E) -> SliceOp<T> + Send + Sync + 'static,
    ) -> Self {
        let reduce = move |slice: &mut Slice, event: &dyn Any| {
            let Some(event) = event.downcast_ref::<E>() else { return Ok(()) };
            let op = reducer(&slice.typed::<T>()?, event);
            slice.apply(op)
        };
        Self { slice: T::NAME, reduce: Box::new(reduce) }
    }
}
