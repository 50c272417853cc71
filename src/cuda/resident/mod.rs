//! Calls on data that is on the GPU already: nothing is copied, and nothing is waited for.

pub(super) mod slice;

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;

use crate::batch::Order;
use crate::cuda::context::{Cuda, Reading};
use crate::cuda::driver::memory::Buffer;
use crate::cuda::driver::stream::Stream;
use crate::cuda::engine::CudaEngine;
use crate::cuda::ffi::{self, Address, PairsOutput, check};
use crate::cuda::query::{count, lookup, nearest, range, select};
use crate::cuda::resident::slice::{DeviceSlice, DeviceSliceMut};
use crate::cuda::run::Run;
use crate::cuda::run::resolve;
use crate::cuda::update::batch::Batch;
use crate::error::{Error, bytes_of, check_buffer, check_lengths};
use crate::key::{Encoding, Key, OrderedKey};
use crate::query::Side;
use crate::store::{AnyStore, Levels, Store};
use crate::value::Value;

/// A store on a GPU, whatever the width of its keys.
trait CudaStore {
    fn cuda(&self) -> &Cuda;

    /// Applies the buffered batches and returns every level.
    fn flushed(&self) -> Result<Arc<Levels<Run>>, Error>;

    /// Keeps these runs for as long as the store lives: a graph has their addresses.
    fn pin(&self, levels: Arc<Levels<Run>>);

    /// Applies one batch that is on the GPU, as a whole or not at all.
    fn apply_staged(&mut self, batch: &Batch) -> Result<(), Error>;

    /// Runs all further calls on another stream.
    fn move_to_stream(&mut self, stream: &Stream) -> Result<(), Error>;
}

impl<B: OrderedKey> CudaStore for Store<CudaEngine<B>> {
    fn cuda(&self) -> &Cuda {
        &self.engine.cuda
    }

    fn flushed(&self) -> Result<Arc<Levels<Run>>, Error> {
        self.flushed()
    }

    fn pin(&self, levels: Arc<Levels<Run>>) {
        self.pin(levels);
    }

    fn apply_staged(&mut self, batch: &Batch) -> Result<(), Error> {
        self.apply_staged(batch)
    }

    fn move_to_stream(&mut self, stream: &Stream) -> Result<(), Error> {
        // What is buffered, and marks that are still missing, are applied and found on the old stream.
        resolve::resolve(&self.engine.cuda, self.flushed()?.runs())?;
        self.abandon_merge(); // It would go on where it began.
        self.engine.cuda.stream = stream.clone();
        Ok(())
    }
}

/// Returns a store as one on a GPU, or an error if it is not. (Not generic: compiled with this crate.)
fn on_cuda(store: &dyn Any) -> Result<&dyn CudaStore, Error> {
    if let Some(store) = store.downcast_ref::<Store<CudaEngine<u32>>>() {
        return Ok(store);
    }
    let store = store.downcast_ref::<Store<CudaEngine<u64>>>();
    store.map(|store| store as &dyn CudaStore).ok_or(Error::NotOnCuda)
}

/// Returns a store as one on a GPU, to be changed, or an error if it is not.
fn on_cuda_mut(store: &mut dyn Any) -> Result<&mut dyn CudaStore, Error> {
    if store.is::<Store<CudaEngine<u32>>>() {
        let store = store.downcast_mut::<Store<CudaEngine<u32>>>();
        return store.map(|store| store as &mut dyn CudaStore).ok_or(Error::NotOnCuda);
    }
    let store = store.downcast_mut::<Store<CudaEngine<u64>>>();
    store.map(|store| store as &mut dyn CudaStore).ok_or(Error::NotOnCuda)
}

/// Runs all further calls of a store on another stream.
pub(crate) fn move_to_stream<B: OrderedKey>(
    store: &mut dyn AnyStore<B>,
    stream: &Stream,
) -> Result<(), Error> {
    on_cuda_mut(store.as_any_mut())?.move_to_stream(stream)
}

