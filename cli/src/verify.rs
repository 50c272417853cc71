//! `gpulsm verify`: random operation lists against the model.

use std::fmt::Debug;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use gpulsm::script::{Draw, check};
use gpulsm::{Device, Dictionary, Error, Key, Value};

/// Operations in one list, each of which starts from an empty dictionary.
const LIST: u64 = 100;

/// Checks random operation lists against the model.
#[derive(Args)]
pub struct Verify {
    /// How many operations to do in all
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,

    /// Where the pseudo-random lists start; the same seed gives the same lists
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The type of keys
    #[arg(long, value_enum, default_value_t = KeyType::U32)]
    key: KeyType,

    /// The type of values; none for a set
    #[arg(long, value_enum, default_value_t = ValueType::U32)]
    value: ValueType,

    /// The batch size b of every dictionary; drawn anew for each list if not given
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    batch_size: Option<u64>,

    /// Where the dictionaries live: best, cpu, cuda or cuda:N
    #[arg(long, default_value = "best")]
    device: Device,
}

#[derive(Clone, Copy, ValueEnum)]
enum KeyType {
    U32,
    U64,
    I32,
    I64,
    F32,
    F64,
}

#[derive(Clone, Copy, ValueEnum)]
enum ValueType {
    None,
    U32,
    U64,
    I32,
    I64,
    F32,
    F64,
    U128,
}

impl Verify {
    /// Says which lists fail and, last, how many passed and failed.
    pub fn run(&self) -> Result<ExitCode, Error> {
        match self.key {
            KeyType::U32 => self.with_key::<u32>(),
            KeyType::U64 => self.with_key::<u64>(),
            KeyType::I32 => self.with_key::<i32>(),
            KeyType::I64 => self.with_key::<i64>(),
            KeyType::F32 => self.with_key::<f32>(),
            KeyType::F64 => self.with_key::<f64>(),
        }
    }

    fn with_key<K: Key>(&self) -> Result<ExitCode, Error> {
        match self.value {
            // Only the width matters to a dictionary, and values are drawn as plain bytes.
            ValueType::None => self.with_types::<K, ()>(),
            ValueType::U32 | ValueType::I32 | ValueType::F32 => self.with_types::<K, u32>(),
            ValueType::U64 | ValueType::I64 | ValueType::F64 => self.with_types::<K, u64>(),
            ValueType::U128 => self.with_types::<K, u128>(),
        }
    }

    fn with_types<K: Key, V: Value + Debug>(&self) -> Result<ExitCode, Error> {
        let lists = self.ops.div_ceil(LIST);
        println!("{} operations in {lists} lists on {}, seed {}", self.ops, self.device, self.seed);
        let (mut passed, mut failed) = (0, 0);
        for (list, start) in (0..self.ops).step_by(LIST as usize).enumerate() {
            let seed = self.seed.wrapping_add((list as u64) << 32);
            let mut draw = Draw::random(seed);
            let drawn = draw.batch_size();
            let dictionary = Dictionary::<K, V>::builder()
                .device(self.device)
                .batch_size(self.batch_size.map_or(drawn, |size| size as usize))
                .build()?;
            let operations = (0..LIST.min(self.ops - start)).map(|_| draw.operation());
            match check(dictionary, operations) {
                Ok(()) => passed += 1,
                Err(mismatch) => {
                    failed += 1;
                    eprintln!("list {list} of seed {}: {mismatch}", self.seed);
                }
            }
        }
        println!("{passed} passed, {failed} failed");
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
