//! Settings that the samples of a job do not have, or not beside others.

use super::{Layers, refused};

#[test]
fn a_column_is_refused_where_no_list_has_columns() {
    for key in ["data.group_column", "data.source_column", "data.weight_column"] {
        let allowed = format!("`{key}` is \"speaker\", allowed is \"\" but for `sequence`");
        refused(&[&format!("{key}=speaker")], &[], &[&allowed]);
        let sets = ["job=sequence", "data.stream=false", &format!("{key}=7")].map(str::to_owned).into();
        assert!(Layers { sets, ..Layers::default() }.load().is_ok(), "a column may be called anything");
    }
}

#[test]
fn images_of_their_own_sizes_have_no_places() {
    let sets = ["job=multitask", "multitask.own_sizes=true", "multitask.places=true"];
    refused(&sets, &[], &["`multitask.own_sizes` is true, allowed is false where `multitask.places` is true"]);
}

#[test]
fn folders_are_sources_of_documents_alone() {
    refused(&["job=sequence", "data.source_folders=true"], &[], &["allowed is false for any job but `text`"]);
}

#[test]
fn groups_stay_together_where_lengths_are_known_and_nothing_else_says_what_comes_when() {
    let key = "data.together=speaker";
    let told = "`data.together` is \"speaker\", allowed is \"\" where ";
    refused(&["job=sequence", key], &[], &[told, "`data.stream` is true"]);
    let told_of = |job: &str| format!("`data.together` is \"speaker\", allowed is {job}");
    refused(&[key], &[], &[&told_of("\"\" for `sr`, whose samples are cut")]);
    refused(&["job=multitask", key], &[], &[&told_of("\"\" for `multitask`, whose samples have two lengths")]);
    refused(&["job=text", key], &[], &[&told_of("\"\", \"section\" or \"document\" for `text`")]);
    refused(
        &["job=text", "data.together=section", "batch.pack=true"],
        &[],
        &["`data.together`", "`batch.pack` is true"],
    );
    for set in ["tasks.shares=0.5,0.5", "tasks.temperature=2", "tasks.ends=first"] {
        refused(&["job=sequence", "data.stream=false", key, set], &[], &[told, "say how sources are mixed"]);
    }
    refused(
        &["job=sequence", "data.stream=false", key, "tasks.homogeneous=true"],
        &[],
        &[told, "`tasks.homogeneous` is true"],
    );
    let folders = ["job=text", "data.source_folders=true", "data.together=document", "tasks.temperature=2"];
    refused(&folders, &[], &["`data.together` is \"document\", allowed is \"\" where ", "say how sources are mixed"]);
    let sets = ["job=sequence", "data.stream=false", key];
    refused(
        &[&sets[..], &["batch.multiple_of=2"]].concat(),
        &[],
        &["`batch.multiple_of` is 2, allowed is 1 where `data"],
    );
    refused(&[&sets[..], &["batch.objective=least-time"]].concat(), &[], &["`batch.objective`", "groups whole"]);
}

#[test]
fn packed_rows_are_refused_with_the_reason_where_samples_have_two_lengths() {
    let allowed = "`batch.pack` is true, allowed is false for `multitask`, whose samples have two lengths";
    refused(&["job=multitask", "batch.pack=true"], &[], &[allowed]);
    refused(&["job=sequence", "batch.pack=true"], &[], &["allowed is false for any job but `text`"]);
    let rows = ["job=text", "batch.pack=true", "tasks.homogeneous=true"];
    refused(&rows, &[], &["`tasks.homogeneous` is true, allowed is false where `batch.pack` is true"]);
}

