//! `gpulsm verify`: random operation lists against the model.

use std::error::Error;
use std::fmt::Debug;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use gpulsm::testing::check::check;
use gpulsm::testing::script::Draw;
use gpulsm::{Device, Key, Value};
use indicatif::{ProgressBar, ProgressStyle};

use crate::batch_size;
use crate::types::{KeyType, ValueType};

/// Evaluates an expression with the types that a [`KeyType`] and a [`ValueType`] name. Of a value only the
/// width matters to a dictionary, so that there is one type for each width.
macro_rules! with_types {
    ($key:expr, $value:expr, $K:ident, $V:ident => $body:expr) => {{
        macro_rules! with_value {
            () => {
                match $value {
                    ValueType::None => {
                        type $V = ();
                        $body
                    }
                    ValueType::U32 | ValueType::I32 | ValueType::F32 => {
                        type $V = u32;
                        $body
                    }
                    ValueType::U64 | ValueType::I64 | ValueType::F64 => {
                        type $V = u64;
                        $body
                    }
                    ValueType::U128 => {
                        type $V = u128;
                        $body
                    }
                }
            };
        }
        macro_rules! with_key {
            ($type:ty) => {{
                type $K = $type;
                with_value!()
            }};
        }
        match $key {
            KeyType::U32 => with_key!(u32),
            KeyType::U64 => with_key!(u64),
            KeyType::I32 => with_key!(i32),
            KeyType::I64 => with_key!(i64),
            KeyType::F32 => with_key!(f32),
            KeyType::F64 => with_key!(f64),
        }
    }};
}

/// Operations in one list, each of which starts from an empty dictionary.
const LIST: u64 = 100;

const EXAMPLES: &str = "\
Examples:
  gpulsm verify                                    a quick check on the best device
  gpulsm verify --ops 1000000 --seed 7             a longer one, with another seed
  gpulsm verify --seconds 60 --scale 50            for a minute, with long batches
  gpulsm verify --key f64 --value u128 --batch-size 8";

/// Checks random operation lists against the model.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Verify {
    /// How many operations to do in all, in lists of 100
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,

    /// Begin no list after this many seconds, and until then as many as there is time for
    #[arg(long, value_name = "T", conflicts_with = "ops")]
    seconds: Option<u64>,

    /// Batches and queries this many times as long, of keys that spread as much
    #[arg(long, value_name = "X", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    scale: u64,

    /// Where the pseudo-random lists start; the same seed gives the same lists
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// The type of keys
    #[arg(long, value_enum, default_value_t = KeyType::U32)]
    key: KeyType,

    /// The type of values; none for a set
    #[arg(long, value_enum, default_value_t = ValueType::U32)]
    value: ValueType,

    /// The batch size b of every dictionary; drawn anew for each list if not given
    #[arg(long, value_name = "B", value_parser = batch_size())]
    batch_size: Option<u64>,

    /// Where the dictionaries live: best, cpu, cuda or cuda:N
    #[arg(long, default_value = "best")]
    device: Device,
}

impl Verify {
    /// Says which lists fail and, last, how many operations passed and failed. What follows a failed
    /// operation of a list is not done, and counts as neither.
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        with_types!(self.key, self.value, K, V => self.check::<K, V>())
    }

    fn check<K: Key, V: Value + Debug>(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut out = io::stdout();
        let (ops, much) = match self.seconds {
            None => (self.ops, format!("{} operations", self.ops)),
            Some(seconds) => (u64::MAX, format!("{seconds} seconds of operations")),
        };
        writeln!(out, "{much} in lists of {LIST} on {}, seed {}", self.device, self.seed)?;
        let (progress, style) = match self.seconds {
            None => {
                (ProgressBar::new(ops.div_ceil(LIST)), "{bar:40} {pos} of {len} lists, {eta} to go")
            }
            Some(_) => (ProgressBar::no_length(), "{spinner} {pos} lists, {elapsed}"),
        };
        let progress = progress.with_style(ProgressStyle::with_template(style)?);
        let end = self.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let (mut passed, mut failed) = (0, 0);
        for (list, start) in (0..ops).step_by(LIST as usize).enumerate() {
            if end.is_some_and(|end| Instant::now() >= end) {
                break;
            }
            let seed = self.seed.wrapping_add((list as u64) << 32);
            let mut draw = Draw::random(seed).scaled(self.scale as usize);
            let mut settings = draw.settings::<K, V>().device(self.device);
            if let Some(size) = self.batch_size {
                settings = settings.batch_size(size as usize);
            }
            let dictionary = settings.build()?;
            let len = LIST.min(ops - start);
            match check(dictionary, (0..len).map(|_| draw.operation())) {
                Ok(()) => passed += len,
                Err(mismatch) => {
                    passed += mismatch.index as u64;
                    failed += 1;
                    progress.suspend(|| eprintln!("list {list} of seed {}: {mismatch}", self.seed));
                }
            }
            progress.inc(1);
        }
        progress.finish_and_clear();
        writeln!(out, "{passed} passed, {failed} failed")?;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
