//! The crate as its caller sees it.
#![cfg(test)]

mod alone;
mod certificate;
mod coverage;
mod explorer;
mod kept;
mod lifted;
mod predictor;
mod products;
mod reserved;
mod simulated;
mod tables;
