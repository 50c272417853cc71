//! With the feature `cuda`: compiles `kernels/` with nvcc into a static library and links it.
//!
//! - `NVCC` selects the compiler. Default: the one in `CUDA_HOME`, `CUDA_PATH`, the `PATH`, or
//!   `/usr/local/cuda`, or the one that `scripts/fetch-nvcc` installed.
//! - `GPULSM_CUDA_ARCH` (`90`, or `80,90`) selects the GPUs to compile for. Default: all of
//!   `ARCHITECTURES` that the compiler supports, with PTX for later ones.
//! - `GPULSM_CUDA_STRICT=1` turns warnings and register spills into errors.
//!
//! Without nvcc, `cargo check` and `cargo doc` work, and whatever would link the kernels fails; so it is with
//! `DOCS_RS` set to any value, without looking for nvcc.
//!
//! Passes to the build scripts of dependent crates: `DEP_GPULSM_KERNELS_INCLUDE`, the folder of headers
//! for querying a dictionary from other kernels; `DEP_GPULSM_KERNELS_NVCC`, the compiler; and
//! `DEP_GPULSM_KERNELS_FLAGS`, its flags, separated by semicolons.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The default of `GPULSM_CUDA_ARCH`, as compute capabilities.
const ARCHITECTURES: [&str; 6] = ["80", "86", "89", "90", "100", "120"];

/// The oldest compute capability with all features that the kernels use.
const OLDEST: u32 = 80;

/// The source files of `kernels/`, the slowest to compile first.
const KERNELS: [&str; 23] = [
    "update/sort",
    "query/range",
    "query/aggregate",
    "merge/merge",
    "query/select",
    "update/sort_tiles",
    "query/nearest",
    "query/lookup",
    "query/count",
    "update/fold",
    "update/splitter_sort",
    "query/combine",
    "query/asof",
    "update/dedup",
    "update/shadows",
    "query/buckets",
    "shards/partition",
    "run/columns",
    "run/marks",
    "run/keys",
    "run/filter",
    "update/buffer",
    "abi",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    for path in ["kernels", "include", "third-party/cuda/packages"] {
        println!("cargo::rerun-if-changed={path}");
    }
    for name in ["NVCC", "CUDA_HOME", "CUDA_PATH", "PATH", "GPULSM_CUDA_ARCH", "GPULSM_CUDA_STRICT"]
    {
        println!("cargo::rerun-if-env-changed={name}");
    }
    let is_linked = env::var_os("DOCS_RS").is_none();
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where"));
    match is_linked.then(|| find_nvcc(&root)).flatten() {
        Some(nvcc) => build_kernels(&root, &nvcc),
        None => leave_out_kernels(is_linked),
    }
}

/// Makes whatever needs the kernels fail to link. Documentation and `cargo check` need none.
fn leave_out_kernels(is_missed: bool) {
    if is_missed {
        println!(
            "cargo::warning=the feature `cuda` needs NVIDIA's compiler, nvcc, which was not found: without it \
             `cargo check` and `cargo doc` work, but nothing can be built. Run scripts/fetch-nvcc, which \
             installs it from PyPI (no GPU needed), or install a CUDA toolkit, or set NVCC to the compiler; or \
             build without the feature"
        );
    }
    println!("cargo::rustc-link-lib=static=gpulsm_kernels_which_need_nvcc");
}

fn build_kernels(root: &Path, nvcc: &Path) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    let toolkit = nvcc.parent().and_then(Path::parent).expect("nvcc lies in a toolkit's bin");
    // The flags that dependent crates use as well. Wheels from PyPI have CUB in a folder of its own,
    // toolkits among the other headers.
    let mut flags =
        ["-std=c++17", "-O3", "-lineinfo", "-Xcompiler=-fPIC"].map(String::from).to_vec();
    flags.extend(architectures(nvcc));
    flags.push(format!("-I{}", toolkit.join("include/cccl").display()));
    let objects = compile(nvcc, &flags, root, &out);

    let library = out.join("libgpulsm_kernels.a");
    // `ar` would keep the objects of deleted sources in an existing library.
    std::fs::remove_file(&library).ok();
    run(Command::new("ar").arg("crs").arg(&library).args(&objects));

    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=gpulsm_kernels");
    for folder in ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"] {
        if toolkit.join(folder).join("libcudart_static.a").exists() {
            println!("cargo::rustc-link-search=native={}", toolkit.join(folder).display());
        }
    }
    println!("cargo::rustc-link-lib=static=cudart_static");
    for library in ["stdc++", "rt", "dl", "pthread"] {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
    println!("cargo::metadata=include={}", root.join("include").display());
    println!("cargo::metadata=nvcc={}", nvcc.display());
    println!("cargo::metadata=flags={}", flags.join(";"));
}

