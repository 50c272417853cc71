//! Failures that random lists, and attacks, once found, shrunk and kept.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use gpulsm::{CleanupPolicy, Device, Dictionary, Error};
use rayon::prelude::*;

use crate::each_device;

/// Runs a test that may wait for ever on a thread of its own, and fails if it takes longer than a minute.
fn within_a_minute(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).ok();
    });
    match is_done.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it waits for ever"),
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Runs a test on a thread with so small a stack.
fn with_stack(bytes: usize, test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(bytes).spawn(test).unwrap();
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Makes the calling thread flush denormal floats to zero, in what it reads and in what it computes, as a
/// library that was compiled with `-ffast-math` does.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
fn flush_denormals() {
    let mut control = 0u32;
    // SAFETY: two bits of the thread's own control register; the thread does nothing else afterwards.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &mut control);
        control |= 1 << 15 | 1 << 6;
        std::arch::asm!("ldmxcsr [{}]", in(reg) &control);
    }
}

each_device! {
    /// The integer below that of 0.0 is where −0.0 would be, and was turned back into 0.0: an excluded
    /// end came back in.
    fn half_open_ranges_of_floats_exclude_zero(device) {
        let mut d = Dictionary::<f64, u32>::builder().device(device).build().unwrap();
        d.insert(&[-1.0, 0.0, 1.0, f64::NAN], &[1, 2, 3, 4]).unwrap();
        assert_eq!(d.range_one(..0.0), Ok(vec![(-1.0, 1)]));
        assert_eq!(d.count_one(-1.0..0.0), Ok(1));
        assert_eq!(d.count_one(..f64::NAN), Ok(3));
    }

    /// `select` took the pivot of one run as passed there but not in the others, counted the key
    /// twice, and answered with the value of an older run.
    fn select_of_a_key_in_two_runs_answers_with_the_newer_value(device) {
        let mut d = Dictionary::<i32, u32>::builder().device(device).batch_size(1).build().unwrap();
        d.insert(&[i32::MIN, i32::MIN + 9], &[0, 2]).unwrap();
        d.insert(&[i32::MIN], &[1]).unwrap();
        assert!(d.stats().unwrap().levels.len() > 1);
        assert_eq!(d.select(&[0, 1]).unwrap(), [Some((i32::MIN, 1)), Some((i32::MIN + 9, 2))]);
    }

    /// Keys were made one of their kind by adding 0, which made all denormal keys 0 in a thread that
    /// flushes them.
    #[cfg(target_arch = "x86_64")]
    fn denormal_keys_stay_distinct_in_a_thread_that_flushes_them(device) {
        std::thread::spawn(move || {
            let keys = [1e-310, 2e-310, -1e-310, 0.0, -0.0, f64::NAN, 3.0];
            let narrow = [f32::from_bits(1), f32::from_bits(2), -f32::from_bits(1), -0.0, 0.0];
            flush_denormals();
            let mut d = Dictionary::<f64, u32>::builder().device(device).build().unwrap();
            d.insert(&keys, &[1, 2, 3, 4, 5, 6, 7]).unwrap();
            assert_eq!(d.len(), Ok(6));
            assert_eq!(d.lookup(&keys).unwrap(), [1, 2, 3, 5, 5, 6, 7].map(Some));
            let bits: Vec<u64> = d.to_vecs().unwrap().0.iter().map(|key| key.to_bits()).collect();
            assert_eq!(bits, [-1e-310, 0.0, 1e-310, 2e-310, 3.0, f64::NAN].map(f64::to_bits));
            let mut d = Dictionary::<f32, u32>::builder().device(device).build().unwrap();
            d.insert(&narrow, &[1, 2, 3, 4, 5]).unwrap();
            assert_eq!(d.lookup(&narrow).unwrap(), [1, 2, 3, 5, 5].map(Some));
        })
        .join()
        .unwrap();
    }

    /// A request for more memory than there is was added first and taken back then; whatever else was
    /// asked for in between found no memory either.
    fn what_is_refused_to_one_clone_does_not_disturb_another(device) {
        let builder = Dictionary::<u32, u32>::builder().device(device).memory_limit(8 << 20);
        let reader = builder.bulk_build(&[1, 5, 9], &[10, 50, 90]).unwrap();
        let mut writer = reader.clone();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let keys: Vec<u32> = (0..1 << 20).collect();
                while !is_over.load(Ordering::Relaxed) {
                    let refused = writer.insert(&keys, &keys).unwrap_err();
                    assert!(matches!(refused, Error::OutOfMemory { .. }));
                }
            });
            let start = Instant::now();
            let mut outcome = Ok(vec![Some((5, 50))]);
            while start.elapsed() < Duration::from_millis(500) && outcome.is_ok() {
                outcome = reader.successor(&[2]);
            }
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(outcome, Ok(vec![Some((5, 50))]));
        });
    }

    /// A worker of rayon's that held the lock waited for a part of its insert, meanwhile began another
    /// task, and waited for the lock that it held.
    fn a_lock_may_be_held_around_any_call_in_a_parallel_loop(device) {
        within_a_minute(move || {
            for threads in [None, Some(2)] {
                let builder = Dictionary::<u32, u32>::builder().device(device).batch_size(1 << 14);
                let builder = match threads {
                    Some(threads) => builder.threads(threads),
                    None => builder,
                };
                let dictionary = Mutex::new(builder.build().unwrap());
                let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
                let insert = |task: u32| {
                    let keys: Vec<u32> = (0..20_000).map(|i| i * 64 + task).collect();
                    let mut dictionary = dictionary.lock().unwrap();
                    dictionary.insert(&keys, &keys).unwrap();
                    assert_eq!(dictionary.lookup_one(task), Ok(Some(task)));
                };
                pool.install(|| (0..64).into_par_iter().with_max_len(1).for_each(insert));
                assert_eq!(dictionary.lock().unwrap().len(), Ok(64 * 20_000));
            }
        });
    }

    /// Every slice of a long merge searched for the cuts of all that were still to come.
    fn short_slices_take_about_as_long_as_one_merge(device) {
        let seconds = |max_merge: Option<usize>| {
            let builder = Dictionary::<u32, u32>::builder().device(device).batch_size(64);
            let mut d = match max_merge {
                Some(entries) => builder.max_merge_per_batch(entries),
                None => builder,
            }
            .build()
            .unwrap();
            let start = Instant::now();
            for batch in 0..1u32 << 13 {
                let keys: Vec<u32> = (0..64).map(|i| (batch * 64 + i).wrapping_mul(0x9e37_79b1)).collect();
                d.insert(&keys, &keys).unwrap();
                d.flush().unwrap();
            }
            d.synchronize().unwrap();
            assert_eq!(d.len(), Ok(64 << 13));
            start.elapsed().as_secs_f64()
        };
        let (sliced, whole) = (seconds(Some(1000)), seconds(None));
        assert!(sliced < 4.0 * whole + 0.5, "{sliced} s in slices, {whole} s at once");
    }

    /// `Debug` and `Display` took in what waited, merged and cleaned up; for want of memory they failed,
    /// and whoever printed panicked.
    fn formatting_does_nothing_and_never_fails(device) {
        let mut d = Dictionary::<u32, u32>::builder().device(device).batch_size(100).build().unwrap();
        for round in 0..5u32 {
            d.insert(&[round, round + 10], &[1, 2]).unwrap();
        }
        for n in 0..3 {
            d.fail_allocation_after(n);
            let texts = [format!("{d}"), format!("{d:?}"), format!("{:?}", d.snapshot())];
            assert!(texts[0].contains("8 buffered updates"), "{}", texts[0]);
            assert!(texts[1].contains("len: unknown, buffered: 8, "), "{}", texts[1]);
            d.fail_allocation_after(u64::MAX);
        }
        d.synchronize().unwrap();
        assert_eq!(d.len(), Ok(10));
        assert!(format!("{d}").starts_with("10 keys on "), "{d}");
        assert!(format!("{d:?}").contains("len: 10, entries: 10, levels: [10]"), "{d:?}");
    }

    /// Under a limit that clones share, one of them could use up what the other needed to take in
    /// batches that it had accepted; from then on every query of that one failed.
    fn what_waits_can_be_taken_in_whatever_clones_use(device) {
        let keys = |from: u32, len: u32| (from..from + len).collect::<Vec<u32>>();
        for (limit, first) in [(24u64 << 20, 1000u32), (64 << 20, 200_000), (200 << 20, 1_000_000)] {
            let builder = Dictionary::<u32, u64>::builder().device(device).memory_limit(limit);
            let mut d = builder.bulk_build(&keys(0, first), &vec![1; first as usize]).unwrap();
            let mut clone = d.clone();
            for round in 0..20 {
                d.insert(&keys(first + round * 3000, 3000), &[2; 3000]).unwrap();
                d.delete(&keys(round * 30, 10)).unwrap();
            }
            assert!(format!("{d:?}").contains("buffered"), "{d:?}");
            // The clone takes all it can get: long batches, then shorter ones.
            let mut next = 1 << 28;
            for len in [1 << 20, 1 << 16, 1 << 12, 1 << 8] {
                while clone.insert(&keys(next, len), &vec![3; len as usize]).is_ok() {
                    clone.flush().ok();
                    next += len;
                }
            }
            assert_eq!(d.len(), Ok(u64::from(first) + 60_000 - 200));
            assert_eq!(d.lookup(&[first, 5, 15]).unwrap(), [Some(2), None, Some(1)]);
            d.validate().unwrap();
        }
    }
}

