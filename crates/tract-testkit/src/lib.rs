//! The public contract for stores, strategies and faults.
#![forbid(unsafe_code)]
