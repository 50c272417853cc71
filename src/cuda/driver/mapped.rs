//! Memory that is mapped: ranges of addresses, and blocks of the GPU's memory under them. Long runs have such memory, so
//! that a merge can give the blocks of its sources to the run that it writes (`merge/in_place.rs`).
//!
//! One block may be mapped at several addresses. Unmapping is not ordered by streams, so a range that is dropped is
//! unmapped later, when the work that may use it is done.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::{self, CUmemGenericAllocationHandle, CUresult};

use crate::budget::{Account, Reserved};
use crate::cuda::driver::error::{check, out_of_memory};
use crate::cuda::driver::gpu::{Entered, Gpu};
use crate::cuda::driver::stream::{Event, Stream};
use crate::cuda::ffi::Address;
use crate::error::Error;
use crate::stats::DeviceMemory;

/// A block of the GPU's memory. It is free when it is dropped and no longer mapped anywhere.
pub(crate) struct Block {
    handle: CUmemGenericAllocationHandle,
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the handle was created, and is released once. Mappings keep the memory.
        unsafe { sys::cuMemRelease(self.handle) };
    }
}

/// A block, and where its bytes are counted. When a block is mapped once more for another owner, that one gets the
/// count.
pub(crate) struct OwnedBlock {
    block: Arc<Block>,
    reserved: Option<Reserved>,
}

impl OwnedBlock {
    /// Allocates a block.
    pub fn create(account: &Account, gpu: &'static Gpu, entered: &Entered) -> Result<Self, Error> {
        let bytes = gpu.mapping().block_bytes;
        let (block, reserved) = account
            .allocate(bytes, || with_memory(gpu, entered, || create(gpu, bytes, entered)))?;
        Ok(OwnedBlock { block: Arc::new(block), reserved: Some(reserved) })
    }

    /// Returns the same block for another owner, who is not counted yet.
    pub fn alias(&self) -> Self {
        OwnedBlock { block: self.block.clone(), reserved: None }
    }

    /// Takes over the count of the owner before.
    pub fn take_count(&mut self, before: &mut OwnedBlock) {
        debug_assert!(Arc::ptr_eq(&self.block, &before.block), "the same block");
        self.reserved = before.reserved.take();
    }
}

/// A range of addresses with blocks under it.
pub(crate) struct Mapped {
    address: Address,
    /// How many bytes of addresses there are.
    range: u64,
    /// The blocks under the first of them.
    blocks: Mutex<Vec<OwnedBlock>>,
    block_bytes: u64,
    /// The stream whose work may use it.
    stream: Stream,
}

impl Mapped {
    /// Maps blocks one after the other.
    pub fn new(blocks: Vec<OwnedBlock>, account: &Account, stream: &Stream) -> Result<Self, Error> {
        let (entered, gpu) = (stream.enter()?, stream.gpu());
        let block_bytes = gpu.mapping().block_bytes;
        let range = blocks.len() as u64 * block_bytes;
        account.before_mapping(range)?;
        // Mappings take memory, too.
        let address = with_memory(gpu, &entered, || map(&blocks, gpu, &entered))?;
        let blocks = Mutex::new(blocks);
        Ok(Mapped { address, range, blocks, block_bytes, stream: stream.clone() })
    }

    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns how many bytes the blocks have.
    pub fn bytes(&self) -> u64 {
        self.lock().len() as u64 * self.block_bytes
    }

