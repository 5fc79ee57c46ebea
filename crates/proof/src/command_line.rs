//! What the command lines of the binaries have in common.

use std::ffi::OsStr;
use std::fmt::Display;

/// Returns the arguments, or none where somebody asks how they are written.
///
/// # Errors
///
/// A sentence that names the first argument that begins as a flag does and is none of `flags`: it is no name of a file.
pub fn arguments<A: AsRef<OsStr>>(
    args: impl Iterator<Item = A>,
    flags: &[&str],
    usage: impl Display,
) -> Result<Option<Vec<A>>, String> {
    let args: Vec<A> = args.collect();
    if args.iter().any(|it| ["--help", "-h"].iter().any(|help| it.as_ref() == *help)) {
        return Ok(None);
    }
    let is_flag = |it: &&A| it.as_ref().as_encoded_bytes().starts_with(b"-");
    let unknown = args.iter().filter(is_flag).find(|it| !flags.iter().any(|flag| it.as_ref() == *flag));
    match unknown {
        Some(it) => {
            Err(format!("understand the command line: there is no flag `{}`; {usage}", it.as_ref().to_string_lossy()))
        }
        None => Ok(Some(args)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &[&str], expected: Result<Option<Vec<&str>>, &str>) {
        let found = arguments(args.iter().copied(), &["--cells"], "write `it OUT`");
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn help_is_no_file_and_neither_is_a_flag() {
        check(&["out.json", "--cells", "3"], Ok(Some(vec!["out.json", "--cells", "3"])));
        check(&["--help"], Ok(None));
        check(&["predict", "-h"], Ok(None));
        let unknown = "understand the command line: there is no flag `--cell`; write `it OUT`";
        check(&["out.json", "--cell", "3"], Err(unknown));
        check(&["-"], Err("understand the command line: there is no flag `-`; write `it OUT`"));
    }
}
