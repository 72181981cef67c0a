//! Compile errors that teach: each file in `ui` holds one mistake, and beside it what is said.

#[test]
fn mistakes_are_told_with_the_way_out() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/typed/ui/pass_*.rs");
    cases.compile_fail("tests/typed/ui/fail_*.rs");
}
