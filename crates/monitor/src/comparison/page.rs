//! A comparison as one page of HTML that needs nothing else.

use std::fmt::Write;

use super::{ComparedRun, Comparison};
use crate::html::{figures, head, row};
use crate::plots::{compared_pictures, escaped};

impl Comparison {
    /// Writes the comparison as a page of HTML with its pictures inside, in light and in dark; `runs` are those that it was
    /// made of.
    pub fn to_html(&self, runs: &[ComparedRun]) -> String {
        let mut page = head(&format!("Comparison of {} runs", self.runs.len()));
        for it in self.not_compared.iter().chain(&self.notes) {
            let _ = writeln!(page, "<p>{}</p>", escaped(it));
        }
        table(&mut page, "Figures", &[&[String::new()], self.runs.as_slice()].concat(), &self.rows());
        let is_one_job = self.figures.iter().any(|it| it.key == "training_loss");
        let curves: Vec<_> = runs.iter().map(|it| (it.name.as_str(), &it.history)).collect();
        page += "<h2>Over the runs</h2>\n";
        figures(&mut page, "grid", &compared_pictures(&curves, is_one_job));
        let names = [&["key".to_owned()], self.runs.as_slice()].concat();
        table(&mut page, "Settings that differ", &names, &self.setting_rows());
        page + "</body>\n</html>\n"
    }
}

/// Writes a table, or nothing where it has no row.
fn table(page: &mut String, title: &str, names: &[String], rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    let _ = write!(page, "<h2>{title}</h2>\n<div class=\"scroll\"><table>\n");
    row(page, "th", names);
    for it in rows {
        row(page, "td", it);
    }
    *page += "</table></div>\n";
}
