//! Compares the finder with the search rules of other tools: `finder OUT.json`.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use plimsoll_bench::finder::compare;

/// With these the means are known to half a per cent, and a rare failure has a chance to show.
const N_DEVICES: usize = 1000;

const SEED: u64 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let out = env::args_os().nth(1).map(PathBuf::from).ok_or("name the file to write: finder OUT.json")?;
    let comparison = compare(N_DEVICES, SEED);
    let json = serde_json::to_string_pretty(&comparison)?;
    publish(&out, &json).map_err(|error| format!("failed to write {}: {error}", out.display()))?;
    write!(io::stdout(), "{comparison}")?;
    Ok(())
}

/// Written aside and renamed: whoever reads the file never sees half of it.
fn publish(out: &Path, json: &str) -> io::Result<()> {
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    let written = out.with_extension("json.new");
    fs::write(&written, json)?;
    fs::rename(&written, out)
}
