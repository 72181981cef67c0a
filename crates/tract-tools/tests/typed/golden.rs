//! Derived schemas are stable byte for byte: a change of these files is a change of every hash.

use tract_core::ToolParams;
use tract_tools::Args;

use crate::types;

#[track_caller]
fn check<P: ToolParams>(name: &str) {
    let path = format!("{}/tests/typed/golden/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let found = format!("{}\n", P::schema());
    if std::env::var_os("TRACT_BLESS").is_some() {
        std::fs::write(&path, &found).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{name}: TRACT_BLESS=1 writes it again");
    assert_eq!(P::schema(), P::schema());
}

#[test]
fn schemas_are_stable_byte_for_byte() {
    check::<Args<types::Numbers>>("numbers");
    check::<Args<types::Nested>>("nested");
    check::<Args<types::Enums>>("enums");
    check::<Args<types::Tuples>>("tuples");
    check::<Args<types::Tree>>("tree");
    check::<Args<types::Forest>>("forest");
    check::<Args<types::Flat>>("flat");
    check::<Args<types::RestFields>>("rest");
    check::<Args<types::Closed>>("closed");
}
