//! gpulsm beside other people's sorts and maps, on this machine, every answer checked.
//!
//!     cargo run --release --manifest-path rivals/Cargo.toml -- sorts
//!     cargo run --release --manifest-path rivals/Cargo.toml -- searches
//!     cargo run --release --manifest-path rivals/Cargo.toml -- maps

mod maps;
mod searches;
mod sorts;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("sorts") => sorts::run(),
        Some("searches") => searches::run(),
        Some("maps") => maps::run(),
        _ => {
            eprintln!("say what to compare: sorts, searches or maps");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
