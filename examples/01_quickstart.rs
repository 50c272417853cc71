//! Batches in, answers out: everything a dictionary does, once.

use gpulsm::{Batch, Dictionary, Error};

fn main() -> Result<(), Error> {
    let mut dictionary = Dictionary::<u32, u32>::builder().batch_size(1024).build()?;

    println!("Five batches of 1,024 pairs: levels fill like the bits of a counter.\n");
    for batch in 0..5 {
        let keys: Vec<u32> = (0..1024).map(|i| (batch * 1024 + i) * 10).collect();
        let values: Vec<u32> = keys.iter().map(|key| key / 10).collect();
        dictionary.insert(&keys, &values)?;
        println!("{}\n", dictionary.stats()?);
    }

    println!("One mixed batch: two keys deleted, one replaced, one new.\n");
    dictionary.update(Batch::new().insert(&[30, 35], &[333, 350]).delete(&[10, 20]))?;

    println!("lookup 10, 30, 35:    {:?}", dictionary.lookup(&[10, 30, 35])?);
    println!("count 0 to 100:       {:?}", dictionary.count((&[0], &[100]))?);
    println!("pairs in 0..50:       {:?}", dictionary.range_one(0..50)?);
    println!("successor of 1:       {:?}", dictionary.successor(&[1])?[0]);
    println!("predecessor of 29:    {:?}", dictionary.predecessor(&[29])?[0]);
    println!("rank of 50:           {:?}", dictionary.rank(&[50])?[0]);
    println!("the key at place 2:   {:?}", dictionary.select(&[2])?[0]);
    println!("the last pair:        {:?}", dictionary.last()?);
    println!("how many:             {}", dictionary.len()?);

    dictionary.cleanup()?;
    println!("\nAfter a cleanup, one run is left:\n\n{}", dictionary.stats()?);
    Ok(())
}
