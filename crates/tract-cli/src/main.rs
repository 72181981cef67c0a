//! The `tract` binary.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tract_cli::main()
}
