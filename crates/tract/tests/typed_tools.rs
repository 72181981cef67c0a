//! The example of typed tools does what it says.
#![cfg(all(feature = "engine", feature = "tools"))]
#![forbid(unsafe_code)]

#[path = "../examples/typed_tools.rs"]
mod example;

#[test]
fn a_conversation_with_typed_tools() {
    let answers = tract::block_on(example::conversation()).expect("the example runs");
    assert_eq!(answers, ["Zürich: 20 °C", "guests: expected at most 12, found 20"],);
}

#[test]
fn the_prelude_brings_what_a_tool_is_written_with() {
    use tract::prelude::*;
    fn is_tool<T: Tool>(_: &T) {}
    fn has_schema<T: JsonSchema>() {}
    has_schema::<u8>();
    let _: fn(&ToolContext) -> Result<ToolResult<u8>, ToolError> = |_| Ok(ToolResult::ok(1));
    /// Does nothing.
    #[tract::tool]
    fn idle() {}
    is_tool(&Idle);
}
