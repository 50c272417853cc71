//! What a run was made on.

use std::fs;
use std::hash::{DefaultHasher, Hasher};

use gpulsm::Device;

use super::site::Outcome;
use crate::results::Machine;

pub fn describe(device: Device) -> Outcome<Machine> {
    let cpu = cpu().unwrap_or_else(|| std::env::consts::ARCH.into());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (name, details) = match device.is_cuda() {
        #[cfg(feature = "cuda")]
        true => super::cuda::describe(device)?,
        _ => (cpu.clone(), vec![("threads".into(), threads.to_string())]),
    };
    Ok(Machine {
        device: name,
        details,
        cpu,
        threads,
        system: system(),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("GPULSM_COMMIT").map(String::from),
        build: build(),
    })
}

/// A hash of the program itself: the same commit, changed and built again, is another program.
fn build() -> String {
    let program = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    hasher.write(&program);
    format!("{:016x}", hasher.finish())
}

/// The CPU's name, where Linux tells it.
fn cpu() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn system() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.split(['-', '\n']).next().unwrap_or_default();
    format!("{} {release}", std::env::consts::OS).trim().to_string()
}
