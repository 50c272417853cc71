//! gpulsm beside other people's sorts and maps, on this machine, every answer checked.
//!
//!     cargo run --release --manifest-path rivals/Cargo.toml -- sorts
//!     cargo run --release --manifest-path rivals/Cargo.toml -- searches
//!     cargo run --release --manifest-path rivals/Cargo.toml -- maps               (of 2^24 pairs; `maps 22`: of 2^22)
//!     cargo run --release --manifest-path rivals/Cargo.toml --features rocksdb -- files   (RocksDB takes minutes to compile)
//!     cargo run --release --manifest-path rivals/Cargo.toml --features cuda -- gpu          (2^31 pairs: needs 100 GB)

mod files;
#[cfg(feature = "cuda")]
mod gpu;
mod maps;
mod searches;
mod sorts;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("sorts") => sorts::run(),
        Some("searches") => searches::run(),
        Some("maps") => {
            let log_pairs = std::env::args().nth(2).map_or(Ok(24), |text| text.parse());
            maps::run(log_pairs.expect("the binary logarithm of the number of pairs"));
        }
        Some("files") => files::run(),
        #[cfg(feature = "cuda")]
        Some("gpu") => gpu::run(),
        _ => {
            eprintln!(
                "say what to compare: sorts, searches, maps, files or (built with the feature cuda) gpu"
            );
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
