//! No two files of a crate use each other, directly or around a ring: each can be read with what lies below it alone.
//!
//! A file and those in its own folder belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::files::{entries, read};
use crate::process::root;
use crate::uses::{Use, uses};

/// Crates of which some files still lie on rings, and how many: no more may.
const LEFT: &[(&str, usize)] =
    &[("cli", 4), ("monitor", 6), ("policy", 5), ("sampler", 17), ("train", 17), ("workloads", 8)];

/// What is imported from a file may come from another, which has it from a third, and so on, so many times at most.
const MOST_IMPORTS: usize = 8;

/// Checks the crates of this workspace.
pub(crate) fn check() -> anyhow::Result<()> {
    let mut crates = entries(&root().join("crates"))?;
    crates.push(root().join("xtask"));
    let mut broken = Vec::new();
    for folder in crates {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let left = LEFT.iter().find(|it| it.0 == name).map_or(0, |it| it.1);
        let links = links_of_crate(&folder)?;
        let n_files = links.iter().map(|it| &it.file).collect::<BTreeSet<_>>().len();
        if left < n_files {
            broken.push(format!("{n_files} files of {name} use each other around rings, and {left} may:"));
            broken.extend(links.iter().map(ToString::to_string));
        }
    }
    ensure!(broken.is_empty(), "{}\nmove what they share below them", broken.join("\n"));
    Ok(())
}

/// A use that leads back, directly or around a ring, to the file that it is in.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    file: PathBuf,
    line: usize,
    used: PathBuf,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [file, used] = [&self.file, &self.used].map(|it| it.strip_prefix(root()).unwrap_or(it).display());
        write!(f, "    {file}:{} uses {used}", self.line)
    }
}

/// Returns the links of rings in the library of a crate and in each of its programs.
fn links_of_crate(folder: &Path) -> anyhow::Result<Vec<Link>> {
    let (library, programs) = (folder.join("src"), folder.join("src/bin"));
    let programs = if programs.is_dir() { entries(&programs)? } else { Vec::new() };
    let mut links = Vec::new();
    for root in programs.iter().filter(|it| it.is_dir()).chain([&library]) {
        let mut sources = Sources::default();
        sources.read(root, &[])?;
        links.extend(sources.links());
    }
    Ok(links)
}

/// A file, and the paths that it names.
struct Source {
    file: PathBuf,
    uses: Vec<Use>,
}

/// The files of a crate by their modules, such as `plan` and `draw`.
#[derive(Default)]
struct Sources(BTreeMap<Vec<String>, Source>);

/// For each file those that it uses, with the line of the first use.
type Edges<'a> = BTreeMap<&'a [String], BTreeMap<&'a [String], usize>>;

impl Sources {
    fn read(&mut self, folder: &Path, module: &[String]) -> anyhow::Result<()> {
        for path in entries(folder)? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let inner = [module, std::slice::from_ref(&name)].concat();
            match name.as_str() {
                "tests" => {}
                "bin" if module.is_empty() => {}
                _ if path.is_dir() => self.read(&path, &inner)?,
                _ if path.extension().is_none_or(|it| it != "rs") => {}
                "mod" => self.add(path, module.to_vec())?,
                "lib" | "main" if module.is_empty() => self.add(path, Vec::new())?,
                _ => self.add(path, inner)?,
            }
        }
        Ok(())
    }

    fn add(&mut self, file: PathBuf, module: Vec<String>) -> anyhow::Result<()> {
        let uses = uses(&read(&file)?);
        // Where there is a library too, it comes first, and the main function has no files of its own.
        self.0.entry(module).or_insert(Source { file, uses });
        Ok(())
    }

    fn links(&self) -> Vec<Link> {
        let (edges, file) = (self.edges(), |module: &[String]| self.0[module].file.clone());
        let mut links = Vec::new();
        for (from, used) in &edges {
            let back = used.iter().filter(|(to, _)| reached(&edges, to).contains(from));
            links.extend(back.map(|(to, line)| Link { file: file(from), line: *line, used: file(to) }));
        }
        links
    }

    fn edges(&self) -> Edges<'_> {
        let mut edges = Edges::new();
        for (module, source) in &self.0 {
            for Use { path, line, .. } in &source.uses {
                let used = self.target(module, path, MOST_IMPORTS);
                if let Some(used) = used.filter(|it| !it.starts_with(module) && !module.starts_with(it)) {
                    edges.entry(module.as_slice()).or_default().entry(used).or_insert(*line);
                }
            }
        }
        edges
    }

    /// Returns the module that a path leads to from another, through so many imports; none where that is in another crate.
    fn target(&self, from: &[String], path: &[String], n_imports: usize) -> Option<&[String]> {
        let (mut at, mut rest) = (from.to_vec(), path);
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "crate" => at.clear(),
                "super" => _ = at.pop(),
                "self" => {}
                _ if self.0.contains_key(&[&at, std::slice::from_ref(first)].concat()) => at.push(first.clone()),
                _ => break,
            }
            rest = after;
        }
        let (module, source) = self.0.get_key_value(&at).filter(|_| rest.len() < path.len())?;
        let import = source.uses.iter().find(|it| it.name.is_some() && it.name.as_ref() == rest.first());
        let import = import.filter(|_| 0 < n_imports).and_then(|it| self.target(module, &it.path, n_imports - 1));
        import.or(Some(module))
    }
}

