//! Opening a device and a store on it: the only file that names both engines.

use std::any::Any;
use std::str::FromStr;

use crate::cpu::{Cpu, CpuEngine};
#[cfg(feature = "cuda")]
use crate::cuda::{Cuda, CudaEngine, Gpu, Stream};
use crate::device::Device;
use crate::error::Error;
use crate::key::OrderedKey;
use crate::store::{AnyStore, Settings, Store};

impl Device {
    /// Returns the fastest device of this machine: a GPU if this build and the machine have one, otherwise
    /// the CPU.
    #[must_use]
    pub fn best() -> Self {
        Device::cuda(0).unwrap_or_default()
    }

    /// Returns NVIDIA GPU number `index`.
    ///
    /// # Errors
    ///
    /// [`NoCudaDevice`](Error::NoCudaDevice) or [`BuiltWithoutCuda`](Error::BuiltWithoutCuda), which say why it
    /// can't be used.
    pub fn cuda(index: usize) -> Result<Self, Error> {
        #[cfg(feature = "cuda")]
        return Gpu::open(index).map(|gpu| Device::from_cuda_index(gpu.index));
        #[cfg(not(feature = "cuda"))]
        Err(Error::BuiltWithoutCuda { index })
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "best" => Ok(Device::best()),
            "cpu" => Ok(Device::cpu()),
            "cuda" => Device::cuda(0),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|index| index.parse().ok())
                .ok_or_else(|| Error::UnknownDevice { text: text.into() })
                .and_then(Device::cuda),
        }
    }
}

/// Where a new store lives.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    pub device: Device,
    /// On a GPU: the stream that its calls run on. Default: one of its own.
    #[cfg(feature = "cuda")]
    pub stream: Option<Stream>,
}

/// Opens an empty store for values of `width` bytes.
pub(crate) fn open<B: OrderedKey>(
    location: &Location,
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<B>>, Error> {
    // Not generic below this line: every store is compiled with this crate, not again with its users.
    let store: Box<dyn Any> = match size_of::<B>() {
        4 => Box::new(open_u32(location, settings, width)?),
        8 => Box::new(open_u64(location, settings, width)?),
        _ => Box::new(open_u128(location, settings, width)?),
    };
    let store = store.downcast::<Box<dyn AnyStore<B>>>();
    Ok(*store.expect("an ordered key is a u32, u64 or u128"))
}

fn open_u32(
    location: &Location,
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<u32>>, Error> {
    open_on(location, settings, width)
}

fn open_u64(
    location: &Location,
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<u64>>, Error> {
    open_on(location, settings, width)
}

fn open_u128(
    location: &Location,
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<u128>>, Error> {
    open_on(location, settings, width)
}

fn open_on<B: OrderedKey>(
    location: &Location,
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<B>>, Error> {
    #[cfg(feature = "cuda")]
    if location.device.is_cuda() {
        return open_cuda(location, settings, width);
    }
    debug_assert!(!location.device.is_cuda());
    let cpu = Cpu::new(settings.memory_limit, settings.threads)?.combining(settings.combiner);
    Ok(Box::new(Store::new(CpuEngine::<B>::new(cpu, width), settings)))
}

#[cfg(feature = "cuda")]
fn open_cuda<B: OrderedKey>(
    location: &Location,
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<B>>, Error> {
    let stream = match &location.stream {
        Some(stream) => stream.clone(),
        None => Stream::new(location.device)?,
    };
    let cuda = Cuda::new(stream, settings.memory_limit, size_of::<B>(), width)
        .combining(settings.combiner);
    Ok(Box::new(Store::new(CudaEngine::new(cuda), settings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_from_text() {
        assert_eq!("cpu".parse(), Ok(Device::cpu()));
        assert_eq!("best".parse(), Ok(Device::best()));
        assert_eq!("cpu".parse::<Device>().unwrap().to_string(), "cpu");
        for text in ["", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1"] {
            assert_eq!(text.parse::<Device>(), Err(Error::UnknownDevice { text: text.into() }));
        }
    }

    #[test]
    fn the_best_device_is_a_gpu_where_there_is_one() {
        match Device::cuda(0) {
            Ok(gpu) => assert_eq!((Device::best(), gpu.to_string()), (gpu, "cuda".into())),
            Err(error) => {
                assert_eq!(Device::best(), Device::cpu());
                assert!(error.to_string().starts_with("no CUDA device 0: "), "{error}");
            }
        }
        assert!(Device::cuda(1000).is_err());
    }

    #[test]
    #[cfg(not(feature = "cuda"))]
    fn cuda_says_that_it_is_not_built_in() {
        assert_eq!("cuda:3".parse::<Device>(), Err(Error::BuiltWithoutCuda { index: 3 }));
        let message = Device::cuda(0).unwrap_err().to_string();
        assert!(message.contains("built without CUDA"), "{message}");
    }
}
