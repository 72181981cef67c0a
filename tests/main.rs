//! Whole walks through tract, on recorded data: one binary.
#![forbid(unsafe_code)]

// Who may depend on whom, and what each feature brings in.
mod architecture;

// Where the recordings are.
mod data;

// What providers refuse, apart from the compiler.
mod rules;
