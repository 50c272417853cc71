//! `gpulsm devices`: the devices of this machine.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use gpulsm::Device;

use crate::bench;

/// Lists the devices that a dictionary can live on, and says why others can't be used.
#[derive(Args)]
pub struct Devices {}

impl Devices {
    pub fn run(&self) -> Result<ExitCode, Box<dyn Error>> {
        let mut out = io::stdout();
        let best = Device::best();
        let mut line = |name: &str, what: &str, is_best: bool| {
            let best = if is_best { "  (best)" } else { "" };
            writeln!(out, "{name:<8}{what}{best}")
        };
        line("cpu", &bench::describe(Device::cpu())?, !best.is_cuda())?;
        for index in 0.. {
            let name = format!("cuda:{index}");
            match Device::cuda(index) {
                Ok(device) => line(&name, &bench::describe(device)?, device == best)?,
                // Past the last GPU, unless there is none.
                Err(error) if index == 0 => line("cuda", &format!("not usable: {error}"), false)?,
                Err(_) => break,
            }
            if !best.is_cuda() {
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