/// Queries on data in the GPU's memory, made by [`Snapshot::resident`](crate::Snapshot::resident).
///
/// Calls are put on the dictionary's stream and return at once. The first elements of an output are
/// written if it is longer than needed. They can be captured into a CUDA graph, if no batch waits to be
/// taken in ([`settle`](crate::Snapshot::settle) before); the snapshot they were asked of must then live for
/// as long as the graph is used.
///
/// ```no_run
/// # fn main() -> Result<(), gpulsm::Error> {
/// use gpulsm::cuda::{DeviceVec, Stream};
/// use gpulsm::{Device, Dictionary};
///
/// let device = Device::cuda(0)?;
/// let stream = Stream::new(device)?;
/// let mut dictionary = Dictionary::<u32, u32>::builder().stream(&stream).build()?;
/// let keys = DeviceVec::from_slice(&stream, &[30, 10, 20])?;
/// let values = DeviceVec::from_slice(&stream, &[3, 1, 2])?;
/// dictionary.resident_mut()?.insert((&keys).into(), (&values).into())?;
///
/// let mut answers = DeviceVec::zeroed(&stream, 3)?;
/// let mut found = DeviceVec::zeroed(&stream, 3)?;
/// dictionary.resident()?.lookup((&keys).into(), (&mut answers).into(), (&mut found).into())?;
/// assert_eq!(answers.to_vec()?, [3, 1, 2]);
/// # Ok(())
/// # }
/// ```
pub struct Resident<'a, K: Key, V: Value> {
    store: &'a dyn CudaStore,
    types: PhantomData<(K, V)>,
}

impl<'a, K: Key, V: Value> Resident<'a, K, V> {
    pub(crate) fn new(store: &'a dyn AnyStore<K::Ordered>) -> Result<Self, Error> {
        Ok(Resident { store: on_cuda(store.as_any())?, types: PhantomData })
    }

