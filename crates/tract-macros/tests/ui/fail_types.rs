#![allow(unused_variables)]

use tract_tools::{ToolContext, tool};

/// Has no `run`.
#[tool]
struct NoRun {
    a: u8,
}

/// Has another `run`.
#[tool]
struct OtherRun {
    a: u8,
}

impl OtherRun {
    async fn run(self, times: u8) -> u8 {
        self.a * times
    }
}

struct NotAnError;

/// Fails with what is not an error.
#[tool]
async fn fails(_context: &ToolContext) -> Result<u8, NotAnError> {
    Err(NotAnError)
}

fn main() {}
