//! Where Vulkan comes from.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that tells Vulkan's loader which drivers to use.
const DRIVER_FILES: &str = "VK_DRIVER_FILES";

/// `SwiftShader`, as Debian's package `chromium` installs it: the one software driver that runs Burn's kernels. The
/// package's Vulkan driver of Mesa 22 crashes on reductions.
const SOFTWARE: &str = "/usr/lib/chromium/vk_swiftshader_icd.json";

/// Where a GPU shows that a program may use it.
const GPUS: [&str; 2] = ["/dev/dri/renderD128", "/dev/nvidia0"];

/// Where installed drivers are listed.
const LISTS: [&str; 2] = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];

/// Where a program finds a Vulkan driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vulkan {
    /// Where it looks by itself.
    Installed,
    /// In this file, which describes a software driver.
    Software(PathBuf),
}

/// Finds a driver: what the user has set, else that of a GPU, else the software driver, else whatever is installed.
pub(crate) fn find() -> Option<Vulkan> {
    let is_there = |path: &str| Path::new(path).exists();
    let lists_any = |path: &str| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
    choose(
        env::var_os(DRIVER_FILES).as_deref(),
        GPUS.into_iter().any(is_there),
        is_there(SOFTWARE),
        LISTS.into_iter().any(lists_any),
    )
}

fn choose(set: Option<&OsStr>, gpu: bool, software: bool, installed: bool) -> Option<Vulkan> {
    if set.is_some() || (gpu && installed) {
        return Some(Vulkan::Installed);
    }
    let software = software.then(|| Vulkan::Software(SOFTWARE.into()));
    software.or_else(|| installed.then_some(Vulkan::Installed))
}

impl Vulkan {
    /// Points a command to the driver.
    pub(crate) fn equip(&self, command: &mut Command) {
        if let Self::Software(path) = self {
            command.env(DRIVER_FILES, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_choice_comes_first_and_a_software_driver_before_drivers_without_a_gpu() {
        let software = || Some(Vulkan::Software(SOFTWARE.into()));
        assert_eq!(choose(Some(OsStr::new("card.json")), false, true, false), Some(Vulkan::Installed));
        assert_eq!(choose(None, true, true, true), Some(Vulkan::Installed));
        assert_eq!(choose(None, true, true, false), software());
        assert_eq!(choose(None, false, true, true), software());
        assert_eq!(choose(None, false, false, true), Some(Vulkan::Installed));
        assert_eq!(choose(None, true, false, false), None);
    }

    #[test]
    fn only_a_software_driver_is_pointed_to() {
        let files = |vulkan: &Vulkan| {
            let mut command = Command::new("true");
            vulkan.equip(&mut command);
            command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect::<Vec<_>>()
        };
        assert_eq!(files(&Vulkan::Installed), []);
        assert_eq!(files(&Vulkan::Software("a.json".into())), [(DRIVER_FILES.into(), Some("a.json".into()))]);
    }
}
