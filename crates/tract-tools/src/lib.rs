//! Tools at run time: [`select`] finds the few of thousands that fit what was said, [`pin`] binds
//! a tool to the definition that was approved.
#![forbid(unsafe_code)]

pub mod pin;
pub mod select;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/selection.md")]
struct SelectionGuide;
