//! A validator, and when it was made.

use std::sync::Arc;

use tract_core::{Clock, SystemClock};
use tract_schema::{SchemaCompiler, SchemaError, ValidateOptions, Validator};

/// A validator with what provenance says of it.
#[derive(Clone)]
pub(crate) struct Compiled {
    pub(crate) validator: Arc<dyn Validator>,
    pub(crate) name: Arc<str>,
    pub(crate) version: Arc<str>,
    /// When, RFC 3339: written once, not for every call.
    pub(crate) at: Arc<str>,
    /// Whether it was made before any call asked for it.
    pub(crate) eager: bool,
}

impl Compiled {
    pub(crate) fn of(
        compiler: &dyn SchemaCompiler,
        schema: &str,
        options: &ValidateOptions,
        eager: bool,
    ) -> Result<Self, SchemaError> {
        let validator = compiler.compile(schema, options)?;
        let (name, version) = (compiler.name().into(), compiler.version().into());
        let at = tract_core::time::format_rfc3339(SystemClock.now_us()).unwrap_or_default();
        Ok(Self { validator, name, version, at: at.into(), eager })
    }
}
