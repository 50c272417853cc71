//! Which streams have read a run last.

/// For each stream the last point at which it was still reading. Threads that share a stream may arrive
/// here in another order than their work is on the stream.
pub(super) struct LastReads<S, E>(Vec<(S, u64, E)>);

impl<S: Clone + PartialEq, E: Clone> LastReads<S, E> {
    pub fn new() -> Self {
        LastReads(Vec::new())
    }

    /// Notes a point on a stream; of one stream, later points have larger numbers.
    pub fn note(&mut self, stream: &S, number: u64, done: &E) {
        match self.0.iter_mut().find(|(other, ..)| other == stream) {
            Some((_, last, _)) if *last > number => {}
            Some((_, last, at)) => (*last, *at) = (number, done.clone()),
            None => self.0.push((stream.clone(), number, done.clone())),
        }
    }

    /// Returns the number of streams.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets the points that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(&E) -> bool) {
        self.0.retain(|(.., done)| keep(done));
    }

    pub fn points(&self) -> impl Iterator<Item = &E> {
        self.0.iter().map(|(.., done)| done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread recorded its event, another one of the same stream recorded and noted a later one, and
    /// then the first note took the place of the second: the run was freed under the second's kernel.
    #[test]
    fn an_earlier_read_never_takes_the_place_of_a_later_one() {
        let mut reads = LastReads::new();
        for (stream, number, done) in [("a", 2, 20), ("b", 1, 10), ("a", 1, 11), ("b", 3, 30)] {
            reads.note(&stream, number, &done);
        }
        assert_eq!(reads.points().copied().collect::<Vec<i32>>(), [20, 30]);
    }
}
