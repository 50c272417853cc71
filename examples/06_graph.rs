//! A graph that changes: its edges are a set of pairs `(from, to)`, so that the edges of a vertex are a range. Edges
//! of an R-MAT graph, in which few vertices have most of them as in social networks, come and go in batches.
//!
//!     cargo run --release -p gpulsm --example 06_graph -- [--device D] [--scale S] [--edges E] [--batch B]…
//!
//! The graph has 2^S vertices and about 2^E edges; batches have 2^B. On a GPU, edges are inserted and deleted from its
//! own memory: for a large one try `--device cuda --scale 22 --edges 26 --batch 16 --batch 18 --batch 20`.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Instant;

use gpulsm::{Device, Dictionary, prefix};

type Edge = (u32, u32);

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse(std::env::args().skip(1))?;
    let edges = rmat(settings.scale, settings.edges);
    println!("2^{} vertices, 2^{} edges, on {}", settings.scale, settings.edges, settings.device);

    let different = distinct(edges.clone());
    let (first_half, second_half) = edges.split_at(edges.len() / 2);
    let (gone, mut kept) = (distinct(first_half.to_vec()), distinct(second_half.to_vec()));
    kept.retain(|edge| gone.binary_search(edge).is_err());

    println!("\nbatch       inserts       deletes");
    for &batch in &settings.batches {
        let mut rates = (0.0, 0.0);
        // The first round takes memory from the system, and loads kernels.
        for _ in ["warm-up", "measured"] {
            let mut stream = open(&settings, batch, &edges)?;
            let inserts = rate(&mut *stream, edges.len(), batch, EdgeStream::insert)?;
            assert_eq!(stream.len()?, different.len() as u64, "every edge is there once");
            let deletes = rate(&mut *stream, edges.len() / 2, batch, EdgeStream::delete)?;
            assert_eq!(stream.len()?, kept.len() as u64, "the first half is gone");
            rates = (inserts, deletes);
        }
        println!("2^{batch:<3} {:>9.1} M/s {:>9.1} M/s", rates.0, rates.1);
    }

    let graph = build(settings.device, &edges)?;
    let hub = degrees(&graph, 1 << settings.scale)?;
    let reached = breadth_first(&graph, hub)?;
    let known = breadth_first_plain(&different, hub, 1 << settings.scale);
    assert_eq!(reached, known, "the levels are those of a plain search");
    println!("\nFrom vertex {hub}, which has the most edges:");
    for (level, vertices) in reached.iter().enumerate() {
        println!("{vertices:>10} vertices after {level} steps");
    }
    println!("A plain search reaches the same.");
    Ok(())
}

/// What the command line says.
struct Settings {
    device: Device,
    /// The graph has 2^scale vertices.
    scale: u32,
    /// About 2^edges edges are drawn.
    edges: u32,
    /// Batches have 2^batch edges.
    batches: Vec<u32>,
}

impl Settings {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut settings =
            Settings { device: Device::best(), scale: 12, edges: 16, batches: Vec::new() };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name}: its value is missing"))?;
            match name.as_str() {
                "--device" => settings.device = value.parse()?,
                "--scale" => settings.scale = value.parse()?,
                "--edges" => settings.edges = value.parse()?,
                "--batch" => settings.batches.push(value.parse()?),
                _ => {
                    return Err(format!(
                        "{name}: there are --device, --scale, --edges and --batch"
                    )
                    .into());
                }
            }
        }
        if settings.batches.is_empty() {
            settings.batches =
                vec![settings.edges.saturating_sub(6), settings.edges.saturating_sub(2)];
        }
        let is_large = settings.batches.iter().any(|&batch| batch >= settings.edges);
        if settings.scale > 31 || settings.edges > 31 || is_large {
            return Err(
                "--scale and --edges are at most 31, and --batch is less than --edges".into()
            );
        }
        Ok(settings)
    }
}

/// Draws the edges of an R-MAT graph: at each of `scale` levels, one of the four quarters of the matrix, the first
/// more often than the others.
fn rmat(scale: u32, edges: u32) -> Vec<Edge> {
    let mut random = Random(7);
    let mut edge = || {
        let (mut from, mut to) = (0, 0);
        for _ in 0..scale {
            let quarter = match random.next() % 100 {
                0..57 => 0,
                57..76 => 1,
                76..95 => 2,
                _ => 3,
            };
            (from, to) = (from << 1 | quarter >> 1, to << 1 | quarter & 1);
        }
        (from, to)
    };
    (0..1usize << edges).map(|_| edge()).collect()
}

