//! Point queries of shards that are all on the CPU. Threads take a chunk of keys at a time and ask each shard about its
//! own: what is divided stays in the caches, and no thread waits until another is done with its shard.

use super::store::{Shards, are_on_cpu};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::query::{PairsOut, Query};
use crate::store::AnyStore;
use crate::workers::{MIN_SHARED_WORK, cut};

/// How many keys a chunk has: so few that one thread divides them and answers for every shard.
const CHUNK: usize = MIN_SHARED_WORK - 1;

/// With more shards than this, each would be asked about too few keys of a chunk.
const FEW_SHARDS: usize = 16;

impl<B: OrderedKey> Shards<B> {
    pub(super) fn answer_query(&self, query: Query<'_, B>) -> Result<(), Error> {
        match query {
            Query::Lookup { keys, values, found } if self.asks_in_chunks(keys) => {
                self.flush()?;
                let width = if values.is_some() { self.value_width() } else { 0 };
                let has_values = values.is_some();
                let values = cut(values.unwrap_or_default(), lens(keys).map(|len| len * width));
                let chunks = keys.chunks(CHUNK).zip(values).zip(found.chunks_mut(CHUNK));
                self.workers.each(chunks, |((keys, values), found)| {
                    let values = has_values.then_some(values);
                    self.answer_at_once(Query::Lookup { keys, values, found })
                })
            }
            Query::Rank { keys, ranks } if self.asks_in_chunks(keys) => {
                self.flush()?;
                let chunks = keys.chunks(CHUNK).zip(ranks.chunks_mut(CHUNK));
                self.workers
                    .each(chunks, |(keys, ranks)| self.answer_at_once(Query::Rank { keys, ranks }))
            }
            Query::Nearest { side, keys, pairs } if self.asks_in_chunks(keys) => {
                self.flush()?;
                let width = self.value_width();
                let values = cut(pairs.values, lens(keys).map(|len| len * width));
                let found = pairs.found.chunks_mut(CHUNK);
                let pairs = pairs.keys.chunks_mut(CHUNK).zip(values).zip(found);
                self.workers.each(keys.chunks(CHUNK).zip(pairs), |(keys, pairs)| {
                    let ((answers, values), found) = pairs;
                    let pairs = PairsOut { keys: answers, values, found };
                    self.answer_at_once(Query::Nearest { side, keys, pairs })
                })
            }
            query => self.answer_at_once(query),
        }
    }

    /// Returns whether shards are asked about a chunk of these keys after the other.
    fn asks_in_chunks(&self, keys: &[B]) -> bool {
        keys.len() > CHUNK && self.count() <= FEW_SHARDS && are_on_cpu(&self.shards)
    }
}

/// Returns how many keys each chunk has.
fn lens<B>(keys: &[B]) -> impl Iterator<Item = usize> {
    keys.chunks(CHUNK).map(<[B]>::len)
}
