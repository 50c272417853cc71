//! Memory that runs out: an error each time, the dictionary as it was, and the next call fine.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use gpulsm::testing::model::Model;
use gpulsm::{Batch, CleanupPolicy, Dictionary, Error, Sum};

use crate::{each_device, figures};

/// A history with carries, deletes, a self-cleanup and every kind of query.
enum Step {
    Update { keys: Vec<u32>, values: Vec<u64>, deletes: Vec<u32> },
    DeleteRange(u32, u32),
    Cleanup,
    Query,
}

fn history(scale: u32) -> History {
    let mut steps = Vec::new();
    for round in 0..9 {
        let deleted = if round % 2 == 0 { 10 * scale } else { 0 };
        steps.push(Step::Update {
            keys: (0..40 * scale).map(|i| i * 7 % (97 * scale)).collect(),
            values: (0..40 * scale).map(|i| u64::from(round + i)).collect(),
            deletes: (0..deleted).map(|i| (i * 13 + round) % (97 * scale)).collect(),
        });
        if round % 3 == 2 {
            steps.push(Step::Query);
        }
    }
    steps.push(Step::DeleteRange(10 * scale, 30 * scale));
    steps.push(Step::Cleanup);
    steps.push(Step::Query);
    History::new(steps)
}

fn take(dictionary: &mut Dictionary<u32, u64>, step: &Step) -> Result<(), Error> {
    match step {
        Step::Update { keys, values, deletes } => {
            dictionary.update(Batch::new().insert(keys, values).delete(deletes))
        }
        Step::DeleteRange(lo, hi) => dictionary.delete_range((&[*lo], &[*hi])),
        Step::Cleanup => dictionary.cleanup(),
        Step::Query => {
            let keys: Vec<u32> = (0..200).collect();
            dictionary.lookup(&keys)?;
            dictionary.count((&keys, &keys))?;
            dictionary.rank(&keys)?;
            dictionary.select(&[0, 5])?;
            dictionary.successor(&keys)?;
            dictionary.aggregate((&[0, 50], &[100, u32::MAX]), Sum)?;
            dictionary.range((&[0, 50], &[100, u32::MAX])).map(drop)
        }
    }
}

type Pairs = (Vec<u32>, Vec<u64>);

struct History {
    steps: Vec<Step>,
    /// The pairs before the first step, and after each.
    contents: Vec<Pairs>,
}

impl History {
    fn new(steps: Vec<Step>) -> History {
        let mut model = Model::default();
        let mut contents = vec![Pairs::default()];
        for step in &steps {
            match step {
                Step::Update { keys, values, deletes } => {
                    model.update(&pairs(keys, values), deletes)
                }
                Step::DeleteRange(lo, hi) => model.delete_range(*lo, *hi),
                Step::Cleanup | Step::Query => {}
            }
            contents.push(model.iter().unzip());
        }
        History { steps, contents }
    }

    /// Each step, and the pairs before it.
    fn iter(&self) -> impl Iterator<Item = (&Step, &Pairs)> {
        self.steps.iter().zip(&self.contents)
    }

    fn end(&self) -> &Pairs {
        &self.contents[self.steps.len()]
    }
}

fn pairs(keys: &[u32], values: &[u64]) -> Vec<(u32, u64)> {
    keys.iter().copied().zip(values.iter().copied()).collect()
}

fn assert_means(dictionary: &Dictionary<u32, u64>, model: &Model<u32, u64>) {
    assert_holds(dictionary, &model.iter().unzip());
}

/// What every level holds. (In how much memory may change at any time.)
fn entries(snapshot: &Dictionary<u32, u64>) -> Vec<(usize, u64, u64)> {
    let levels = snapshot.stats().unwrap().levels;
    levels.iter().map(|level| (level.level, level.entries, level.tombstones)).collect()
}

fn assert_holds(dictionary: &Dictionary<u32, u64>, pairs: &Pairs) {
    dictionary.validate().unwrap();
    assert!(dictionary.to_vecs().unwrap() == *pairs);
}

