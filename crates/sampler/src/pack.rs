//! Rows that are packed: pieces of samples end to end, without padding between them.

mod carried;
mod config;
mod epoch;
mod fill;
mod layout;
mod load;
mod numbers;
mod piece;
mod planner;
mod position;
mod report;
mod rows;
mod steps;
mod stream;
mod stream_position;
mod stream_resume;
mod stream_steps;
mod supply;

pub use config::{PackConfig, Split};
pub use epoch::PackedEpoch;
pub use load::{PackBudget, PackLoad, PackRule};
pub use piece::Piece;
pub use planner::PackPlanner;
pub use position::PackPosition;
pub use report::PackReport;
pub use rows::PackedRows;
pub use steps::{PackStepPosition, PackSteps, PackedStep};
pub use stream::PackStream;
pub use stream_position::PackStreamPosition;
pub use stream_steps::{PackStreamStepPosition, PackStreamSteps};
