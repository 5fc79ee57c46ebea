//! Whether all ranks run one version of the program.

use plimsoll_train::Fleet;

use super::words::{numbers, text};
use crate::exit::user_error;

/// The version of this program.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Numbers that hold a version. It is the first that ranks tell each other, and all versions tell it so: it stays as it is.
const NUMBERS: usize = 4;

/// Refuses ranks of several versions, which would not understand each other.
///
/// # Errors
///
/// A user's error that names the first rank of another version than the first has, and both.
pub(super) fn agree_on(version: &str, fleet: &mut dyn Fleet) -> anyhow::Result<()> {
    let told: Vec<_> = fleet.agree(&numbers::<NUMBERS>(version))?.chunks_exact(NUMBERS).map(text).collect();
    match told.iter().position(|it| *it != told[0]) {
        None => Ok(()),
        Some(rank) => Err(user_error(format!(
            "train on {} ranks: rank {rank} is of version {}, and rank 0 of version {}: all ranks run one program",
            told.len(),
            told[rank],
            told[0]
        ))
        .into()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use plimsoll_train::InProcess;

    use super::*;

    #[test]
    fn ranks_of_another_version_are_refused_by_name_on_all_of_them() {
        let told = |versions: [&'static str; 3]| {
            let ranks = InProcess::start(3).into_iter().zip(versions);
            let ranks: Vec<_> = ranks.map(|(mut it, own)| thread::spawn(move || agree_on(own, &mut it))).collect();
            ranks.into_iter().map(|it| it.join().unwrap().map_err(|it| it.to_string())).collect::<Vec<_>>()
        };
        assert_eq!(told([VERSION; 3]), [Ok(()), Ok(()), Ok(())]);
        let refused = "train on 3 ranks: rank 2 is of version 0.2.0-rc.1, and rank 0 of version 0.1.9: all ranks run one \
                       program";
        assert_eq!(told(["0.1.9", "0.1.9", "0.2.0-rc.1"]), [(); 3].map(|()| Err(refused.to_owned())));
    }
}
