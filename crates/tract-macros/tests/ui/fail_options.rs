#![allow(unused_variables)]

use tract_tools::{tool, tool_type};

/// Has a name that no provider takes.
#[tool(name = "get weather")]
async fn named() {}

/// Has an option that is none.
#[tool(readonly)]
async fn option() {}

/// Contradicts itself.
#[tool(read_only, destructive)]
async fn contradicts() {}

/// Has a timeout without a unit.
#[tool(timeout = 5)]
async fn timeout() {}

/// Has a default in the wrong place.
#[tool(default = 5)]
async fn default(a: u8) {}

/// Has a parameter with an option that is none.
#[tool]
async fn parameter(#[tool(optional)] a: u8) {}

/// Says it twice.
#[tool(name = "a", name = "b")]
async fn said_twice() {}

/// Derives twice.
#[tool]
#[derive(Clone, serde::Deserialize)]
struct Derived {
    a: u8,
}

#[tool_type(name = "x")]
struct Part {
    a: u8,
}

fn main() {}
