//! The binaries say how they are used, and write no file whose name is a flag.

use std::fs;
use std::process::Command;

#[test]
fn a_flag_is_no_file_to_write() {
    let mut programs =
        vec![env!("CARGO_BIN_EXE_recovery"), env!("CARGO_BIN_EXE_sampler"), env!("CARGO_BIN_EXE_scaling")];
    // Named where it is not built, too.
    programs.extend(option_env!("CARGO_BIN_EXE_proof").filter(|it| fs::exists(it).unwrap()));
    for program in programs {
        let folder = tempfile::tempdir().unwrap();
        let run = |args: &[&str]| {
            let output = Command::new(program).args(args).current_dir(folder.path()).output().unwrap();
            let told = [output.stdout, output.stderr].concat();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{program} {args:?} leaves a file");
            (output.status.success(), String::from_utf8(told).unwrap())
        };
        for args in [&["--help"][..], &["-h"], &["predict", "--help"], &["out", "out", "--help"]] {
            let (has_succeeded, told) = run(args);
            assert!(has_succeeded && told.contains("OUT"), "{program} {args:?}: {told}");
        }
        for args in [&["--halp"][..], &["--out", "3"], &["predict", "--out"], &["finder", "-x"], &[]] {
            let (has_succeeded, told) = run(args);
            assert!(!has_succeeded && told.contains("OUT"), "{program} {args:?}: {told}");
        }
    }
}
