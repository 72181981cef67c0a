//! Whole walks through tract, on recorded data: one binary.
#![forbid(unsafe_code)]

// Who may depend on whom, and what each feature brings in.
mod architecture;

// Where the recordings are.
mod data;

// Random histories keep the laws, in every store.
mod laws;

// What was recorded comes back as it was.
mod roundtrip;

// What providers refuse, apart from the compiler.
mod rules;

// What one provider recorded, the others accept.
mod translation;

// Stores, imports and bodies, for all of them.
mod walks;