/// Returns edges in order, each once.
fn distinct(mut edges: Vec<Edge>) -> Vec<Edge> {
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// A set of edges that parts of a list are inserted into and deleted from.
trait EdgeStream {
    fn insert(&mut self, start: usize, end: usize) -> Result<(), gpulsm::Error>;
    fn delete(&mut self, start: usize, end: usize) -> Result<(), gpulsm::Error>;
    /// Waits until everything is applied.
    fn finish(&self) -> Result<(), gpulsm::Error>;
    fn len(&self) -> Result<u64, gpulsm::Error>;
}

/// Returns how many million edges a second a part of the list is applied at, batch after batch.
fn rate(
    stream: &mut (dyn EdgeStream + 'static),
    edges: usize,
    batch: u32,
    apply: fn(&mut (dyn EdgeStream + 'static), usize, usize) -> Result<(), gpulsm::Error>,
) -> Result<f64, gpulsm::Error> {
    let start = Instant::now();
    for first in (0..edges).step_by(1 << batch) {
        apply(stream, first, edges.min(first + (1 << batch)))?;
    }
    stream.finish()?;
    Ok(edges as f64 / start.elapsed().as_secs_f64() / 1e6)
}

/// Edges in the memory of the host.
struct OnHost {
    set: Dictionary<Edge, ()>,
    edges: Vec<Edge>,
    units: Vec<()>,
}

impl EdgeStream for OnHost {
    fn insert(&mut self, start: usize, end: usize) -> Result<(), gpulsm::Error> {
        self.set.insert(&self.edges[start..end], &self.units[start..end])
    }

    fn delete(&mut self, start: usize, end: usize) -> Result<(), gpulsm::Error> {
        self.set.delete(&self.edges[start..end])
    }

    fn finish(&self) -> Result<(), gpulsm::Error> {
        self.set.flush()
    }

    fn len(&self) -> Result<u64, gpulsm::Error> {
        self.set.len()
    }
}

/// Edges in the memory of a GPU, packed as a dictionary packs them: `from` in the upper half of a `u64`.
#[cfg(feature = "cuda")]
struct OnGpu {
    set: Dictionary<u64, ()>,
    edges: gpulsm::cuda::DeviceVec<u64>,
    units: gpulsm::cuda::DeviceVec<()>,
}

#[cfg(feature = "cuda")]
impl EdgeStream for OnGpu {
    fn insert(&mut self, start: usize, end: usize) -> Result<(), gpulsm::Error> {
        let (edges, units) = (self.edges.slice(start..end), self.units.slice(start..end));
        self.set.resident_mut()?.insert(edges, units)
    }

    fn delete(&mut self, start: usize, end: usize) -> Result<(), gpulsm::Error> {
        self.set.resident_mut()?.delete(self.edges.slice(start..end))
    }

    fn finish(&self) -> Result<(), gpulsm::Error> {
        self.set.flush()?;
        self.edges.stream().synchronize()
    }

    fn len(&self) -> Result<u64, gpulsm::Error> {
        self.set.len()
    }
}

/// Makes an empty set of edges on the device, with the list of edges beside it.
fn open(
    settings: &Settings,
    batch: u32,
    edges: &[Edge],
) -> Result<Box<dyn EdgeStream>, gpulsm::Error> {
    #[cfg(feature = "cuda")]
    if settings.device.is_cuda() {
        use gpulsm::Key;
        use gpulsm::cuda::{DeviceVec, Stream};
        let stream = Stream::new(settings.device)?;
        let packed: Vec<u64> = edges.iter().map(|edge| edge.to_ordered()).collect();
        let on_gpu = OnGpu {
            set: Dictionary::builder().stream(&stream).batch_size(1 << batch).build()?,
            edges: DeviceVec::from_slice(&stream, &packed)?,
            units: DeviceVec::zeroed(&stream, edges.len())?,
        };
        stream.synchronize()?;
        return Ok(Box::new(on_gpu));
    }
    let settings = Dictionary::builder().device(settings.device).batch_size(1 << batch);
    Ok(Box::new(OnHost {
        set: settings.build()?,
        edges: edges.into(),
        units: vec![(); edges.len()],
    }))
}

/// Builds the whole graph at once.
fn build(device: Device, edges: &[Edge]) -> Result<Dictionary<Edge, ()>, gpulsm::Error> {
    Dictionary::builder().device(device).bulk_build(edges, &vec![(); edges.len()])
}

/// Counts the edges of every vertex, prints how they are distributed, and returns the vertex with the most.
fn degrees(graph: &Dictionary<Edge, ()>, vertices: u32) -> Result<u32, gpulsm::Error> {
    let ranges: Vec<_> = (0..vertices).map(prefix).collect();
    let degrees = graph.count(&ranges)?;
    println!("\n      edges  vertices");
    for (name, least, most) in
        [("none", 0, 0), ("1 to 9", 1, 9), ("10 to 99", 10, 99), ("100 or more", 100, u64::MAX)]
    {
        let vertices = degrees.iter().filter(|&&degree| (least..=most).contains(&degree)).count();
        println!("{name:>11} {vertices:>9}");
    }
    let hub = (0..vertices).max_by_key(|&vertex| degrees[vertex as usize]);
    Ok(hub.unwrap_or_default())
}

/// Returns how many vertices are reached from one after 0, 1, 2, … steps, a level at a time: the edges of all
/// vertices of a level are one query.
fn breadth_first(graph: &Dictionary<Edge, ()>, start: u32) -> Result<Vec<usize>, gpulsm::Error> {
    let mut reached = BTreeSet::from([start]);
    let mut level = vec![start];
    let mut sizes = Vec::new();
    while !level.is_empty() {
        sizes.push(level.len());
        let ranges: Vec<_> = level.iter().copied().map(prefix).collect();
        let edges = graph.range(&ranges)?.keys;
        level = edges.into_iter().map(|(_, to)| to).filter(|&to| reached.insert(to)).collect();
    }
    Ok(sizes)
}

/// Returns the same from plain lists of neighbours.
fn breadth_first_plain(edges: &[Edge], start: u32, vertices: usize) -> Vec<usize> {
    let mut neighbours = vec![Vec::new(); vertices];
    edges.iter().for_each(|&(from, to)| neighbours[from as usize].push(to));
    let mut is_reached = vec![false; vertices];
    is_reached[start as usize] = true;
    let (mut level, mut sizes) = (vec![start], Vec::new());
    while !level.is_empty() {
        sizes.push(level.len());
        let next = level.iter().flat_map(|&vertex| &neighbours[vertex as usize]).copied();
        level = next.filter(|&to| !std::mem::replace(&mut is_reached[to as usize], true)).collect();
    }
    sizes
}

/// Pseudo-random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
