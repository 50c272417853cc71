//! The machine that a run was made on.

use std::fs;
use std::hash::{DefaultHasher, Hasher};

use gpulsm::Device;
use gpulsm_backends::backend::Outcome;

use crate::results::Machine;

/// Returns a device's name and its other properties.
pub fn name(device: Device) -> Outcome<(String, Vec<(String, String)>)> {
    match device.is_cuda() {
        #[cfg(feature = "cuda")]
        true => gpulsm_backends::backend::describe_gpu(device),
        _ => Ok((cpu(), vec![("threads".into(), threads().to_string())])),
    }
}

pub fn describe(device: Device) -> Outcome<Machine> {
    let (name, details) = name(device)?;
    Ok(Machine {
        device: name,
        details,
        cpu: cpu(),
        threads: threads(),
        system: system(),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: option_env!("GPULSM_COMMIT").map(String::from),
        build: build(),
    })
}

/// Returns a hash of the program itself: the same commit, changed and built again, is another program.
fn build() -> String {
    let program = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    hasher.write(&program);
    format!("{:016x}", hasher.finish())
}

/// Returns the CPU's name where Linux knows it, else its architecture.
fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_string()
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn system() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.split(['-', '\n']).next().unwrap_or_default();
    format!("{} {release}", std::env::consts::OS).trim().to_string()
}
