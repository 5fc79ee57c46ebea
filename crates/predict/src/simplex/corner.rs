//! A corner of what the constraints allow, and the edges that lead away from it.

use super::{Constraints, EPSILON, LANES, MAX_ROWS, Vector};

/// A corner: as many constraints as there are features hold it.
///
/// It depends on no objective: from any corner the way to the maximum of another objective goes on.
#[derive(Clone, Debug)]
pub(crate) struct Corner {
    at: Vector,
    /// Along each edge one constraint lets go, and what it holds back grows by 1.
    edges: Vec<Vector>,
    /// The constraint of each edge: that a feature is not below zero, or else a row, counted after the features.
    holding: Vec<usize>,
    /// How far it is to each row.
    room: [f64; MAX_ROWS],
    n_pivots: u32,
}

impl Corner {
    /// Starts at zero, which every constraint allows.
    pub(crate) fn new(constraints: &Constraints) -> Self {
        let n = constraints.n_features();
        let mut edges = vec![Vector::default(); n];
        edges.iter_mut().enumerate().for_each(|(feature, edge)| edge[feature] = 1.0);
        Self { at: Vector::default(), edges, holding: (0..n).collect(), room: [1.0; MAX_ROWS], n_pivots: 0 }
    }

    /// Goes by no row of this number.
    pub(crate) fn without(mut self, row: usize) -> Self {
        self.room[row] = f64::INFINITY;
        self
    }

    /// Returns how many pivots were made.
    pub(crate) fn n_pivots(&self) -> u32 {
        self.n_pivots
    }

    /// Returns the most that an objective can be where it gains along no edge, shown by the constraints that hold the
    /// corner: their sum, each as many times as is lost along its edge.
    ///
    /// What that leaves unexplained is part of it, so that nothing that rounding has done to the corner makes it too
    /// small; `None` where that is more than `most`.
    pub(super) fn shown(&self, objective: &Vector, most: f64, constraints: &Constraints) -> Option<f64> {
        let (n, mut rest, mut value) = (self.edges.len(), *objective, 0.0);
        for (edge, constraint) in self.holding.iter().enumerate() {
            let times = -self.gain(objective, edge);
            constraints.add(*constraint, -times, &mut rest);
            value += if *constraint < n { 0.0 } else { times };
        }
        // No variable is above 1.
        let rest: f64 = rest[..n].iter().map(|it| it.abs()).sum();
        (rest <= most).then_some(value + rest)
    }

    /// Works out anew, from the constraints that hold the corner, where it is and where its edges lead; `None` where they
    /// hold none.
    pub(super) fn straighten(&mut self, constraints: &Constraints) -> Option<()> {
        let n = self.edges.len();
        let mut system: Vec<[Vector; 2]> = vec![[Vector::default(); 2]; n];
        for (at, ([normal, inverse], constraint)) in system.iter_mut().zip(&self.holding).enumerate() {
            constraints.add(*constraint, 1.0, normal);
            inverse[at] = 1.0;
        }
        for at in 0..n {
            let best = (at..n).max_by(|a, b| system[*a][0][at].abs().total_cmp(&system[*b][0][at].abs()))?;
            system.swap(at, best);
            let per_pivot = 1.0 / system[at][0][at];
            if !per_pivot.is_finite() {
                return None;
            }
            let line = system[at].map(|side| side.map(|cell| cell * per_pivot));
            for other in &mut system {
                let times = other[0][at];
                other.iter_mut().flatten().zip(line.iter().flatten()).for_each(|(cell, own)| *cell -= times * own);
            }
            system[at] = line;
        }
        self.at = Vector::default();
        for (edge, constraint) in self.holding.iter().enumerate() {
            let column: Vector = std::array::from_fn(|feature| system.get(feature).map_or(0.0, |it| it[1][edge]));
            self.edges[edge] = column.map(|cell| -cell);
            if n <= *constraint {
                self.at.iter_mut().zip(column).for_each(|(at, cell)| *at += cell);
            }
        }
        for (row, room) in self.room.iter_mut().enumerate().filter(|(_, room)| room.is_finite()) {
            *room = 1.0 - constraints.speed(n + row, &self.at);
        }
        Some(())
    }

