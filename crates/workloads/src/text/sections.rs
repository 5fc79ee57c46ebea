//! Where a document is divided.

/// Bytes below which a section is joined to the next: a dozen tokens, such as a title or a short line of dialogue.
const SHORTEST: usize = 40;

/// Divides a document into its natural sections, without the blank lines around them.
///
/// Markdown is divided before each heading; text, and Markdown without headings, at blank lines.
/// Very short sections are joined to the next one, and the last to the one before.
pub(crate) fn sections(text: &str, is_markdown: bool) -> Vec<&str> {
    let headings = if is_markdown { headings(text) } else { Vec::new() };
    let starts = if headings.is_empty() { paragraphs(text) } else { headings };
    let ends = starts.into_iter().chain([text.len()]);
    let mut sections: Vec<_> = Vec::new();
    let mut open = 0;
    for end in ends.filter(|end| 0 < *end) {
        if text[open..end].trim().len() >= SHORTEST || end == text.len() {
            sections.push(open..end);
            open = end;
        }
    }
    if let [.., before, last] = &mut sections[..]
        && text[last.clone()].trim().len() < SHORTEST
    {
        before.end = last.end;
        sections.pop();
    }
    sections.into_iter().map(|it| text[it].trim()).filter(|it| !it.is_empty()).collect()
}

/// Returns where the headings outside of fenced code begin.
fn headings(text: &str) -> Vec<usize> {
    let (mut starts, mut at, mut is_code) = (Vec::new(), 0, false);
    for line in text.split_inclusive('\n') {
        if ["```", "~~~"].iter().any(|fence| line.trim_start().starts_with(fence)) {
            is_code = !is_code;
        } else if !is_code && is_heading(line) {
            starts.push(at);
        }
        at += line.len();
    }
    starts
}

/// Whether a line is one to six `#` and a space.
fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - rest.len())) && rest.starts_with(' ')
}

/// Returns where the lines after blank lines begin.
fn paragraphs(text: &str) -> Vec<usize> {
    let (mut starts, mut at, mut is_blank) = (Vec::new(), 0, true);
    for line in text.split_inclusive('\n') {
        if is_blank && !line.trim().is_empty() {
            starts.push(at);
        }
        is_blank = line.trim().is_empty();
        at += line.len();
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "This paragraph is long enough to stand alone, which takes forty bytes.";

    #[track_caller]
    fn check(text: &str, is_markdown: bool, expected: &[&str]) {
        assert_eq!(sections(text, is_markdown), expected);
    }

    #[test]
    fn text_is_divided_at_blank_lines() {
        check(&format!("\n\n{LONG}\n\n \t\n{LONG}\r\n\r\n{LONG}"), false, &[LONG, LONG, LONG]);
        check(&format!("{LONG}\n{LONG}"), false, &[&format!("{LONG}\n{LONG}")]);
        check(&format!("{LONG}\n\n# {LONG}"), false, &[LONG, &format!("# {LONG}")]);
    }

    #[test]
    fn markdown_is_divided_before_headings_outside_of_code() {
        let code = format!("# One\n\n{LONG}\n\n```\n# no heading\n```\n#no-heading");
        check(&format!("{LONG}\n\n{code}\n## Two\n{LONG}\n"), true, &[LONG, &code, &format!("## Two\n{LONG}")]);
        check(&format!("{LONG}\n\n{LONG}"), true, &[LONG, LONG]);
    }

    #[test]
    fn what_is_very_short_joins_its_neighbour() {
        check(&format!("Title\n\n{LONG}\n\nThe end."), false, &[&format!("Title\n\n{LONG}\n\nThe end.")]);
        check("Hm.", false, &["Hm."]);
        check(" \n\n", false, &[]);
        check("", true, &[]);
    }

    #[test]
    fn nothing_but_blanks_is_lost() {
        let text = format!("préface\n\n{LONG}\n\n# {LONG}\n\n\nœ\n\n{LONG}\n\nz");
        for is_markdown in [false, true] {
            let joined = sections(&text, is_markdown).concat();
            let visible = |it: &str| it.chars().filter(|it| !it.is_whitespace()).collect::<String>();
            assert_eq!(visible(&joined), visible(&text));
        }
    }
}
