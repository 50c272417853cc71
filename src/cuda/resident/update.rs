//! Updates from data that is on the GPU already.

use std::marker::PhantomData;

use crate::batch::Order;
use crate::cuda::context::EnteredCuda;
use crate::cuda::resident::lend::Lent;
use crate::cuda::resident::slice::DeviceSlice;
use crate::cuda::resident::store::{on_cuda, on_cuda_mut};
use crate::cuda::update::batch::Batch;
use crate::durable::journal::Journal;
use crate::error::{Error, check_lengths, try_zeroed};
use crate::files::Update;
use crate::key::{OrderedKey, ScalarKey};
use crate::store::AnyStore;
use crate::value::{Value, ValueBuffer};

/// Updates from data in the GPU's memory, made by
/// [`Dictionary::resident_mut`](crate::Dictionary::resident_mut).
///
/// Calls are put on the dictionary's stream and return at once; the data may change as soon as what
/// is on that stream is done. If the dictionary lives in files, they return when its log has the data, which is as
/// durable then as [`Builder::durability`](crate::Builder::durability) says.
pub struct ResidentMut<'a, K: ScalarKey, V: Value> {
    store: &'a mut dyn AnyStore<K::Ordered>,
    journal: Option<&'a mut Journal>,
    types: PhantomData<(K, V)>,
}

impl<'a, K: ScalarKey, V: Value> ResidentMut<'a, K, V> {
    pub(crate) fn new(
        store: &'a mut dyn AnyStore<K::Ordered>,
        journal: Option<&'a mut Journal>,
    ) -> Result<Self, Error> {
        on_cuda(store)?;
        Ok(ResidentMut { store, journal, types: PhantomData })
    }

    /// Inserts each key with its value, replacing the value it had. Of equal keys the last wins. In a dictionary
    /// that combines values ([`Builder::combine`](crate::Builder::combine)), the values of equal keys, and the one
    /// that the key had, are combined.
    pub fn insert<'d>(
        &mut self,
        keys: impl Into<DeviceSlice<'d, K>>,
        values: impl Into<DeviceSlice<'d, V>>,
    ) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        let values: DeviceSlice<'_, V> = values.into();
        let none = keys.slice(..0);
        self.update(keys, values, none)
    }

    /// Sets the value of each key, whatever value it had, also in a dictionary that combines values. Of equal
    /// keys the last wins.
    pub fn set<'d>(
        &mut self,
        keys: impl Into<DeviceSlice<'d, K>>,
        values: impl Into<DeviceSlice<'d, V>>,
    ) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        let values: DeviceSlice<'_, V> = values.into();
        let none = keys.slice(..0);
        self.apply(keys, values, none, true)
    }

    /// Deletes each key; absent keys are ignored.
    pub fn delete<'d>(&mut self, keys: impl Into<DeviceSlice<'d, K>>) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        self.update(keys.slice(..0), DeviceSlice::empty(keys.stream()), keys)
    }

    /// Applies one mixed batch of inserts and deletes; deletes win.
    pub fn update<'d>(
        &mut self,
        keys: impl Into<DeviceSlice<'d, K>>,
        values: impl Into<DeviceSlice<'d, V>>,
        deletes: impl Into<DeviceSlice<'d, K>>,
    ) -> Result<(), Error> {
        let keys: DeviceSlice<'_, K> = keys.into();
        let values: DeviceSlice<'_, V> = values.into();
        let deletes: DeviceSlice<'_, K> = deletes.into();
        self.apply(keys, values, deletes, false)
    }

    /// Applies one batch, whose inserts may assign their values where others combine.
    fn apply(
        &mut self,
        keys: DeviceSlice<'_, K>,
        values: DeviceSlice<'_, V>,
        deletes: DeviceSlice<'_, K>,
        assigns: bool,
    ) -> Result<(), Error> {
        check_lengths(("keys", keys.len()), ("values", values.len()))?;
        let cuda = on_cuda(self.store)?.cuda().clone();
        let lent = Lent::new(&cuda)?;
        let (inserts, delete_count) = (keys.len() as u64, deletes.len() as u64);
        let (keys, deletes) = (lent.keys(keys)?, lent.keys(deletes)?);
        let combines = cuda.combiner.is_some();
        let batch = Batch {
            keys: keys.address,
            values: lent.input(values)?,
            inserts,
            delete_keys: deletes.address,
            deletes: delete_count,
            combines,
            assigned: if assigns && combines { inserts } else { 0 },
            numbers: 0,
            order: Order::Any,
            ..Batch::default()
        };
        match &mut self.journal {
            Some(journal) if inserts + delete_count > 0 => {
                let logged = Logged::<K::Ordered>::new(lent.cuda(), &batch, journal.has_log())?;
                let apply = |store: &mut dyn AnyStore<_>| on_cuda_mut(store)?.apply_staged(&batch);
                journal.log(self.store, &logged.record(&batch), &apply)?;
            }
            _ => on_cuda_mut(self.store)?.apply_staged(&batch)?,
        }
        lent.end()
    }
}

/// What a log keeps of a batch that is on the GPU: a copy in the host's memory.
struct Logged<B> {
    keys: Vec<B>,
    values: ValueBuffer,
    deletes: Vec<B>,
}

impl<B: OrderedKey> Logged<B> {
    /// Copies a batch to the host; nothing of it if there is no log.
    fn new(cuda: &EnteredCuda<'_>, batch: &Batch, has_log: bool) -> Result<Self, Error> {
        cuda.refuse_capture()?;
        let [inserts, deletes] =
            [batch.inserts, batch.deletes].map(|len| if has_log { len as usize } else { 0 });
        let mut copy = Logged {
            keys: try_zeroed(inserts)?,
            values: ValueBuffer::new(inserts, cuda.value_width as usize)?,
            deletes: try_zeroed(deletes)?,
        };
        // SAFETY: the batch has as many keys, values and deletes, which are there for work on this stream; it is
        // synchronized before the copies are read or, after an error, freed.
        let copied = unsafe {
            cuda.download(batch.keys, &mut copy.keys)
                .and_then(|()| cuda.download(batch.values, copy.values.bytes_mut()))
                .and_then(|()| cuda.download(batch.delete_keys, &mut copy.deletes))
        };
        cuda.stream.synchronize().and(copied)?;
        Ok(copy)
    }

    /// Returns the batch as a log records it.
    fn record(&self, batch: &Batch) -> Update<'_> {
        Update::Batch {
            keys: bytemuck::cast_slice(&self.keys),
            values: self.values.bytes(),
            assigned: batch.assigned,
            deletes: bytemuck::cast_slice(&self.deletes),
        }
    }
}