    /// The stream that queries run on.
    pub fn stream(&self) -> &'a Stream {
        &self.store.cuda().stream
    }

    /// Whether each key is there (1 or 0), and its value, or zeros.
    pub fn lookup(
        &self,
        keys: DeviceSlice<'_, K>,
        values: DeviceSliceMut<'_, V>,
        found: DeviceSliceMut<'_, u8>,
    ) -> Result<(), Error> {
        let lent = Lent::new(self.store.cuda());
        let len = keys.len() as u64;
        let (keys, values) = (lent.keys(keys)?, lent.output("values", &values, len)?);
        let found = lent.output("found", &found, len)?;
        self.answer(lent, Needs::Entries, |cuda, runs, _| {
            lookup::lookup(cuda, runs, keys.address, len, values, found)
        })
    }

    /// Whether each key is there (1 or 0).
    pub fn contains(
        &self,
        keys: DeviceSlice<'_, K>,
        found: DeviceSliceMut<'_, u8>,
    ) -> Result<(), Error> {
        let lent = Lent::new(self.store.cuda());
        let len = keys.len() as u64;
        let (keys, found) = (lent.keys(keys)?, lent.output("found", &found, len)?);
        self.answer(lent, Needs::Entries, |cuda, runs, _| {
            lookup::lookup(cuda, runs, keys.address, len, 0, found)
        })
    }

    /// For each i, how many keys k there are with `lo[i]` ≤ k ≤ `hi[i]`.
    pub fn count(
        &self,
        lo: DeviceSlice<'_, K>,
        hi: DeviceSlice<'_, K>,
        counts: DeviceSliceMut<'_, u64>,
    ) -> Result<(), Error> {
        let lent = Lent::new(self.store.cuda());
        let len = lo.len() as u64;
        let ranges = lent.ranges(lo, hi)?;
        let counts = lent.output("counts", &counts, len)?;
        let ends = (ranges.0.address, ranges.1.address);
        self.answer(lent, Needs::Marks, |cuda, _, view| count::count(cuda, view, ends, len, counts))
    }

    /// For each key, how many keys are less.
    pub fn rank(
        &self,
        keys: DeviceSlice<'_, K>,
        ranks: DeviceSliceMut<'_, u64>,
    ) -> Result<(), Error> {
        let lent = Lent::new(self.store.cuda());
        let len = keys.len() as u64;
        let (keys, ranks) = (lent.keys(keys)?, lent.output("ranks", &ranks, len)?);
        self.answer(lent, Needs::Marks, |cuda, _, view| {
            count::rank(cuda, view, keys.address, len, ranks)
        })
    }

    /// Where the answer to each range begins when all are laid end to end, and where the last ends:
    /// one offset more than there are ranges.
    pub fn range_offsets(
        &self,
        lo: DeviceSlice<'_, K>,
        hi: DeviceSlice<'_, K>,
        offsets: DeviceSliceMut<'_, u64>,
    ) -> Result<(), Error> {
        let lent = Lent::new(self.store.cuda());
        let len = lo.len() as u64;
        let ranges = lent.ranges(lo, hi)?;
        let offsets = lent.output("offsets", &offsets, len + 1)?;
        let asked = range::RangeQueries { lo: ranges.0.address, hi: ranges.1.address, len };
        self.answer(lent, Needs::Marks, |cuda, _, view| range::offsets(cuda, view, &asked, offsets))
    }

    /// The same offsets and, if there is room for all of them in `keys` and `values`, the pairs of
    /// each range at its own. If there is not, no pair is written: the last offset says how many
    /// there are.
    pub fn range(
        &self,
        lo: DeviceSlice<'_, K>,
        hi: DeviceSlice<'_, K>,
        offsets: DeviceSliceMut<'_, u64>,
        keys: DeviceSliceMut<'_, K>,
        values: DeviceSliceMut<'_, V>,
    ) -> Result<(), Error> {
        let room = keys.len().min(if V::WIDTH == 0 { keys.len() } else { values.len() }) as u64;
        let lent = Lent::new(self.store.cuda());
        let len = lo.len() as u64;
        let ranges = lent.ranges(lo, hi)?;
        let offsets = lent.output("offsets", &offsets, len + 1)?;
        let values = lent.output("values", &values, if V::WIDTH == 0 { 0 } else { room })?;
        let keys = lent.output("keys", &keys, room)?;
        let asked = range::RangeQueries { lo: ranges.0.address, hi: ranges.1.address, len };
        let to = range::Room { keys, values, len: room };
        self.answer(lent, Needs::Marks, |cuda, _, view| {
            range::range(cuda, view, &asked, offsets, &to)?;
            decode::<K>(cuda, keys, room, 0, offsets + len * size_of::<u64>() as u64)
        })
    }

    /// For each index the pair at that place in key order, and whether there is one (1 or 0).
    pub fn select(
        &self,
        indices: DeviceSlice<'_, u64>,
        keys: DeviceSliceMut<'_, K>,
        values: DeviceSliceMut<'_, V>,
        found: DeviceSliceMut<'_, u8>,
    ) -> Result<(), Error> {
        let lent = Lent::new(self.store.cuda());
        let len = indices.len() as u64;
        let indices = lent.input(indices)?;
        let pairs = lent.pairs(("keys", &keys), &values, &found, len)?;
        self.answer(lent, Needs::Marks, |cuda, _, view| {
            select::select(cuda, view, indices, len, &pairs)?;
            decode::<K>(cuda, pairs.keys, len, pairs.found, 0)
        })
    }

    /// For each key the nearest pair whose key is not less, and whether there is one (1 or 0).
    pub fn successor(
        &self,
        keys: DeviceSlice<'_, K>,
        out_keys: DeviceSliceMut<'_, K>,
        values: DeviceSliceMut<'_, V>,
        found: DeviceSliceMut<'_, u8>,
    ) -> Result<(), Error> {
        self.nearest(Side::Successor, keys, out_keys, values, found)
    }

    /// For each key the nearest pair whose key is not greater, and whether there is one (1 or 0).
    pub fn predecessor(
        &self,
        keys: DeviceSlice<'_, K>,
        out_keys: DeviceSliceMut<'_, K>,
        values: DeviceSliceMut<'_, V>,
        found: DeviceSliceMut<'_, u8>,
    ) -> Result<(), Error> {
        self.nearest(Side::Predecessor, keys, out_keys, values, found)
    }

    fn nearest(
        &self,
        side: Side,
        keys: DeviceSlice<'_, K>,
        out_keys: DeviceSliceMut<'_, K>,
        values: DeviceSliceMut<'_, V>,
        found: DeviceSliceMut<'_, u8>,
    ) -> Result<(), Error> {
        let lent = Lent::new(self.store.cuda());
        let len = keys.len() as u64;
        let keys = lent.keys(keys)?;
        let pairs = lent.pairs(("out_keys", &out_keys), &values, &found, len)?;
        self.answer(lent, Needs::Marks, |cuda, _, view| {
            nearest::nearest(cuda, view, side, keys.address, len, &pairs)?;
            decode::<K>(cuda, pairs.keys, len, pairs.found, 0)
        })
    }

    /// The dictionary as a kernel of one's own sees it: see [`View`].
    pub fn view(&self) -> Result<View<'a, K, V>, Error> {
        let levels = self.store.flushed()?;
        resolve::resolve(self.store.cuda(), levels.runs())?;
        let reading = self.store.cuda().read(levels.runs().iter())?;
        let raw = Box::new(ffi::View::new(levels.runs().iter().map(Run::view)));
        Ok(View { raw, _reading: reading, _levels: levels, types: PhantomData })
    }

    fn answer(
        &self,
        lent: Lent<'_>,
        needs: Needs,
        query: impl FnOnce(&Cuda, &[Run], &ffi::View) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let cuda = self.store.cuda();
        let _entered = cuda.gpu().enter()?;
        let levels = self.store.flushed()?;
        if needs == Needs::Marks {
            resolve::resolve(cuda, levels.runs())?;
        }
        let reading = cuda.read(levels.runs().iter())?;
        let runs = levels.runs();
        query(cuda, runs, &ffi::View::new(runs.iter().map(Run::view)))?;
        reading.end()?;
        if cuda.stream.is_capturing()? {
            self.store.pin(levels);
        }
        lent.end()
    }
}

