//! Compiles `kernels/walk.cu` with gpulsm's headers and the compiler that gpulsm found.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let variable = |name| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let include = variable("DEP_GPULSM_KERNELS_INCLUDE");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-changed={include}");
    println!("cargo::rerun-if-env-changed=GPULSM_CUDA_ARCH");

    let folder = PathBuf::from(variable("OUT_DIR"));
    let status = Command::new(variable("DEP_GPULSM_KERNELS_NVCC"))
        .args(["-std=c++17", "-O3", "-lib", "-Xcompiler=-fPIC"])
        .arg(format!("-arch={}", architecture()))
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

/// What gpulsm is built for; of a list the first, whose PTX serves the newer ones too.
fn architecture() -> String {
    let Ok(list) = env::var("GPULSM_CUDA_ARCH") else {
        return "all-major".into();
    };
    let first = list.split(',').next().unwrap_or_default().trim();
    format!("sm_{}", first.trim_start_matches("sm_"))
}
