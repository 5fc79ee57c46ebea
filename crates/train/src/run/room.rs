//! Whether there is room for the multiple that batches are to have.

use plimsoll_types::Extent;

use crate::config::FitConfig;
use crate::loader::Wanted;

/// Notices when samples of a cell have lost their room for a multiple; a policy that begins small has not lost any.
pub(super) struct RoomForMultiple {
    multiple: u32,
    /// Whether samples of each cell had room for one.
    had: Vec<bool>,
}

impl RoomForMultiple {
    pub(super) fn new(config: &FitConfig) -> Self {
        let loader = &config.loader;
        // Sizes that never change are never too small for now only.
        Self { multiple: loader.multiple_of, had: vec![config.deterministic; loader.cells.len()] }
    }

    /// Returns what there is to say of samples that have lost their room.
    pub(super) fn follow(&mut self, cells: &[Extent], wanted: &Wanted) -> Option<String> {
        let Wanted::Batches(sizes) = wanted else { return None };
        let multiple = self.multiple;
        let mut lost = Vec::new();
        for ((cell, size), had) in cells.iter().zip(sizes).zip(&mut self.had) {
            let has = multiple <= *size;
            if std::mem::replace(had, has) && !has {
                lost.push((cell, size));
            }
        }
        let (cell, size) = lost.first()?;
        let others = if lost.len() == 1 { String::new() } else { format!(" and of {} more", lost.len() - 1) };
        Some(format!(
            "`batch.multiple_of` is {multiple}, and there is room for {size} samples of length {cell}: batches of it{others} \
             have as many as fit until there is more"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_has_lost_its_room_is_said_once() {
        let cells = [8, 16, 40].map(Extent::new);
        let mut room = RoomForMultiple { multiple: 4, had: vec![false; 3] };
        let mut follow = |sizes: [u32; 3]| room.follow(&cells, &Wanted::Batches(sizes.to_vec()));
        assert_eq!([follow([1, 1, 1]), follow([9, 4, 2]), follow([9, 9, 9])], [None, None, None]);
        let said = follow([4, 3, 1]).unwrap();
        let expected = "`batch.multiple_of` is 4, and there is room for 3 samples of length 16: batches of it and of 1 more have \
                        as many as fit until there is more";
        assert_eq!(said, expected);
        assert_eq!([follow([4, 3, 1]), follow([8, 4, 1])], [None, None]);
        assert!(follow([8, 2, 1]).unwrap().contains("batches of it have as many"));
    }
}
