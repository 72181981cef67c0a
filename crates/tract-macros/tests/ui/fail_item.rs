#![allow(unused_variables)]

use tract_tools::{tool, tool_type};

/// Is an enum.
#[tool]
enum Choice {
    One,
}

/// Has no names.
#[tool]
struct Unnamed(u8);

/// Has no braces.
#[tool]
struct Unit;

/// Is generic.
#[tool]
struct Generic<T> {
    value: T,
}

struct Search;

#[tool]
impl Search {
    async fn run(self) {}
}

#[tool]
const NONE: u8 = 0;

#[tool_type]
fn function() {}

fn main() {}
