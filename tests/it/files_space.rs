//! How many bytes a dictionary has on disk, measured after every call of its storage.

use gpulsm::files::simulated::{Random, Simulated};
use gpulsm::{Device, Dictionary, Durability};

/// What small dictionaries may have more: headers, whole pages, and what is no reason for a checkpoint.
const SMALL: u64 = 1 << 18;

const LOG_LIMIT: u64 = 400_000;

/// A long history of replacements, growth and mass deletes, in a simulated storage.
struct History {
    storage: Simulated,
    d: Dictionary<u64, u64>,
    random: Random,
    /// The most bytes of pairs that there were since the storage was at rest.
    live: u64,
    checkpoints: u64,
}

impl History {
    fn new(durability: Durability) -> Self {
        let storage = Simulated::new();
        let builder = Dictionary::builder().device(Device::cpu()).threads(1).batch_size(1 << 10);
        let builder = builder.log_limit(LOG_LIMIT).durability(durability);
        let d = builder.open_simulated(&storage, "/d").unwrap();
        storage.take_peak();
        History { storage, d, random: Random(5), live: 0, checkpoints: 0 }
    }

    fn update(&mut self, round: u64) {
        let keys: Vec<u64> = (0..2000).map(|_| self.random.below(60_000) as u64).collect();
        match round % 50 {
            48 => self.d.delete_range_one(2000..).unwrap(),
            49 => self.d.delete(&keys).unwrap(),
            _ => self.d.insert(&keys, &vec![round; 2000]).unwrap(),
        }
        self.live = self.live.max(16 * self.d.len().unwrap());
    }

    /// Checks what there was at most since the last time, and what is left when no checkpoint is being written.
    fn check(&mut self, what: &str) {
        self.d.wait_for_checkpoint();
        // If pairs were deleted while it was written, the next update starts another one.
        self.d.insert(&[0], &[0]).unwrap();
        self.d.wait_for_checkpoint();
        let (bytes, peak) = (self.storage.bytes(), self.storage.take_peak());
        let live = 16 * self.d.len().unwrap();
        let at_rest = 3 * live + LOG_LIMIT + SMALL;
        assert!(bytes <= at_rest, "{what}: {bytes} bytes at rest for {live} of pairs");
        let meanwhile = 6 * self.live + LOG_LIMIT + SMALL;
        assert!(peak <= meanwhile, "{what}: {peak} bytes for {} of pairs", self.live);
        self.checkpoints += u64::from(peak > bytes);
        self.live = live;
    }
}

#[test]
fn space_on_disk_is_bounded_after_every_update() {
    for durability in [Durability::Batch, Durability::Os] {
        let mut history = History::new(durability);
        for round in 0..600 {
            history.update(round);
            history.check(&format!("{durability:?}, round {round}"));
        }
        assert!(history.checkpoints > 50, "only {} checkpoints", history.checkpoints);
    }
}

#[test]
fn space_on_disk_is_bounded_while_updates_go_on() {
    let mut history = History::new(Durability::Os);
    for round in 0..600 {
        history.update(round);
        if round % 7 == 6 {
            history.check(&format!("round {round}"));
        }
    }
}

#[test]
fn a_checkpoint_leaves_nothing_but_the_pairs() {
    let mut history = History::new(Durability::Batch);
    (0..48).for_each(|round| history.update(round));
    history.d.checkpoint().unwrap();
    let live = 16 * history.d.len().unwrap();
    let bytes = history.storage.bytes();
    assert!(live > 500_000 && bytes < live + 20_000, "{bytes} bytes for {live} of pairs");
}
