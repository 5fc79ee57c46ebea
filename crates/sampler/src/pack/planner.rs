//! Rows for every epoch.

use super::carried::Carried;
use super::config::PackConfig;
use super::fill::Filling;
use super::load::{PackLoad, PackRule};
use super::piece::Piece;
use super::position::Progress;
use super::rows::PackedRows;
use crate::hash::{Rng, Use, digest};
use crate::plan::draw::{Drawn, Source, Stretch};
use crate::plan::identity::Identity;
use crate::plan::order::in_shares;
use crate::plan::tasks::Tasks;
use crate::{PackError, PositionError, SampleIndex, TaskMix, TaskPlan};

/// The most pieces that are carried from a window to the next: a position names each, in 4 bytes of JSON.
const MOST_CARRIED: usize = 512;

/// The way of packing, by which a position of another is refused; rows depend on no other rule.
/// Since 1, each length is told apart where no piece of a window is longer than 8 192, whatever the row, and where samples are
/// cut.
const PACKING: u64 = 1;

/// Packs the samples of each epoch into rows.
///
/// A planner has no state: which rows there are is a function of the index, the configuration and the epoch.
/// How many of them go through the model together is said by a [`PackRule`] when they are taken, so that a change of the
/// rule changes no row.
///
/// ```
/// use plimsoll_sampler::{PackBudget, PackConfig, PackPlanner, SampleIndex};
///
/// let lengths: Vec<u32> = (0..100_000u32).map(|id| 8 + id * 7919 % 4089).collect();
/// let planner = PackPlanner::try_new(SampleIndex::try_new([lengths])?, PackConfig::new(8_192))?;
/// let mut epoch = planner.epoch(0);
/// let mut budget = PackBudget { rows: 8, squares: u64::MAX };
/// assert_eq!(epoch.next_batch(&budget)?.map(|batch| batch.len()), Some(8));
/// // The device has less memory now.
/// budget.rows = 6;
/// assert_eq!(epoch.next_batch(&budget)?.map(|batch| batch.len()), Some(6));
/// assert_eq!(planner.resume(&epoch.position())?, epoch);
/// # Ok::<(), plimsoll_sampler::SamplerError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PackPlanner {
    index: SampleIndex<1>,
    config: PackConfig,
    source: Source,
    /// Whether the order of rows keeps the shares of tasks.
    keeps_shares: bool,
    identity: Identity,
    /// How many samples come into one window.
    window: usize,
    /// Pieces of all samples, and of the longest.
    n_pieces: usize,
    most_pieces: u32,
}

impl PackPlanner {
    /// Checks what is wanted; no row is packed yet. Of tasks, every stretch of rows has the shares that the data have.
    ///
    /// # Errors
    ///
    /// [`PackError::BeyondRow`] with the first sample that is longer than a row may be, where samples are not cut;
    /// [`PackError::Overlap`] when pieces repeat all of one another; [`crate::PlanError::BelowOne`] with the key that is 0;
    /// [`PackError::TooManyPieces`].
    pub fn try_new(index: SampleIndex<1>, config: PackConfig) -> Result<Self, PackError> {
        Self::try_mixed(index, config, &TaskMix::default())
    }

    /// The same with tasks in wanted shares of the samples, as [`crate::BatchPlanner`] mixes them: each window has them, and the
    /// order of its rows keeps them.
    ///
    /// # Errors
    ///
    /// Those of [`Self::try_new`]; [`PackError::Homogeneous`]; and those that say which shares cannot be.
    pub fn try_mixed(index: SampleIndex<1>, config: PackConfig, mix: &TaskMix) -> Result<Self, PackError> {
        config.check()?;
        if mix.homogeneous {
            return Err(PackError::Homogeneous);
        }
        let source = Source::try_new(&index, config.seed, mix)?;
        index.longer_than(config.piece_len()).map_or(Ok(()), |(id, length)| config.check_length(id, length))?;
        let most_pieces = config.n_pieces(index.longest()[0]);
        let n_pieces: u64 = (0..index.n_samples()).map(|id| u64::from(config.n_pieces(length(&index, id)))).sum();
        let of_epoch = match source.most_rounds() {
            Some(n_rounds) => n_pieces.saturating_mul(n_rounds),
            None => source.total().saturating_mul(most_pieces.into()),
        };
        let most = u64::from(u32::MAX);
        if of_epoch > most {
            return Err(PackError::TooManyPieces { n_pieces: of_epoch, most });
        }
        let window = config.window(&index);
        let identity = Identity {
            seed: config.seed,
            n_samples: index.n_samples() as u64,
            window: window as u64,
            lengths: index.fingerprint(),
            configuration: digest(format!("{config:?} {mix:?}").as_bytes()),
            rule: PACKING,
        };
        Ok(Self {
            keeps_shares: index.n_tasks() > 1 && mix.diversity_weight.get() > 0.0,
            index,
            config,
            source,
            identity,
            window,
            n_pieces: usize::try_from(n_pieces).unwrap_or(usize::MAX),
            most_pieces,
        })
    }

