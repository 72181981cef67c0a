//! Compile errors that teach: each file in `ui` holds mistakes of one kind, and next to it is what
//! is said about them.
#![forbid(unsafe_code)]

#[test]
fn mistakes_are_reported_with_the_way_out() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass_*.rs");
    cases.compile_fail("tests/ui/fail_*.rs");
}
