//! What the tests of the program share.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

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
