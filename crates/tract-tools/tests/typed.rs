//! Typed tools: what they advertise, what they parse, how they run.
#![forbid(unsafe_code)]

// Tools in all their forms, run.
#[path = "typed/forms.rs"]
mod forms;
// The types that arguments may have; others are of this file's making.
#[path = "typed/types.rs"]
mod types;
// What is advertised is what is parsed, by two validators and the parser itself.
#[path = "typed/agreement.rs"]
mod agreement;
// The bytes of derived schemas.
#[path = "typed/golden.rs"]
mod golden;

#[path = "typed/json_schema.rs"]
mod json_schema;
