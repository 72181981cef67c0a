//! The plan and its transitions, as pure functions: no storage, no tools.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::session::SessionItem;

/// Maximum number of characters of an objective, a title or a note, after trimming.
pub const TEXT_CHARACTERS: usize = 500;

/// How far a step is.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Done,
}

impl StepStatus {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Done => "done",
        }
    }
}

/// The status of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    /// Some steps are not done, or may still be added.
    #[default]
    Active,
    /// All steps are done. This is final: a new plan has to be set up.
    Completed,
}

impl PlanStatus {
    /// Returns the name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Completed => "completed",
        }
    }
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// Its number, from 1. No other step of the plan ever has it.
    pub step_id: u32,
    /// The task of the step.
    pub title: String,
    /// Its status.
    pub status: StepStatus,
    /// Observations and thoughts about it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The plan of a conversation: an objective and its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The objective.
    pub objective: String,
    /// Its status.
    pub status: PlanStatus,
    /// The steps, by number.
    pub steps: Vec<PlanStep>,
}

impl SessionItem for Plan {
    const NAME: &'static str = "plan";
}

/// Sets up a plan, in the place of the one that there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetupPlan {
    /// What the plan is for, in 1 to 500 characters.
    pub objective: String,
    /// Titles of the first steps, each in 1 to 500 characters.
    #[serde(default)]
    pub initial_steps: Vec<String>,
}

impl SessionItem for SetupPlan {
    const NAME: &'static str = "plan_setup";
}

/// Adds steps to the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddStep {
    /// Titles of the steps, each in 1 to 500 characters.
    pub steps: Vec<String>,
}

impl SessionItem for AddStep {
    const NAME: &'static str = "plan_add";
}

/// Changes one step of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateStep {
    /// The number of the step.
    pub step_id: u32,
    /// Its new title, in 1 to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its new status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StepStatus>,
    /// What to add to its notes, in 1 to 500 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl SessionItem for UpdateStep {
    const NAME: &'static str = "plan_update";
}

/// The error of a change that is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The plan does not exist yet.
    #[error("there is no plan: set one up with planning_setup_plan")]
    NoPlan,
    /// All its steps are done.
    #[error(
        "the plan is completed and can no longer change: set up a new one with planning_setup_plan"
    )]
    Completed,
    /// A text is empty, or contains only white space.
    #[error("expected 1 to {TEXT_CHARACTERS} characters for {what}, found none")]
    Empty {
        /// The name of the text.
        what: &'static str,
    },
    /// A text is too long.
    #[error("expected 1 to {TEXT_CHARACTERS} characters for {what}, found {found}")]
    TooLong {
        /// The name of the text.
        what: &'static str,
        /// Number of characters found.
        found: usize,
    },
    /// The list of steps to add is empty.
    #[error("expected at least one step to add, found none")]
    NoSteps,
    /// The update changes nothing.
    #[error("expected a title, a status or a note, found none: nothing to update")]
    NothingToUpdate,
    /// The step does not exist.
    #[error("expected the number of a step, found {step_id}: the plan has {}", known(.steps))]
    UnknownStep {
        /// The number given.
        step_id: u32,
        /// Number of steps of the plan.
        steps: usize,
    },
    /// The numbers of steps are exhausted.
    #[error("the plan has as many steps as it can")]
    Full,
}

fn known(steps: &usize) -> String {
    match steps {
        0 => "no steps".to_owned(),
        1 => "step 1".to_owned(),
        steps => format!("steps 1 to {steps}"),
    }
}

impl PlanError {
    /// Returns the stable code of the variant.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoPlan => "no_plan",
            Self::Completed => "completed",
            Self::Empty { .. } => "empty",
            Self::TooLong { .. } => "too_long",
            Self::NoSteps => "no_steps",
            Self::NothingToUpdate => "nothing_to_update",
            Self::UnknownStep { .. } => "unknown_step",
            Self::Full => "full",
        }
    }
}

fn text(text: &str, what: &'static str) -> Result<String, PlanError> {
    let trimmed = text.trim();
    match trimmed.chars().count() {
        0 => Err(PlanError::Empty { what }),
        found if found > TEXT_CHARACTERS => Err(PlanError::TooLong { what, found }),
        _ => Ok(trimmed.to_owned()),
    }
}

