//! One type of each kind that arguments may have. Those of the first half know nothing of tools:
//! they let unknown names pass by themselves.

#![allow(dead_code)] // parsed, never read

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::Deserialize;
use tract_tools::tool_type;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Numbers {
    pub(crate) a: u8,
    pub(crate) b: i32,
    pub(crate) c: u32,
    pub(crate) d: i64,
    pub(crate) e: u64,
    pub(crate) f: usize,
    pub(crate) g: f64,
    pub(crate) h: f32,
    pub(crate) i: NonZeroU32,
    pub(crate) j: Option<i16>,
}

/// A point, open by itself.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Point {
    pub(crate) x: f64,
    /// The height.
    #[serde(default)]
    pub(crate) y: f64,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Nested {
    pub(crate) at: Point,
    pub(crate) path: Vec<Point>,
    pub(crate) named: HashMap<String, Point>,
    pub(crate) maybe: Option<Point>,
    pub(crate) by_number: BTreeMap<u64, bool>,
    pub(crate) set: BTreeSet<String>,
    pub(crate) any: serde_json::Value,
    pub(crate) letter: char,
    pub(crate) unit: (),
    #[serde(default = "yes")]
    pub(crate) flag: bool,
}

fn yes() -> bool {
    true
}

/// How to sort.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sort {
    /// Oldest first.
    OldestFirst,
    NewestFirst,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) enum External {
    Unit,
    Newtype(u8),
    Tuple(u8, String),
    Struct { a: u8 },
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Internal {
    Stop,
    Move { to: Point },
    Draw(Point),
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "t", content = "c")]
pub(crate) enum Adjacent {
    Unit,
    Number(i32),
    Struct { a: u8 },
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Untagged {
    Number(u8),
    Text(String),
    Point(Point),
    List(Vec<u8>),
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Enums {
    pub(crate) sort: Sort,
    pub(crate) maybe: Option<Sort>,
    pub(crate) external: External,
    pub(crate) internal: Internal,
    pub(crate) adjacent: Adjacent,
    pub(crate) untagged: Untagged,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Tuples {
    pub(crate) pair: (u8, String),
    pub(crate) array: [u8; 2],
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Tree {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) children: Vec<Tree>,
    pub(crate) link: Option<Box<Tree>>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Forest {
    pub(crate) tree: Tree,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Page {
    pub(crate) number: u8,
    #[serde(default)]
    pub(crate) size: u8,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct Flat {
    pub(crate) query: String,
    #[serde(flatten)]
    pub(crate) page: Page,
    #[serde(flatten)]
    pub(crate) internal: Internal,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(crate) struct RestFields {
    pub(crate) query: String,
    #[serde(flatten)]
    pub(crate) rest: BTreeMap<String, u8>,
}

/// Closed by our own derive.
#[tool_type]
#[derive(Clone, Debug)]
pub(crate) struct Closed {
    pub(crate) inner: ClosedEnum,
}

#[tool_type]
#[derive(Clone, Debug)]
#[serde(untagged)]
pub(crate) enum ClosedEnum {
    One { a: u8 },
    Two { a: u8, b: u8 },
}
