//! The four planning tools.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use tract_core::text::count;
use tract_core::{
    DynTool, NoParams, Tool, ToolContext, ToolError, ToolParams, ToolResult, ToolTraits,
};

use super::plan::{AddStep, Plan, PlanError, SetupPlan, UpdateStep};
use crate::session::{Session, SessionError, SessionItem, SliceOp};
use crate::typed::{Answer, Args};

/// The owner of the reducers of a plan.
const OWNER: &str = "planning";

/// The planning tools of one session.
#[derive(Clone, Debug)]
pub struct Planning {
    session: Session,
}

impl Planning {
    /// Binds the tools to a session, and registers the reducers of its plan. They are registered
    /// once, even if the session is bound several times.
    ///
    /// # Errors
    /// [`SessionError`] if another type has the name of the plan's slice.
    pub fn new(session: &Session) -> Result<Self, SessionError> {
        // The tools do not publish invalid events. Those from elsewhere leave the plan unchanged.
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
        let changes = ToolTraits::default();
        [
            self.tool(
                "planning_setup_plan",
                "Create the plan, or replace it: an objective and, optionally, the first steps.",
                ToolTraits { idempotent: true, ..changes },
                |planning, Args(setup): Args<SetupPlan>, context| {
                    let message = |plan: &Plan| format!("The plan is set up with {}.", steps(plan));
                    planning.change(context, &setup, |_| Plan::setup(&setup), message)
                },
            ),
            self.tool(
                "planning_add_step",
                "Append one or more steps to the active plan.",
                changes,
                |planning, Args(add): Args<AddStep>, context| {
                    let message = |plan: &Plan| format!("The plan has {} now.", steps(plan));
                    planning.change(context, &add, |plan| Plan::add(plan, &add), message)
                },
            ),
            self.tool(
                "planning_update_step",
                "Change the title or the status of a step of the active plan, or add a note to it.",
                changes,
                |planning, Args(update): Args<UpdateStep>, context| {
                    let message = |_: &Plan| format!("Step {} is updated.", update.step_id);
                    planning.change(context, &update, |plan| Plan::update(plan, &update), message)
                },
            ),
            self.tool(
                "planning_read_plan",
                "Read the plan: its objective, its status and its steps.",
                ToolTraits::READ_ONLY,
                |planning, _: NoParams, context| {
                    planning.bound(context)?;
                    Ok(match Plan::read(planning.plan().as_ref()) {
                        Ok(plan) => ToolResult::ok(plan.clone()),
                        Err(error) => ToolResult::error(error.to_string()),
                    })
                },
            ),
        ]
    }

    fn tool<P: ToolParams>(
        &self,
        name: &'static str,
        description: &'static str,
        traits: ToolTraits,
        run: fn(&Self, P, &ToolContext) -> Answer<Plan>,
    ) -> Arc<dyn DynTool> {
        Arc::new(PlanTool { planning: self.clone(), name, description, traits, run })
    }

    /// Returns the session that the tools are bound to.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the current plan.
    pub fn plan(&self) -> Option<Plan> {
        self.session.latest()
    }

    /// Checks that the call belongs to the session of the plan. A change from another session's
    /// call would not be rolled back with that call.
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
                Ok(ToolResult { message, ..ToolResult::ok(plan) })
            }
            Err(error) => Ok(ToolResult::error(error.to_string())),
        }
    }
}

fn steps(plan: &Plan) -> String {
    count(plan.steps.len(), "step")
}

/// A tool that works on the plan of a session.
struct PlanTool<P> {
    planning: Planning,
    name: &'static str,
    description: &'static str,
    traits: ToolTraits,
    run: fn(&Planning, P, &ToolContext) -> Answer<Plan>,
}

#[async_trait]
impl<P: ToolParams> Tool for PlanTool<P> {
    type Params = P;
    type Output = Plan;

    fn name(&self) -> Cow<'_, str> {
        self.name.into()
    }

    fn description(&self) -> Cow<'_, str> {
        self.description.into()
    }

    fn traits(&self) -> ToolTraits {
        self.traits
    }

    fn render(&self, plan: &Plan) -> Option<String> {
        Some(plan.to_string())
    }

    async fn call(&self, given: P, context: &ToolContext) -> Answer<Plan> {
        (self.run)(&self.planning, given, context)
    }
}
