//! How layers are merged, and what they are refused for.

mod samples;

use super::*;

fn load(sets: &[&str], variables: &[(&str, &str)]) -> Result<Loaded, UserError> {
    let layers = Layers { sets: sets.iter().map(ToString::to_string).collect(), ..Layers::default() };
    layers.load_with(variables.iter().map(|(key, value)| ((*key).into(), (*value).into())))
}

#[track_caller]
fn refused(sets: &[&str], variables: &[(&str, &str)], parts: &[&str]) {
    let Err(error) = load(sets, variables) else { panic!("{sets:?} {variables:?} was accepted") };
    for part in parts {
        assert!(error.to_string().contains(part), "`{error}` lacks `{part}`");
    }
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_defaults() {
    let target = |sets: &[&str], variables: &[(&str, &str)]| {
        load(sets, variables).unwrap().settings.memory.target.get().to_string()
    };
    assert_eq!(target(&[], &[]), "0.9");
    assert_eq!(target(&[], &[("PLIMSOLL__MEMORY__TARGET", "0.8")]), "0.8");
    assert_eq!(target(&["memory.target=0.7"], &[("PLIMSOLL__MEMORY__TARGET", "0.8")]), "0.7");
}

#[test]
fn a_wrong_value_is_refused_with_its_key() {
    refused(&["memory.target=1.7"], &[], &["memory.target", "1.7", "above 0 and at most 1"]);
    refused(&["memory.capacity=plenty"], &[], &["memory.capacity", "plenty", "1.5 GiB"]);
    refused(&["train.steps=0"], &[], &["`train.steps` is 0", "1 to 4294967296"]);
    refused(&["batch.patch_min=0"], &[], &["batch.patch_min", "preset"]);
    refused(&["policy.kind=clever"], &[], &["policy.kind", "clever", "certified"]);
    refused(&["device=metal"], &[], &["device", "metal", "vulkan"]);
    refused(&["train"], &[], &["KEY=VALUE"]);
}

#[test]
fn a_size_that_makes_no_model_is_refused_with_what_is_allowed() {
    for (set, allowed) in [
        ("batch.n_edges=0", "1 to 65536"),
        ("data.workers=65", "up to 64"),
        ("sr.channels=0", "1 to 65536"),
        ("sequence.heads=0", "1 to 65536"),
        ("sequence.head_width=0", "1 to 65536"),
        ("sequence.blocks=0", "1 to 1024"),
        ("multitask.channels=0", "1 to 65536"),
        ("multitask.features=0", "1 to 65536"),
        ("multitask.features=62", "a multiple of 4"),
        ("multitask.image_size=0", "1 to 8192"),
        ("multitask.image_size=65536", "1 to 8192"),
        ("multitask.max_words=0", "1 to 65536"),
        ("multitask.zoom=1", "from 0 to below 1"),
        ("multitask.colors=1.1", "from 0 to 1"),
        ("multitask.label_smoothing=NaN", "from 0 to below 1"),
        ("multitask.label_smoothing=1", "from 0 to below 1"),
        ("multitask.label_smoothing=-0.1", "from 0 to below 1"),
        ("text.vocabulary=256", "257 to 65535"),
        ("text.vocabulary=65536", "257 to 65535"),
        ("text.longest=0", "1 to 4294967295"),
        ("text.overlap=512", "below `text.longest` (512)"),
        ("text.layers=0", "1 to 1024"),
        ("text.width=0", "1 to 65536"),
        ("text.heads=0", "1 to 65536"),
        ("text.width=126", "a multiple of `text.heads` (4)"),
        ("data.shortest=0", "1 to 4294967295"),
        ("data.test_share=0.8", "below 1 − `data.validation_share` (0.2)"),
        ("data.test_share=1", "from 0 to below 1"),
    ] {
        let (key, value) = set.split_once('=').unwrap();
        refused(&[set], &[], &[&format!("`{key}` is {value}, allowed is {allowed}")]);
    }
}

/// Every key whose default is a number, and whether that is a whole one.
fn numbers() -> Vec<(String, bool)> {
    let defaults = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml)).build().unwrap();
    let keys = flatten(defaults.try_deserialize().unwrap()).into_iter().filter_map(|(key, value)| match value.kind {
        ValueKind::I64(_) => Some((key, true)),
        ValueKind::Float(_) => Some((key, false)),
        _ => None,
    });
    keys.collect()
}

