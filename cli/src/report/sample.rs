//! A made-up run with every experiment, for tests: rates that a GPU could have, with a little noise
//! that is the same each time.

use std::collections::BTreeMap;

use crate::results::{Machine, Point, Results, Row, Run, Settings, Unit};

/// A full run. `speed` 1 is as fast as one could wish; `less` takes away powers of two from all
/// sizes.
pub fn full(speed: f64, less: u32) -> Results {
    let mut made = Made { speed, noise: 1, rows: Vec::new() };
    made.insert(27 - less);
    made.growth(27 - less);
    made.queries(24 - less);
    made.aggregates(24 - less);
    made.combining(24 - less);
    made.upkeep(24 - less);
    made.files(24 - less);
    made.shards(20 - less);
    Results { run: run(), rows: made.rows }
}

fn run() -> Run {
    let text = |text: &str| text.to_string();
    Run {
        command: text("gpulsm bench --full --out results"),
        settings: Settings {
            device: text("cuda:0"),
            key: text("u32"),
            value: text("u32"),
            scale: text("full"),
            seed: 1,
        },
        machine: Machine {
            device: text("NVIDIA H200"),
            details: vec![(text("driver"), text("580.65")), (text("memory"), text("139 GiB"))],
            cpu: text("Intel Xeon <Platinum> & more"),
            threads: 16,
            system: text("Linux 6.8"),
            version: text("0.1.0"),
            commit: Some(text("0123abc")),
            build: String::new(),
        },
        started: 1_794_729_600,
        in_turns_since: None,
    }
}

struct Made {
    speed: f64,
    noise: u64,
    rows: Vec<Row>,
}

impl Made {
    /// Within a hundredth of 1.
    fn noise(&mut self) -> f64 {
        self.noise = self
            .noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        1.0 + ((self.noise >> 40) as f64 / (1u64 << 24) as f64 - 0.5) / 50.0
    }

    /// A point with three samples about a time.
    fn point(&mut self, at: f64, items: u64, seconds: f64) -> Point {
        let samples = (0..3).map(|_| seconds / self.speed * self.noise()).collect();
        Point { at, items, samples }
    }

    fn add(
        &mut self,
        name: (&str, &str),
        params: &[(&str, String)],
        over: &str,
        points: Vec<Point>,
    ) {
        let params: BTreeMap<_, _> =
            params.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        self.rows.push(Row {
            experiment: name.0.into(),
            series: name.1.into(),
            params,
            over: (!over.is_empty()).then(|| over.into()),
            unit: Unit::Seconds,
            points,
        });
    }

    fn add_bytes(
        &mut self,
        name: (&str, &str),
        params: &[(&str, String)],
        over: &str,
        points: Vec<Point>,
    ) {
        self.add(name, params, over, points);
        if let Some(row) = self.rows.last_mut() {
            row.unit = Unit::Bytes;
        }
    }

    /// Every number of batches, or about 128 of them.
    fn batches(n: u32, b: u32) -> impl Iterator<Item = u64> {
        let all = 1u64 << (n - b);
        (1..=all).step_by((all / 128).max(1) as usize | usize::from(all >= 256))
    }

