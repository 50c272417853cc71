//! What pairs take, and how full dictionaries become under memory limits: `cargo run -p gpulsm --example 07_memory`.

use gpulsm::{Device, Dictionary, Error, Key, Value};

/// Returns a number that looks random, another one for each index.
fn scrambled(index: u64) -> u64 {
    let mixed = (index ^ (index >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// Fills a dictionary; returns it with the error of the first batch that was refused.
fn fill(limit: u64, batch: u64) -> Result<(Dictionary<u64, u64>, Error), Error> {
    let builder = Dictionary::<u64, u64>::builder().device(Device::cpu());
    let mut dictionary = builder.memory_limit(limit).threads(2).build()?;
    for first in (0..).step_by(batch as usize) {
        let keys: Vec<u64> = (first..first + batch).map(scrambled).collect();
        if let Err(refused) = dictionary.insert(&keys, &keys) {
            return Ok((dictionary, refused));
        }
        // Queries need memory, too.
        let range =
            keys[0]..=keys[0].saturating_add((u64::MAX / (first + batch)).saturating_mul(10));
        dictionary.range(&[range][..])?;
    }
    unreachable!("there is a limit")
}

/// Prints what each of a million pairs takes: once as one run, and once half of them are replaced and looked up in vain.
fn print_bytes<K: Key, V: Value + Default>(
    types: &str,
    key: impl Fn(u64) -> K,
) -> Result<(), Error> {
    let len = 1_000_000;
    let keys: Vec<K> = (0..len).map(|index| key(scrambled(index) | 1)).collect();
    let values = vec![V::default(); keys.len()];
    let builder = Dictionary::<K, V>::builder().device(Device::cpu());
    let mut dictionary = builder.bulk_build(&keys, &values)?;
    let per_pair = |bytes: u64| bytes as f64 / len as f64;
    let built = per_pair(dictionary.stats()?.bytes.total());
    dictionary.insert(&keys[keys.len() / 2..], &values[keys.len() / 2..])?;
    let absent: Vec<K> = (0..len).map(|index| key(scrambled(index) & !1)).collect();
    dictionary.contains(&absent)?;
    dictionary.contains(&absent)?;
    let bytes = dictionary.stats()?.bytes;
    let [pairs, marks, filters] =
        [bytes.keys + bytes.values + bytes.fences, bytes.marks, bytes.filters].map(per_pair);
    println!("{types:>10} {built:>6.2} {pairs:>9.2} {marks:>6.2} {filters:>8.2}");
    Ok(())
}

fn main() -> Result<(), Error> {
    println!(
        "bytes for each pair\n{:>10} {:>6} {:>9} {:>6} {:>8}",
        "types", "built", "replaced", "marks", "filters"
    );
    print_bytes::<u32, ()>("u32", |number| number as u32)?;
    print_bytes::<u32, u64>("u32 u64", |number| number as u32)?;
    print_bytes::<u64, u64>("u64 u64", |number| number)?;
    print_bytes::<u128, u64>("u128 u64", u128::from)?;
    println!("{:>12} {:>8} {:>10} {:>6}", "limit", "batch", "pairs", "held");
    let mut error = None;
    for (limit, batches) in [
        (300_000, [10, 300]),
        (1_000_000, [10, 1000]),
        (2_000_000, [100, 2000]),
        (8_000_000, [100, 8000]),
        (32_000_000, [1000, 32_000]),
        (64 << 20, [1000, 1 << 16]),
        (256 << 20, [10_000, 1 << 16]),
    ] {
        for batch in batches {
            let (mut dictionary, refused) = fill(limit, batch)?;
            let pairs = dictionary.len()?;
            let held = (pairs * 16) as f64 * 100.0 / limit as f64;
            println!("{limit:>12} {batch:>8} {pairs:>10} {held:>5.1}%");
            dictionary.cleanup()?;
            error = Some(refused);
        }
    }
    println!("{}", error.expect("every dictionary was filled"));
    Ok(())
}