/// Goes through the history with the fault that `arm` sets at its start; whether it struck.
fn survives(
    mut dictionary: Dictionary<u32, u64>,
    history: &History,
    arm: impl FnOnce(&Dictionary<u32, u64>),
    disarm: impl Fn(&Dictionary<u32, u64>),
) -> bool {
    let mut struck = false;
    arm(&dictionary);
    for (step, pairs) in history.iter() {
        let before = dictionary.snapshot();
        IN_CALL.set(true);
        let outcome = take(&mut dictionary, step);
        IN_CALL.set(false);
        if let Err(error) = outcome {
            assert!(matches!(error, Error::OutOfMemory { wanted: 1.., .. }), "{error}");
            assert!(!struck, "the fault strikes once");
            struck = true;
            disarm(&dictionary);
            assert_eq!(entries(&dictionary), entries(&before.thaw()));
            assert_holds(&dictionary, pairs);
            take(&mut dictionary, step).expect("the next call is fine");
        }
    }
    disarm(&dictionary);
    assert_holds(&dictionary, history.end());
    struck
}

each_device! {
    fn every_allocation_of_a_history_may_fail(device) {
        for (batch_size, threads, max_merge, scale) in [
            (16, 1, usize::MAX, 2),
            (16, 1, 1, 2),
            (64, 1, usize::MAX, 2),
            (64, 3, usize::MAX, 150),
            (20_000, 3, usize::MAX, 500),
        ] {
            let history = history(scale);
            let mut struck = 0;
            let mut silent = 0;
            // Faults in a self-cleanup are no errors: some allocations fail silently.
            let step = if threads == 1 { 1 } else { 3 };
            for n in (0..).step_by(step) {
                let dictionary = Dictionary::builder()
                    .device(device)
                    .batch_size(batch_size)
                    .threads(threads)
                    .max_merge_per_batch(max_merge)
                    .build()
                    .unwrap();
                let arm = |dictionary: &Dictionary<u32, u64>| dictionary.fail_allocation_after(n);
                let disarm = |dictionary: &Dictionary<u32, u64>| dictionary.fail_allocation_after(u64::MAX);
                if survives(dictionary, &history, arm, disarm) {
                    struck += 1;
                    silent = 0;
                } else {
                    silent += 1;
                }
                if silent > 100 {
                    break; // Past the last allocation.
                }
            }
            // A GPU's steps share their buffers. Others are made again after memory was freed, and succeed.
            let least = if device.is_cuda() { 10 } else { 40 };
            assert!(struck > least, "only {struck} allocations failed");
        }
    }

    fn a_full_dictionary_still_answers_and_goes_on_after_deletes(device) {
        let mut d = Dictionary::<u32, u64>::builder()
            .device(device)
            .batch_size(4096)
            .memory_limit(3_000_000)
            .build()
            .unwrap();
        let mut model = Model::default();
        let mut refused = None;
        for round in 0..200u32 {
            let keys: Vec<u32> = (round * 4096..).take(4096).collect();
            let values = vec![u64::from(round); 4096];
            match d.insert(&keys, &values) {
                Ok(()) => model.update(&pairs(&keys, &values), &[]),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        let Some(Error::OutOfMemory { wanted, free: Some(free), .. }) = refused else {
            panic!("the limit was not kept: {refused:?}");
        };
        assert!(wanted > free);
        assert!(d.stats().unwrap().bytes_shared <= 3_000_000);
        assert!(d.len().unwrap() > 40_000, "{d}");
        assert_means(&d, &model);
        // Deletes go on where their carry is short; one whose carry is too long is refused whole.
        let keys: Vec<u32> = model.iter().map(|(key, _)| key).collect();
        let mut taken = 0;
        for some in keys.chunks(500) {
            if d.delete(some).is_err() {
                break;
            }
            model.update(&[], some);
            taken += 1;
        }
        assert!(taken > 0);
        assert_means(&d, &model);
        d.clear().unwrap();
        d.insert(&keys[..1000], &vec![3; 1000]).unwrap();
        assert_eq!(d.len(), Ok(1000));
    }

    fn a_cleanup_needs_room_for_what_it_leaves_only(device) {
        let keys: Vec<u32> = (0..60_000).collect();
        // The least limit under which there is memory for all tombstones.
        for limit in (2_600_000..).step_by(100_000) {
            let mut d = Dictionary::<u32, u64>::builder()
                .device(device)
                .batch_size(4096)
                .cleanup_policy(CleanupPolicy::Manual)
                .memory_limit(limit)
                .build()
                .unwrap();
            d.insert(&keys, &vec![1; 60_000]).unwrap();
            for some in keys[..48_000].chunks(8_000) {
                d.delete(some).unwrap();
            }
            let is_whole = d.stats().unwrap().entries == 108_000;
            // Inputs alone take half of the limit; an output as long as they are would not fit.
            assert!(!is_whole || d.stats().unwrap().bytes_shared > limit * 2 / 5, "{d}");
            d.cleanup().unwrap();
            d.validate().unwrap();
            assert_eq!(d.stats().unwrap().entries, 12_000);
            if is_whole {
                break;
            }
        }
    }

    fn a_self_cleanup_without_memory_does_not_fail_the_insert(device) {
        // With the limit lowered to nothing by a fault at every allocation in turn, an insert either
        // fails whole or succeeds; some of the faults fall into the cleanup, and it succeeds.
        let mut silent = 0;
        for n in 0..60 {
            let mut d = Dictionary::<u32, u64>::builder().device(device).batch_size(8).build().unwrap();
            let keys: Vec<u32> = (0..40).collect();
            d.insert(&keys, &[1; 40]).unwrap();
            d.insert(&keys, &[2; 40]).unwrap();
            let before = figures(&d);
            d.fail_allocation_after(n);
            let outcome = d.insert(&keys[..20], &[3; 20]);
            d.fail_allocation_after(u64::MAX);
            d.validate().unwrap();
            let value = match outcome {
                Err(error) => {
                    assert!(matches!(error, Error::OutOfMemory { .. }));
                    assert_eq!(figures(&d), before);
                    2
                }
                Ok(()) => {
                    silent += u32::from(d.stats().unwrap().stale > 0);
                    3
                }
            };
            assert_eq!(d.lookup(&[0, 19]), Ok(vec![Some(value); 2]));
        }
        assert!(silent > 0, "no fault fell into a cleanup");
    }

    fn dropped_runs_give_their_memory_back(device) {
        let mut d = Dictionary::<u32, u64>::builder()
            .device(device)
            .batch_size(100)
            .cleanup_policy(CleanupPolicy::Manual)
            .build()
            .unwrap();
        for round in 0..37 {
            let keys: Vec<u32> = (0..100).map(|i| i * 37 + round).collect();
            d.insert(&keys, &[1; 100]).unwrap();
        }
        let stats = d.stats().unwrap();
        assert_eq!(stats.bytes_shared, stats.bytes.total(), "nothing but the runs is held");
        let snapshot = d.snapshot();
        d.cleanup().unwrap();
        assert!(d.stats().unwrap().bytes_shared > d.stats().unwrap().bytes.total());
        drop(snapshot);
        assert_eq!(d.stats().unwrap().bytes_shared, d.stats().unwrap().bytes.total());
        d.clear().unwrap();
        assert_eq!(d.stats().unwrap().bytes_shared, 0);
    }
}

/// More and more pairs, and some deletes.
#[cfg(target_os = "linux")]
fn growing_history() -> History {
    let mut steps = Vec::new();
    for round in 0..24 {
        let deleted = if round % 3 == 2 { 1000 } else { 0 };
        steps.push(Step::Update {
            keys: (0..4000).map(|i| (round * 4000 + i) * 7919 % 400_000).collect(),
            values: (0..4000).collect(),
            deletes: (0..deleted).map(|i| (i * 31 + round) * 7919 % 400_000).collect(),
        });
        if round % 4 == 3 {
            steps.push(Step::Query);
        }
    }
    steps.push(Step::Cleanup);
    History::new(steps)
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "started by another test"]
fn child_whose_allocations_fail_during_merges_in_place() {
    if std::env::var_os("GPULSM_IN_PLACE").is_some() {
        allocations_fail_during_merges_in_place(gpulsm::Device::cpu(), 3);
    }
}

/// Runs are mapped in small blocks, each of which takes a step that may fail.
#[cfg(feature = "cuda")]
#[test]
#[ignore = "started by another test"]
fn child_whose_mappings_fail_during_merges_in_place() {
    if std::env::var_os("GPULSM_MAPPED_FROM").is_some() {
        allocations_fail_during_merges_in_place(gpulsm::Device::cuda(0).unwrap(), 1);
    }
}

/// Goes through a history with every `step`th allocation failing in turn. Without a snapshot, which would forbid merges in
/// place.
#[cfg(target_os = "linux")]
fn allocations_fail_during_merges_in_place(device: gpulsm::Device, step: usize) {
    let history = growing_history();
    let (mut struck, mut silent, mut in_place) = (0, 0, 0);
    for n in (0..).step_by(step) {
        let mut dictionary =
            Dictionary::builder().device(device).batch_size(2000).threads(2).build().unwrap();
        dictionary.fail_allocation_after(n);
        let mut hit = false;
        for (step, pairs) in history.iter() {
            if let Err(error) = take(&mut dictionary, step) {
                assert!(matches!(error, Error::OutOfMemory { wanted: 1.., .. }), "{error}");
                assert!(!hit, "the fault strikes once");
                hit = true;
                dictionary.fail_allocation_after(u64::MAX);
                assert_holds(&dictionary, pairs);
                take(&mut dictionary, step).expect("the next call is fine");
            }
        }
        dictionary.fail_allocation_after(u64::MAX);
        assert_holds(&dictionary, history.end());
        in_place += dictionary.merges_in_place();
        struck += usize::from(hit);
        silent = if hit { 0 } else { silent + 1 };
        if silent * step > 210 {
            break; // Past the last allocation.
        }
    }
    println!("{struck} allocations failed, {in_place} merges were done in place");
    // Another attempt, or another way, mostly makes up for the fault.
    assert!(in_place > 500, "only {in_place} merges in place; {struck} allocations failed");
}

/// The system's allocator, but for the allocation of a thread that a test wants to fail.
struct Failing;

thread_local! {
    /// How many large allocations of this thread still succeed.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    /// Whether the thread is in a call under test, rather than in the test's own code.
    static IN_CALL: Cell<bool> = const { Cell::new(false) };
    /// The largest allocation of this thread since the number was set.
    pub static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// Smaller allocations are the bookkeeping that Rust programs do not survive the failure of.
const LARGE: usize = 2048;

impl Failing {
    fn fails(size: usize) -> bool {
        // Most allocations are small. They are looked at by no test, and must take no time.
        if size < LARGE {
            return false;
        }
        LARGEST.set(LARGEST.get().max(size));
        let left = LEFT.get();
        if left == u64::MAX || !IN_CALL.get() {
            return false;
        }
        LEFT.set(if left == 0 { u64::MAX } else { left - 1 });
        left == 0
    }
}

// SAFETY: every call is passed on to the system's allocator, or answered with null, which is how an
// allocator says that it failed.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Self::fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Self::fails(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer came from the system's allocator.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.set(LARGEST.get().max(size));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// The same as with injected faults, but it is the allocator itself that has nothing left.
#[test]
fn the_system_may_have_no_memory_at_any_large_allocation() {
    let history = history(40);
    let mut struck = 0;
    let mut silent = 0;
    for n in 0.. {
        let dictionary = Dictionary::builder()
            .device(gpulsm::Device::cpu())
            .batch_size(512)
            .threads(1)
            .build()
            .unwrap();
        let hit = survives(dictionary, &history, |_| LEFT.set(n), |_| LEFT.set(u64::MAX));
        LEFT.set(u64::MAX);
        struck += usize::from(hit);
        silent = if hit { 0 } else { silent + 1 };
        if silent > 60 {
            break;
        }
    }
    assert!(struck > 50, "only {struck} allocations failed");
}

/// Memory that could not be had was counted among the most that ever was in use.
#[test]
fn what_could_not_be_allocated_is_no_peak() {
    let builder = Dictionary::<u32, u64>::builder().device(gpulsm::Device::cpu()).threads(1);
    let mut d = builder.bulk_build(&[1, 2], &[1, 2]).unwrap();
    let before = d.stats().unwrap().bytes_peak;
    // In ascending order they would not be sorted.
    let keys: Vec<u32> = (0..100_000).rev().collect();
    let values = vec![7; 100_000];
    IN_CALL.set(true);
    LEFT.set(0);
    let refused = d.insert(&keys, &values);
    LEFT.set(u64::MAX);
    IN_CALL.set(false);
    assert!(matches!(refused, Err(Error::OutOfMemory { wanted: 1_000_000.., .. })), "{refused:?}");
    assert_eq!(d.stats().unwrap().bytes_peak, before);
}
