//! `plimsoll data`.

use std::process::ExitCode;

use plimsoll_workloads::multitask::Samples;
use plimsoll_workloads::sequence::Recordings;
use plimsoll_workloads::sr;
use plimsoll_workloads::text::{Corpus, TextSurvey};
use plimsoll_workloads::{Survey, outside_told};

use crate::args::DataArgs;
use crate::harness::Harness;
use crate::jobs::{StoreFolder, held_out, narrow, scarce};
use crate::loading::Loading;
use crate::prepare::{SHOWN_NAMES, some_of};
use crate::settings::Settings;
use crate::values::JobName;

/// Kinds of samples, such as labels, that are shown before it is said how many more there are.
const SHOWN_KINDS: usize = 12;

/// Prints what a job's folder must hold, or checks one.
pub(crate) fn data(args: &DataArgs, harness: &'static dyn Harness) -> anyhow::Result<ExitCode> {
    let settings = args.layers()?.load()?.settings;
    let Some(folder) = &args.folder else {
        print!("{}", page(settings.job));
        return Ok(ExitCode::SUCCESS);
    };
    let store = StoreFolder::find()?;
    let (survey, notes) = survey(&settings, &store.loading(harness, &settings)?)?;
    println!("{:<12}{} for {}", "data", folder.display(), settings.job.word());
    lines(&survey).iter().chain(&notes).for_each(|line| println!("{line}"));
    if settings.job != JobName::Text {
        println!("{:<12}heads alone were read: what is damaged further on shows in a run", "");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns what a job's folder must hold.
const fn page(job: JobName) -> &'static str {
    match job {
        JobName::Sr => include_str!("pages/sr.md"),
        JobName::Sequence => include_str!("pages/sequence.md"),
        JobName::Multitask => include_str!("pages/multitask.md"),
        JobName::Text => include_str!("pages/text.md"),
    }
}

/// Looks at the configured data, and says what else there is to know.
fn survey(settings: &Settings, loading: &Loading<'_>) -> anyhow::Result<(Survey, Vec<String>)> {
    let room = loading.room(settings);
    let survey = match settings.job {
        JobName::Sr => return survey_of_images(settings, loading),
        JobName::Sequence => {
            let config = settings.recordings();
            loading.read(|watch| Recordings::read_watched(&config, watch))?.survey()
        }
        JobName::Multitask => {
            let config = settings.samples(room);
            let (survey, few) = loading.read(|watch| Samples::survey(&config, watch))?;
            return Ok((survey, few.iter().map(|few| note(&scarce(few))).collect()));
        }
        JobName::Text => {
            let config = settings.corpus(room);
            let told = loading.read(|watch| Corpus::survey(&config, watch))?;
            let notes = notes_on_text(&told, config.cut.longest);
            return Ok((told.survey, notes));
        }
    };
    Ok((survey, Vec::new()))
}

/// Says what tokens are counted in, and where not all texts were looked at.
fn notes_on_text(told: &TextSurvey, longest: u32) -> Vec<String> {
    let mut notes = vec![format!("{:<12}{} tokens", "tokenizer", told.vocabulary)];
    notes.extend(told.sampled.map(|(n, of)| {
        format!(
            "{:<12}lengths and tokenizer are of {n} of {of} sections to train on; a run reads them all, and cuts those of \
             more than {longest} tokens",
            "note"
        )
    }));
    notes
}

/// Looks at images, and says what the smallest of them means for the patches.
fn survey_of_images(settings: &Settings, loading: &Loading<'_>) -> anyhow::Result<(Survey, Vec<String>)> {
    let of_presets = settings.capacity_of_presets(loading.capacity);
    let config = settings.photos(settings.smallest_patch(of_presets), loading.room(settings));
    let (survey, smallest) = loading.read(|watch| sr::survey(&config, watch))?;
    let note = smallest.map(|smallest| narrow(settings, of_presets, &smallest)).transpose()?.flatten();
    Ok((survey, note.as_deref().map(self::note).into_iter().collect()))
}

fn note(what: &str) -> String {
    format!("{:<12}{what}", "note")
}

fn lines(survey: &Survey) -> Vec<String> {
    let Survey { samples, n_train, n_validation, n_test, unit, .. } = survey;
    let held_out = held_out(*n_validation, *n_test);
    let mut lines = vec![format!("{:<12}{n_train} to train on, {held_out}", *samples)];
    let mut lengths = survey.lengths.clone();
    lengths.sort_unstable();
    if let [shortest, .., longest] | [shortest @ longest] = lengths[..] {
        let median = lengths[lengths.len() / 2];
        lines.push(format!("{:<12}shortest {shortest}, median {median}, longest {longest} ({unit})", "lengths"));
    }
    for (name, counts) in &survey.kinds {
        let counts: Vec<_> = counts.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
        lines.push(format!("{name:<12}{}", some_of(counts.into_iter(), SHOWN_KINDS, "more")));
    }
    let outside = outside_told(&survey.outside);
    if !outside.is_empty() {
        lines.push(format!("{:<12}{outside}", "outside"));
    }
    if !survey.skipped.is_empty() {
        let names = some_of(survey.skipped.iter().cloned(), SHOWN_NAMES, "more");
        lines.push(format!("{:<12}{}: {names}", "skipped", survey.skipped.len()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use plimsoll_sampler::AdmitCounts;

    use super::*;

    #[test]
    fn many_kinds_and_files_are_counted_after_the_first() {
        let survey = Survey {
            samples: "recordings",
            n_train: 14,
            n_validation: 3,
            n_test: 2,
            unit: "frames of 10 ms",
            lengths: vec![30, 10, 20],
            kinds: vec![("labels", (0..14).map(|at| (format!("l{at:02}"), 1)).collect())],
            outside: AdmitCounts { too_long: 2, ..AdmitCounts::default() },
            skipped: (0..10).map(|at| format!("{at}.wav: gone")).collect(),
        };
        let lines = lines(&survey);
        assert_eq!(lines[0], "recordings  14 to train on, 3 to validate on, 2 to test on");
        assert_eq!(lines[1], "lengths     shortest 10, median 20, longest 30 (frames of 10 ms)");
        assert!(lines[2].starts_with("labels      l00 1, l01 1, ") && lines[2].ends_with("l11 1 and 2 more"));
        assert_eq!(lines[3], "outside     2 longer than `data.longest` are skipped");
        assert!(lines[4].starts_with("skipped     10: 0.wav: gone, ") && lines[4].ends_with("and 2 more"));
    }
}
