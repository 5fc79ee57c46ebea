//! What the tests of the program share.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{self, Command, Output};

use serde_json::Value;

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Models of all jobs that are small, for steps that are short.
#[allow(dead_code, reason = "not every test trains")]
pub(crate) const SMALL: [&str; 12] = [
    "sr.channels=4",
    "sr.blocks=1",
    "text.width=16",
    "text.layers=1",
    "text.heads=1",
    "text.vocabulary=300",
    "sequence.heads=1",
    "sequence.head_width=8",
    "sequence.blocks=1",
    "multitask.channels=4",
    "multitask.features=8",
    "multitask.image_size=16",
];

#[allow(dead_code, reason = "not every test refuses something")]
#[track_caller]
pub(crate) fn refused(output: &Output, parts: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "`{stderr}` lacks `{part}`");
    }
}

#[allow(dead_code, reason = "not every test reads a file")]
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A process that does not outlive the test that has started it, whatever becomes of that.
#[allow(dead_code, reason = "not every test starts one")]
pub(crate) struct Child(Option<process::Child>);

#[allow(dead_code, reason = "not every test starts one")]
impl Child {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// Sends a signal, such as "TERM".
    pub(crate) fn signal(&self, name: &str) {
        let killed = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status().unwrap();
        assert!(killed.success());
    }

    pub(crate) fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Deref for Child {
    type Target = process::Child;

    fn deref(&self) -> &process::Child {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Child {
    fn deref_mut(&mut self) -> &mut process::Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // One that has ended cannot be killed.
            drop(child.kill());
            drop(child.wait());
        }
    }
}
