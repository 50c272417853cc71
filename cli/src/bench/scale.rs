//! How large experiments are. The paper's sizes are for a GPU; a CPU, and a quick look, get smaller ones,
//! with as many batches, so that there are as many levels.

/// How much to measure.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub name: &'static str,
    /// log₂ of the pairs that are inserted batch by batch: 27 in the paper…
    pub inserted: u32,
    /// …and of those that are queried: 24 in the paper.
    pub queried: u32,
    /// log₂ of the pairs that are written to files at once…
    pub stored: u32,
    /// …and of those that are logged batch by batch.
    pub logged: u32,
    /// At most this many different numbers of batches are queried.
    pub fillings: usize,
    /// How often each measurement is repeated.
    pub repeats: usize,
}

impl Scale {
    pub const TINY: Scale = Scale {
        name: "tiny",
        inserted: 14,
        queried: 13,
        stored: 12,
        logged: 12,
        fillings: 4,
        repeats: 2,
    };

    pub fn quick(is_cuda: bool) -> Scale {
        match is_cuda {
            true => Scale {
                name: "quick",
                inserted: 25,
                queried: 22,
                stored: 24,
                logged: 22,
                fillings: 8,
                repeats: 3,
            },
            false => Scale {
                name: "quick",
                inserted: 19,
                queried: 18,
                stored: 22,
                logged: 20,
                fillings: 6,
                repeats: 3,
            },
        }
    }

    pub fn normal(is_cuda: bool) -> Scale {
        match is_cuda {
            true => Scale {
                name: "normal",
                inserted: 27,
                queried: 24,
                stored: 26,
                logged: 22,
                fillings: 24,
                repeats: 3,
            },
            false => Scale {
                name: "normal",
                inserted: 22,
                queried: 20,
                stored: 24,
                logged: 22,
                fillings: 12,
                repeats: 3,
            },
        }
    }

    pub fn full(is_cuda: bool) -> Scale {
        match is_cuda {
            true => Scale {
                name: "full",
                inserted: 27,
                queried: 24,
                stored: 26,
                logged: 22,
                fillings: 256,
                repeats: 5,
            },
            false => Scale {
                name: "full",
                inserted: 24,
                queried: 22,
                stored: 26,
                logged: 22,
                fillings: 32,
                repeats: 5,
            },
        }
    }

    /// Returns numbers of batches to query, up to `most`: all of them, or those with few and with many
    /// levels full, and some between.
    pub fn fillings(&self, most: usize) -> Vec<usize> {
        if most <= self.fillings {
            return (1..=most).collect();
        }
        let powers = (0..).map(|log| 1 << log).take_while(|&power| power <= most);
        let mut some: Vec<usize> =
            powers.flat_map(|power: usize| [power, power - 1]).filter(|&r| r > 0).collect();
        some.push(most);
        let even = self.fillings.saturating_sub(some.len()).max(1);
        some.extend((1..even).map(|part| (most * part / even).max(1)));
        some.sort_unstable();
        some.dedup();
        some
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fillings_are_all_or_telling_ones() {
        assert_eq!(Scale::TINY.fillings(4), [1, 2, 3, 4]);
        let some = Scale::normal(true).fillings(256);
        assert!(some.len() <= 40 && some.is_sorted() && some[0] == 1);
        assert!([255, 256, 127, 128].iter().all(|r| some.contains(r)));
        assert!(Scale::full(true).fillings(256).into_iter().eq(1..=256));
    }
}
