//! The report of `cargo xtask gpu-check`.

use std::fmt;

use serde::Serialize;

use super::section::{Judgement, Section};

/// The content of `gpu-check.json`; it displays as `gpu-check.md`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuReport {
    /// Date in UTC.
    pub date: String,
    /// The device, as its driver names it.
    pub device: String,
    /// Version of its driver, where that is known.
    pub driver: Option<String>,
    /// Whether kernels were chosen by timing, as in what ships.
    pub has_autotune: bool,
    /// What stands in for a GPU, and why; `None` on a GPU.
    pub instead_of_a_gpu: Option<String>,
    /// What was measured, each part with its verdict.
    pub sections: Vec<Section>,
    /// Wall time of the check in seconds.
    pub seconds: f64,
}

impl fmt::Display for GpuReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instead_of_a_gpu {
            Some(reason) => writeln!(f, "**Not measured on a GPU:** {reason}.\n")?,
            None => writeln!(f, "Measured on a GPU.\n")?,
        }
        writeln!(f, "# {} on {}\n", self.device, self.date)?;
        let driver = self.driver.as_deref().unwrap_or("unknown");
        writeln!(f, "Driver: {driver}.\nThe check took {:.0} s.", self.seconds)?;
        let autotune = if self.has_autotune { "on" } else { "left out of this build" };
        writeln!(f, "Fusion is on, autotune {autotune}.\n\n| section | verdict |\n| --- | --- |")?;
        for section in &self.sections {
            let Judgement { is_met, says } = section.judgement();
            let verdict = match is_met {
                Some(true) => "met",
                Some(false) => "**missed**",
                None => "not measured",
            };
            writeln!(f, "| {} | {verdict}: {says} |", section.title())?;
        }
        self.sections.iter().try_for_each(|it| write!(f, "\n{it}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::section::{Content, Figure};
    use super::*;

    fn report(instead_of_a_gpu: Option<&str>) -> GpuReport {
        let figure = Figure {
            when: "after a step".into(),
            observer: "NVML".into(),
            quantity: "used".into(),
            answer: "1.00 GiB".into(),
        };
        let left_out = vec!["text: failed to run a process to its end: its time was up".into()];
        GpuReport {
            date: "2026-11-20".into(),
            device: "cuda:0 (card)".into(),
            driver: Some("580.95".into()),
            has_autotune: true,
            instead_of_a_gpu: instead_of_a_gpu.map(Into::into),
            sections: vec![
                Section { content: Content::Memory(vec![figure]), left_out: vec![] },
                Section { content: Content::Line(vec![]), left_out },
            ],
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
    fn the_page_has_device_driver_date_a_verdict_for_every_section_and_what_was_left_out() {
        insta::assert_snapshot!(report(None));
    }
}