#[test]
fn every_number_has_a_range_and_is_held_to_it() {
    let numbers = numbers();
    assert!(40 < numbers.len());
    for (key, is_whole) in &numbers {
        let allowed = range(key).unwrap_or_else(|| panic!("{key} has no range")).to_string();
        let beside = ["nan", "inf", "-1", "-0.5", "1e30", "many", "true", ""];
        for value in beside.into_iter().chain(is_whole.then_some("1.5")) {
            let wrong = format!("{key}={value}");
            refused(&[&wrong], &[], &["from --set: ", &format!("`{key}` is "), "allowed is ", &allowed]);
            let variable = format!("PLIMSOLL__{}", key.to_ascii_uppercase().replace('.', "__"));
            refused(
                &[],
                &[(&variable, value)],
                &[&format!("from the environment ({variable}): `{key}` is "), &allowed],
            );
        }
        let none = if *is_whole { ValueKind::I64(0) } else { ValueKind::Float(0.0) };
        if !range(key).unwrap().has(&none) {
            refused(&[&format!("{key}=0")], &[], &[&format!("`{key}` is 0"), &allowed]);
        }
    }
    let is_number = |key: &str| numbers.iter().any(|(it, _)| it == key);
    assert!(crate::settings::RANGES.iter().all(|(key, _)| is_number(key)));
}

/// What each key that takes a word, a size or a list refuses, and what its message says would be right.
const WORDS: [(&str, &[&str], &[&str]); 39] = [
    ("job", &["", "0", "SR"], &["sr, sequence, multitask, text"]),
    ("device", &["", "metal", "cuda:x"], &["flex", "vulkan", "cuda"]),
    ("memory.capacity", &["", "plenty", "-1", "1 XB"], &["1.5 GiB", "auto", "device"]),
    ("memory.gradient_checkpointing", &["", "maybe"], &["auto, on, off"]),
    ("batch.effective_unit", &["", "images"], &["samples, tokens, batch"]),
    ("batch.batch_size", &["", "0", "-1", "1.5", "some"], &["a whole number from 1", "adaptive", "auto"]),
    ("batch.patch_min", &["", "0", "-1", "1.5", "some"], &["a whole number from 1", "preset"]),
    ("batch.patch_max", &["", "0", "-1", "1.5", "some"], &["a whole number from 1", "preset"]),
    ("batch.batch_min", &["", "0", "-1", "1.5", "some"], &["a whole number from 1", "preset"]),
    ("batch.batch_max", &["", "0", "-1", "1.5", "some"], &["a whole number from 1", "preset"]),
    ("batch.window", &["", "0", "-1", "1.5", "all"], &["a whole number from 1", "preset"]),
    ("batch.objective", &["", "time"], &["fewest-batches, least-time"]),
    ("batch.drop_last", &["", "maybe", "2"], &["true or false"]),
    ("batch.pack", &["", "maybe", "2"], &["auto, true, false"]),
    ("batch.row_len", &["", "0", "-1", "1.5", "some"], &["a whole number from 1", "longest"]),
    ("policy.kind", &["", "clever"], &["certified, stepwise, fixed"]),
    ("train.deterministic", &["", "maybe", "2"], &["true or false"]),
    ("train.precision", &["", "f16", "16"], &["f32, bf16"]),
    ("train.replicas", &["", "0", "-1", "1.5", "some"], &["a whole number from 1", "cores"]),
    ("train.reduction", &["", "gloo"], &["host, nccl"]),
    ("train.learning_rate_scaling", &["", "log"], &["none, sqrt, linear"]),
    ("train.optimizer_recovery", &["", "undo"], &["restore, keep"]),
    ("data.longest", &["", "0", "-1", "1.5", "all"], &["a whole number from 1", "none"]),
    ("data.outside", &["", "cut"], &["fail, skip, truncate"]),
    ("data.bad_sample", &["", "mend"], &["fail, skip"]),
    ("data.buffer_limit", &["", "much", "-1"], &["1.5 GiB", "auto"]),
    ("data.store_limit", &["", "much", "-1"], &["1.5 GiB", "auto"]),
    ("data.stream", &["", "maybe", "2"], &["true or false"]),
    ("monitor.tensorboard", &["", "maybe", "2"], &["true or false"]),
    ("data.source_folders", &["", "maybe", "2"], &["true or false"]),
    ("tasks.balance", &["", "even"], &["gradnorm, fixed"]),
    ("tasks.homogeneous", &["", "maybe"], &["true or false"]),
    ("tasks.weights", &["", "1, x", "-1", "nan", "2e6"], &["one number from 0 to 1000000 for each task", "default"]),
    (
        "tasks.shares",
        &["", "half", "1,,1", "books=, code=1", "books=1, 0.5", "books=-1"],
        &["one number from 0 to 1000000 for each task", "default"],
    ),
    ("tasks.ends", &["", "once"], &["all-once, first, last"]),
    ("tasks.normalize_shares", &["", "maybe"], &["true or false"]),
    ("multitask.places", &["", "maybe", "2"], &["true or false"]),
    ("multitask.mirror", &["", "maybe", "2"], &["true or false"]),
    ("multitask.own_sizes", &["", "maybe", "2"], &["true or false"]),
];

