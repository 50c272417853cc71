//! Crashes after every call that changes anything, with everything that they may leave, also while recovering
//! from a crash, and while recovering from that one.
//!
//! `GPULSM_CRASH_POINTS` sets how many are tried.

use crate::files::folder::Durability;
use crate::files::simulated::{Moment, Random, Simulated, Survivors};
use crate::files::tests::database::{Change, Database, Pairs};

/// How many updates a crash may and may not lose, as one number that a moment is marked with.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// Updates that survive a crash of the machine.
    durable: u64,
    /// Updates that survive the end of the process.
    written: u64,
    /// Updates that were begun.
    begun: u64,
}

impl Bounds {
    fn pack(self) -> u64 {
        self.durable | self.written << 20 | self.begun << 40
    }

    fn unpack(mark: u64) -> Self {
        let field = |shift: u32| (mark >> shift) & 0xf_ffff;
        Bounds { durable: field(0), written: field(20), begun: field(40) }
    }
}

/// Moments, and what the dictionary contained after every update when they were recorded.
type Phase = (Vec<Moment>, Vec<Pairs>);

/// A dictionary with a history: what it contained after every update.
struct Run {
    storage: Simulated,
    database: Database,
    durability: Durability,
    history: Vec<Pairs>,
    bounds: Bounds,
    phases: Vec<Phase>,
}

impl Run {
    /// Opens the dictionary and compares it with the history, which it shortens to what survived.
    fn open(storage: Simulated, durability: Durability, history: &[Pairs], bounds: Bounds) -> Self {
        storage.mark(bounds.pack());
        let database = Database::open(&storage, durability).unwrap();
        let history = history.to_vec();
        let mut run = Run { storage, database, durability, history, bounds, phases: Vec::new() };
        run.compare();
        run
    }

    /// Compares the dictionary, which was just opened, with the history.
    fn compare(&mut self) {
        let survived = self.database.folder.sequence();
        let bounds = self.bounds;
        assert!(
            (bounds.written..=bounds.begun).contains(&survived),
            "{survived} updates survived of {bounds:?}"
        );
        assert_eq!(self.database.pairs, self.history[survived as usize], "of {survived} updates");
        self.end_phase();
        self.history.truncate(survived as usize + 1);
        self.bounds = Bounds { durable: survived, written: survived, begun: survived };
        self.mark();
    }

    /// Keeps the moments so far, if they are recorded, with the history that they are of.
    fn end_phase(&mut self) {
        let moments = self.storage.take_recorded();
        if !moments.is_empty() {
            self.phases.push((moments, self.history.clone()));
            self.storage.record();
        }
    }

    fn mark(&self) {
        self.storage.mark(self.bounds.pack());
    }

    fn begin(&mut self, random: &mut Random) -> Change {
        let change = Change::random(random);
        let mut pairs = self.history.last().unwrap().clone();
        change.apply(&mut pairs);
        self.history.push(pairs);
        self.bounds.begun += 1;
        self.mark();
        change
    }

    fn update(&mut self, random: &mut Random) {
        let change = self.begin(random);
        self.database.update(&change).unwrap();
        match self.durability {
            Durability::Batch => self.all_is_durable(),
            Durability::Os => self.bounds.written = self.bounds.begun,
            Durability::Checkpoint => {}
        }
        self.mark();
    }

    /// Logs an update that cannot be applied, and takes it back.
    fn refuse(&mut self, random: &mut Random) {
        let change = self.begin(random);
        self.database.refuse(&change).unwrap();
        // Until then, a crash may have kept it.
        self.end_phase();
        self.history.pop();
        self.bounds.begun -= 1;
        if self.durability.has_log() {
            self.all_is_durable();
        }
        self.mark();
    }

    fn all_is_durable(&mut self) {
        self.bounds.durable = self.bounds.begun;
        self.bounds.written = self.bounds.begun;
        self.mark();
    }

    fn checkpoint(&mut self, random: &mut Random) {
        let mut saving = self.database.begin_checkpoint(random.below(2) == 0).unwrap();
        let contained = self.bounds.begun;
        if self.durability.has_log() {
            // The log that ends here was synced.
            self.all_is_durable();
        }
        let is_aborted = random.below(6) == 0;
        for _ in 0..random.below(3) {
            saving.step().unwrap();
            self.update(random);
        }
        if is_aborted {
            // Its memory was needed, maybe in the middle of a run.
            saving.cancel(random.below(2) == 0).unwrap();
            assert!(!self.database.folder.has_failed_checkpoint());
            // What was merged or sealed for it has no file yet, as before.
            return;
        }
        self.database.finish_checkpoint(saving).unwrap();
        self.bounds.durable = self.bounds.durable.max(contained);
        self.bounds.written = self.bounds.written.max(contained);
        self.mark();
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(12) {
            0 => {
                let change = self.begin(random);
                self.database.update_unlogged(&change).unwrap();
                self.all_is_durable();
            }
            1 | 2 => self.checkpoint(random),
            3 if self.durability == Durability::Os => {
                self.database.folder.sync().unwrap();
                self.all_is_durable();
            }
            4 => self.reopen(),
            5 => self.refuse(random),
            _ => self.update(random),
        }
    }

    /// Closes and opens the dictionary. Without a log, what is in no checkpoint is lost.
    fn reopen(&mut self) {
        self.database.folder.close().unwrap();
        if self.durability.has_log() {
            self.all_is_durable();
        }
        self.database = Database::open(&self.storage, self.durability).unwrap();
        self.compare();
    }
}

