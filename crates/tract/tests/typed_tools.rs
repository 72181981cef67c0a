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
