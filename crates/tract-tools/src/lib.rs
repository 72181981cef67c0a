//! Tools at run time: [`select`] finds the few of thousands that fit what was said.
#![forbid(unsafe_code)]

pub mod select;