#[test]
fn every_word_size_and_list_is_refused_with_its_key_and_what_would_be_right() {
    for (key, wrong, allowed) in &WORDS {
        for value in *wrong {
            let set = format!("{key}={value}");
            refused(&[&set], &[], &[&format!("from --set: `{key}`"), value]);
            refused(&[&set], &[], allowed);
        }
    }
    let is_free = |key: &str| {
        ["data.folder", "data.group_column", "data.source_column", "data.together", "data.weight_column", "memory.plan"]
            .contains(&key)
    };
    let is_listed = |key: &str| is_free(key) || WORDS.iter().any(|(it, ..)| *it == key);
    let defaults = Config::builder().add_source(File::from_str(DEFAULTS, FileFormat::Toml)).build().unwrap();
    let mut keys = flatten(defaults.try_deserialize().unwrap()).into_keys();
    let missing = keys.find(|key| !is_listed(key) && !numbers().iter().any(|(it, _)| it == key));
    assert_eq!(missing, None);
}

#[test]
fn a_number_is_taken_wherever_a_word_may_stand_for_it() {
    let mut keys = WORDS.iter().filter(|(.., allowed)| allowed.contains(&"a whole number from 1")).peekable();
    assert!(keys.peek().is_some());
    for (key, ..) in keys {
        let layers = Layers { sets: vec![format!("{key}=64")], ..Layers::default() };
        let error = layers.load_with(std::iter::empty()).err().map_or_else(String::new, |it| it.to_string());
        assert!(!error.contains("neither"), "{error}");
    }
}

#[test]
fn a_number_in_a_file_is_refused_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let refused = |text: &str, part: &str| {
        std::fs::write(&path, text).unwrap();
        let layers = Layers { files: vec![path.clone()], ..Layers::default() };
        let error = layers.load_with(std::iter::empty()).err().unwrap().to_string();
        let expected = format!("read the configuration from {}: {part}", path.display());
        assert_eq!(error, expected);
    };
    refused("[train]\nsteps = 2.7", "`train.steps` is 2.7, allowed is a whole number, 1 to 4294967296");
    refused("[train]\nsteps = [3]", "`train.steps` is a list, allowed is a whole number, 1 to 4294967296");
    refused("[train.steps]", "`train.steps` is a section, allowed is a whole number, 1 to 4294967296");
    refused("[memory]\ntarget = nan", "`memory.target` is NaN, allowed is above 0 and at most 1");
    refused("[train]\ndeterministic = \"maybe\"", "`train.deterministic` is `maybe`, allowed is true or false");
    refused("memory = 3", "`memory` is a section, not a key; its keys are written as `memory.capacity`");
    refused(
        "[policy]\nkind = \"certifed\"",
        "`policy.kind`: `certifed` is not one of certified, stepwise, fixed; did \
             you mean `certified`?",
    );
}

#[test]
fn a_whole_number_may_be_written_as_one_likes() {
    let steps = |text: &str| load(&[&format!("train.steps={text}")], &[]).unwrap();
    for text in ["1000", "1e3", "1000.0", "\"1000\""] {
        assert_eq!(steps(text).settings.train.steps, 1000);
        assert!(steps(text).to_toml().contains("\nsteps = 1000\n"), "{text}");
    }
}

