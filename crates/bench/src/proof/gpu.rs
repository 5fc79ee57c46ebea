//! The report of `cargo xtask gpu-check`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Report;
use crate::finder::Comparison;

/// The content of `gpu-check.json`; it displays as `gpu-check.md`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuReport {
    /// Date in UTC.
    pub date: String,
    /// The device, as its driver names it.
    pub device: String,
    /// Version of its driver, where that is known.
    pub driver: Option<String>,
    /// What stands in for a GPU, and why; `None` on a GPU.
    pub instead_of_a_gpu: Option<String>,
    /// Memory as each observer sees it.
    pub memory: Vec<Figure>,
    /// Plan against real.
    pub predict: Report,
    /// The finder against other tools' rules on this device.
    pub finder: Vec<Comparison>,
    /// What was left out because the time was up.
    pub left_out: Vec<String>,
    /// Wall time of the check in seconds.
    pub seconds: f64,
}

/// One quantity, as one observer sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// When it was read.
    pub when: String,
    /// Who was asked.
    pub observer: String,
    /// What it means.
    pub quantity: String,
    /// The answer, or why there is none.
    pub answer: String,
}

impl fmt::Display for GpuReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instead_of_a_gpu {
            Some(reason) => writeln!(f, "**Not measured on a GPU:** {reason}.\n")?,
            None => writeln!(f, "Measured on a GPU.\n")?,
        }
        writeln!(f, "# {} on {}\n", self.device, self.date)?;
        let driver = self.driver.as_deref().unwrap_or("unknown");
        writeln!(f, "Driver: {driver}.\nThe check took {:.0} s.\n", self.seconds)?;
        writeln!(f, "## Memory\n\n| when | observer | quantity | answer |\n| --- | --- | --- | --- |")?;
        for Figure { when, observer, quantity, answer } in &self.memory {
            writeln!(f, "| {when} | {observer} | {quantity} | {answer} |")?;
        }
        writeln!(f, "\n## Plan against real\n\n```text\n{}```\n\n{}", self.predict, self.predict.targets)?;
        writeln!(f, "## Finder")?;
        self.finder.iter().try_for_each(|it| writeln!(f, "\n```text\n{it}```"))?;
        if !self.left_out.is_empty() {
            writeln!(f, "\n## Left out, because the time was up\n")?;
            self.left_out.iter().try_for_each(|it| writeln!(f, "* {it}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(instead_of_a_gpu: Option<&str>) -> GpuReport {
        let figure = Figure {
            when: "after a step".into(),
            observer: "NVML".into(),
            quantity: "used".into(),
            answer: "1.00 GiB".into(),
        };
        GpuReport {
            date: "2026-11-20".into(),
            device: "cuda:0 (card)".into(),
            driver: Some("580.95".into()),
            instead_of_a_gpu: instead_of_a_gpu.map(Into::into),
            memory: vec![figure],
            predict: Report::try_new(vec![], vec![], vec![], vec![]).unwrap(),
            finder: vec![],
            left_out: vec!["the finder".into()],
            seconds: 12.3,
        }
    }

    #[test]
    fn the_first_line_says_what_stands_in_for_a_gpu() {
        let first = |it: &GpuReport| it.to_string().lines().next().map(str::to_owned).unwrap();
        let software = report(Some("a software Vulkan driver stands in, since there is no NVIDIA driver"));
        assert_eq!(
            first(&software),
            "**Not measured on a GPU:** a software Vulkan driver stands in, since there is no NVIDIA driver."
        );
        assert_eq!(first(&report(None)), "Measured on a GPU.");
    }

    #[test]
    fn the_page_has_device_driver_date_and_every_part() {
        insta::assert_snapshot!(report(None));
    }
}
