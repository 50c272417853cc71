//! What `gpulsm tour` shows: a dictionary beside the model that it is compared with. Calls are timed, and every
//! answer is checked.

mod check;
mod queries;

use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Batch, Builder, Dictionary, Snapshot};

use self::check::{Checked, wrong};
use self::queries::timed;
use crate::backend::Outcome;

pub use self::check::WrongAnswer;
pub use self::queries::{Queries, Report};

/// How many items a call had, and the seconds it took.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    pub items: usize,
    pub seconds: f64,
}

impl Timed {
    /// Returns the items per second, in millions.
    pub fn rate(self) -> f64 {
        self.items as f64 / self.seconds / 1e6
    }
}

/// A dictionary on its tour, with the model it is compared with.
pub struct Subject {
    dictionary: Dictionary<u32, u32>,
    model: Model<u32, u32>,
    /// Keys that were inserted: most of them are there.
    inserted: Vec<u32>,
    random: Random,
    checked: Checked,
}

impl Subject {
    /// Builds a dictionary of random pairs.
    pub fn build(
        settings: Builder<u32, u32>,
        pairs: u64,
        mut random: Random,
    ) -> Outcome<(Self, Timed)> {
        let inserted: Vec<u32> = (0..pairs).map(|_| key(&mut random)).collect();
        let values: Vec<u32> = (0..pairs).map(|_| key(&mut random)).collect();
        let (dictionary, seconds) = timed(|| settings.bulk_build(&inserted, &values));
        let mut model = Model::default();
        model.update(&zip(&inserted, &values), &[]);
        let items = inserted.len();
        let checked = Checked::default();
        let mut subject = Subject { dictionary: dictionary?, model, inserted, random, checked };
        subject.check_all()?;
        Ok((subject, Timed { items, seconds }))
    }

    pub fn dictionary(&self) -> &Dictionary<u32, u32> {
        &self.dictionary
    }

    /// Returns how many answers were compared with the model's.
    pub fn answers_checked(&self) -> u64 {
        self.checked.0
    }

    /// Counts answers that were compared elsewhere.
    pub fn add_checked(&mut self, answers: u64) {
        self.checked.0 += answers;
    }

    /// Compares every pair with the model's.
    pub fn check_all(&mut self) -> Outcome<()> {
        Ok(self.checked.all(self.dictionary.to_vecs(), &self.model)?)
    }

    /// Applies a batch: half of it is new, a quarter replaces values, a quarter deletes.
    pub fn update(&mut self, size: usize) -> Outcome<Timed> {
        let Subject { dictionary, model, inserted, random, .. } = self;
        let quarter = size / 4;
        let replaced: Vec<u32> = (0..quarter).filter_map(|_| pick(random, inserted)).collect();
        let new: Vec<u32> = (0..size - quarter - replaced.len()).map(|_| key(random)).collect();
        let keys = [replaced, new].concat();
        let values: Vec<u32> = keys.iter().map(|_| key(random)).collect();
        let deletes: Vec<u32> = (0..quarter).filter_map(|_| pick(random, inserted)).collect();
        let batch = Batch::new().insert(&keys, &values).delete(&deletes);
        let (outcome, seconds) = timed(|| dictionary.update(batch));
        outcome?;
        model.update(&zip(&keys, &values), &deletes);
        if dictionary.len()? != model.len() as u64 {
            return Err(wrong("length", &dictionary.len()?, &model.len()));
        }
        inserted.extend(&keys[quarter.min(keys.len())..]);
        Ok(Timed { items: keys.len() + deletes.len(), seconds })
    }

    /// Returns the dictionary and the model as they are now.
    pub fn moment(&self) -> Moment {
        Moment { snapshot: self.dictionary.snapshot(), model: self.model.clone() }
    }

    /// Draws queries of every kind.
    pub fn draw_queries(&mut self) -> Queries {
        Queries::new(&mut self.random, &self.model)
    }

    /// Makes every kind of query, three times each; reports the fastest time and checks all answers.
    pub fn query(&mut self, queries: &Queries, report: Report<'_>) -> Outcome<()> {
        queries.run(&self.dictionary, &self.model, &mut self.checked, report)
    }

    /// Merges everything into one run, and checks that nothing else has changed.
    pub fn cleanup(&mut self) -> Outcome<Timed> {
        let (cleaned, seconds) = timed(|| self.dictionary.cleanup());
        cleaned?;
        self.check_all()?;
        Ok(Timed { items: self.dictionary.len()? as usize, seconds })
    }
}

/// A snapshot, and the model at the same moment.
pub struct Moment {
    snapshot: Snapshot<u32, u32>,
    model: Model<u32, u32>,
}

impl Moment {
    /// Compares every pair with the model's; returns how many there are.
    pub fn check(&self) -> Result<u64, WrongAnswer> {
        let mut checked = Checked::default();
        checked.all(self.snapshot.to_vecs(), &self.model)?;
        Ok(checked.0)
    }
}

fn key(random: &mut Random) -> u32 {
    (random.number() >> 32) as u32
}

/// Picks one of these keys, if there are any.
fn pick(random: &mut Random, keys: &[u32]) -> Option<u32> {
    let index = random.number() as usize % keys.len().max(1);
    keys.get(index).copied()
}

fn zip(left: &[u32], right: &[u32]) -> Vec<(u32, u32)> {
    left.iter().copied().zip(right.iter().copied()).collect()
}
