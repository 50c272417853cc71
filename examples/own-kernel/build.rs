//! Compiles `kernels/walk.cu` with gpulsm's headers and the compiler that gpulsm found.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    if env::var_os("DEP_GPULSM_KERNELS_NVCC").is_none() {
        return; // Without CUDA, or without its compiler, which gpulsm has said then.
    }
    let variable = |name| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let include = variable("DEP_GPULSM_KERNELS_INCLUDE");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed={include}");

    let folder = PathBuf::from(variable("OUT_DIR"));
    let status = Command::new(variable("DEP_GPULSM_KERNELS_NVCC"))
        .args(variable("DEP_GPULSM_KERNELS_FLAGS").split(';')) // the same GPUs as gpulsm, CUB's headers
        .arg("-lib")
        .arg(format!("-I{include}"))
        .args(["kernels/walk.cu", "-o"])
        .arg(folder.join("libwalk.a"))
        .status()
        .expect("nvcc runs");
    assert!(status.success(), "nvcc compiles kernels/walk.cu");

    // CUDA's own library comes with gpulsm, which links it already.
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static=walk");
}