    fn sizes(b: u32, n: u32) -> [(&'static str, String); 2] {
        [("b", b.to_string()), ("n", n.to_string())]
    }

    fn insert(&mut self, n: u32) {
        for b in (n - 12..=n).rev() {
            let (ours, theirs) = (Self::batches(n, b), Self::batches(n, b));
            let ours = ours.map(|r| self.point(r as f64, 1 << b, inserted(b, r))).collect();
            let theirs = theirs.map(|r| self.point(r as f64, 1 << b, sorted(b, r))).collect();
            self.add(("insert", "gpulsm"), &Self::sizes(b, n), "r", ours);
            self.add(("insert", "sa"), &Self::sizes(b, n), "r", theirs);
        }
        let b = n - 8;
        let times = (1..=256).map(|r| self.point(r as f64, 1 << b, inserted(b, r))).collect();
        self.add(("insert-time", "gpulsm"), &Self::sizes(b, n), "r", times);
        for (series, share) in [("gpulsm", 1.0), ("counted", 0.2), ("half-deletes", 0.7)] {
            let point = self.point(0.0, 1 << n, (1u64 << n) as f64 / 8e9 / share);
            self.add(("stream", series), &Self::sizes(b, n), "", vec![point]);
        }
    }

    fn growth(&mut self, n: u32) {
        for b in (n - 12..=n - 2).step_by(2) {
            for (series, time) in [("gpulsm", inserted as fn(u32, u64) -> f64), ("sa", sorted)] {
                let mut total = 0.0;
                let mut points = Vec::new();
                for r in 1..=1u64 << (n - b) {
                    total += time(b, r) / self.speed * self.noise();
                    points.push(Point { at: (r << b) as f64, items: r << b, samples: vec![total] });
                }
                self.add(("effective", series), &Self::sizes(b, n), "elements", points);
            }
        }
        let shares = [0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0];
        for (series, power) in [("gpulsm", 0.3), ("padded", 1.0)] {
            let points = shares
                .map(|share: f64| self.point(share, 1 << 18, 5e-5 / share.powf(power)))
                .to_vec();
            self.add(("partial", series), &Self::sizes(18, n), "share", points);
        }
        for (series, rate) in [("gpulsm", 23e9), ("sort", 26e9), ("hash", 3e9)] {
            let time = |n: u32| 2f64.powi(n as i32) / rate + 4e-5;
            let points = (16..=n).map(|n| self.point(f64::from(n), 1 << n, time(n))).collect();
            self.add(("build", series), &[], "n", points);
        }
    }

    fn queries(&mut self, n: u32) {
        for b in (n - 8..=n).rev() {
            for (existing, factor) in [("none", 1.0), ("all", 1.15)] {
                for (state, rate) in [("cold", 9e9), ("warm", 13e9)] {
                    let params = [("existing", existing.to_string()), ("state", state.to_string())];
                    self.query(("lookup", "gpulsm"), &params, (b, n), |levels| {
                        rate * factor / levels
                    });
                }
                self.query(("lookup", "sa"), &[("existing", existing.to_string())], (b, n), |_| {
                    8e9
                });
            }
        }
        for existing in ["none", "all"] {
            let params = [("existing", existing.to_string()), ("n", n.to_string())];
            let point = self.point(0.0, 1 << n, 2f64.powi(n as i32) / 17e9);
            self.add(("lookup", "hash"), &params, "r", vec![point]);
        }
        for b in (n - 8..=n - 4).rev() {
            for (experiment, length, rate) in
                [("count", 8, 8e9), ("count", 1024, 8e9), ("range", 8, 2e9), ("range", 1024, 6.4e7)]
            {
                let params = [("L", length.to_string())];
                self.query((experiment, "gpulsm"), &params, (b, n), |levels| rate / levels);
                self.query((experiment, "sa"), &params, (b, n), |_| rate * 0.6);
            }
            for (op, rate) in [("successor", 12e9), ("rank", 15e9), ("select", 9e8)] {
                self.query(("order", "gpulsm"), &[("op", op.to_string())], (b, n), |levels| {
                    rate / levels
                });
            }
        }
    }

    fn aggregates(&mut self, n: u32) {
        for (length, rate) in [(8, 3e9), (1024, 2e8)] {
            for (runs, is_stale) in [(1, false), (8, false), (8, true)] {
                let params = [("L", length), ("n", n), ("runs", runs)];
                let mut params: Vec<_> =
                    params.map(|(name, value)| (name, value.to_string())).into();
                params.extend(is_stale.then(|| ("stale", "half".to_string())));
                for (series, share) in [("gpulsm", 1.0), ("list", 0.4)] {
                    let seconds = 2f64.powi(n as i32) / rate / share * f64::from(runs);
                    let point = self.point(f64::from(runs), 1 << n, seconds);
                    self.add(("aggregate", series), &params, "", vec![point]);
                }
            }
        }
    }

    fn combining(&mut self, n: u32) {
        for (op, keys) in [("stream", "random"), ("stream", "zipf"), ("batch", "equal")] {
            let params = [("b", (n - 8).to_string()), ("keys", keys.into()), ("n", n.to_string())];
            let params: Vec<_> = params.into_iter().chain([("op", op.to_string())]).collect();
            for (series, rate) in [("gpulsm", 9e8), ("replace", 1e9)] {
                let point = self.point(0.0, 1 << n, 2f64.powi(n as i32) / rate);
                self.add(("combine", series), &params, "", vec![point]);
            }
        }
    }

    /// Queries of every number of batches, at a rate that depends on how many levels are full.
    fn query(
        &mut self,
        name: (&str, &str),
        params: &[(&str, String)],
        (b, n): (u32, u32),
        rate: impl Fn(f64) -> f64,
    ) {
        let params: Vec<_> = params.iter().cloned().chain(Self::sizes(b, n)).collect();
        let time = |r: u64| ((r << b) as f64) / rate(f64::from(r.count_ones()).powf(0.8));
        let points = Self::batches(n, b).map(|r| self.point(r as f64, r << b, time(r))).collect();
        self.add(name, &params, "r", points);
    }

    fn upkeep(&mut self, n: u32) {
        for deletes in [0, 25, 50, 75, 100] {
            let params: Vec<_> = Self::sizes(n - 8, n)
                .into_iter()
                .chain([("deletes", deletes.to_string())])
                .collect();
            let points = (1..=16)
                .map(|r| self.point(r as f64, 1 << (n - 8), 9e-5 - f64::from(deletes) * 1e-7))
                .collect();
            self.add(("delete", "gpulsm"), &params, "round", points);
        }
        for share in [1, 30] {
            let params =
                [("n", n), ("share", share)].map(|(name, value)| (name, value.to_string()));
            let doomed = (1u64 << n) * u64::from(share) / 100;
            for (series, rate) in
                [("range", 2e10), ("list", 5e9), ("inserts", 4e9), ("window-range", 3e9)]
            {
                let point = self.point(0.0, doomed, doomed as f64 / rate + 1e-4);
                self.add(("delete", series), &params, "", vec![point]);
            }
        }
        self.dead(n);
        self.cleanup(n);
        self.mixed(n);
        for keys in ["random", "sorted", "reversed", "dense", "band", "zipf"] {
            for (op, rate) in [("insert", 2e9), ("lookup", 9e9), ("count", 5e9)] {
                let factor = 1.0 + (keys.len() % 4) as f64 / 5.0;
                let point = self.point(0.0, 1 << n, 2f64.powi(n as i32) / rate / factor);
                self.add(
                    ("skew", "gpulsm"),
                    &[("keys", keys.to_string()), ("op", op.to_string())],
                    "",
                    vec![point],
                );
            }
        }
        self.flushed(n);
        for (history, bytes) in [
            ("built-at-once", 8.3),
            ("batches-of-new-keys", 8.9),
            ("the-same-keys-ten-times", 11.4),
        ] {
            let point =
                Point { at: 0.0, items: 1 << n, samples: vec![bytes * 2f64.powi(n as i32)] };
            self.add_bytes(
                ("memory", "gpulsm"),
                &[("history", history.to_string())],
                "",
                vec![point],
            );
        }
    }

    fn flushed(&mut self, n: u32) {
        for (op, keys, b, len, rate) in [
            ("insert", "random", n - 8, 1 << n, 2e9),
            ("insert", "sorted", n - 8, 1 << n, 3e9),
            ("window", "random", n - 8, 1 << n, 7e8),
            ("lookup-one", "random", 0, 1 << 10, 6e4),
        ] {
            let params = [
                ("b", b.to_string()),
                ("keys", keys.to_string()),
                ("n", n.to_string()),
                ("op", op.to_string()),
            ];
            let point = self.point(0.0, len, len as f64 / rate);
            self.add(("flushed", "gpulsm"), &params, "", vec![point]);
        }
    }

    fn files(&mut self, n: u32) {
        for (op, series, rate) in [
            ("save", "gpulsm", 6e7),
            ("save", "plain", 7e7),
            ("update-os", "gpulsm", 1e8),
            ("update-os", "plain", 2e8),
            ("update-os", "memory", 2e9),
            ("open", "gpulsm", 1.4e8),
        ] {
            let params = [("n", n.to_string()), ("op", op.to_string())];
            let point = self.point(0.0, 1 << n, 2f64.powi(n as i32) / rate);
            self.add(("files", series), &params, "", vec![point]);
        }
    }

    fn shards(&mut self, b: u32) {
        for (series, shards, rate) in [("gpulsm", "2", 1.4e9), ("one", "", 1.5e9)] {
            let mut params = vec![("b", b.to_string()), ("op", "update".to_string())];
            params.extend((!shards.is_empty()).then(|| ("shards", shards.to_string())));
            let point = self.point(0.0, 8 << b, 2f64.powi(b as i32 + 3) / rate);
            self.add(("shards", series), &params, "", vec![point]);
        }
    }

    fn dead(&mut self, n: u32) {
        let operations = [
            ("one", 1, 3e4),
            ("short", 1 << 14, 3e8),
            ("long", 1 << 10, 2e7),
            ("empty", 1 << 14, 2e9),
            ("scan", 1 << n, 6e10),
            ("successor", 1 << 14, 3e9),
        ];
        for part in [6, 4, 2] {
            for (op, items, rate) in operations {
                let params =
                    [("dead", n - part), ("n", n)].map(|(name, size)| (name, size.to_string()));
                let params: Vec<_> = params.into_iter().chain([("op", op.to_string())]).collect();
                for (series, share) in [("gpulsm", 0.9 - 0.1 / f64::from(part)), ("alive", 1.0)] {
                    let point = self.point(0.0, items, items as f64 / rate / share);
                    self.add(("dead", series), &params, "", vec![point]);
                }
            }
        }
    }

    fn cleanup(&mut self, n: u32) {
        for (batches, b) in [(63u64, n - 4), (127, n - 5)] {
            for stale in [10, 50] {
                let params = [
                    ("batches", batches.to_string()),
                    ("b", b.to_string()),
                    ("stale", stale.to_string()),
                ];
                for (series, rate) in [("gpulsm", 57e9), ("rebuild", 21e9)] {
                    let point = self.point(0.0, batches << b, (batches << b) as f64 / rate);
                    self.add(("cleanup", series), &params, "", vec![point]);
                }
            }
        }
        let params =
            [("batches", "127".into()), ("b", (n - 5).to_string()), ("stale", "10".into())];
        for (series, seconds) in [("lookup-before", 0.0121), ("lookup-after", 0.0024)] {
            let point = self.point(0.0, 1 << 25, seconds);
            self.add(("cleanup", series), &params, "", vec![point]);
        }
    }

    fn mixed(&mut self, n: u32) {
        let operations = [
            ("update", 7e8),
            ("lookup", 4e9),
            ("count", 1.4e9),
            ("range", 5e8),
            ("successor", 2.7e9),
            ("rank", 2.5e9),
            ("select", 1.3e8),
        ];
        for (op, rate) in operations {
            let params: Vec<_> =
                Self::sizes(16, n).into_iter().chain([("op", op.to_string())]).collect();
            let time = |round: u64| 65_536.0 / rate * (1.0 + f64::from(round.count_ones()) / 8.0);
            let points =
                (1..=64).map(|round| self.point(round as f64, 1 << 16, time(round))).collect();
            self.add(("mixed", "gpulsm"), &params, "round", points);
        }
        let bytes = |round: u32| 1e6 * (8.5 + f64::from(round % 16) / 8.0);
        let point =
            |round| Point { at: f64::from(round), items: 1_000_000, samples: vec![bytes(round)] };
        self.add_bytes(
            ("mixed", "memory"),
            &Self::sizes(16, n),
            "round",
            (1..=64).map(point).collect(),
        );
    }
}

/// How long batch number r takes a dictionary of levels, in seconds.
fn inserted(b: u32, r: u64) -> f64 {
    let merges = (1u64 << (r - 1).trailing_ones()) as f64 - 1.0;
    4e-5 + 2f64.powi(b as i32) * (1.0 / 20e9 + merges / 40e9)
}

/// How long batch number r takes a sorted array.
fn sorted(b: u32, r: u64) -> f64 {
    4e-5 + 2f64.powi(b as i32) * (1.0 / 20e9 + r as f64 / 50e9)
}
