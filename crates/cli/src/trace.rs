//! What each phase of a step takes, in a file.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::exit::{UserError, user_error};

/// Where spans come from that are ours.
const OURS: &str = "plimsoll";

/// Writes from now on a line for each phase that ends, behind those that are there.
pub(crate) fn begin(path: &Path) -> Result<(), UserError> {
    let failed = |error: &dyn fmt::Display| user_error(format!("write the trace {}: {error}", path.display()));
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(|error| failed(&error))?;
    let lines = Lines { begun: Instant::now(), file: Mutex::new(Some(file)) };
    tracing::subscriber::set_global_default(Registry::default().with(lines)).map_err(|error| failed(&error))
}

/// Writes phases as lines of JSON.
struct Lines<W: Write> {
    begun: Instant,
    /// Nobody's any more, once it cannot be written.
    file: Mutex<Option<W>>,
}

/// What is kept of a phase until it ends.
struct Phase {
    begun: Instant,
    fields: Map<String, Value>,
}

impl<W: Write + Send + 'static, S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines<W> {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.is_span() && metadata.target().starts_with(OURS) && *metadata.level() <= Level::INFO
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Phase { begun: Instant::now(), fields: fields.0 });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(Phase { begun, fields }) = span.extensions_mut().remove() else { return };
        let took = begun.elapsed();
        let parent = span.parent().map(|it| it.name());
        let line = line((span.name(), parent), fields, [begun.duration_since(self.begun), took]);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // At once, so that a process that is killed has told what it did.
        let written = file.as_mut().map(|it| it.write_all(line.as_bytes()).and_then(|()| it.flush()));
        if let Some(Err(error)) = written {
            *file = None;
            eprintln!("warning: failed to write the trace: {error}; the run goes on without");
        }
    }
}

/// Writes a phase as a line.
fn line((name, parent): (&str, Option<&str>), fields: Map<String, Value>, times: [std::time::Duration; 2]) -> String {
    let [begun, took] = times.map(|it| it.as_secs_f64());
    let process = process::id();
    let mut line = json!({ "phase": name, "in": parent, "begun_seconds": begun, "seconds": took, "process": process });
    if let Some(line) = line.as_object_mut() {
        line.extend(fields);
    }
    line.to_string() + "\n"
}

/// The fields of a span.
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }
}
