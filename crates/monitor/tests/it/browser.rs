//! The page of a run as a browser lays it out, on a wide screen and on a narrow one.

#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::process::{Command, Stdio};

use plimsoll_monitor::{History, RunFacts, TrainingReport};
use plimsoll_types::{Budget, Bytes, Event, Extent, MicroBatch, RunStarted, StepDone, TaskStep};

use crate::exposition::SUPPLY;
use crate::run;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Finds the texts of pictures that overlap, or leave their picture, and pages that are wider than their screen.
///
/// Of a text, the middle of its box counts: what is above and below its letters is empty.
const LOOK: &str = r#"
const problems = [];
window.onerror = (message) => { problems.push(`script error: ${message}`); };
frame.onload = () => {
  const page = frame.contentDocument;
  if (page.documentElement.scrollWidth > frame.clientWidth) {
    problems.push(`the page is ${page.documentElement.scrollWidth} pixels wide`);
  }
  let n = 0;
  for (const svg of page.querySelectorAll("svg")) {
    const whole = svg.getBoundingClientRect();
    if (whole.width === 0) continue;
    const scale = whole.width / svg.viewBox.baseVal.width;
    const texts = [...svg.querySelectorAll("text")].map((it) => {
      const box = it.getBoundingClientRect();
      const cut = 0.2 * box.height;
      return { name: it.textContent, left: box.left, right: box.right, top: box.top + cut, bottom: box.bottom - cut };
    });
    n += texts.length;
    const label = svg.getAttribute("aria-label");
    texts.forEach((one, at) => {
      const isInside = whole.left - scale < one.left && one.right < whole.right + scale
        && whole.top - scale < one.top && one.bottom < whole.bottom + scale;
      if (!isInside) problems.push(`${label}: "${one.name}" leaves its picture`);
      for (const other of texts.slice(at + 1)) {
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (across > scale && down > scale) problems.push(`${label}: "${one.name}" and "${other.name}" overlap`);
      }
    });
  }
  found.textContent = `${n} texts\n${problems.join("\n")}`;
};
frame.srcdoc = page.textContent;
"#;

/// Returns what a browser finds wrong with a page on a screen of so many pixels, and how many texts it has looked at.
#[expect(clippy::disallowed_methods, reason = "a browser reads a file")]
fn look(browser: &str, page: &str, width: u32) -> (usize, String) {
    let folder = tempfile::tempdir().expect("room for a file");
    let escaped = page.replace('&', "&amp;").replace('<', "&lt;");
    let frame = format!("<iframe id=\"frame\" style=\"border:0;width:{width}px;height:4000px\"></iframe>");
    let harness = format!(
        "<!DOCTYPE html><meta charset=\"utf-8\">{frame}<pre id=\"page\" hidden>{escaped}</pre>\
         <pre id=\"found\">BEGIN</pre><script>{LOOK}</script>"
    );
    let file = folder.path().join("harness.html");
    std::fs::write(&file, harness).expect("room for a file");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,4100", "--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .args(["--dump-dom", &format!("file://{}", file.display())])
        .stderr(Stdio::null())
        .output()
        .expect("it was started before");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.split("<pre id=\"found\">").nth(1).and_then(|it| it.split("</pre>").next()).unwrap_or_default();
    let (n, problems) = found.split_once(" texts\n").unwrap_or_else(|| panic!("the browser says {found:?}"));
    (n.parse().expect("a number"), problems.to_owned())
}

fn browser() -> Option<&'static str> {
    let starts =
        |it: &&str| Command::new(it).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    BROWSERS.into_iter().find(starts)
}

/// A run with everything that a page can show: tasks, padding, failures and many adjustments.
fn full() -> Vec<Event> {
    let of_tasks = |n: u64| {
        let task = |loss| TaskStep { samples: 4, loss: Some(loss), gradient_norm: None, weight: 0.5 };
        vec![task(1.0 / (1 + n) as f64), task(2.0 / (1 + n) as f64), task(0.5)]
    };
    let told = |event| match event {
        Event::RunStarted(start) => {
            let tasks = ["order", "labels of things", "subjects"].map(str::to_owned).to_vec();
            Event::RunStarted(RunStarted { tasks, planned_padding: Some(0.04), ..start })
        }
        Event::StepDone(step) => {
            let (tasks, real) = (of_tasks(step.step), step.padded_positions() * 9 / 10);
            Event::StepDone(StepDone { tasks, real_positions: Some(real), supply: Some(SUPPLY), ..step })
        }
        event => event,
    };
    run::long(600).into_iter().map(told).collect()
}

/// A run of samples that have two lengths, far below what there is.
fn on_cells() -> Vec<Event> {
    let budget = Budget { capacity: Bytes::gib(22), budget: Bytes::gib(20) };
    let told = |event| match event {
        Event::RunStarted(start) => {
            Event::RunStarted(RunStarted { unit_of_length: "images × words".into(), budget, ..start })
        }
        Event::StepDone(step) => {
            let edge = |of: u64| u32::try_from(of).expect("a small number");
            let edges = [edge(1 + step.step % 6), edge(4 + 4 * (step.step % 3))];
            let cell = Extent::try_new(&edges).expect("two edges");
            let micro_batches = step.micro_batches.into_iter().map(|it| MicroBatch::new(it.ids, cell)).collect();
            Event::StepDone(StepDone { micro_batches, capacity: budget.capacity, budget: budget.budget, ..step })
        }
        event => event,
    };
    run::settled(300).into_iter().map(told).collect()
}

#[test]
fn no_text_of_a_picture_overlaps_another_or_leaves_it_on_wide_and_narrow_screens() {
    let Some(browser) = browser() else {
        return eprintln!("skipped: there is none of {}", BROWSERS.join(", "));
    };
    for (name, events) in
        [("small", run::small()), ("settled", run::settled(300)), ("full", full()), ("cells", on_cells())]
    {
        let history = History::of(&events);
        let facts = RunFacts { seconds: 61.5, ..RunFacts::default() };
        let page = TrainingReport::new(&history, facts.clone()).to_html(&history, &facts, "[train]\nsteps = 6\n");
        for width in [1280, 400] {
            let (n, problems) = look(browser, &page, width);
            assert!(40 < n, "{name} at {width} pixels has {n} texts");
            assert!(problems.trim().is_empty(), "{name} at {width} pixels:\n{problems}");
        }
    }
}

#[test]
fn what_overlaps_or_leaves_its_picture_is_found() {
    let Some(browser) = browser() else {
        return eprintln!("skipped: there is none of {}", BROWSERS.join(", "));
    };
    let text = |x: u32, name: &str| format!("<text x=\"{x}\" y=\"20\" font-size=\"18\">{name}</text>");
    let svg = |texts: &str| format!("<svg width=\"200\" height=\"40\" viewBox=\"0 0 200 40\">{texts}</svg>");
    let page = svg(&(text(0, "one word") + &text(40, "another") + &text(180, "too far right")));
    let (n, problems) = look(browser, &page, 400);
    assert_eq!(n, 3);
    assert!(problems.contains("\"one word\" and \"another\" overlap"), "{problems}");
    assert!(problems.contains("\"too far right\" leaves its picture"), "{problems}");
    let (_, none) = look(browser, &svg(&(text(0, "one") + &text(120, "two"))), 400);
    assert!(none.trim().is_empty(), "{none}");
}
