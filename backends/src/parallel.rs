//! Work on all cores. Nothing here but [`generate`] is generic, so that rayon is compiled once and not for
//! every loop.

use rayon::prelude::*;

/// A part of some work, which may have memory of its own to write to.
pub type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs all tasks, on all cores.
pub fn run_all(tasks: Vec<Task<'_>>) {
    tasks.into_par_iter().for_each(|task| task());
}

/// Returns `len` elements, each made from its index.
pub fn generate<T: Default + Clone + Send>(
    len: usize,
    make: &(dyn Fn(usize) -> T + Sync),
) -> Vec<T> {
    let mut elements = vec![T::default(); len];
    let part = part_of(len);
    let tasks = elements.chunks_mut(part).enumerate().map(|(number, elements)| -> Task<'_> {
        Box::new(move || {
            for (index, element) in elements.iter_mut().enumerate() {
                *element = make(number * part + index);
            }
        })
    });
    run_all(tasks.collect());
    elements
}

/// Returns how many elements each part of the work on `len` elements should have, for a few parts per core.
pub fn part_of(len: usize) -> usize {
    len.div_ceil(rayon::current_num_threads() * 4).max(1 << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_made_from_its_index() {
        for len in [0, 1, 4095, 4096, 4097, 100_000] {
            let elements = generate(len, &|index| index as u64 * 3);
            assert!(elements.into_iter().eq((0..len as u64).map(|index| index * 3)));
        }
    }
}