#[test]
fn what_is_not_utf_8_is_no_setting_and_no_panic() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let broken = || OsString::from_vec(vec![b'a', 0xff]);
    let with = |name: OsString, value: OsString| Layers::default().load_with([(name, value)].into_iter());
    assert!(with(broken(), broken()).is_ok());
    assert!(with("PLIMSOLL_OTHER".into(), broken()).is_ok());
    let error = with("PLIMSOLL__DATA__FOLDER".into(), broken()).err().unwrap().to_string();
    let expected = "read the configuration from the environment (PLIMSOLL__DATA__FOLDER): its value is not UTF-8";
    assert_eq!(error, expected);
    let name = OsString::from_vec(b"PLIMSOLL__TRAIN__ST\xffPS".to_vec());
    let error = with(name, "3".into()).err().unwrap().to_string();
    assert!(error.contains("did you mean `train.steps`?"), "{error}");
}

#[test]
fn a_variable_with_other_underscores_is_not_passed_over() {
    let name = "PLIMSOLL_MEMORY_TARGET";
    refused(&[], &[(name, "0.5")], &["PLIMSOLL_MEMORY_TARGET is no setting; write PLIMSOLL__MEMORY__TARGET"]);
    assert!(load(&[], &[("PLIMSOLL_PROFILE", "ci"), ("PLIMSOLL_FUZZ_SEED", "4")]).is_ok());
}

#[test]
fn a_text_that_looks_like_a_number_is_kept() {
    let folder = |loaded: Loaded| loaded.settings.folder("sr");
    assert_eq!(folder(load(&["data.folder=007"], &[]).unwrap()), PathBuf::from("007"));
    assert_eq!(folder(load(&[], &[("PLIMSOLL__DATA__FOLDER", "1.50")]).unwrap()), PathBuf::from("1.50"));
}

#[test]
fn a_misspelt_word_is_answered_with_the_nearest() {
    refused(&["device=vulcan:1"], &[], &["`device`: `vulcan:1` is no device", "did you mean `vulkan`?"]);
    refused(&["job=txt"], &[], &["`job`: `txt` is not one of", "did you mean `text`?"]);
    refused(&["memory.gradient_checkpointing=outo"], &[], &["did you mean `auto`?"]);
    refused(&["tarjet=0.8"], &[], &["`tarjet` is no known key; did you mean `memory.target`?"]);
    refused(&[], &[("PLIMSOLL__TARJET", "0.8")], &["did you mean `memory.target`?"]);
}

#[test]
fn each_device_has_a_capacity_or_all_have_the_same() {
    use plimsoll_probe::DeviceKind::{Cuda, Flex, Vulkan};
    use plimsoll_types::Bytes;
    let devices = |sets: &[&str]| load(sets, &[]).unwrap().settings.devices();
    let mib = |n| Some(Bytes::mib(n));
    assert_eq!(devices(&["seed=1"]), [(Flex, mib(40))], "the demonstration");
    let two = "device=flex, vulkan:1";
    assert_eq!(devices(&[two]), [(Flex, mib(40)), (Vulkan(1), None)]);
    assert_eq!(devices(&[two, "memory.capacity=20 MiB, 48MiB"]), [(Flex, mib(20)), (Vulkan(1), mib(48))]);
    assert_eq!(devices(&[two, "memory.capacity=20 MiB"]), [(Flex, mib(20)), (Vulkan(1), mib(20))]);
    assert_eq!(
        devices(&["device=cuda,cuda", "memory.capacity=device, 1 GiB"]),
        [(Cuda(0), None), (Cuda(0), mib(1024))]
    );
}

#[test]
fn capacities_for_another_number_of_devices_are_refused_with_what_would_be_right() {
    let sizes = "memory.capacity=1 GiB, 2GiB, device";
    let told = "`memory.capacity` is 3 sizes (1.00 GiB, 2.00 GiB, device), allowed is one size";
    refused(&[sizes], &[], &[told, ", as `device` names one device (flex)"]);
    let told = &format!("{told} for each of the 2 devices (cuda:0, cuda:1), or one for all");
    refused(&[sizes, "device=cuda:0,cuda:1"], &[], &[told]);
    refused(&["device=flex,flex", "train.replicas=2"], &[], &["`train.replicas` is 2", "where `device` names several"]);
}

