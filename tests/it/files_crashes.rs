//! Dictionaries in files that crash and are killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, thread};

use gpulsm::files::simulated::{Random, Simulated, Survivors};
use gpulsm::{Batch, Builder, Device, Dictionary, Error};

use crate::each_device;
use crate::files::Scratch;

pub type Disk = Dictionary<u64, u64>;
pub type Pairs = BTreeMap<u64, u64>;

pub enum Change {
    Batch { inserts: Vec<u64>, value: u64, deletes: Vec<u64> },
    DeleteRange(u64, u64),
    Clear,
}

impl Change {
    pub fn random(random: &mut Random) -> Self {
        let key = |random: &mut Random| random.below(40) as u64;
        match random.below(10) {
            0 => Change::Clear,
            1 => Change::DeleteRange(key(random), key(random)),
            _ => Change::Batch {
                inserts: (0..random.below(30)).map(|_| key(random)).collect(),
                value: random.next(),
                deletes: (0..random.below(5)).map(|_| key(random)).collect(),
            },
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Change::Batch { inserts, deletes, .. } if inserts.is_empty() && deletes.is_empty())
    }

    pub fn apply(&self, d: &mut Disk) -> Result<(), Error> {
        match self {
            Change::Batch { inserts, value, deletes } => {
                let values = vec![*value; inserts.len()];
                d.update(Batch::new().insert(inserts, &values).delete(deletes))
            }
            Change::DeleteRange(lo, hi) => d.delete_range_one((*lo, *hi)),
            Change::Clear => d.clear(),
        }
    }

    pub fn model(&self, pairs: &Pairs) -> Pairs {
        let mut pairs = pairs.clone();
        match self {
            Change::Batch { inserts, value, deletes } => {
                pairs.extend(inserts.iter().map(|&key| (key, *value)));
                pairs.retain(|key, _| !deletes.contains(key));
            }
            Change::DeleteRange(lo, hi) => pairs.retain(|key, _| key < lo || hi < key),
            Change::Clear => pairs.clear(),
        }
        pairs
    }
}

pub fn builder(log_limit: u64) -> Builder<u64, u64> {
    Disk::builder().device(Device::cpu()).threads(1).batch_size(8).log_limit(log_limit)
}

pub fn pairs(d: &Disk) -> Pairs {
    d.snapshot().validate().unwrap();
    d.iter().collect()
}

/// Makes random updates with automatic and other checkpoints, and tries crashes; returns how many.
fn crashes(seed: u64) -> u64 {
    let mut random = Random(seed);
    let storage = Simulated::new();
    storage.record();
    let open = |storage: &Simulated| builder(4000).open_simulated(storage, "/d");
    let mut d = open(&storage).unwrap();
    let mut history = vec![Pairs::new()];
    for begun in 1..=12u64 {
        let change = Change::random(&mut random);
        history.push(change.model(&history[history.len() - 1]));
        storage.mark((begun - 1) << 32 | begun);
        change.apply(&mut d).unwrap();
        storage.mark(begun << 32 | begun);
        assert_eq!(pairs(&d), history[begun as usize]);
        match random.below(8) {
            0 => d.checkpoint().unwrap(),
            1 => {
                drop(d);
                d = open(&storage).unwrap();
            }
            _ => {}
        }
    }
    drop(d);
    let moments = storage.take_recorded();
    for moment in &moments {
        let way = Survivors::EACH[random.below(Survivors::EACH.len())];
        let d = open(&moment.crash(way, random.next())).unwrap();
        let (durable, begun) = ((moment.mark >> 32) as usize, moment.mark as u32 as usize);
        let survived = pairs(&d);
        assert!(
            history[durable..=begun].contains(&survived),
            "seed {seed}, {way:?}: {survived:?} is none of {:?}",
            &history[durable..=begun]
        );
    }
    moments.len() as u64
}

#[test]
fn acknowledged_updates_survive_crashes() {
    let (mut tried, mut seed) = (0, 0);
    while tried < 2000 {
        tried += crashes(seed);
        seed += 1;
    }
}

/// Tells the process that a test starts which folder to update…
const FOLDER: &str = "GPULSM_KILLED_FOLDER";

/// …and on which device.
const DEVICE: &str = "GPULSM_KILLED_DEVICE";

/// What the process that is killed does: batches of 100 keys that have the batch's number, each of which it tells
/// once it is acknowledged. Does nothing unless the test below starts it.
#[test]
fn process_that_is_killed() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let device: Device = env::var(DEVICE).unwrap().parse().unwrap();
    let mut d = builder(20_000).device(device).open(folder).unwrap();
    let first = d.len().unwrap() / 100;
    for batch in first.. {
        let keys: Vec<u64> = (0..100).map(|i| batch * 100 + i).collect();
        insert(&mut d, &keys, &[batch; 100]);
        println!("\nacknowledged {batch}");
    }
}

/// Inserts a batch; on a GPU, every second one from its memory.
fn insert(d: &mut Dictionary<u64, u64>, keys: &[u64], values: &[u64]) {
    #[cfg(feature = "cuda")]
    if d.device().is_cuda() && values[0] % 2 == 1 {
        let stream = gpulsm::cuda::Stream::new(d.device()).unwrap();
        let [keys, values] =
            [keys, values].map(|data| gpulsm::cuda::DeviceVec::from_slice(&stream, data).unwrap());
        return d.resident_mut().unwrap().insert(&keys, &values).unwrap();
    }
    d.insert(keys, values).unwrap();
}

each_device! {
    fn acknowledged_updates_survive_kills(device) {
        let scratch = Scratch::new("killed");
        let folder = scratch.path("d");
        let kills = env::var("GPULSM_KILLS").map_or(20, |kills| kills.parse().unwrap());
        let mut random = Random(7);
        let mut acknowledged = 0;
        for _ in 0..kills {
            kill_one(device, &folder, &mut acknowledged, &mut random);
            let d = builder(20_000).device(device).open(&folder).unwrap();
            let found = pairs(&d);
            assert!(found.len() as u64 >= acknowledged * 100, "an acknowledged batch is missing");
            assert_eq!(found.len() % 100, 0, "a batch is there in part");
            assert!(found.iter().all(|(key, batch)| key / 100 == *batch));
        }
    }
}

/// Starts a process that updates the folder, kills it at a random moment, and counts the batches that it told were
/// acknowledged.
fn kill_one(device: Device, folder: &Path, acknowledged: &mut u64, random: &mut Random) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "files_crashes::process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(DEVICE, device.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (tell, told) = mpsc::channel::<u64>();
    let reader = thread::spawn(move || {
        let lines = output.lines().map_while(Result::ok);
        let batches = lines.filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok());
        batches.for_each(|batch| tell.send(batch).unwrap());
    });
    // However slow the machine is, something is there to be lost. (A GPU takes a second to start.)
    if *acknowledged == 0 || device.is_cuda() {
        *acknowledged = told.recv_timeout(Duration::from_secs(60)).unwrap() + 1;
    }
    thread::sleep(Duration::from_millis(random.below(230) as u64));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    *acknowledged = told.iter().last().map_or(*acknowledged, |batch| batch + 1);
}