/// A batch was sorted by a recursion whose frames took 16 KiB each. (A GPU's driver needs more stack than
/// this by itself.)
#[test]
fn a_stack_of_64_kib_is_enough_for_every_call() {
    with_stack(64 << 10, move || {
        for threads in [1, 2] {
            let mut d = Dictionary::<u64, u64>::builder()
                .device(Device::cpu())
                .batch_size(256)
                .threads(threads)
                .cleanup_policy(CleanupPolicy::Manual)
                .build()
                .unwrap();
            // Keys of which each scatter splits off a few only, and ordinary ones.
            let chosen: Vec<u64> = (0..64).rev().map(|bit| 1 << bit).chain(0..20).collect();
            let many: Vec<u64> =
                (0..20_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            for keys in [&chosen, &many, &chosen] {
                d.insert(keys, keys).unwrap();
                d.delete(&keys[..10]).unwrap();
                assert!(d.lookup(keys).unwrap()[10..].iter().all(Option::is_some));
                d.count((keys, keys)).unwrap();
                d.range((&keys[..50], &keys[10..60])).unwrap();
                d.successor(keys).unwrap();
                d.predecessor(keys).unwrap();
                d.select(&[0, 5, 1 << 40]).unwrap();
                assert_eq!(d.iter().count() as u64, d.len().unwrap());
            }
            d.delete_range((&[5], &[1 << 40])).unwrap();
            d.cleanup().unwrap();
            d.stats().unwrap();
            d.validate().unwrap();
        }
    });
}

/// A worker that waited for parts of one call began other calls on top of its stack, and none of them
/// returned before the last: with thousands of callers the stack overflowed.
#[test]
fn a_crowd_of_callers_neither_overflows_a_stack_nor_starves_a_call() {
    let keys: Vec<u32> = (0..20_000).collect();
    let builder = Dictionary::<u32, u32>::builder().device(Device::cpu()).threads(2);
    let d = builder.bulk_build(&keys, &keys).unwrap();
    let start = Instant::now();
    let slowest = std::thread::scope(|scope| {
        let call = || {
            let mut slowest = Duration::ZERO;
            for _ in 0..4 {
                let start = Instant::now();
                assert!(d.lookup(&keys[..5000]).unwrap().iter().all(Option::is_some));
                slowest = slowest.max(start.elapsed());
            }
            slowest
        };
        let caller = |_| std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, call);
        let callers: Vec<_> = (0..3000).map(|index| caller(index).unwrap()).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).max()
    });
    let (slowest, all) = (slowest.unwrap(), start.elapsed());
    assert!(slowest < all * 9 / 10, "one call took {slowest:?} of {all:?}");
}

