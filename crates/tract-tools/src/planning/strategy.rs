//! Instructions on how to reason while planning. They are guidance only: the tools are the same.

use crate::prompt::Section;
use crate::session::SessionError;

use super::Planning;

/// A strategy for reasoning while planning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// Reason, act, observe, and again.
    #[default]
    React,
    /// Plan all of it, then act, and reflect after each step.
    PlanActReflect,
    /// Restate the goal, take it apart, send each part to a tool, put the answers together.
    GoalDecomposeRouteSynthesize,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 3] =
        [Self::React, Self::PlanActReflect, Self::GoalDecomposeRouteSynthesize];

    /// Returns the name in stored plans. The last one keeps its British spelling there.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::React => "react",
            Self::PlanActReflect => "plan_act_reflect",
            Self::GoalDecomposeRouteSynthesize => "goal_decompose_route_synthesise",
        }
    }

    /// Returns the strategy with this name.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "goal_decompose_route_synthesize" => Some(Self::GoalDecomposeRouteSynthesize),
            word => Self::ALL.into_iter().find(|strategy| strategy.as_str() == word),
        }
    }

    /// Returns the paragraph on how to reason, the only difference between the strategies.
    pub const fn mindset(self) -> &'static str {
        match self {
            Self::React => {
                "Alternate between short bursts of reasoning, tool calls and a look at what they \
                 gave. Capture what you observe as a note of the step that it belongs to, and let \
                 it decide what comes next."
            }
            Self::PlanActReflect => {
                "Outline the whole plan before you act. Then carry out one step at a time, and \
                 reflect after each: append the reflection as a note of the step, and revise the \
                 steps that follow where it asks for that."
            }
            Self::GoalDecomposeRouteSynthesize => {
                "Restate the goal in your own words first. Break it into sub-problems before you \
                 route any of them to a tool, note what each gave with its step, and synthesize \
                 the results into one coherent answer at the end."
            }
        }
    }

    /// Returns the guidance as markdown.
    pub fn guidance(self) -> String {
        format!(
            "Keep a plan when the work takes more than a few steps.\n\n{}\n\n\
             - `planning_setup_plan` begins a plan, or replaces it.\n\
             - `planning_add_step` adds steps that turn out to be needed.\n\
             - `planning_update_step` sets a step to `in_progress` when you begin it and to \
             `done` when it is, and takes notes.\n\
             - `planning_read_plan` shows where you are.\n\n\
             The plan is completed when every step is done; it cannot be opened again.",
            self.mindset()
        )
    }
}

impl Planning {
    /// Returns the section of a prompt that explains the tools and contains them.
    pub fn section(&self, strategy: Strategy) -> Section {
        let section = Section::new("planning", "Planning", strategy.guidance()).without_overrides();
        self.tools().into_iter().fold(section, Section::dyn_tool)
    }

    /// Binds the tools to a session and returns their section.
    ///
    /// # Errors
    /// As [`Planning::new`].
    pub fn section_of(
        session: &crate::session::Session,
        strategy: Strategy,
    ) -> Result<Section, SessionError> {
        Ok(Self::new(session)?.section(strategy))
    }
}