/// What a query must know of every run.
#[derive(PartialEq, Eq)]
enum Needs {
    /// Keys, values, and whether they are live.
    Entries,
    /// Also whether they shadow older ones.
    Marks,
}

/// Updates from data in the GPU's memory, made by
/// [`Dictionary::resident_mut`](crate::Dictionary::resident_mut).
///
/// Calls are put on the dictionary's stream and return at once; the data may change as soon as what
/// is on that stream is done.
pub struct ResidentMut<'a, K: Key, V: Value> {
    store: &'a mut dyn CudaStore,
    types: PhantomData<(K, V)>,
}

impl<'a, K: Key, V: Value> ResidentMut<'a, K, V> {
    pub(crate) fn new(store: &'a mut dyn AnyStore<K::Ordered>) -> Result<Self, Error> {
        Ok(ResidentMut { store: on_cuda_mut(store.as_any_mut())?, types: PhantomData })
    }

    /// Inserts each key with its value, replacing what it had. Of equal keys the last one wins.
    pub fn insert(
        &mut self,
        keys: DeviceSlice<'_, K>,
        values: DeviceSlice<'_, V>,
    ) -> Result<(), Error> {
        let none = keys.slice(..0);
        self.update(keys, values, none)
    }

    /// Deletes each key; one that isn't there is no error.
    pub fn delete(&mut self, keys: DeviceSlice<'_, K>) -> Result<(), Error> {
        self.update(keys.slice(..0), DeviceSlice::empty(keys.stream()), keys)
    }

    /// Takes in one mixed batch of inserts and deletes; deletes win.
    pub fn update(
        &mut self,
        keys: DeviceSlice<'_, K>,
        values: DeviceSlice<'_, V>,
        deletes: DeviceSlice<'_, K>,
    ) -> Result<(), Error> {
        check_lengths(("keys", keys.len()), ("values", values.len()))?;
        let cuda = self.store.cuda().clone();
        let _entered = cuda.gpu().enter()?;
        let lent = Lent::new(&cuda);
        let (inserts, delete_count) = (keys.len() as u64, deletes.len() as u64);
        let (keys, deletes) = (lent.keys(keys)?, lent.keys(deletes)?);
        self.store.apply_staged(&Batch {
            keys: keys.address,
            values: lent.input(values)?,
            inserts,
            delete_keys: deletes.address,
            deletes: delete_count,
            numbers: 0,
            order: Order::Any,
            ..Batch::default()
        })?;
        lent.end()
    }
}

/// A dictionary as a kernel of one's own sees it: a `gpulsm::View` of `include/gpulsm/view.cuh`, to
/// be passed by value to kernels on the snapshot's stream, put there before this is dropped.
///
/// Its key type is `uint32_t` or `uint64_t`; `include/gpulsm/keys.cuh` maps other keys to those. Its
/// value type is any of the same size and alignment: `gpulsm::Nothing`, `uint32_t`, `uint64_t`,
/// `ulonglong2`, or a structure.
///
/// Kernels are launched on the GPU of the stream: where that is not GPU 0, call `cudaSetDevice` first.
/// A crate that depends on this one finds the headers in `DEP_GPULSM_KERNELS_INCLUDE` and nvcc in
/// `DEP_GPULSM_KERNELS_NVCC` when its build script runs; `examples/own-kernel` shows all of it.
pub struct View<'a, K, V> {
    raw: Box<ffi::View>,
    _reading: Reading<'a>,
    _levels: Arc<Levels<Run>>,
    types: PhantomData<(K, V)>,
}

impl<K: Key, V: Value> View<'_, K, V> {
    /// Where the structure is, in the host's memory.
    pub fn as_ptr(&self) -> *const c_void {
        (&raw const *self.raw).cast()
    }
}

/// What a call was lent by its caller: before it, the dictionary's stream waits for the lenders', and
/// after it they wait for the dictionary's.
struct Lent<'a> {
    cuda: &'a Cuda,
    lenders: RefCell<Vec<Stream>>,
}

