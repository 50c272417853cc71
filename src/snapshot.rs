//! A frozen dictionary.

use crate::aggregate::{Aggregate, Number};
use crate::combine::{Combine, Combiner};
use crate::device::{Device, Devices};
use crate::error::{Error, try_zeroed};
use crate::iter::{Iter, TryIter};
use crate::key::{self, AsOfKey, Key};
use crate::queries::impl_queries;
use crate::query::{AsOf, Direction, KeyColumns, Query, Side};
use crate::ranges::{KeyRange, RangeBatch, RangeEnds, Ranges};
use crate::stats::Stats;
use crate::store::CleanupPolicy;
use crate::typed::{self, PairQuery, TypedStore};
use crate::value::Value;

/// A dictionary as it was at one moment, made by [`Dictionary::snapshot`](crate::Dictionary::snapshot).
///
/// It answers every query that a dictionary does, and never changes. Snapshots share memory with the
/// dictionary and with each other, so taking or cloning one copies nothing. They can be sent to other
/// threads and queried there while the dictionary is updated. The memory of what the dictionary has since
/// replaced or deleted is freed with the last snapshot that holds it.
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// let mut dictionary: gpulsm::Dictionary<u32, u32> = (0..100).map(|i| (i * 10, i)).collect();
/// let before = dictionary.snapshot();
/// dictionary.clear()?;
/// let answers = std::thread::spawn(move || before.lookup(&[500, 501])).join().unwrap()?;
/// assert_eq!(answers, [Some(50), None]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Snapshot<K: Key, V: Value> {
    pub(crate) store: TypedStore<K, V>,
}

impl_queries!(Snapshot);

impl<K: Key, V: Value> Snapshot<K, V> {
    /// Returns the same snapshot, queried on another stream, concurrently with queries on other streams.
    ///
    /// # Errors
    ///
    /// [`NotOnCuda`](crate::Error::NotOnCuda) if the data is on the CPU,
    /// [`OtherDevice`](crate::Error::OtherDevice) if the stream is another GPU's.
    #[cfg(feature = "cuda")]
    pub fn on_stream(&self, stream: &crate::cuda::Stream) -> Result<Self, Error> {
        let device = self.device();
        if stream.device() != device && device.is_cuda() {
            let index = |device: Device| device.cuda_index().unwrap_or_default();
            let (data, dictionary) = (index(stream.device()), index(device));
            return Err(Error::OtherDevice { data, dictionary });
        }
        let mut moved = self.store.clone();
        crate::cuda::move_to_stream(moved.any_mut(), stream)?;
        Ok(Snapshot { store: moved })
    }
}