    /// Returns what an objective gains along an edge.
    pub(super) fn gain(&self, objective: &Vector, edge: usize) -> f64 {
        self.dot(objective, &self.edges[edge])
    }

    /// Returns an edge along which an objective rises: the steepest, or the one of the lowest constraint.
    pub(super) fn rising(&self, objective: &Vector, by_bland: bool) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for edge in 0..self.edges.len() {
            let gain = self.gain(objective, edge);
            let is_better = |(other, most): (usize, f64)| {
                if by_bland { self.holding[edge] < self.holding[other] } else { most <= gain }
            };
            if EPSILON < gain && best.is_none_or(is_better) {
                best = Some((edge, gain));
            }
        }
        best.map(|it| it.0)
    }

    /// Goes to the end of an edge; `None` where nothing ends it.
    pub(super) fn go(&mut self, edge: usize, by_bland: bool, constraints: &Constraints) -> Option<()> {
        let (n, along) = (self.edges.len(), self.edges[edge]);
        let mut speeds = [0.0; MAX_ROWS];
        let (length, constraint) = self.end(&along, by_bland, constraints, &mut speeds)?;
        self.at[..n].iter_mut().zip(&along).for_each(|(at, along)| *at += length * along);
        self.room.iter_mut().zip(&speeds).for_each(|(room, speed)| *room -= length * speed);
        let per_speed = 1.0 / constraints.speed(constraint, &along);
        for (at, other) in self.edges.iter_mut().enumerate() {
            if at != edge {
                let share = constraints.speed(constraint, other) * per_speed;
                other[..n].iter_mut().zip(&along).for_each(|(cell, along)| *cell -= share * along);
            }
        }
        self.edges[edge].iter_mut().for_each(|cell| *cell *= -per_speed);
        self.holding[edge] = constraint;
        self.n_pivots += 1;
        Some(())
    }

    /// Returns how long an edge is, and the constraint that ends it; says how fast the edge comes near each row.
    ///
    /// Of all that it meets within what counts as zero it is the one that it meets most steeply: whatever holds a corner
    /// at a slant makes the next edges inexact. By Bland's rule, it is the lowest.
    fn end(
        &self,
        along: &Vector,
        by_bland: bool,
        constraints: &Constraints,
        speeds: &mut [f64; MAX_ROWS],
    ) -> Option<(f64, usize)> {
        let n = self.edges.len();
        let mut least = [f64::INFINITY; LANES];
        for block in (0..constraints.n_padded()).step_by(LANES) {
            let mut speed = [0.0; LANES];
            for (column, along) in constraints.columns().iter().zip(along) {
                let cells = &column[block..block + LANES];
                (0..LANES).for_each(|lane| speed[lane] += cells[lane] * along);
            }
            let room = &self.room[block..block + LANES];
            for lane in 0..LANES {
                let length = (room[lane] + EPSILON) / speed[lane];
                let length = if speed[lane] > EPSILON { length } else { f64::INFINITY };
                least[lane] = if length < least[lane] { length } else { least[lane] };
                speeds[block + lane] = speed[lane];
            }
        }
        let mut most = least.into_iter().fold(f64::INFINITY, f64::min);
        for (at, along) in self.at[..n].iter().zip(along).filter(|(_, along)| EPSILON < -**along) {
            most = most.min((at + EPSILON) / -along);
        }
        if most == f64::INFINITY {
            return None;
        }
        let (mut end, mut steepest) = (None, EPSILON);
        let mut meet = |constraint: usize, room: f64, speed: f64| {
            if room <= most * speed && steepest < speed {
                end = Some((room.max(0.0) / speed, constraint));
                steepest = if by_bland { f64::INFINITY } else { speed };
            }
        };
        (0..n).for_each(|feature| meet(feature, self.at[feature], -along[feature]));
        (0..constraints.n_padded()).for_each(|row| meet(n + row, self.room[row], speeds[row]));
        end
    }

    fn dot(&self, a: &Vector, b: &Vector) -> f64 {
        let n = self.edges.len();
        a[..n].iter().zip(&b[..n]).map(|(a, b)| a * b).sum()
    }
}
