//! The paths that a file of Rust names, read as text.

/// A path that a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) path: Vec<String>,
    /// What it is called from there on, where it is imported.
    pub(crate) name: Option<String>,
    /// The line, from 1.
    pub(crate) line: usize,
}

/// Returns the paths that a file names outside its tests: what it imports, and what begins with `crate` or `super`.
pub(crate) fn uses(text: &str) -> Vec<Use> {
    let (code, mut uses, mut start) = (code(text), Vec::new(), 1);
    for statement in code.split_inclusive(';') {
        let (before, tree) = import(statement);
        for (line, text) in (start..).zip(before.split('\n')) {
            uses.extend(paths(text).map(|path| Use { path, name: None, line }));
        }
        let line = start + before.matches('\n').count();
        uses.extend(leaves(tree).iter().map(|leaf| imported(leaf, line)));
        start += statement.matches('\n').count();
    }
    uses
}

/// Leaves out comments, and items that are there in tests alone; lines stay where they are.
fn code(text: &str) -> String {
    let (mut code, mut of_test) = (String::new(), None);
    for line in text.lines() {
        let item = line.trim_start();
        let indent = line.len() - item.len();
        if item.starts_with("#[cfg(test)]") || item.starts_with("#[cfg(all(test") {
            of_test = of_test.or(Some(indent));
        }
        match of_test {
            None => code.push_str(line.split("//").next().unwrap_or_default()),
            // Formatted as all code is, an item ends as deep in as it begins.
            Some(begun) if begun == indent && line.ends_with([';', '}']) => of_test = None,
            Some(_) => {}
        }
        code.push('\n');
    }
    code
}

/// Divides a statement into what is no import, and the tree of one that ends it.
fn import(statement: &str) -> (&str, &str) {
    let mut start = 0;
    for line in statement.split_inclusive('\n') {
        if let Some(tree) = after_use(line) {
            return (&statement[..start], &statement[start + line.len() - tree.len()..]);
        }
        start += line.len();
    }
    (statement, "")
}

/// Returns what follows `use` on a line that begins with it.
fn after_use(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let public = |it: &'static str| line.strip_prefix(it);
    let within = public("pub(").and_then(|it| it.split_once(')')).map(|it| it.1);
    within.or_else(|| public("pub")).unwrap_or(line).trim_start().strip_prefix("use ")
}

/// Returns the paths of a tree of imports.
fn leaves(tree: &str) -> Vec<String> {
    let tree = tree.trim().trim_end_matches(';');
    let Some((stem, branches)) = tree.split_once('{') else {
        return Some(tree.to_owned()).filter(|it| !it.is_empty()).into_iter().collect();
    };
    let mut depth = 0;
    let branches = branches.trim_end().trim_end_matches('}').split(|it| {
        depth += i32::from(it == '{') - i32::from(it == '}');
        it == ',' && depth == 0
    });
    branches.flat_map(leaves).map(|leaf| format!("{stem}{leaf}")).collect()
}

fn imported(leaf: &str, line: usize) -> Use {
    let (path, name) = leaf.split_once(" as ").map_or((leaf, None), |(path, name)| (path, Some(name)));
    let path = segments(path.strip_suffix("::self").unwrap_or(path));
    Use { name: name.map(str::to_owned).or_else(|| path.last().cloned()), path, line }
}

/// Returns the paths in other code that begin in the own crate.
fn paths(text: &str) -> impl Iterator<Item = Vec<String>> {
    let words = text.split(|it: char| !it.is_alphanumeric() && it != '_' && it != ':');
    words.filter(|it| it.starts_with("crate::") || it.starts_with("super::")).map(segments)
}

fn segments(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds the paths that a file names against those that are expected, each after its line.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let shown = |it: Use| {
            let name = it.name.map_or_else(String::new, |name| format!(" as {name}"));
            format!("{} {}{name}", it.line, it.path.join("::"))
        };
        assert_eq!(uses(text).into_iter().map(shown).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn each_import_is_a_path_with_a_name() {
        check("//! Says what.\n\nuse std::fmt;\n", &["3 std::fmt as fmt"]);
        check("pub(in crate::a) use super::b::C as D;\npub use e::F;", &["1 super::b::C as D", "2 e::F as F"]);
        let tree = "use crate::{\n    a::{self, B},\n    c::{d::{E, F}, G as H},\n};\nuse crate::i;\n";
        let expected = [
            "1 crate::a as a",
            "1 crate::a::B as B",
            "1 crate::c::d::E as E",
            "1 crate::c::d::F as F",
            "1 crate::c::G as H",
            "5 crate::i as i",
        ];
        check(tree, &expected);
    }

    #[test]
    fn a_path_in_other_code_has_its_line() {
        let text = "fn a(b: &super::B) -> C {\n    let c = [0; 3];\n    crate::d::<E>(b);\n    use super::f::G;\n}\n";
        check(text, &["1 super::B", "3 crate::d", "4 super::f::G as G"]);
        check("#[serde(with = \"crate::a\")]\nstruct D;", &["1 crate::a"]);
    }

    #[test]
    fn comments_and_tests_name_nothing() {
        check("/// As [`B`](crate::b::B).\nfn a() {} // as super::b\n", &[]);
        let text = "#[cfg(test)]\nmod tests {\n    use super::a;\n    fn b() {\n        crate::c();\n    }\n}\n\nuse crate::d;\n";
        check(text, &["9 crate::d as d"]);
        check(
            "impl A {\n    #[cfg(test)]\n    fn b() {\n        super::c();\n    }\n\n    fn d(_: super::E) {}\n}\n",
            &["7 super::E"],
        );
        check(
            "#[cfg(all(test, unix))]\n#[expect(unsafe_code, reason = \"a\")]\nmod tests;\nuse crate::a;",
            &["4 crate::a as a"],
        );
    }
}
