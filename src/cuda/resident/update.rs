//! Updates from data that is on the GPU already.

use std::marker::PhantomData;
use std::sync::{MutexGuard, PoisonError};

use crate::batch::Order;
use crate::cuda::context::EnteredCuda;
use crate::cuda::driver::staging::Staging;
use crate::cuda::resident::keys::copied;
use crate::cuda::resident::lend::Lent;
use crate::cuda::resident::shards;
use crate::cuda::resident::slice::DeviceSlice;
use crate::cuda::resident::store::{on_cuda, on_cuda_mut, on_shards};
use crate::cuda::update::batch::Batch;
use crate::cuda::update::sort::MAX_TILED;
use crate::durable::journal::Journal;
use crate::error::{Error, check_lengths, try_zeroed};
use crate::files::Update;
use crate::key::ScalarKey;
use crate::store::AnyStore;
use crate::value::Value;

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
        match on_shards(store).and_then(shards::first_cuda) {
            Some(_) => {}
            None => drop(on_cuda(store)?),
        }
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
        let stream = keys.stream();
        let cuda = match on_shards(self.store) {
            Some(shards) => shards::dividing_cuda(shards, stream)?,
            None => on_cuda(self.store)?.cuda().clone(),
        };
        let lent = Lent::new(&cuda)?;
        let (inserts, delete_count) = (keys.len() as u64, deletes.len() as u64);
        let is_logged = self.journal.as_ref().is_some_and(|journal| journal.has_log());
        let (mut keys, mut deletes) = (lent.keys(keys)?, lent.keys(deletes)?);
        if is_logged || on_shards(self.store).is_some() || inserts + delete_count > MAX_TILED {
            // A radix sort and dividing among shards read keys twice.
            lent.cuda().refuse_capture()?;
            keys = keys.copied(lent.cuda(), inserts as usize)?;
            deletes = deletes.copied(lent.cuda(), delete_count as usize)?;
        }
        let mut values = lent.input(values)?;
        let mut logged_values = None;
        if is_logged && inserts > 0 {
            let copy = copied(lent.cuda(), values, cuda.value_bytes(inserts as usize))?;
            values = copy.address();
            logged_values = Some(copy);
        }
        let combines = cuda.combiner.is_some();
        let batch = Batch {
            keys: keys.address,
            values,
            inserts,
            delete_keys: deletes.address,
            deletes: delete_count,
            combines,
            assigned: if assigns && combines { inserts } else { 0 },
            numbers: 0,
            order: Order::Any,
            _memory: logged_values.into_iter().collect(),
        };
        let apply = |store: &mut dyn AnyStore<_>| match on_shards(store) {
            Some(_) => shards::apply(store, lent.cuda(), &batch),
            None => on_cuda_mut(store)?.apply_staged(&batch),
        };
        match &mut self.journal {
            Some(journal) if inserts + delete_count > 0 => {
                let logged = Logged::new(lent.cuda(), &batch, journal.has_log())?;
                journal.log(self.store, &logged.record(&batch), &apply)?;
            }
            _ => apply(self.store)?,
        }
        lent.end()
    }
}

/// Batches of at most this many bytes go to a log through pinned memory, which is kept for the next one.
const MAX_STAGED_BYTES: usize = 64 << 20;

/// What a log keeps of a batch that is on the GPU: a copy in the host's memory.
struct Logged<'a> {
    /// Keys, values and deletes, one behind the other.
    bytes: HostBytes<'a>,
    key_bytes: usize,
    value_bytes: usize,
    delete_bytes: usize,
}

/// Bytes in the host's memory.
enum HostBytes<'a> {
    Staged(MutexGuard<'a, Option<Staging>>),
    Own(Vec<u8>),
}

impl HostBytes<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            HostBytes::Staged(staging) => staging.as_ref().map_or(&[], Staging::bytes),
            HostBytes::Own(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            HostBytes::Staged(staging) => staging.as_mut().map_or(&mut [], Staging::bytes_mut),
            HostBytes::Own(bytes) => bytes,
        }
    }
}

impl<'a> Logged<'a> {
    /// Copies a batch to the host; nothing of it if there is no log.
    fn new(cuda: &EnteredCuda<'a>, batch: &Batch, has_log: bool) -> Result<Self, Error> {
        cuda.refuse_capture()?;
        let [inserts, deletes] =
            [batch.inserts, batch.deletes].map(|len| if has_log { len as usize } else { 0 });
        let key_width = cuda.key_width as usize;
        let (key_bytes, value_bytes) = (inserts * key_width, cuda.value_bytes(inserts) as usize);
        let delete_bytes = deletes * key_width;
        let bytes = host_bytes(cuda, key_bytes + value_bytes + delete_bytes)?;
        let mut logged = Logged { bytes, key_bytes, value_bytes, delete_bytes };
        let (keys, rest) = logged.bytes.bytes_mut().split_at_mut(key_bytes);
        let (values, rest) = rest.split_at_mut(value_bytes);
        // SAFETY: the batch has as many bytes of keys, values and deletes, which are there for work on this stream;
        // it is synchronized before the copies are read or, after an error, freed.
        let copied = unsafe {
            cuda.download(batch.keys, keys)
                .and_then(|()| cuda.download(batch.values, values))
                .and_then(|()| cuda.download(batch.delete_keys, &mut rest[..delete_bytes]))
        };
        cuda.stream.synchronize().and(copied)?;
        Ok(logged)
    }

    /// Returns the batch as a log records it.
    fn record(&self, batch: &Batch) -> Update<'_> {
        let (keys, rest) = self.bytes.bytes().split_at(self.key_bytes);
        let (values, rest) = rest.split_at(self.value_bytes);
        let deletes = &rest[..self.delete_bytes];
        Update::Batch { keys, values, assigned: batch.assigned, deletes }
    }
}

/// Returns room for at least `len` bytes.
fn host_bytes<'a>(cuda: &EnteredCuda<'a>, len: usize) -> Result<HostBytes<'a>, Error> {
    if len > MAX_STAGED_BYTES {
        return Ok(HostBytes::Own(try_zeroed(len)?));
    }
    let mut staging = cuda.shared().staging.lock().unwrap_or_else(PoisonError::into_inner);
    if staging.as_ref().is_none_or(|staging| staging.bytes().len() < len) {
        *staging = None; // Frees the old one first.
        *staging = Some(Staging::zeroed(len.next_power_of_two(), cuda.gpu(), cuda.entered())?);
    }
    Ok(HostBytes::Staged(staging))
}
