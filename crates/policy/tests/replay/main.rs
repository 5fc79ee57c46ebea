//! Replays: events in, decisions out.
#![cfg(test)]

mod certified;
mod face;
mod invariants;
mod scene;
mod simulation;
mod stepwise;