/// Keys as engines want them: the caller's, or a mapped copy.
struct Keys {
    address: Address,
    _buffer: Option<Buffer>,
}

impl<'a> Lent<'a> {
    fn new(cuda: &'a Cuda) -> Self {
        Lent { cuda, lenders: RefCell::default() }
    }

    fn input<T: Pod>(&self, slice: DeviceSlice<'_, T>) -> Result<Address, Error> {
        let stream = slice.stream();
        let (data, dictionary) = (stream.gpu().index, self.cuda.gpu().index);
        if data != dictionary {
            return Err(Error::OtherDevice { data, dictionary });
        }
        let to = size_of::<T>().max(1) as u64;
        if !slice.is_empty() && !slice.address().is_multiple_of(to) {
            return Err(Error::Misaligned { address: slice.address(), to });
        }
        if *stream != self.cuda.stream && !self.lenders.borrow().contains(stream) {
            self.cuda.stream.wait_for(stream)?;
            self.lenders.borrow_mut().push(stream.clone());
        }
        Ok(slice.address())
    }

    fn output<T: Pod>(
        &self,
        name: &'static str,
        slice: &DeviceSliceMut<'_, T>,
        len: u64,
    ) -> Result<Address, Error> {
        check_buffer(name, slice.len(), if size_of::<T>() == 0 { 0 } else { len as usize })?;
        self.input(slice.as_slice())
    }

    fn pairs<K: Key, V: Value>(
        &self,
        (name, keys): (&'static str, &DeviceSliceMut<'_, K>),
        values: &DeviceSliceMut<'_, V>,
        found: &DeviceSliceMut<'_, u8>,
        len: u64,
    ) -> Result<PairsOutput, Error> {
        let keys = self.output(name, keys, len)?;
        let values = self.output("values", values, len)?;
        Ok(PairsOutput { keys, values, found: self.output("found", found, len)? })
    }

    fn keys<K: Key>(&self, keys: DeviceSlice<'_, K>) -> Result<Keys, Error> {
        let address = self.input(keys)?;
        if K::ENCODING == Encoding::Unsigned || keys.is_empty() {
            return Ok(Keys { address, _buffer: None });
        }
        let cuda = self.cuda;
        let buffer = Buffer::uncounted(bytes_of::<K>(keys.len()), &cuda.stream)?;
        let (to, len) = (buffer.address(), keys.len() as u64);
        let _entered = cuda.gpu().enter()?;
        // SAFETY: there are `len` keys and room for as many, used in the order of this stream.
        check("mapping keys", unsafe {
            let encoding = K::ENCODING as i32;
            ffi::gpulsm_encode(cuda.key_width, encoding, address, len, to, cuda.stream.raw())
        })?;
        Ok(Keys { address: to, _buffer: Some(buffer) })
    }

    /// The ends of ranges, as many on both sides.
    fn ranges<K: Key>(
        &self,
        lo: DeviceSlice<'_, K>,
        hi: DeviceSlice<'_, K>,
    ) -> Result<(Keys, Keys), Error> {
        check_lengths(("lo", lo.len()), ("hi", hi.len()))?;
        Ok((self.keys(lo)?, self.keys(hi)?))
    }

    fn end(self) -> Result<(), Error> {
        self.give_back()
    }

    /// Makes the lenders' streams wait for what was done with what they lent.
    fn give_back(&self) -> Result<(), Error> {
        let mut lenders = self.lenders.take().into_iter();
        if self.cuda.stream.is_capturing()? {
            return Ok(()); // Nothing is done yet: who launches the graph orders it.
        }
        lenders.try_for_each(|stream| stream.wait_for(&self.cuda.stream))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.give_back().ok(); // After an error: what was begun may still use it.
    }
}

/// Turns ordered integers into keys, in place: those `found`, or all where that is 0; as many as are
/// `written`, or all where that is 0.
fn decode<K: Key>(
    cuda: &Cuda,
    keys: Address,
    room: u64,
    found: Address,
    written: Address,
) -> Result<(), Error> {
    if K::ENCODING == Encoding::Unsigned || room == 0 {
        return Ok(());
    }
    let _entered = cuda.gpu().enter()?;
    // SAFETY: there is room for so many keys, as many bytes in `found` and one number in `written`
    // unless they are null; all are used in the order of this stream.
    check("mapping keys", unsafe {
        let (encoding, stream) = (K::ENCODING as i32, cuda.stream.raw());
        ffi::gpulsm_decode(cuda.key_width, encoding, keys, room, found, written, stream)
    })
}
