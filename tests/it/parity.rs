//! Batches large enough for every parallel path: answers against the model, and the same whatever
//! the number of threads.

use gpulsm::testing::model::Model;
use gpulsm::testing::script::Random;
use gpulsm::{Batch, Dictionary};

use crate::each_device;

/// A generator of numbers from the library's generator of bytes.
struct Numbers(Random);

impl Numbers {
    fn new(seed: u64) -> Self {
        Numbers(Random::new(seed))
    }

    fn next(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.0.next().expect("endless")))
    }

    fn keys(&mut self, len: usize, domain: u64) -> Vec<u64> {
        // Spread over all 64 bits, so that sorting and splitting see wide keys too.
        (0..len).map(|_| (self.next() % domain).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect()
    }
}

each_device! {
    fn large_mixed_batches_agree_with_the_model_on_any_number_of_threads(device) {
        for domain in [3_000, 200_000] {
            let builder = |threads| {
                Dictionary::<u64, u32>::builder().device(device).threads(threads).batch_size(4096)
            };
            let mut dictionaries = [1, 2, 5].map(|threads| builder(threads).build().unwrap());
            let mut model = Model::default();
            let mut numbers = Numbers::new(domain);
            for round in 0..12u32 {
                let keys = numbers.keys(20_000, domain);
                let values: Vec<u32> = (0..20_000).map(|i| round * 20_000 + i).collect();
                let deletes = numbers.keys(9_000, domain);
                for dictionary in &mut dictionaries {
                    let batch = Batch::new().insert(&keys, &values).delete(&deletes);
                    dictionary.update(batch).unwrap();
                    dictionary.validate().unwrap();
                }
                let pairs: Vec<(u64, u32)> = keys.into_iter().zip(values).collect();
                model.update(&pairs, &deletes);
                for dictionary in &dictionaries {
                    compare(dictionary, &model, &mut numbers, domain);
                }
            }
            let answers = dictionaries.map(|mut dictionary| {
                dictionary.cleanup().unwrap();
                dictionary.validate().unwrap();
                assert_eq!(dictionary.stats().unwrap().stale, 0);
                dictionary.to_vecs().unwrap()
            });
            assert_eq!(answers[0], answers[1]);
            assert_eq!(answers[0], answers[2]);
            assert!(answers[0].0.iter().copied().eq(model.iter().map(|(key, _)| key)));
        }
    }

    fn a_long_range_is_written_by_several_threads(device) {
        let mut dictionary =
            Dictionary::<u32, u32>::builder().device(device).threads(3).batch_size(1 << 14).build().unwrap();
        let keys: Vec<u32> = (0..300_000).map(|i| i * 3).collect();
        dictionary.insert(&keys, &keys).unwrap();
        let odd: Vec<u32> = keys.iter().copied().filter(|key| key % 2 == 1).collect();
        dictionary.delete(&odd[..30_000]).unwrap();
        dictionary.insert(&odd[20_000..40_000], &vec![7; 20_000]).unwrap();
        let mut model = Model::default();
        let pairs: Vec<(u32, u32)> = keys.iter().map(|&key| (key, key)).collect();
        model.update(&pairs, &[]);
        model.update(&[], &odd[..30_000]);
        model.update(&odd[20_000..40_000].iter().map(|&key| (key, 7)).collect::<Vec<_>>(), &[]);
        let lo = [0, 100, 500_000, 10];
        let hi = [u32::MAX, 650_000, 500_100, 5];
        let answers = dictionary.range((&lo, &hi)).unwrap();
        for (index, (keys, values)) in answers.iter().enumerate() {
            let expected = model.range(lo[index], hi[index]);
            assert!(keys.iter().copied().zip(values.iter().copied()).eq(expected), "range {index}");
        }
    }
}

/// Every kind of query, in batches large enough to be shared out.
fn compare(
    snapshot: &Dictionary<u64, u32>,
    model: &Model<u64, u32>,
    numbers: &mut Numbers,
    domain: u64,
) {
    let queries = numbers.keys(6_000, domain + domain / 2);
    let widths = numbers.keys(6_000, 1 << 40);
    let ends: Vec<u64> =
        queries.iter().zip(&widths).map(|(lo, w)| lo.saturating_add(w >> 20)).collect();
    let sample = || (0..6_000).step_by(97);

    let values = snapshot.lookup(&queries).unwrap();
    assert!(queries.iter().zip(&values).all(|(&key, &value)| model.lookup(key) == value));
    let found = snapshot.contains(&queries).unwrap();
    assert!(values.iter().zip(&found).all(|(value, &found)| value.is_some() == found));

    let counts = snapshot.count((&queries, &ends)).unwrap();
    let ranges = snapshot.range((&queries, &ends)).unwrap();
    let ranks = snapshot.rank(&queries).unwrap();
    let successors = snapshot.successor(&queries).unwrap();
    let predecessors = snapshot.predecessor(&queries).unwrap();
    for index in sample() {
        let (lo, hi) = (queries[index], ends[index]);
        assert_eq!(counts[index], model.count(lo, hi));
        let (keys, values) = ranges.get(index);
        let pairs = keys.iter().copied().zip(values.iter().copied());
        assert!(pairs.eq(model.range(lo, hi)));
        assert_eq!(ranks[index], model.rank(lo));
        assert_eq!(successors[index], model.successor(lo));
        assert_eq!(predecessors[index], model.predecessor(lo));
    }
    let places: Vec<u64> =
        numbers.keys(6_000, u64::MAX).iter().map(|n| n % (domain + 10)).collect();
    let selected = snapshot.select(&places).unwrap();
    let sorted: Vec<(u64, u32)> = model.iter().collect();
    for (&place, &pair) in places.iter().zip(&selected) {
        assert_eq!(pair, sorted.get(place as usize).copied());
    }
}