/// Threads of this process that work for dictionaries, as far as the system tells.
#[cfg(target_os = "linux")]
fn workers() -> usize {
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).ok();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| name(task.ok()?)).filter(|name| name.starts_with("gpulsm-")).count()
}

/// A test that runs in a process of its own, as no other test may be told of its environment.
#[cfg(target_os = "linux")]
fn in_own_process(name: &str, limits: &str, test: impl FnOnce()) {
    const CHILD: &str = "GPULSM_TEST_CHILD";
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        return test();
    }
    let this = std::env::current_exe().unwrap();
    let outcome = std::process::Command::new("sh")
        .args(["-c", &format!("{limits} exec \"$0\" --exact \"$1\" --nocapture --test-threads 1")])
        .arg(this)
        .arg(format!("regressions::{name}"))
        .env(CHILD, name)
        .output()
        .unwrap();
    let texts =
        [outcome.stdout, outcome.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(
        outcome.status.success() && texts[0].contains("1 passed"),
        "{}\n{}",
        texts[0],
        texts[1]
    );
}

/// Threads that can't be started were an error only where a number of them was asked for; else a panic.
#[test]
#[cfg(target_os = "linux")]
fn threads_that_cannot_start_are_an_error_by_default_too() {
    // Of 4,000,000 KiB, two stacks of 1.5 GiB leave 850 MB: too little for a third stack, and more than
    // the process needs for everything else, wherever its mappings happen to end.
    let limits = "ulimit -v 4000000; \
                  export RAYON_NUM_THREADS=1000 RUST_MIN_STACK=1610612736 MALLOC_ARENA_MAX=1;";
    in_own_process("threads_that_cannot_start_are_an_error_by_default_too", limits, || {
        let cpu = || Dictionary::<u32, u32>::builder().device(Device::cpu());
        for builder in [cpu(), cpu().threads(1000)] {
            let error = builder.build().unwrap_err();
            assert!(matches!(error, Error::Threads { threads: 1000, .. }), "{error}");
        }
        cpu().threads(1).build().unwrap();
    });
}

/// Every dictionary of a forked process had threads of its own.
#[test]
#[cfg(target_os = "linux")]
fn dictionaries_share_their_threads() {
    in_own_process("dictionaries_share_their_threads", "export RAYON_NUM_THREADS=3;", || {
        let build = |_| {
            let keys: Vec<u32> = (0..10_000).collect();
            let builder = Dictionary::<u32, u32>::builder().device(Device::cpu());
            builder.bulk_build(&keys, &keys).unwrap()
        };
        let all: Vec<Dictionary<u32, u32>> = (0..50).map(build).collect();
        assert_eq!((all.len(), workers()), (50, 3));
    });
}
