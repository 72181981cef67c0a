//! The examples run.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "a program's parts are called by its main alone")]
#[path = "../examples/tool_calling.rs"]
mod tool_calling;

#[test]
fn tool_calling_runs() {
    tool_calling::main().expect("it runs");
}
