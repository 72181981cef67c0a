//! The four tools.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use tract_core::{DynTool, NoParams, Tool, ToolContext, ToolError, ToolResult, ToolTraits};

use super::plan::{AddStep, Plan, PlanError, SetupPlan, UpdateStep};
use crate::session::{Session, SessionError, SessionItem, SliceOp};
use crate::typed::{Answer, Args};

/// Who registers the reducers of a plan.
const OWNER: &str = "planning";

/// The planning tools of one session.
#[derive(Clone, Debug)]
pub struct Planning {
    session: Session,
}

impl Planning {
    /// Binds the tools to a session, and registers what their events make of its plan: once, however
    /// often the session is bound.
    ///
    /// # Errors
    /// [`SessionError`] when another type has the name of the plan's slice.
    pub fn new(session: &Session) -> Result<Self, SessionError> {
        // What the tool refuses is not published; an event from elsewhere that does not fit
        // changes nothing.
        fn reduced(plan: Result<Plan, PlanError>) -> SliceOp<Plan> {
            plan.map_or(SliceOp::Keep, |plan| SliceOp::Replace(vec![plan]))
        }
        session.on_once(OWNER, |_: &[Plan], setup: &SetupPlan| reduced(Plan::setup(setup)))?;
        session.on_once(OWNER, |plans: &[Plan], add: &AddStep| {
            reduced(Plan::add(plans.last(), add))
        })?;
        session.on_once(OWNER, |plans: &[Plan], update: &UpdateStep| {
            reduced(Plan::update(plans.last(), update))
        })?;
        Ok(Self { session: session.clone() })
    }

    /// Returns the tools: set up, add, update, read.
    pub fn tools(&self) -> [Arc<dyn DynTool>; 4] {
        [
            Arc::new(Setup(self.clone())),
            Arc::new(Add(self.clone())),
            Arc::new(Update(self.clone())),
            Arc::new(Read(self.clone())),
        ]
    }

    /// Returns the session that the tools are bound to.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the plan that there is.
    pub fn plan(&self) -> Option<Plan> {
        self.session.latest()
    }

    /// The call has to belong to the session whose plan would change: another's is not rolled back
    /// with it.
    fn bound(&self, context: &ToolContext) -> Result<(), ToolError> {
        match context.optional_resource::<Session>() {
            Some(session) if session.is(&self.session) => Ok(()),
            found => Err(ToolError::other("the plan belongs to another conversation").operator(
                match found {
                    Some(_) => {
                        "the context's session is not the one the planning tools are bound to"
                    }
                    None => "the context has no session: lend it the one the tools are bound to",
                },
            )),
        }
    }

    fn change<E: SessionItem>(
        &self,
        context: &ToolContext,
        event: &E,
        change: impl Fn(Option<&Plan>) -> Result<Plan, PlanError>,
        message: impl Fn(&Plan) -> String,
    ) -> Answer<Plan> {
        self.bound(context)?;
        match change(self.plan().as_ref()) {
            Ok(plan) => {
                self.session.publish(event)?;
                let message = message(&plan);
                Ok(ToolResult::ok(plan).message(message))
            }
            Err(error) => Ok(ToolResult::error(error.to_string())),
        }
    }
}

fn steps(plan: &Plan) -> String {
    match plan.steps.len() {
        1 => "1 step".to_owned(),
        steps => format!("{steps} steps"),
    }
}

struct Setup(Planning);
struct Add(Planning);
struct Update(Planning);
struct Read(Planning);

/// Writes what the four have in common.
macro_rules! planning_tool {
    ($tool:ident, $params:ty, $name:literal, $description:literal, $traits:expr,
     |$planning:ident, $given:ident, $context:ident| $call:expr) => {
        #[async_trait]
        impl Tool for $tool {
            type Params = $params;
            type Output = Plan;

            fn name(&self) -> Cow<'_, str> {
                $name.into()
            }

            fn description(&self) -> Cow<'_, str> {
                $description.into()
            }

            fn traits(&self) -> ToolTraits {
                $traits
            }

            fn render(&self, plan: &Plan) -> Option<String> {
                Some(plan.to_string())
            }

            async fn call(&self, $given: $params, $context: &ToolContext) -> Answer<Plan> {
                let $planning = &self.0;
                $call
            }
        }
    };
}

planning_tool!(
    Setup,
    Args<SetupPlan>,
    "planning_setup_plan",
    "Create the plan, or replace it: an objective and, optionally, the first steps.",
    ToolTraits::new().idempotent(),
    |planning, given, context| planning.change(
        context,
        &given.0,
        |_| Plan::setup(&given.0),
        |plan| format!("The plan is set up with {}.", steps(plan)),
    )
);
planning_tool!(
    Add,
    Args<AddStep>,
    "planning_add_step",
    "Append one or more steps to the active plan.",
    ToolTraits::new(),
    |planning, given, context| planning.change(
        context,
        &given.0,
        |plan| Plan::add(plan, &given.0),
        |plan| format!("The plan has {} now.", steps(plan)),
    )
);
planning_tool!(
    Update,
    Args<UpdateStep>,
    "planning_update_step",
    "Change the title or the status of a step of the active plan, or add a note to it.",
    ToolTraits::new(),
    |planning, given, context| planning.change(
        context,
        &given.0,
        |plan| Plan::update(plan, &given.0),
        |_| format!("Step {} is updated.", given.0.step_id),
    )
);
planning_tool!(
    Read,
    NoParams,
    "planning_read_plan",
    "Read the plan: its objective, its status and its steps.",
    ToolTraits::new().read_only(),
    |planning, _given, context| {
        planning.bound(context)?;
        Ok(match Plan::read(planning.plan().as_ref()) {
            Ok(plan) => ToolResult::ok(plan.clone()),
            Err(error) => ToolResult::error(error.to_string()),
        })
    }
);
