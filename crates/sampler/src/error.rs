//! What cannot be sampled, question by question.

mod collate;
mod deal;
mod edges;
mod index;
mod pack;
mod plan;
mod position;
mod stream;

pub use collate::CollateError;
pub use deal::DealError;
pub use edges::EdgesError;
pub use index::IndexError;
pub use pack::PackError;
pub use plan::PlanError;
pub use position::PositionError;
pub use stream::StreamError;

/// Any request of this crate that cannot be served, for who asks several questions in a row.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SamplerError {
    /// Of samples.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Of a plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Of packed rows.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// Of a position.
    #[error(transparent)]
    Position(#[from] PositionError),
    /// Of a stream.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Of a step that is dealt.
    #[error(transparent)]
    Deal(#[from] DealError),
    /// Of edges to choose.
    #[error(transparent)]
    Edges(#[from] EdgesError),
    /// Of a buffer.
    #[error(transparent)]
    Collate(#[from] CollateError),
}