/// Counts crashes, up to a number.
struct Explorer {
    durability: Durability,
    random: Random,
    crashes: u64,
    wanted: u64,
}

impl Explorer {
    /// Tries crashes at the moments of a history, and at the moments of the recoveries from them.
    fn explore(&mut self, moments: &[Moment], history: &[Pairs], depth: usize) {
        for moment in moments {
            let ways: &[Survivors] = match depth {
                0 => &Survivors::EACH,
                _ => &[Survivors::EACH[self.random.below(Survivors::EACH.len())]],
            };
            for &way in ways {
                self.crash(moment, Some(way), history, depth);
            }
            if depth == 0 || self.random.below(8) == 0 {
                self.crash(moment, None, history, depth);
            }
            if self.crashes >= self.wanted {
                return;
            }
        }
    }

    /// Crashes the machine, or ends the process, and recovers.
    fn crash(&mut self, moment: &Moment, way: Option<Survivors>, history: &[Pairs], depth: usize) {
        self.crashes += 1;
        let bounds = Bounds::unpack(moment.mark);
        let (storage, written) = match way {
            Some(way) => (moment.crash(way, self.random.next()), bounds.durable),
            None => (moment.end_process(), bounds.written),
        };
        let goes_on = depth < 2 && self.random.below(4) == 0;
        if goes_on {
            storage.record();
        }
        let bounds = Bounds { written, ..bounds };
        let mut run = Run::open(storage, self.durability, history, bounds);
        if goes_on {
            (0..self.random.below(4)).for_each(|_| run.step(&mut self.random));
            run.end_phase();
            for (moments, history) in run.phases {
                self.explore(&moments, &history, depth + 1);
            }
        }
    }

    /// Tries crashes in random histories.
    fn run(durability: Durability) {
        let (random, wanted) = (Random(durability as u64), wanted() / 3);
        let mut explorer = Explorer { durability, random, crashes: 0, wanted };
        while explorer.crashes < wanted {
            let storage = Simulated::new();
            storage.record();
            let mut run = Run::open(storage, durability, &[Pairs::new()], Bounds::default());
            (0..12).for_each(|_| run.step(&mut explorer.random));
            run.end_phase();
            for (moments, history) in run.phases {
                explorer.explore(&moments, &history, 0);
            }
        }
        println!("{} crashes with {durability:?}", explorer.crashes);
    }
}

/// Found by ten million crashes. While a dictionary is opened, updates that may not be durable are copied into a new
/// log. If a crash takes away both, the next log has the same number, and the disk may still have the old records.
#[test]
fn records_of_a_log_that_lost_its_name_are_not_taken_for_those_of_the_next() {
    let storage = Simulated::new();
    let mut random = Random(1);
    let insert = |value| Change::Batch { inserts: vec![(1, value)], deletes: vec![] };
    let mut database = Database::open(&storage, Durability::Os).unwrap();
    database.update(&insert(1)).unwrap();
    let ended = storage.moment().end_process();
    ended.record();
    drop(Database::open(&ended, Durability::Os).unwrap());
    let unfinished = |moment: &Moment| {
        let storage = moment.end_process();
        let mut paths = storage.paths().into_iter();
        let path = paths.find(|path| path.to_string_lossy().ends_with(".log.new"))?;
        let bytes = storage.contents(&path)?;
        (bytes.len() > 64).then(|| (path.with_extension(""), bytes))
    };
    let moments = ended.take_recorded();
    let (moment, (path, stale)) =
        moments.iter().find_map(|moment| Some((moment, unfinished(moment)?))).unwrap();
    let crashed = moment.crash(Survivors::None, random.next());
    let mut database = Database::open(&crashed, Durability::Os).unwrap();
    assert!(database.pairs.is_empty());
    database.update(&insert(2)).unwrap();
    drop(database);
    let log = crashed.contents(&path).expect("the next log has the same number");
    assert_eq!(log.len(), stale.len());
    crashed.replace(&path, Some([&log[..64], &stale[64..]].concat()));
    let database = Database::open(&crashed.moment().end_process(), Durability::Os).unwrap();
    assert!(database.pairs.is_empty(), "{:?}", database.pairs);
}

/// An update that is taken back and the next one have the same number and place. If the second is lost in a crash, the
/// disk may show the blocks of the first.
#[test]
fn a_record_that_was_taken_back_does_not_return_when_the_next_is_lost() {
    let storage = Simulated::new();
    let insert = |value| Change::Batch { inserts: vec![(1, value)], deletes: vec![] };
    let mut database = Database::open(&storage, Durability::Os).unwrap();
    database.refuse(&insert(1)).unwrap();
    database.update(&insert(2)).unwrap();
    let mut lost = 0;
    for seed in 0..200 {
        let crashed = storage.moment().crash(Survivors::Garbage, seed);
        let survived = Database::open(&crashed, Durability::Os).unwrap().pairs;
        assert!(survived.get(&1).is_none_or(|&value| value == 2), "{survived:?}");
        lost += u32::from(survived.is_empty());
    }
    assert!(lost > 20, "the update was lost {lost} times");
}

fn wanted() -> u64 {
    let number = std::env::var("GPULSM_CRASH_POINTS");
    number.map_or(100_000, |number| number.parse().expect("GPULSM_CRASH_POINTS is a number"))
}

#[test]
fn acknowledged_batches_survive_every_crash() {
    Explorer::run(Durability::Batch);
}

#[test]
fn a_prefix_of_batches_survives_every_crash() {
    Explorer::run(Durability::Os);
}

#[test]
fn checkpoints_survive_every_crash() {
    Explorer::run(Durability::Checkpoint);
}