#[test]
fn sections_may_be_packed_on_cpus_unless_something_is_asked_of_padded_ones() {
    let may_pack = |sets: &[&str]| {
        let sets = sets.iter().map(ToString::to_string).collect();
        Layers { sets, ..Layers::default() }.load().unwrap().settings.may_pack()
    };
    for job in ["sr", "sequence", "multitask"] {
        assert!(!may_pack(&[&format!("job={job}")]), "{job}");
    }
    for (set, expected) in [
        ("seed=1", true),
        ("device=flex, flex", true),
        ("batch.window=64", true),
        ("batch.batch_size=auto", true),
        ("batch.effective_unit=batch", true),
        ("device=vulkan", false),
        ("device=flex, vulkan", false),
        ("data.together=document", false),
        ("data.bad_sample=skip", false),
        ("tasks.homogeneous=true", false),
        ("batch.batch_size=4", false),
        ("batch.batch_max=4", false),
        ("batch.multiple_of=2", false),
        ("batch.most_mates_kept=0.5", false),
        ("batch.objective=least-time", false),
    ] {
        assert_eq!(may_pack(&["job=text", set]), expected, "{set}");
    }
}

#[test]
fn an_arrangement_that_samples_do_not_have_is_refused_with_the_reason() {
    let not = |sets: &[&str], key: &str, allowed: &str| {
        refused(sets, &[], &[&format!("`batch.{key}` is "), &format!(", allowed is {allowed}")]);
    };
    for (set, key, usual) in [
        ("batch.multiple_of=2", "multiple_of", "1"),
        ("batch.window=9", "window", "\"preset\""),
        ("batch.most_mates_kept=0.5", "most_mates_kept", "0.03"),
        ("batch.objective=least-time", "objective", "\"fewest-batches\""),
    ] {
        not(&[set], key, &format!("{usual} for `sr`, whose samples are cut"));
    }
    let (window, mates, time) = ("batch.window=9", "batch.most_mates_kept=0.5", "batch.objective=least-time");
    not(&["job=sequence", window], "window", "\"preset\" where `data.stream` is true");
    not(&["job=sequence", mates], "most_mates_kept", "0.03 where `data.stream` is true");
    not(&["job=text", "batch.pack=true", mates], "most_mates_kept", "0.03 where `batch.pack` is true");
    not(&["job=text", "batch.pack=true", time], "objective", "\"fewest-batches\" where `batch.pack` is true");
    not(&["job=multitask", time], "objective", "\"fewest-batches\" for `multitask`, whose samples have two");
    not(&["job=text", time, "batch.multiple_of=2"], "objective", "\"fewest-batches\" where `batch.multiple_of`");
    not(&["job=text", "batch.overhead=2"], "overhead", "0 where `batch.objective` is \"fewest-batches\"");
    for sets in [
        &["job=text", window, mates, time, "batch.overhead=2"][..],
        &["job=text", "batch.pack=true", window],
        &["job=sequence", time],
        &["job=sequence", "data.stream=false", window, mates, time],
        &["job=multitask", window, mates],
    ] {
        let sets = sets.iter().map(ToString::to_string).collect();
        assert!(Layers { sets, ..Layers::default() }.load().is_ok());
    }
}

#[test]
fn a_stream_is_refused_where_samples_are_not_read_one_by_one_and_its_old_key_names_the_new_one() {
    let allowed = "`data.stream` is true, allowed is false for `sr`, whose samples have no lengths";
    refused(&["data.stream=true"], &[], &[allowed]);
    let allowed = ["allowed is false for `text`", "`data.source_folders`", "`batch.pack`", "without a stream"];
    refused(&["job=text", "data.stream=true", "batch.pack=true"], &[], &allowed);
    refused(&["job=sequence", "sequence.stream=false"], &[], &["`sequence.stream` is no known key", "`data.stream`?"]);
}

#[test]
fn lengths_that_nothing_has_are_refused() {
    let both = ["data.shortest=9", "data.longest=8"];
    refused(&both, &[], &["`data.longest` is 8, allowed is `data.shortest` (9) and above, or \"none\""]);
    refused(&["data.longest=8"], &[], &["`data.longest` is 8, allowed is \"none\" for `sr`"]);
    refused(&["data.shortest=8"], &[], &["`data.shortest` is 8, allowed is 1 for `sr`"]);
}
