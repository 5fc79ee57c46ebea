//! The crate as its caller sees it.
#![cfg(test)]

mod cells;
mod collate;
mod collate_limits;
mod common;
mod dealer;
mod edges;
mod edges_of_lengths;
mod giants;
mod golden;
mod group_steps;
mod groups;
mod interrupted;
mod mates;
mod mixture;
mod oracle;
mod pack;
mod pack_stream;
mod pages;
mod plan;
mod positions;
mod positions_of_two_axes;
mod quality;
mod rule;
mod shares;
mod speeds;
mod steps;
mod steps_axes;
mod stream;
mod stream_axes;
mod stream_mix;
mod stream_resume;
mod stream_steps;
mod tasks;
