//! Updates from data that is on the GPU already.

use std::marker::PhantomData;

use crate::batch::Order;
use crate::cuda::resident::lend::Lent;
use crate::cuda::resident::slice::DeviceSlice;
use crate::cuda::resident::store::{CudaStore, on_cuda_mut};
use crate::cuda::update::batch::Batch;
use crate::error::{Error, check_lengths};
use crate::key::ScalarKey;
use crate::store::AnyStore;
use crate::value::Value;

/// Updates from data in the GPU's memory, made by
/// [`Dictionary::resident_mut`](crate::Dictionary::resident_mut).
///
/// Calls are put on the dictionary's stream and return at once; the data may change as soon as what
/// is on that stream is done.
pub struct ResidentMut<'a, K: ScalarKey, V: Value> {
    store: &'a mut dyn CudaStore,
    types: PhantomData<(K, V)>,
}

impl<'a, K: ScalarKey, V: Value> ResidentMut<'a, K, V> {
    pub(crate) fn new(store: &'a mut dyn AnyStore<K::Ordered>) -> Result<Self, Error> {
        Ok(ResidentMut { store: on_cuda_mut(store)?, types: PhantomData })
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
        let cuda = self.store.cuda().clone();
        let lent = Lent::new(&cuda)?;
        let (inserts, delete_count) = (keys.len() as u64, deletes.len() as u64);
        let (keys, deletes) = (lent.keys(keys)?, lent.keys(deletes)?);
        let combines = cuda.combiner.is_some();
        self.store.apply_staged(&Batch {
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
        })?;
        lent.end()
    }
}
