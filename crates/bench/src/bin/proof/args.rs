//! The command line.

use std::path::PathBuf;

use plimsoll_probe::DeviceKind;

use crate::Failed;
use crate::order::Order;

const USAGE: &str = "understand the command line: write `predict OUT.json [--device DEVICE].. [--cells N]`, \
                     `finder OUT.json [--device DEVICE]..`, `gpu-check FOLDER` or `end-to-end OUT.json TEXT RECORDINGS`";

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Child(Order),
    Predict { out: PathBuf, devices: Vec<DeviceKind>, cells: usize },
    Finder { out: PathBuf, devices: Vec<DeviceKind> },
    GpuCheck { folder: PathBuf },
    EndToEnd { out: PathBuf, text: PathBuf, recordings: PathBuf },
}

impl Command {
    pub(crate) fn parse(args: impl Iterator<Item = String>) -> Result<Self, Failed> {
        let (mut words, mut devices, mut cells) = (Vec::new(), Vec::new(), usize::MAX);
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--device" => devices.push(args.next().ok_or(USAGE)?.parse()?),
                "--cells" => cells = args.next().and_then(|it| it.parse().ok()).ok_or(USAGE)?,
                _ => words.push(arg),
            }
        }
        if devices.is_empty() {
            devices = vec![DeviceKind::Flex, DeviceKind::Vulkan(0), DeviceKind::Cuda(0)];
        }
        match &words[..] {
            [name, order] if name == "child" => Ok(Self::Child(serde_json::from_str(order)?)),
            [name, out] if name == "predict" => Ok(Self::Predict { out: out.into(), devices, cells }),
            [name, out] if name == "finder" => Ok(Self::Finder { out: out.into(), devices }),
            [name, folder] if name == "gpu-check" => Ok(Self::GpuCheck { folder: folder.into() }),
            [name, out, text, recordings] if name == "end-to-end" => {
                Ok(Self::EndToEnd { out: out.into(), text: text.into(), recordings: recordings.into() })
            }
            _ => Err(USAGE.into()),
        }
    }
}
