//! A compiled validator and its description for provenance.

use std::sync::Arc;

use tract_core::{Clock, SystemClock};
use tract_schema::{SchemaCompiler, SchemaError, ValidateOptions, Validator};

use crate::hydrate::ValidatorUsed;

/// A validator with its description for provenance.
#[derive(Clone)]
pub(crate) struct Compiled {
    pub(crate) validator: Arc<dyn Validator>,
    /// Created once and shared by all calls.
    pub(crate) used: ValidatorUsed,
}

impl Compiled {
    pub(crate) fn of(
        compiler: &dyn SchemaCompiler,
        schema: &str,
        options: &ValidateOptions,
        eager: bool,
    ) -> Result<Self, SchemaError> {
        let validator = compiler.compile(schema, options)?;
        let at = tract_core::time::format_rfc3339(SystemClock.now_us()).unwrap_or_default();
        let (name, version) = (compiler.name().into(), compiler.version().into());
        let notes = validator.notes().to_vec();
        let used = ValidatorUsed { name, version, compiled_at: at.into(), eager, notes };
        Ok(Self { validator, used })
    }
}