#[test]
fn what_is_wrong_in_a_list_is_named() {
    let right = ", and a comma between two";
    refused(&["device=flex, vulcan:1"], &[], &["`device`: ` vulcan:1` is no device", right, "did you mean `vulkan`?"]);
    refused(&["device=flex,"], &[], &["`device`: `` is no device", right]);
    refused(&["memory.capacity=1 GiB; 2 GiB"], &[], &["`memory.capacity`: `1 GiB; 2 GiB` is no size"]);
    refused(&["memory.capacity=1 GiB, much"], &[], &["`memory.capacity`: `much` is no size", "\"device\""]);
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    refused(&["memory.taget=0.8"], &[], &["`memory.taget`", "did you mean `memory.target`?"]);
    refused(&[], &[("PLIMSOLL__TRAIN__STEP", "9")], &["`train.step`", "did you mean `train.steps`?"]);
}

#[test]
fn what_nests_deeper_than_the_stack_is_refused() {
    let (deep, variable) = ("a.".repeat(15_000), format!("PLIMSOLL{}", "__A".repeat(15_000)));
    refused(&[&format!("{deep}a=1")], &[], &["--set", "nests too deeply", "15000 dots"]);
    refused(&[], &[(&variable, "1")], &["the environment", "nests too deeply"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep.toml");
    let hidden = |quoted: &str| format!("{quoted}a = {}", "{a=".repeat(15_000));
    let texts = ["", "b = \"\\\"\"\n", "'\"'=", "b = \"\"\"\n\"\"\"\n", "b = \"\"\"\n\"\"\", "].map(hidden);
    for text in texts.into_iter().chain([format!("{deep}a = 1"), format!("[{deep}a]")]) {
        std::fs::write(&path, text).unwrap();
        let layers = Layers { files: vec![path.clone()], ..Layers::default() };
        let error = layers.load_with(std::iter::empty()).err().unwrap().to_string();
        assert!(error.contains("deep.toml: it nests too deeply"), "{error}");
    }
    std::fs::File::create(&path).unwrap().set_len(LARGEST_FILE + 1).unwrap();
    let error = Layers { files: vec![path], ..Layers::default() }.load_with(std::iter::empty()).err().unwrap();
    assert!(error.to_string().contains("it has 65537 bytes, at most 65536 are allowed"), "{error}");
}

#[test]
fn the_resolved_file_loads_again_to_the_same_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    let check = |sets: &[&str]| {
        let first = load(sets, &[]).unwrap();
        std::fs::write(&path, first.to_toml()).unwrap();
        let again = Layers { files: vec![path.clone()], ..Layers::default() }.load_with(std::iter::empty()).unwrap();
        assert_eq!(again.to_toml(), first.to_toml());
        assert_eq!(format!("{:?}", again.settings), format!("{:?}", first.settings));
        first.to_toml()
    };
    // What a folder may be called: a decomposed accent, characters of no width, control characters, quotes, backslashes.
    for name in
        ["Mu\u{308}ller", "a\u{200b}b\u{feff}", "\u{1b}[31m\t\n\r\u{0}\u{7f}\u{85}", "\"'\"", "C:\\new\\", "{a.b}=#"]
    {
        let data = format!("data.folder=\"/tmp/{name}\"");
        let folder = load(&[&data], &[]).unwrap().settings.folder("sr");
        assert_eq!(folder, PathBuf::from(format!("/tmp/{name}")));
        check(&[&data]);
    }
    check(&["device=cuda, Flex", "memory.capacity=1 GiB, 2 GiB"]);
    let first = check(&["memory.target=0.75", "job=sr", "memory.capacity=1 GiB"]);
    assert!(first.contains("target = 0.75\n") && first.contains("capacity = \"1 GiB\"\n"), "{first}");
}

#[test]
fn every_key_has_a_comment() {
    let lines: Vec<_> = DEFAULTS.lines().collect();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.contains(" = ")) {
        let above = lines[..at].iter().rev().find(|it| !it.contains(" = "));
        assert!(above.is_some_and(|it| it.starts_with('#')), "`{line}` has no comment");
    }
}
