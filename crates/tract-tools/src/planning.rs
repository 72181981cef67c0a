//! A plan that a model maintains while it works: four tools over one slice of the session.
//!
//! ```
//! # tract_core::block_on(async {
//! use tract_core::{DynTool, ToolContext};
//! use tract_tools::planning::{Plan, Planning};
//! use tract_tools::session::Session;
//!
//! let session = Session::new();
//! let [setup, _, update, _] = Planning::new(&session)?.tools();
//! let context = ToolContext::new("c1").with_resource(session.clone());
//! setup.run(r#"{"objective":"ship","initial_steps":["test","tag"]}"#, &context).await?;
//! let done = update.run(r#"{"step_id":1,"status":"done"}"#, &context).await?;
//! assert!(done.model_text().ends_with("1 [done] test\n2 [pending] tag"));
//! assert_eq!(session.latest::<Plan>().unwrap().steps.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod plan;
mod strategy;
mod tools;

pub use self::plan::{
    AddStep, Plan, PlanError, PlanStatus, PlanStep, SetupPlan, StepStatus, TEXT_CHARACTERS,
    UpdateStep,
};
pub use self::strategy::Strategy;
pub use self::tools::Planning;

#[cfg(test)]
mod tests;