/// Returns the compiler, if there is one; fails if a variable names one that is not there.
fn find_nvcc(root: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = |name: &Path| env::split_paths(&path).map(|folder| folder.join(name)).collect();
    // If a variable is set, nothing else is tried.
    let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut candidates: Vec<PathBuf> = if let Some(nvcc) = variable("NVCC") {
        let mut named = vec![nvcc.clone()];
        named.extend::<Vec<_>>(on_path(&nvcc));
        require("NVCC", &nvcc, named)
    } else if let Some(home) = variable("CUDA_HOME").or_else(|| variable("CUDA_PATH")) {
        require("CUDA_HOME or CUDA_PATH", &home, vec![home.join("bin/nvcc")])
    } else {
        on_path(Path::new("nvcc"))
    };
    candidates.push("/usr/local/cuda/bin/nvcc".into());
    candidates.push(root.join("third-party/cuda/bin/nvcc"));
    // Resolve links: a toolkit's headers and libraries are next to the real file.
    candidates.iter().find(|nvcc| nvcc.is_file()).and_then(|nvcc| nvcc.canonicalize().ok())
}

/// Returns the candidates that exist; fails if none does, since a variable names them.
fn require(variable: &str, value: &Path, mut candidates: Vec<PathBuf>) -> Vec<PathBuf> {
    candidates.retain(|nvcc| nvcc.is_file());
    if candidates.is_empty() {
        fail(&format!("{variable} is set to {}, where there is no nvcc", value.display()));
    }
    candidates
}

/// Compiles all kernels, as many files at a time as cargo allows.
fn compile(nvcc: &Path, flags: &[String], root: &Path, out: &Path) -> Vec<PathBuf> {
    let strict = env::var("GPULSM_CUDA_STRICT").is_ok_and(|value| value == "1");
    let mut flags = flags.to_vec();
    flags.push("--threads=0".into());
    flags.extend(["kernels", "include"].map(|folder| format!("-I{}", root.join(folder).display())));
    if strict {
        flags.extend(
            ["-Werror=all-warnings", "-Xcompiler=-Wall,-Wextra,-Werror", "-Xptxas=-v"]
                .map(String::from),
        );
    }
    let object = |name: &str| out.join(format!("{}.o", name.replace('/', "-")));
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(name) = KERNELS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let source = root.join(format!("kernels/{name}.cu"));
            let mut command = Command::new(nvcc);
            command.args(&flags).arg("-c").arg(source).arg("-o").arg(object(name));
            let output = run(&mut command);
            if strict {
                check_spills(&String::from_utf8_lossy(&output.stderr));
            }
        }
    };
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    KERNELS.iter().map(|name| object(name)).collect()
}

/// Returns the flags for machine code for each architecture, and PTX for later GPUs.
fn architectures(nvcc: &Path) -> Vec<String> {
    let known = String::from_utf8_lossy(&run(Command::new(nvcc).arg("--list-gpu-code")).stdout)
        .into_owned();
    let is_known = |arch: &str| known.lines().any(|line| line.trim() == format!("sm_{arch}"));
    let list = env::var("GPULSM_CUDA_ARCH").unwrap_or_default();
    let named = list.split(',').map(|arch| arch.trim().trim_start_matches("sm_").to_string());
    let mut wanted: Vec<String> = named.filter(|arch| !arch.is_empty()).collect();
    if wanted.is_empty() {
        let known = ARCHITECTURES.iter().filter(|arch| is_known(arch));
        wanted.extend(known.map(|arch| arch.to_string()));
    }
    // Oldest first, as numbers; "90a" is 90.
    let number =
        |arch: &str| arch.trim_end_matches(char::is_alphabetic).parse::<u32>().unwrap_or(0);
    wanted.sort_by_key(|arch| number(arch));
    if let Some(bad) = wanted.iter().find(|arch| !is_known(arch) || number(arch) < OLDEST) {
        let usable = known
            .split_whitespace()
            .filter(|code| number(code.trim_start_matches("sm_")) >= OLDEST);
        fail(&format!(
            "GPULSM_CUDA_ARCH contains {bad:?}; gpulsm supports {OLDEST} and newer, of which {} supports {}",
            nvcc.display(),
            usable.collect::<Vec<_>>().join(", ")
        ));
    }
    let newest = wanted.last().unwrap_or_else(|| {
        fail("this nvcc supports none of the GPUs that gpulsm supports: install a newer one")
    });
    let ptx = format!("-gencode=arch=compute_{newest},code=compute_{newest}");
    let machine = |arch: &String| format!("-gencode=arch=compute_{arch},code=sm_{arch}");
    wanted.iter().map(machine).chain([ptx]).collect()
}

/// Fails if the assembler reports that one of our kernels spills registers.
fn check_spills(report: &str) {
    let mut kernel = "";
    for line in report.lines() {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            kernel = name;
        }
        if kernel.contains("6gpulsm")
            && line.contains("bytes spill stores")
            && !line.contains(" 0 bytes spill stores")
        {
            fail(&format!("{kernel} spills registers: {}", line.trim()));
        }
    }
}

/// Runs a command; if it fails, stops the build with its output.
fn run(command: &mut Command) -> Output {
    let output =
        command.output().unwrap_or_else(|error| fail(&format!("cannot run {command:?}: {error}")));
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        fail(&format!("{command:?} failed:\n{}", String::from_utf8_lossy(&text)));
    }
    output
}

/// Stops the build with an error.
fn fail(message: &str) -> ! {
    eprintln!("error: {message}");
    println!("cargo::error={}", message.replace('\n', " | "));
    std::process::exit(1);
}
