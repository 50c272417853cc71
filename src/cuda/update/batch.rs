//! A batch on the GPU.

use std::sync::Arc;

use crate::batch::{Order, Updates};
use crate::cuda::context::Cuda;
use crate::cuda::driver::memory::Buffer;
use crate::cuda::ffi::Address;
use crate::error::Error;
use crate::key::OrderedKey;

/// A batch whose keys and values are on the GPU.
#[derive(Clone, Default)]
pub struct Batch {
    /// Keys to insert…
    pub keys: Address,
    /// …and their values.
    pub values: Address,
    pub inserts: u64,
    /// Keys to delete; they win over inserts of the same key.
    pub delete_keys: Address,
    pub deletes: u64,
    /// Of buffered batches with both inserts and deletes: `keys` are of all updates in the order they came,
    /// values in step with them, and here are their numbers; later ones win. Else 0.
    pub numbers: Address,
    pub order: Order,
    /// The memory of a copy of the host's batch.
    pub _copy: Option<Arc<[Buffer; 3]>>,
}

impl Batch {
    pub fn len(&self) -> u64 {
        self.inserts + self.deletes
    }

    /// Copies the host's batch to the GPU.
    pub fn upload<B: OrderedKey>(cuda: &Cuda, updates: &Updates<'_, B>) -> Result<Self, Error> {
        let _entered = cuda.gpu().enter()?;
        let stream = &cuda.stream;
        stream.refuse_capture()?;
        let keys = Buffer::upload(&updates.keys, stream)?;
        let values = Buffer::upload(updates.values, stream)?;
        let deletes = Buffer::upload(&updates.deletes, stream)?;
        Ok(Batch {
            keys: keys.address(),
            values: values.address(),
            inserts: updates.keys.len() as u64,
            delete_keys: deletes.address(),
            deletes: updates.deletes.len() as u64,
            numbers: 0,
            order: updates.order,
            _copy: Some(Arc::new([keys, values, deletes])),
        })
    }
}
