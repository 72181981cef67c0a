//! Nothing that the attributes write warns, under the strictest lints.
#![deny(warnings, missing_docs)]

/// Holds tools.
pub mod tools {
    use tract_tools::{ToolContext, ToolError, tool, tool_type};

    /// Where to.
    #[tool_type]
    pub enum Where {
        /// Up.
        Up,
        /// Down.
        Down,
    }

    /// Goes somewhere.
    #[tool]
    pub async fn go(r#where: Where, context: &ToolContext) -> Result<u8, ToolError> {
        context.check()?;
        Ok(match r#where {
            Where::Up => 1,
            Where::Down => 0,
        })
    }

    /// Stays.
    #[tool]
    pub struct Stay {
        /// How long.
        pub seconds: u32,
    }

    impl Stay {
        async fn run(self) -> u32 {
            self.seconds
        }
    }
}

fn main() {
    let _ = (tools::Go, tools::Stay::tool());
}