    /// The samples that are packed.
    pub const fn index(&self) -> &SampleIndex<1> {
        &self.index
    }

    /// What is wanted of the rows.
    pub const fn config(&self) -> &PackConfig {
        &self.config
    }

    /// What becomes of each task in an epoch, where shares were asked for.
    pub fn task_plans(&self) -> Option<Vec<TaskPlan>> {
        self.source.task_plans()
    }

    /// Accepts a rule that has room for any row of this plan.
    ///
    /// # Errors
    ///
    /// [`PackError::RowLoad`] with what the largest row may ask for.
    pub fn check(&self, rule: &impl PackRule) -> Result<(), PackError> {
        let block = u64::from(self.config.row_len);
        let squares = self.config.most_squares(self.index.longest()[0]);
        let load = PackLoad { rows: 1, block, positions: block, squares };
        if rule.fits(load) { Ok(()) } else { Err(PackError::RowLoad { positions: block, squares }) }
    }

    /// Packs an epoch as a whole.
    pub fn plan_epoch(&self, epoch: u64) -> PackedRows {
        let (mut progress, mut filling) = (self.start(epoch), Filling::new());
        let (mut rows, mut all) = (PackedRows::new(self.config.row_len), PackedRows::new(self.config.row_len));
        all.reserve(self.n_pieces);
        while self.plan_window(&mut progress, &mut filling, &mut rows) {
            all.append(&rows);
        }
        all
    }

    pub(super) const fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn start(&self, epoch: u64) -> Progress {
        Progress { epoch, drawn: self.source.start(), carried: Carried::default() }
    }

    pub(super) fn check_drawn(&self, drawn: &Drawn) -> Result<(), PositionError> {
        self.source.check_drawn(drawn)
    }

    /// Packs the next window; says whether there was one.
    pub(super) fn plan_window(&self, progress: &mut Progress, filling: &mut Filling, rows: &mut PackedRows) -> bool {
        let Progress { epoch, drawn, carried } = progress;
        let (start, total) = (drawn.total(), self.source.total());
        if start == total && carried.0.is_empty() {
            rows.clear();
            return false;
        }
        filling.pieces.clear();
        filling.pieces.extend(carried.0.iter().filter_map(|key| self.piece(*key)));
        filling.n_carried = filling.pieces.len();
        let Filling { ids, pieces, .. } = filling;
        ids.clear();
        self.source.draw(*epoch, drawn, Stretch::Window(self.window), ids);
        self.cut(ids, pieces);
        filling.fill(&self.config, rows);
        let most = if drawn.total() == total { 0 } else { MOST_CARRIED };
        *carried = filling.take_back(rows, most).into_iter().map(|piece| self.key(piece)).collect();
        Filling::shuffle(rows, &mut Rng::new(Use::Rows, self.config.seed, *epoch, start));
        if let Some(of) = self.index.tasks().filter(|_| self.keeps_shares) {
            // A piece counts as a sample when it is the first of its sample.
            let samples = |row: &[Piece]| row.iter().filter(|it| it.start == 0).map(|it| it.id).collect::<Vec<_>>();
            let of_each = rows.iter().map(|row| samples(row).into_iter());
            let order = in_shares(of_each, Tasks { of, n: self.index.n_tasks() });
            rows.arrange(&order);
        }
        true
    }

    /// Appends the pieces of samples: the first of each, and then the others of those that are cut.
    fn cut(&self, ids: &[u32], pieces: &mut Vec<Piece>) {
        let (start, end) = (pieces.len(), pieces.len() + ids.len());
        pieces.extend(ids.iter().map(|id| Piece { id: *id, start: 0, end: length(&self.index, *id as usize) }));
        if self.most_pieces == 1 {
            return;
        }
        let most = self.config.piece_len();
        for at in start..end {
            let Piece { id, end: length, .. } = pieces[at];
            if length > most {
                pieces[at].end = most;
                pieces.extend((1..self.config.n_pieces(length)).map(|number| {
                    let (start, end) = self.config.piece(length, number);
                    Piece { id, start, end }
                }));
            }
        }
    }

    /// A piece as a number.
    fn key(&self, piece: Piece) -> u64 {
        u64::from(piece.id) * u64::from(self.most_pieces) + u64::from(self.config.number(piece.start))
    }

    /// The piece of a number, if there is such a piece.
    pub(super) fn piece(&self, key: u64) -> Option<Piece> {
        let most = u64::from(self.most_pieces);
        let id = u32::try_from(key / most).ok().filter(|id| (*id as usize) < self.index.n_samples())?;
        let (number, length) = (u32::try_from(key % most).ok()?, length(&self.index, id as usize));
        let (start, end) = (number < self.config.n_pieces(length)).then(|| self.config.piece(length, number))?;
        Some(Piece { id, start, end })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the index refuses more samples than 32 bits can count")]
fn length(index: &SampleIndex<1>, id: usize) -> u32 {
    index.lengths(id as u32)[0]
}
