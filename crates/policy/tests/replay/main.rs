//! Replays: events in, decisions out.
#![cfg(test)]

mod bucketed;
mod bucketed_cells;
mod bucketed_invariants;
mod certified;
mod certified_ways_back;
mod changes;
mod face;
mod invariants;
mod scene;
mod simulation;
mod stepwise;
