//! The examples run.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "a program's parts are called by its main alone")]
#[path = "../examples/tool_calling.rs"]
mod tool_calling;

#[test]
fn tool_calling_runs() {
    tool_calling::main().expect("it runs");
}

#[cfg(feature = "run")]
#[path = "../examples/coding_agent.rs"]
mod coding_agent;

#[cfg(feature = "run")]
#[test]
fn a_coding_agent_runs_and_waits_for_a_person() {
    let told = tract::block_on(coding_agent::conversation()).expect("it runs");
    assert_eq!(
        told,
        [
            "planning_setup_plan succeeded",
            "fs_read succeeded",
            "fs_write succeeded",
            "c4 waits",
            "stopped: waiting",
            "fs_remove succeeded",
            "stopped: answered"
        ]
    );
}
