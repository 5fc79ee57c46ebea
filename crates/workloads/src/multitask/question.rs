//! What a trained model is asked.

use std::path::{Path, PathBuf};

use plimsoll_types::{Bytes, Extent};

use super::album::decoded_bytes;
use super::lines::{Asks, ask};
use super::samples::without_mark;
use super::signature::Signature;
use super::sizes::narrow;
use crate::image_file::ImageFile;
use crate::listed::Lines;

/// A sample whose answer nobody knows.
#[derive(Clone, Debug)]
pub struct Question {
    /// The image, or the list and its line.
    pub name: String,
    /// The number of its task.
    pub task: u16,
    /// One group of images, or the two whose order is asked for; their heads were read.
    pub(super) groups: Vec<Vec<ImageFile>>,
    pub(super) tokens: Vec<u32>,
}

impl Question {
    /// Asks what images and lists ask: an image for its subject or label, and each line of a `.jsonl` list for what its
    /// task is about; `subjects` may be left out there, and so may the `text` where no order is asked for.
    ///
    /// # Errors
    ///
    /// Says what is wrong with a file or a line.
    pub fn all(files: &[PathBuf], signature: &Signature) -> Result<Vec<Self>, String> {
        let mut questions = Vec::new();
        for file in files {
            if file.extension().is_some_and(|it| it.eq_ignore_ascii_case("jsonl")) {
                questions.extend(of_list(file, signature)?);
            } else {
                questions.push(of_image(file, signature)?);
            }
        }
        Ok(questions)
    }

    /// Returns the number of its images.
    pub fn n_images(&self) -> u32 {
        narrow(self.groups.iter().map(Vec::len).sum())
    }

    /// Returns its images and its words, and where the model is shown images in their own shapes, the longest side.
    pub fn extent(&self, signature: &Signature) -> Extent {
        let fit = signature.sizes().image;
        let sides = self.groups.iter().flatten().map(|it| fit.of((it.width, it.height)));
        let side = sides.map(|(width, height)| width.max(height)).max();
        fit.extent(self.n_images(), narrow(self.tokens.len()), side.unwrap_or(1))
    }

    /// Returns what decoding the largest of its images takes.
    pub fn needed(&self, signature: &Signature) -> Bytes {
        let fit = signature.sizes().image;
        self.groups.iter().flatten().map(|file| decoded_bytes(file, fit)).max().unwrap_or_default()
    }
}

fn of_image(path: &Path, signature: &Signature) -> Result<Question, String> {
    let name = path.display().to_string();
    let Some(task) = signature.task_of_image() else {
        return Err(format!(
            "ask {name}: this model knows orders of two subjects alone; ask it by a list, a `.jsonl` file"
        ));
    };
    Ok(Question { groups: vec![vec![looked(path)?]], name, task, tokens: signature.tokens(task, None) })
}

fn of_list(path: &Path, signature: &Signature) -> Result<Vec<Question>, String> {
    let failed = |error: std::io::Error| format!("read {}: {error}", path.display());
    let (mut lines, mut number, mut questions) = (Lines::open(path).map_err(failed)?, 0, Vec::new());
    let folder = path.parent().unwrap_or(Path::new(""));
    while let Some((_, line)) = lines.next().map_err(failed)? {
        number += 1;
        let name = format!("{}, line {number}", path.display());
        let read = line.map(|it| without_mark(it, number)).and_then(|line| {
            if line.trim_ascii().is_empty() { Ok(None) } else { of_line(line, folder, &name, signature).map(Some) }
        });
        questions.extend(read.map_err(|reason| format!("read {name}: {reason}"))?);
    }
    if questions.is_empty() {
        return Err(format!("read {}: it asks nothing", path.display()));
    }
    Ok(questions)
}

fn of_line(line: &[u8], folder: &Path, name: &str, signature: &Signature) -> Result<Question, String> {
    let asked = ask(line)?;
    let (task, asks) = signature.task(&asked.task)?;
    let (groups, text) = (asked.groups(asks)?, asked.text);
    if asks == Asks::Order && text.is_none() {
        return Err("a pair has a `text`, whose order is asked for".to_owned());
    }
    let look = |group: Vec<String>| group.iter().map(|it| looked(&folder.join(it))).collect();
    let groups = groups.into_iter().map(look).collect::<Result<_, _>>()?;
    Ok(Question { name: name.to_owned(), task, groups, tokens: signature.tokens(task, text.as_deref()) })
}

fn looked(path: &Path) -> Result<ImageFile, String> {
    ImageFile::look(path).map_err(|fault| format!("read {}: {fault}", path.display()))
}
