//! With the feature `cuda`: compiles `kernels/baselines.cu` as gpulsm's own kernels are.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_CUDA").is_some() {
        compile();
    }
}

fn compile() {
    println!("cargo::rerun-if-changed=kernels");
    // Without it gpulsm says what is missing, and can't be linked either.
    let Ok(nvcc) = env::var("DEP_GPULSM_KERNELS_NVCC") else { return };
    let variable = |name| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let folder = PathBuf::from(variable("OUT_DIR"));
    let status = Command::new(nvcc)
        .args(variable("DEP_GPULSM_KERNELS_FLAGS").split(';'))
        .args(["-lib", "kernels/baselines.cu", "-o"])
        .arg(folder.join("libbaselines.a"))
        .status()
        .expect("nvcc runs");
    assert!(status.success(), "nvcc compiles kernels/baselines.cu");
    // CUDA's own library comes with gpulsm, which links it already.
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static=baselines");
}