    pub fn blocks_mut(&mut self) -> &mut [OwnedBlock] {
        self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees the blocks behind the first `bytes` bytes, which nothing uses any more.
    pub fn truncate(&self, bytes: u64, _entered: &Entered) {
        let mut blocks = self.lock();
        let kept = bytes.div_ceil(self.block_bytes) as usize;
        if kept >= blocks.len() {
            return;
        }
        let freed = blocks.len() - kept;
        let start = self.address + kept as u64 * self.block_bytes;
        // SAFETY: these addresses are mapped, block by block, and nothing uses them any more.
        unsafe { sys::cuMemUnmap(start, freed * self.block_bytes as usize) };
        blocks.truncate(kept);
    }

    /// Moves it to another stream, which has waited for its own.
    pub fn outlive(&mut self, stream: &Stream) {
        self.stream = stream.clone();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OwnedBlock>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let blocks = std::mem::take(&mut *self.lock());
        if self.range == 0 {
            return;
        }
        RETIRED.push(Retired {
            address: self.address,
            range: self.range,
            mapped: blocks.len() as u64 * self.block_bytes,
            blocks: blocks.into_iter().map(|owned| owned.block).collect(),
            stream: self.stream.clone(),
            done: None,
        });
    }
}

/// Reserves a range of addresses and maps blocks one after the other.
fn map(blocks: &[OwnedBlock], gpu: &Gpu, _entered: &Entered) -> Result<Address, Error> {
    let block_bytes = gpu.mapping().block_bytes;
    let bytes = blocks.len() as u64 * block_bytes;
    let mut address = 0;
    if bytes == 0 {
        return Ok(0);
    }
    // SAFETY: it writes one address.
    check_memory("cuMemAddressReserve", bytes, unsafe {
        sys::cuMemAddressReserve(&mut address, bytes as usize, 0, 0, 0)
    })?;
    let mut mapped = 0;
    let mut map_all = || {
        for block in blocks {
            // SAFETY: the addresses are reserved and not mapped yet; the handle is alive and has as many bytes.
            check_memory("cuMemMap", block_bytes, unsafe {
                let at = address + mapped;
                sys::cuMemMap(at, block_bytes as usize, 0, block.block.handle, 0)
            })?;
            mapped += block_bytes;
        }
        let access = sys::CUmemAccessDesc {
            location: gpu.location(),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: all of the range is mapped, and there is one description.
        check_memory("cuMemSetAccess", bytes, unsafe {
            sys::cuMemSetAccess(address, bytes as usize, &access, 1)
        })
    };
    map_all().inspect_err(|_| unmap(address, bytes, mapped))?;
    Ok(address)
}

/// Unmaps the first `mapped` bytes of a range, and gives its addresses back. Nothing uses them any more.
fn unmap(address: Address, range: u64, mapped: u64) {
    // SAFETY: the range was reserved, as many bytes of it are mapped, block by block, and nothing uses it.
    unsafe {
        if mapped > 0 {
            sys::cuMemUnmap(address, mapped as usize);
        }
        if range > 0 {
            sys::cuMemAddressFree(address, range as usize);
        }
    }
}

/// A range that nobody needs any more, but whose last work may not be done.
struct Retired {
    address: Address,
    range: u64,
    mapped: u64,
    blocks: Vec<Arc<Block>>,
    stream: Stream,
    /// The end of that work, once it could be recorded: not while the stream is being captured.
    done: Option<Event>,
}

impl Retired {
    fn is_done(&mut self, waits: bool, entered: &Entered) -> bool {
        if self.done.is_none() && self.stream.is_capturing(entered) == Ok(false) {
            self.done = Event::record(&self.stream, entered).ok();
        }
        let Some(done) = &self.done else { return false };
        if waits { done.synchronize(entered).is_ok() } else { done.is_done(entered) }
    }
}

impl Drop for Retired {
    fn drop(&mut self) {
        unmap(self.address, self.range, self.mapped);
        self.blocks.clear();
    }
}

/// The ranges that wait to be unmapped.
static RETIRED: RetiredRanges = RetiredRanges(Mutex::new(Vec::new()));

struct RetiredRanges(Mutex<Vec<Retired>>);

impl RetiredRanges {
    fn push(&self, mut retired: Retired) {
        let Ok(entered) = retired.stream.enter() else {
            std::mem::forget(retired); // The context is lost, and its memory with it.
            return;
        };
        retired.is_done(false, &entered);
        self.ranges().push(retired);
    }

    /// Unmaps the ranges of a GPU whose work is done; if told so, waits for it.
    fn unmap(&self, gpu: &Gpu, waits: bool, entered: &Entered) {
        let is_done =
            |retired: &mut Retired| retired.stream.gpu() == gpu && retired.is_done(waits, entered);
        let done: Vec<Retired> = self.ranges().extract_if(.., is_done).collect();
        drop(done); // Not under the lock: this takes a while.
    }

    fn ranges(&self) -> MutexGuard<'_, Vec<Retired>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns all memory of a GPU to the system that nobody uses. Waits for work whose memory is retired.
pub(crate) fn reclaim(gpu: &Gpu, entered: &Entered) {
    RETIRED.unmap(gpu, true, entered);
    gpu.trim_to(0, entered);
}

/// Returns how many bytes could be allocated, as far as is known: what is free, and what is idle in the pool.
pub(crate) fn available(gpu: &Gpu, entered: &Entered) -> Option<u64> {
    memory_of(gpu, entered).map(|DeviceMemory { free, idle, .. }| free + idle)
}

/// Returns how many bytes a GPU has, how many of them are free, and how many are idle in the pool.
pub(crate) fn memory_of(gpu: &Gpu, entered: &Entered) -> Option<DeviceMemory> {
    RETIRED.unmap(gpu, false, entered);
    gpu.memory(entered)
}

fn create(gpu: &Gpu, bytes: u64, _entered: &Entered) -> Result<Block, Error> {
    let properties = sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        location: gpu.location(),
        // SAFETY: zeros are valid for this structure of integers and null pointers.
        ..unsafe { std::mem::zeroed() }
    };
    let mut handle = 0;
    // SAFETY: it writes one handle; the properties are filled in above.
    check_memory("cuMemCreate", bytes, unsafe {
        sys::cuMemCreate(&mut handle, bytes as usize, &properties, 0)
    })?;
    Ok(Block { handle })
}

/// Calls `attempt`, and once more after idle memory was returned to the system, if there was none.
fn with_memory<T>(
    gpu: &Gpu,
    entered: &Entered,
    attempt: impl Fn() -> Result<T, Error>,
) -> Result<T, Error> {
    RETIRED.unmap(gpu, false, entered);
    match attempt() {
        Err(Error::OutOfMemory { .. }) => {
            reclaim(gpu, entered);
            attempt()
        }
        done => done,
    }
}

fn check_memory(call: &'static str, bytes: u64, result: CUresult) -> Result<(), Error> {
    match result {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => Err(out_of_memory(bytes)),
        other => check(call, other.result()),
    }
}
