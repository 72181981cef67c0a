//! The schema of a result type, if it has one.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;

use super::answer::RunReturn;

/// Returns the schema of a type. Autoref specialization selects the implementation: method
/// resolution picks the first match for `(&&RunReturn::<T>::without_value()).schema()`.
pub trait FindSchema {
    /// Returns the schema of the value, if its type has one.
    fn schema(&self) -> Option<String>;
}

impl<T: JsonSchema> FindSchema for &RunReturn<T> {
    fn schema(&self) -> Option<String> {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        serde_json::to_string(&generator.into_root_schema_for::<T>()).ok()
    }
}

impl<R> FindSchema for RunReturn<R> {
    fn schema(&self) -> Option<String> {
        None
    }
}
