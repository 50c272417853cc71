//! Opening a device and a store on it: the only file that names both engines.

use std::any::Any;
use std::str::FromStr;

use crate::budget::Account;
use crate::cpu::{Cpu, CpuEngine};
#[cfg(feature = "cuda")]
use crate::cuda::{Cuda, CudaEngine, Gpu, Stream};
use crate::device::{Device, Devices};
use crate::error::Error;
use crate::key::OrderedKey;
use crate::shards::{Shard, Shards};
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

impl FromStr for Devices {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        text.split(',').map(|device| device.trim().parse()).collect::<Result<Devices, Error>>()
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

/// Opens an empty store for values of `width` bytes: on one device, or on several a shard each.
pub(crate) fn open<B: OrderedKey>(
    locations: &[Location],
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<B>>, Error> {
    // Not generic below this line: every store is compiled with this crate, not again with its users.
    let store: Box<dyn Any> = match size_of::<B>() {
        4 => Box::new(open_u32(locations, settings, width)?),
        8 => Box::new(open_u64(locations, settings, width)?),
        _ => Box::new(open_u128(locations, settings, width)?),
    };
    let store = store.downcast::<Box<dyn AnyStore<B>>>();
    Ok(*store.expect("an ordered key is a u32, u64 or u128"))
}

fn open_u32(
    locations: &[Location],
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<u32>>, Error> {
    open_all(locations, settings, width)
}

fn open_u64(
    locations: &[Location],
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<u64>>, Error> {
    open_all(locations, settings, width)
}

fn open_u128(
    locations: &[Location],
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<u128>>, Error> {
    open_all(locations, settings, width)
}

fn open_all<B: OrderedKey>(
    locations: &[Location],
    settings: &Settings,
    width: usize,
) -> Result<Box<dyn AnyStore<B>>, Error> {
    let mut accounts = Accounts::new(settings, locations);
    if let [location] = locations {
        return open_on(location, settings, width, accounts.of(location.device).1);
    }
    let count = locations.len();
    let settings_of_shard = Settings {
        batch_size: (settings.batch_size / count).max(1),
        max_merge_per_batch: settings.max_merge_per_batch.map(|most| most.div_ceil(count)),
        ..settings.clone()
    };
    let shards = locations.iter().map(|location| {
        let device = location.device;
        let (index, account) = accounts.of(device);
        let store = open_on(location, &settings_of_shard, width, account);
        let store = store.map_err(|error| error.on_device(device))?;
        Ok(Shard { device, store, account: index })
    });
    let shards = shards.collect::<Result<_, Error>>()?;
    Ok(Box::new(Shards::new(shards, settings)?))
}

/// Where the memory of stores is counted: in one account, or in one for each device if each has a limit of its own.
struct Accounts {
    accounts: Vec<(Option<Device>, Account)>,
}

impl Accounts {
    fn new(settings: &Settings, locations: &[Location]) -> Self {
        let Some(limit) = settings.memory_limit_per_device else {
            let account = Account::of_stores(settings.memory_limit, locations.len());
            return Accounts { accounts: vec![(None, account)] };
        };
        let mut accounts: Vec<(Option<Device>, Account)> = Vec::new();
        for &Location { device, .. } in locations {
            if accounts.iter().all(|&(known, _)| known != Some(device)) {
                let stores = locations.iter().filter(|other| other.device == device).count();
                accounts.push((Some(device), Account::of_stores(Some(limit), stores)));
            }
        }
        Accounts { accounts }
    }

    /// Returns the account of a device, and its number.
    fn of(&mut self, device: Device) -> (usize, Account) {
        let is_its_own = |(_, (known, _)): &(usize, &(Option<Device>, Account))| {
            known.is_none_or(|known| known == device)
        };
        let found = self.accounts.iter().enumerate().find(is_its_own);
        let (index, (_, account)) = found.expect("there is one for every device");
        (index, account.clone())
    }
}

fn open_on<B: OrderedKey>(
    location: &Location,
    settings: &Settings,
    width: usize,
    account: Account,
) -> Result<Box<dyn AnyStore<B>>, Error> {
    #[cfg(feature = "cuda")]
    if location.device.is_cuda() {
        return open_cuda(location, settings, width, account);
    }
    debug_assert!(!location.device.is_cuda());
    let cpu = Cpu::with_account(account, settings.threads)?.combining(settings.combiner);
    Ok(Box::new(Store::new(CpuEngine::<B>::new(cpu, width), settings)))
}

#[cfg(feature = "cuda")]
fn open_cuda<B: OrderedKey>(
    location: &Location,
    settings: &Settings,
    width: usize,
    account: Account,
) -> Result<Box<dyn AnyStore<B>>, Error> {
    let stream = match &location.stream {
        Some(stream) => stream.clone(),
        None => Stream::new(location.device)?,
    };
    let cuda = Cuda::new(stream, account, size_of::<B>(), width).combining(settings.combiner);
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
        let several = Devices::new(&[Device::cpu(), Device::cpu()]);
        assert_eq!("cpu, cpu".parse(), Ok(several.clone()));
        assert_eq!(several.to_string(), "cpu,cpu");
        for text in ["cpu,", ",", "cpu,gpu"] {
            assert!(text.parse::<Devices>().is_err(), "{text}");
        }
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
