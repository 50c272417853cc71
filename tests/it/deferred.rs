//! Long carries, merged a part with every batch.

use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Batch, Dictionary};

use crate::each_device;

/// What comes with each batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Inserts, and nothing is counted before the end.
    Inserts,
    /// Inserts, and everything is counted now and then.
    Counted,
    /// Inserts, and from the middle on deletes too.
    Deletes,
}

fn same(dictionary: &Dictionary<u32, u64>, model: &Model<u32, u64>) {
    let (keys, values) = dictionary.to_vecs().unwrap();
    assert!(keys.into_iter().zip(values).eq(model.iter()));
}

each_device! {
    fn every_batch_of_a_long_carry_leaves_what_the_model_says(device) {
        for kind in [Kind::Inserts, Kind::Counted, Kind::Deletes] {
            let mut random = Random::new(11);
            let mut d = Dictionary::<u32, u64>::builder()
                .device(device)
                .batch_size(200)
                .max_merge_per_batch(1)
                .build()
                .unwrap();
            let mut model = Model::default();
            let mut kept = Vec::new();
            for batch in 0..140 {
                let key = |random: &mut Random| (random.number() % 30_000) as u32;
                let pairs: Vec<(u32, u64)> =
                    (0..200).map(|_| (key(&mut random), random.number())).collect();
                let (keys, values): (Vec<u32>, Vec<u64>) = pairs.iter().copied().unzip();
                let few = if kind == Kind::Deletes && batch > 50 { 40 } else { 0 };
                let deletes: Vec<u32> = (0..few).map(|_| key(&mut random)).collect();
                d.update(Batch::new().insert(&keys, &values).delete(&deletes)).unwrap();
                model.update(&pairs, &deletes);

                // Lookups apply the batch, and leave missing marks missing; a count would find them.
                let queried: Vec<u32> = (0..500).map(|_| key(&mut random)).collect();
                let found = d.lookup(&queried).unwrap();
                assert!(queried.iter().zip(found).all(|(&key, found)| found == model.lookup(key)));
                if kind == Kind::Counted && batch % 3 == 0 {
                    assert_eq!(d.len().unwrap(), model.len() as u64);
                    d.validate().unwrap();
                }
                if [32, 33, 64, 65, 67, 130].contains(&batch) {
                    kept.push((d.snapshot(), d.clone(), model.clone()));
                }
            }
            same(&d, &model);
            d.validate().unwrap();
            for (snapshot, mut clone, model) in kept {
                same(&snapshot.thaw(), &model);
                snapshot.validate().unwrap();
                clone.insert(&[7], &[7]).unwrap();
                clone.delete(&[7]).unwrap();
                let mut model = model.clone();
                model.update(&[], &[7]);
                same(&clone, &model);
                clone.validate().unwrap();
            }
        }
    }

    fn stats_are_those_of_merged_runs(device) {
        let mut d = Dictionary::<u32, u32>::builder()
            .device(device)
            .batch_size(100)
            .max_merge_per_batch(1)
            .build()
            .unwrap();
        for batch in 0..64 {
            let keys: Vec<u32> = (0..100).map(|at| at * 64 + batch).collect();
            d.insert(&keys, &keys).unwrap();
            d.flush().unwrap();
        }
        let stats = d.stats().unwrap();
        assert_eq!((stats.levels.len(), stats.entries), (1, 6400));
        // Keys, values, fences and heads; nothing is held twice.
        assert!(stats.bytes.total() < 6400 * 8 * 5 / 4, "{} bytes", stats.bytes.total());
        assert!(stats.bytes_shared < 6400 * 8 * 5 / 4, "{} bytes in all", stats.bytes_shared);
    }
}
