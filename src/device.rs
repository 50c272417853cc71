//! Where a dictionary lives.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Where a dictionary lives, chosen at run time.
///
/// A device is also made from text (`"best"`, `"cpu"`, `"cuda"`, `"cuda:1"`), as programs take it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Device(Kind);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Kind {
    #[default]
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda(usize),
}

impl Device {
    /// Returns this machine's CPU.
    #[must_use]
    pub fn cpu() -> Self {
        Device(Kind::Cpu)
    }

    /// Returns whether this is a GPU.
    #[must_use]
    pub fn is_cuda(self) -> bool {
        self != Device::cpu()
    }

    /// Returns GPU number `index`, which has been opened.
    #[cfg(feature = "cuda")]
    pub(crate) fn from_cuda_index(index: usize) -> Self {
        Device(Kind::Cuda(index))
    }

    /// Returns the index of the GPU; `None` for the CPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn cuda_index(self) -> Option<usize> {
        match self.0 {
            Kind::Cuda(index) => Some(index),
            Kind::Cpu => None,
        }
    }
}

/// One device or several, for [`Builder::devices`](crate::Builder::devices), as programs take them: `cpu`,
/// `cuda:0,cuda:1`. The same one may be named several times.
///
/// ```
/// # fn main() -> Result<(), gpulsm::Error> {
/// let devices: gpulsm::Devices = "cpu,cpu".parse()?;
/// assert_eq!(devices.len(), 2);
/// let d = gpulsm::Dictionary::<u32, u32>::builder().devices(&devices).build()?;
/// assert_eq!(d.devices().to_string(), "cpu,cpu");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Devices(Arc<[Device]>);

impl Devices {
    /// Returns these devices.
    #[must_use]
    pub fn new(devices: &[Device]) -> Self {
        Devices(devices.into())
    }
}

impl From<Device> for Devices {
    fn from(device: Device) -> Self {
        Devices::new(&[device])
    }
}

impl FromIterator<Device> for Devices {
    fn from_iter<I: IntoIterator<Item = Device>>(devices: I) -> Self {
        Devices(devices.into_iter().collect())
    }
}

impl Deref for Devices {
    type Target = [Device];

    fn deref(&self) -> &[Device] {
        &self.0
    }
}

impl fmt::Display for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, device) in self.0.iter().enumerate() {
            write!(f, "{}{device}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Cpu => f.write_str("cpu"),
            #[cfg(feature = "cuda")]
            Kind::Cuda(0) => f.write_str("cuda"),
            #[cfg(feature = "cuda")]
            Kind::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}
