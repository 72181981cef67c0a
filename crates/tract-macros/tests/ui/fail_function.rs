#![allow(unused_variables)]

use tract_tools::{ToolContext, tool};

/// Adds.
#[tool]
fn not_async(a: f64) -> f64 {
    a
}

/// Shows.
#[tool]
async fn borrowed(text: &str, path: &std::path::Path, items: &[u8]) {}

/// Takes apart.
#[tool]
async fn pattern((a, b): (u8, u8), _: u8) {}

/// Takes anything.
#[tool]
async fn generic<T>(value: T) {}

/// Takes anything.
#[tool]
async fn opaque(value: impl ToString) {}

#[tool]
async fn undescribed(a: u8) {}

/// Has two contexts.
#[tool]
async fn twice(one: &ToolContext, two: &ToolContext) {}

/// Changes its context.
#[tool]
async fn mutable(context: &mut ToolContext) {}

/// Has a self.
#[tool]
async fn method(&self) {}

/// Describes what is not there.
///
/// # Arguments
/// - limit: how many
/// - lmit: how many
#[tool]
async fn listed(limit: u8) {}

struct Score(u8);

/// Rates.
#[tool]
fn score() -> Option<Score> {
    None
}

fn main() {}
