//! With the feature `cuda`: compiles `kernels/fill.cu` with the compiler that gpulsm found.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=kernels");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    let variable = |name| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let library = PathBuf::from(variable("OUT_DIR")).join("libfill.a");
    let status = Command::new(variable("DEP_GPULSM_KERNELS_NVCC"))
        .args(variable("DEP_GPULSM_KERNELS_FLAGS").split(';'))
        .args(["-lib", "kernels/fill.cu", "-o"])
        .arg(&library)
        .status()
        .expect("nvcc runs");
    assert!(status.success(), "nvcc compiles kernels/fill.cu");
    println!(
        "cargo::rustc-link-search=native={}",
        library.parent().expect("it lies in a folder").display()
    );
    println!("cargo::rustc-link-lib=static=fill");
}
