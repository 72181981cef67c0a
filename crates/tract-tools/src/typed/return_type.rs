//! The schema of a result type, where it has one.

use std::marker::PhantomData;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use tract_core::ToolResult;

/// The type that a function returns, without a value of it. The method that is found first counts:
/// `(&&&&&ReturnType::<R>::new()).schema()`.
pub struct ReturnType<R>(PhantomData<fn() -> R>);

impl<R> ReturnType<R> {
    /// Makes the marker of a type.
    #[allow(clippy::new_without_default)] // only the code that attributes write makes one
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// Finds the schema of a type.
pub trait FindSchema {
    /// Returns the schema of the value, where its type has one.
    fn schema(&self) -> Option<String>;
}

fn schema_of<T: JsonSchema>() -> Option<String> {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    serde_json::to_string(&generator.into_root_schema_for::<T>()).ok()
}

impl<T: JsonSchema, E> FindSchema for &&&&ReturnType<Result<ToolResult<T>, E>> {
    fn schema(&self) -> Option<String> {
        schema_of::<T>()
    }
}

impl<T: JsonSchema> FindSchema for &&&ReturnType<ToolResult<T>> {
    fn schema(&self) -> Option<String> {
        schema_of::<T>()
    }
}

impl<T: JsonSchema, E> FindSchema for &&ReturnType<Result<T, E>> {
    fn schema(&self) -> Option<String> {
        schema_of::<T>()
    }
}

impl<T: JsonSchema> FindSchema for &ReturnType<T> {
    fn schema(&self) -> Option<String> {
        schema_of::<T>()
    }
}

impl<R> FindSchema for ReturnType<R> {
    fn schema(&self) -> Option<String> {
        None
    }
}
