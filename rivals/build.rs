//! With the feature `cuda`: compiles `kernels/baselines.cu` with the compiler that gpulsm found.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    println!("cargo::rerun-if-env-changed=GPULSM_CUDA_ARCH");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    let nvcc =
        PathBuf::from(env::var_os("DEP_GPULSM_KERNELS_NVCC").expect("gpulsm says which nvcc"));
    let cccl = nvcc.ancestors().nth(2).expect("nvcc lies in a toolkit's bin").join("include/cccl");
    let library =
        PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where")).join("libbaselines.a");
    // One of the architectures that gpulsm is built for, or all there are.
    let arch = env::var("GPULSM_CUDA_ARCH").map_or("all-major".into(), |list| {
        let first = list.split(',').next().unwrap_or_default();
        format!("sm_{}", first.trim().trim_start_matches("sm_"))
    });
    let status = Command::new(nvcc)
        .args(["-std=c++17", "-O3", "-lib", "-Xcompiler=-fPIC"])
        .arg(format!("-arch={arch}"))
        .arg(format!("-I{}", cccl.display()))
        .args(["kernels/baselines.cu", "-o"])
        .arg(&library)
        .status()
        .expect("nvcc runs");
    assert!(status.success(), "nvcc compiles kernels/baselines.cu");
    println!(
        "cargo::rustc-link-search=native={}",
        library.parent().expect("it lies in a folder").display()
    );
    println!("cargo::rustc-link-lib=static=baselines");
}