/// Returns an optional text. An empty text counts as absent, but white space alone is an error.
fn optional(given: Option<&String>, what: &'static str) -> Result<Option<String>, PlanError> {
    given.filter(|given| !given.is_empty()).map(|given| text(given, what)).transpose()
}

impl Plan {
    /// Creates an active plan, whose steps are numbered from 1.
    ///
    /// # Errors
    /// [`PlanError::Empty`] and [`PlanError::TooLong`].
    pub fn setup(setup: &SetupPlan) -> Result<Self, PlanError> {
        let plan = Self {
            objective: text(&setup.objective, "the objective")?,
            status: PlanStatus::Active,
            steps: Vec::new(),
        };
        plan.with_steps(&setup.initial_steps)
    }

    fn with_steps(mut self, titles: &[String]) -> Result<Self, PlanError> {
        // Steps are never removed, so the last number is the highest ever used.
        let mut last = self.steps.last().map_or(0, |step| step.step_id);
        for title in titles {
            let title = text(title, "the title of a step")?;
            last = last.checked_add(1).ok_or(PlanError::Full)?;
            let status = StepStatus::Pending;
            self.steps.push(PlanStep { step_id: last, title, status, notes: Vec::new() });
        }
        Ok(self)
    }

    fn active(plan: Option<&Self>) -> Result<&Self, PlanError> {
        let plan = plan.ok_or(PlanError::NoPlan)?;
        match plan.status {
            PlanStatus::Active => Ok(plan),
            PlanStatus::Completed => Err(PlanError::Completed),
        }
    }

    /// Adds steps to the current plan: all of them, or none.
    ///
    /// # Errors
    /// The first that applies of [`PlanError::NoPlan`], [`PlanError::Completed`],
    /// [`PlanError::NoSteps`], [`PlanError::Empty`] and [`PlanError::TooLong`].
    pub fn add(plan: Option<&Self>, add: &AddStep) -> Result<Self, PlanError> {
        let plan = Self::active(plan)?;
        if add.steps.is_empty() {
            Err(PlanError::NoSteps)
        } else {
            plan.clone().with_steps(&add.steps)
        }
    }

    /// Changes one step of the current plan. If all steps are done after that, the plan is
    /// completed. An empty title or note counts as absent.
    ///
    /// # Errors
    /// The first that applies of [`PlanError::NoPlan`], [`PlanError::Completed`],
    /// [`PlanError::Empty`] and [`PlanError::TooLong`], [`PlanError::NothingToUpdate`],
    /// [`PlanError::UnknownStep`].
    pub fn update(plan: Option<&Self>, update: &UpdateStep) -> Result<Self, PlanError> {
        let mut plan = Self::active(plan)?.clone();
        let title = optional(update.title.as_ref(), "the title of a step")?;
        let note = optional(update.note.as_ref(), "a note")?;
        if title.is_none() && note.is_none() && update.status.is_none() {
            return Err(PlanError::NothingToUpdate);
        }
        let steps = plan.steps.len();
        let step = plan.steps.iter_mut().find(|step| step.step_id == update.step_id);
        let step = step.ok_or(PlanError::UnknownStep { step_id: update.step_id, steps })?;
        step.title = title.unwrap_or_else(|| std::mem::take(&mut step.title));
        step.status = update.status.unwrap_or(step.status);
        step.notes.extend(note);
        if plan.steps.iter().all(|step| step.status == StepStatus::Done) {
            plan.status = PlanStatus::Completed;
        }
        Ok(plan)
    }

    /// Returns the current plan.
    ///
    /// # Errors
    /// [`PlanError::NoPlan`].
    pub fn read(plan: Option<&Self>) -> Result<&Self, PlanError> {
        plan.ok_or(PlanError::NoPlan)
    }
}

/// Writes it as shown to the model.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objective: {}\nStatus: {}", self.objective, self.status.as_str())?;
        for step in &self.steps {
            write!(f, "\n{} [{}] {}", step.step_id, step.status.as_str(), step.title)?;
            for note in &step.notes {
                write!(f, "\n  - {note}")?;
            }
        }
        Ok(())
    }
}
