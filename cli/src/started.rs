//! How the program was started, so that the commands it suggests exist on this machine.

use std::env;

/// Returns what to type to run this program again: before its arguments.
pub fn how_started() -> String {
    let by_cargo = env::var_os("CARGO").is_some() && env::var_os("CARGO_MANIFEST_DIR").is_some();
    let name = env::args().next().unwrap_or_default();
    described(&name, by_cargo)
}

fn described(name: &str, by_cargo: bool) -> String {
    if by_cargo {
        let profile = if cfg!(debug_assertions) { "" } else { " --release" };
        let features = if cfg!(feature = "cuda") { " --features cuda" } else { "" };
        return format!("cargo run{profile}{features} --");
    }
    match name {
        "" => "gpulsm".into(),
        name if name.contains(char::is_whitespace) => format!("'{name}'"),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_as_it_was_started() {
        assert_eq!(described("gpulsm", false), "gpulsm");
        assert_eq!(described("target/release/gpulsm", false), "target/release/gpulsm");
        assert_eq!(described("/my programs/gpulsm", false), "'/my programs/gpulsm'");
        assert_eq!(described("", false), "gpulsm");
        assert!(described("target/debug/gpulsm", true).starts_with("cargo run"));
    }
}
