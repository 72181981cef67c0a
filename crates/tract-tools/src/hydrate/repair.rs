//! Repairs: the port that gives a failed call a second chance.

use async_trait::async_trait;
use tract_core::{Clock, SystemClock, ToolError, hash};

use super::provenance::Repaired;
use super::{Call, HydrateOptions, Hydrated, IntoCalls, Stage, StageError, hydrate_with};
use crate::registry::Registry;

/// The input of a repair function.
#[derive(Clone, Copy, Debug)]
pub struct RepairRequest<'a> {
    /// The tool's name.
    pub name: &'a str,
    /// The schema that the arguments have to fit, if there is one.
    pub schema: Option<&'a str>,
    /// The arguments as received.
    pub arguments: &'a str,
    /// The errors in them.
    pub errors: &'a [StageError],
}

/// Port that repairs the arguments of a call. It is called at most once per call, and its text is
/// parsed and validated like any other.
#[async_trait]
pub trait Repair: Send + Sync {
    /// Returns the name that provenance records.
    fn name(&self) -> &str;

    /// Returns better arguments, or `None` if it does not know any.
    ///
    /// # Errors
    /// [`ToolError`] if the repair itself fails; provenance records it.
    async fn repair(&self, request: &RepairRequest<'_>) -> Result<Option<String>, ToolError>;
}

/// Hydrates calls, and passes each one whose arguments are invalid to a repair, once.
///
/// # Behavior
/// - A repaired call is marked: [`Provenance::repaired`](super::Provenance::repaired) is true, it
///   is not trusted, and it needs approval unless a policy of the registry
///   [vouches](crate::Policy::vouches_for) for it. A policy that merely allows it is not enough.
/// - A call that could not be repaired keeps its first errors.
pub async fn hydrate_repairing(
    calls: impl IntoCalls,
    registry: &Registry,
    options: &HydrateOptions,
    repair: &dyn Repair,
) -> Vec<Hydrated> {
    let calls = calls.into_calls();
    let mut hydrated = hydrate_with(calls.clone(), registry, options);
    for (one, call) in hydrated.iter_mut().zip(&calls) {
        let mendable = call.approved.is_none()
            && one.tool.is_some()
            && !one.errors.is_empty()
            && one.errors.iter().all(|error| {
                matches!(error.stage, Stage::Parse | Stage::Validate | Stage::Instantiate)
                    && error.is_of_arguments()
            });
        if !mendable {
            continue;
        }
        let began = SystemClock.now_us();
        let request = RepairRequest {
            name: one.tool_name(),
            schema: one.tool.as_ref().and_then(|tool| tool.arguments_schema()),
            arguments: &call.arguments,
            errors: &one.errors,
        };
        let given = repair.repair(&request).await;
        let mut record = Repaired {
            by: repair.name().to_owned(),
            before: hash::blob(call.arguments.as_bytes()).to_string(),
            after: None,
            text: None,
            errors: one.errors.clone(),
            failure: None,
        };
        match given {
            Ok(Some(text)) => {
                record.after = Some(hash::blob(text.as_bytes()).to_string());
                record.text = Some(text.clone());
                let again = Call { arguments: text.into(), ..call.clone() };
                let tried = super::one(again, registry, options, true);
                // A policy may refuse the repaired call. That is an answer about the call, and not
                // a failure of the repair.
                if tried.errors.iter().all(|error| error.stage == Stage::Policy) {
                    let duration_us = one.provenance.duration_us;
                    *one = tried;
                    one.provenance.raw_arguments = call.arguments.clone();
                    one.provenance.duration_us += duration_us;
                } else {
                    record.failure = Some("what it gave does not fit either".to_owned());
                }
            }
            Ok(None) => record.failure = Some("it knew no better arguments".to_owned()),
            Err(error) => record.failure = Some(error.to_string()),
        }
        one.provenance.repair = Some(record);
        let took = u64::try_from(SystemClock.now_us() - began).unwrap_or(0);
        one.provenance.duration_us += took;
    }
    hydrated
}
