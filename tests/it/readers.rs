//! Golden files with changes of all kinds are read, as a fuzzer does: there is a dictionary in them, or an error says
//! why not. Nothing panics, and nobody allocates more than the bytes justify.
//!
//! `GPULSM_MUTATIONS` sets how many changes are tried of each file and folder.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::{env, fs};

use gpulsm::files::simulated::Random;
use gpulsm::testing::readers::{Files, folder_input, read_folder, read_saved_file, saved_input};

use crate::faults::LARGEST;
use crate::of_checkout;

/// What is allocated at once however short the files are: buffers of the engine, a chunk of a log.
const SMALL: usize = 2 << 20;

/// Reads an input, and returns whether there was a dictionary in it.
type Reader = fn(&[u8]) -> bool;

/// Reads an input; returns whether there was a dictionary in it. A failure names the input's file.
fn read(reader: Reader, input: &[u8], what: &str) -> bool {
    LARGEST.set(0);
    let outcome = catch_unwind(AssertUnwindSafe(|| reader(input)));
    let largest = LARGEST.get();
    let problem = match outcome {
        Ok(is_dictionary) if largest <= SMALL + 4 * input.len() => return is_dictionary,
        Ok(_) => format!("{largest} bytes were allocated at once for {} of input", input.len()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            text.unwrap_or("it panicked").to_string()
        }
    };
    let path = env::temp_dir().join(format!("gpulsm-failed-{}", what.replace(", seed ", "-")));
    fs::write(&path, input).unwrap();
    panic!("{what}: {problem}; the input is in {}", path.display());
}

/// Numbers that widths, lengths, counts and offsets break at.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    4,
    8,
    15,
    16,
    4096,
    u32::MAX as u64,
    1 << 40,
    (1 << 62) - 1,
    1 << 62,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];

/// Returns an offset: anywhere, in what begins a file, or in the fields that begin a page.
fn offset(len: usize, random: &mut Random) -> usize {
    let at = match random.below(4) {
        0 => random.below(len.max(1)),
        1 => random.below(260),
        _ => 4096 * random.below(len / 4096 + 1) + 4 * random.below(24),
    };
    at.min(len)
}

/// Changes bytes somewhere.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(3) {
        let at = offset(bytes.len(), random);
        let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
        match random.below(16) {
            0 => bytes.truncate(at),
            1 => bytes.extend(vec![random.next() as u8; random.below(5000)]),
            2 => {
                let rest = bytes.split_off(at);
                bytes.extend(&rest[random.below(rest.len() + 1)..]);
            }
            3..=10 => {
                let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            _ => {
                let flipped = 1 << random.below(8);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= flipped);
            }
        }
    }
}

fn mutations() -> u64 {
    let number = env::var("GPULSM_MUTATIONS");
    number.map_or(2000, |number| number.parse().expect("GPULSM_MUTATIONS is a number"))
}

fn golden() -> PathBuf {
    of_checkout("tests/it/golden/0.1")
}

/// Returns the files in a folder, by their paths in it.
fn files_of(folder: &Path) -> Files {
    let mut files = Files::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = PathBuf::from(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            let inside = files_of(&entry.path()).into_iter();
            files.extend(inside.map(|(path, contents)| (name.join(path), contents)));
        } else {
            files.insert(name, fs::read(entry.path()).unwrap());
        }
    }
    files
}

/// Checks that of all changed inputs enough were dictionaries, and enough were not.
fn check_that_both_occur(name: &str, dictionaries: u64) {
    let rest = mutations() - dictionaries;
    assert!(dictionaries > mutations() / 50, "{name}: only {dictionaries} are behind checksums");
    assert!(rest > mutations() / 50, "{name}: only {rest} were refused");
}

#[test]
fn changed_saved_files_are_read_or_refused() {
    for name in ["u32-u32", "pair-f64", "bytes12-set", "u64-i64-add"] {
        let golden = fs::read(golden().join(name).with_extension("gpulsm")).unwrap();
        assert!(read(read_saved_file, &saved_input(&golden, false), name));
        assert!(
            read(read_saved_file, &saved_input(&golden, true), name),
            "checksums change nothing"
        );
        let mut dictionaries = 0;
        for seed in 0..mutations() {
            let (mut random, mut bytes) = (Random(seed), golden.clone());
            mutate(&mut bytes, &mut random);
            let input = saved_input(&bytes, seed % 4 != 0);
            dictionaries +=
                u64::from(read(read_saved_file, &input, &format!("{name}, seed {seed}")));
        }
        check_that_both_occur(name, dictionaries);
    }
}

#[test]
fn changed_folders_are_opened_or_refused() {
    for name in ["logged", "torn"] {
        let golden = files_of(&golden().join(name));
        assert!(read(read_folder, &folder_input(&golden, false), name));
        assert!(read(read_folder, &folder_input(&golden, true), name), "checksums change nothing");
        let mut dictionaries = 0;
        for seed in 0..mutations() {
            let (mut random, mut files) = (Random(seed), golden.clone());
            for _ in 0..1 + random.below(2) {
                let index = random.below(files.len());
                let path = files.keys().nth(index).unwrap().clone();
                match random.below(20) {
                    0 => drop(files.remove(&path)),
                    _ => mutate(files.get_mut(&path).unwrap(), &mut random),
                }
            }
            let input = folder_input(&files, seed % 4 != 0);
            dictionaries += u64::from(read(read_folder, &input, &format!("{name}, seed {seed}")));
        }
        check_that_both_occur(name, dictionaries);
    }
}

/// What the fuzzer keeps, and what it begins with.
#[test]
fn kept_inputs_are_read() {
    let targets: [(_, Reader); 2] = [("saved_file", read_saved_file), ("folder", read_folder)];
    for (target, reader) in targets {
        let corpus = of_checkout("fuzz/corpus").join(target);
        let inputs = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path());
        let outcomes = inputs.map(|path| read(reader, &fs::read(&path).unwrap(), target));
        assert!(outcomes.filter(|&is_dictionary| is_dictionary).count() > 0, "{target}");
    }
}
