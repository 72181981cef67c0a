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
    let transcript = tract::block_on(coding_agent::conversation()).expect("it runs");
    assert_eq!(
        transcript,
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

#[cfg(feature = "run")]
#[path = "../examples/approval_flow.rs"]
#[allow(dead_code, reason = "a program's parts are called by its main alone")]
mod approval_flow;

#[cfg(feature = "run")]
#[test]
fn an_agent_waits_over_restarts_until_approval() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = || std::fs::read_to_string(folder.path().join("ledger.txt")).unwrap_or_default();
    let step = |word| tract::block_on(approval_flow::step(word, folder.path())).expect(word);
    assert_eq!(step("ask"), "waiting: 1 call(s) to decide");
    assert_eq!(step("resume"), "waiting: ", "there is no decision yet");
    assert_eq!(ledger(), "");
    assert_eq!(step("approve"), r#"approved pay({"to":"landlord","sum":900})"#);
    assert_eq!(step("resume"), "answered: The rent is paid.");
    assert_eq!(ledger(), "900 to landlord\n");
    step("resume");
    assert_eq!(ledger(), "900 to landlord\n", "once");
}

#[cfg(feature = "run")]
#[path = "../examples/custom_hook.rs"]
mod custom_hook;

#[cfg(feature = "run")]
#[test]
fn hooks_of_ones_own_refuse_shorten_and_hear() {
    let (read, moves) = tract::block_on(custom_hook::conversation()).expect("it runs");
    assert!(read[0].contains("nothing is forced here"), "{}", read[0]);
    assert!(read[1].ends_with("number_3 ... ok\n… and 397 lines more"), "{}", read[1]);
    assert!(moves.iter().filter(|name| *name == "heads/main").count() >= 4, "{moves:?}");
}

#[cfg(feature = "run")]
#[path = "../examples/custom_store.rs"]
mod custom_store;

#[cfg(feature = "run")]
#[test]
fn an_agent_lives_in_a_store_of_ones_own() {
    let folder = tempfile::tempdir().expect("a folder");
    for answer in ["That was message 1.", "That was message 2."] {
        assert_eq!(tract::block_on(custom_store::life(folder.path())).expect("it runs"), answer);
    }
}

#[cfg(all(feature = "run", feature = "mcp"))]
#[path = "../examples/mcp_agent.rs"]
#[allow(dead_code, reason = "a program's parts are called by its main alone")]
mod mcp_agent;

#[cfg(all(feature = "run", feature = "mcp"))]
const SERVES: &str = "TRACT_EXAMPLE_SERVES";

/// The server of the test below: this program, started once more. By itself it has nothing to do.
#[cfg(all(feature = "run", feature = "mcp"))]
#[test]
fn the_server_serves() {
    if std::env::var_os(SERVES).is_some() {
        // What is on the line already is not a message.
        println!();
        mcp_agent::serve().expect("it serves");
    }
}

#[cfg(all(feature = "run", feature = "mcp"))]
#[tokio::test]
async fn an_agent_has_the_tools_of_a_server() {
    let program = std::env::current_exe().expect("this program");
    let mut command = tract::mcp::ServerCommand::new(program).args([
        "the_server_serves",
        "--exact",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env.insert(SERVES.into(), "yes".into());
    let transcript = mcp_agent::conversation(command).await.expect("it runs");
    assert_eq!(transcript.len(), 4, "{transcript:?}");
    assert_eq!(transcript[0], "add_note succeeded: 1 note(s)");
    assert!(
        transcript[1].starts_with("add_note invalid: ") && transcript[1].contains("text"),
        "{}",
        transcript[1]
    );
    assert_eq!(transcript[2..], ["list_notes succeeded: buy milk", "There is one note: buy milk."]);
}