/// Returns what a file uses, and what that uses, and so on.
fn reached<'a>(edges: &Edges<'a>, from: &'a [String]) -> BTreeSet<&'a [String]> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        let used = edges.get(module).into_iter().flat_map(BTreeMap::keys).copied();
        open.extend(used.filter(|it| reached.insert(*it)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use super::*;

    /// Writes a crate of these files, each with its text, and holds the links of its rings against those that are expected.
    #[track_caller]
    fn check_links(name: &str, files: &[(&str, &str)], expected: &[(&str, usize, &str)]) {
        let folder = env::temp_dir().join(format!("circles-{}-{name}", process::id()));
        let sources = folder.join("src");
        for (file, text) in files {
            let file = sources.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let links = links_of_crate(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let link = |it: &(&str, usize, &str)| Link { file: sources.join(it.0), line: it.1, used: sources.join(it.2) };
        assert_eq!(links, expected.iter().map(link).collect::<Vec<_>>());
    }

    #[test]
    fn no_more_files_lie_on_rings_than_are_left() {
        check().unwrap();
    }

    #[test]
    fn each_link_of_a_ring_is_told_with_its_line() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("a.rs", "//! A.\n\nuse crate::b::B;\n"),
            ("b.rs", "use crate::d::D;\nfn b() { crate::c::c() }\n"),
            ("c.rs", "use crate::{\n    a,\n    d::D,\n};\n"),
            ("d.rs", "pub(crate) struct D;\n"),
        ];
        check_links("ring", &files, &[("a.rs", 3, "b.rs"), ("b.rs", 2, "c.rs"), ("c.rs", 1, "a.rs")]);
    }

    #[test]
    fn what_a_file_passes_on_is_of_the_file_that_it_comes_from() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            ("a.rs", "mod inner;\npub(crate) use self::inner::A;\nuse crate::b::B;\n"),
            ("a/inner.rs", "use super::B;\npub(crate) struct A;\n"),
            ("b/mod.rs", "use crate::A;\npub(crate) struct B;\n"),
        ];
        check_links("passed", &files, &[("a/inner.rs", 1, "b/mod.rs"), ("b/mod.rs", 1, "a/inner.rs")]);
    }

    #[test]
    fn a_folder_and_tests_make_no_ring_and_a_program_is_a_crate_of_its_own() {
        let files = [
            ("lib.rs", "mod a;\n"),
            ("a.rs", "mod b;\nuse b::B;\n#[cfg(test)]\nmod tests;\n"),
            ("a/b.rs", "use super::A;\n#[cfg(test)]\nmod tests {\n    use super::super::c::C;\n}\n"),
            ("a/c.rs", "use super::b::B;\n"),
            ("a/tests.rs", "use crate::d;\n"),
            ("d.rs", "use crate::a::A;\n"),
        ];
        check_links("folder", &files, &[]);
        let files = [
            ("lib.rs", ""),
            ("bin/p/main.rs", "mod a;\nmod b;\n"),
            ("bin/p/a.rs", "use crate::b;\n"),
            ("bin/p/b.rs", "use super::a;\n"),
        ];
        check_links("program", &files, &[("bin/p/a.rs", 1, "bin/p/b.rs"), ("bin/p/b.rs", 1, "bin/p/a.rs")]);
    }
}
