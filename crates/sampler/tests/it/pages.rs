//! What the book shows of an example is in it.

const PAGE: &str = include_str!("../../../../docs/adopt.md");
const EXAMPLE: &str = include_str!("../../examples/plain_loop.rs");

#[test]
fn each_line_of_the_page_is_one_of_the_example() {
    let section = PAGE.split("## The sampler alone\n").nth(1).expect("a section of its own");
    let shown = section.split("```rust\n").nth(1).and_then(|it| it.split("```").next()).expect("a block of it");
    let lines: Vec<&str> = EXAMPLE.lines().map(str::trim).collect();
    assert!(5 < shown.lines().count());
    for line in shown.lines().map(str::trim) {
        assert!(lines.contains(&line), "{line}");
    }
}
