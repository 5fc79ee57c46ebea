//! What more ranks than there are cores would take to agree and to add.

use plimsoll_types::Bytes;
use serde::Serialize;

/// A network between ranks, whoever else uses it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Network {
    /// What it is called.
    pub name: &'static str,
    /// From when a message is sent to when it arrives, in seconds.
    pub latency: f64,
    /// What a rank can send and take at once.
    pub bytes_per_second: f64,
}

/// The values that are added at a time, as `plimsoll_fleet::Mpi` divides them.
const VALUES_AT_ONCE: usize = 1 << 22;

impl Network {
    /// A network of today's clusters, and that of an office.
    pub const ALL: [Self; 2] = [
        Self { name: "100 Gbit/s", latency: 5e-6, bytes_per_second: 11e9 },
        Self { name: "10 Gbit/s", latency: 30e-6, bytes_per_second: 1.1e9 },
    ];

    /// How long so many ranks take to tell each other some numbers, in seconds: in rounds, each with twice as many as before.
    pub fn agree(&self, n_ranks: usize) -> f64 {
        rounds(n_ranks) * self.latency
    }

    /// How long so many ranks take to add so many values, of which each takes a host so long, in seconds.
    pub fn sum(&self, n_ranks: usize, n_values: usize, host_per_value: f64) -> f64 {
        self.sum_by(n_ranks, n_values, host_per_value, (n_ranks - 1) as f64)
    }

    /// The same if shares went through a tree.
    pub fn sum_by_tree(&self, n_ranks: usize, n_values: usize, host_per_value: f64) -> f64 {
        self.sum_by(n_ranks, n_values, host_per_value, rounds(n_ranks))
    }

    fn sum_by(&self, n_ranks: usize, n_values: usize, host_per_value: f64, n_messages: f64) -> f64 {
        let latency = 2.0 * n_messages * n_values.div_ceil(VALUES_AT_ONCE) as f64 * self.latency;
        let sent = 2.0 * (n_ranks - 1) as f64 / n_ranks as f64 * (size_of::<f32>() * n_values) as f64;
        self.agree(n_ranks) + latency + sent / self.bytes_per_second + n_values as f64 * host_per_value
    }

    /// Its bandwidth, as people write it.
    pub fn bandwidth(&self) -> Bytes {
        Bytes::from_f64_ceil(self.bytes_per_second)
    }
}

fn rounds(n_ranks: usize) -> f64 {
    f64::from(n_ranks.max(1).next_power_of_two().ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_takes_at_least_its_bytes_and_latencies() {
        let [network, _] = Network::ALL;
        // Two ranks send half of 44 MB to each other, twice: 4 ms.
        let (alone, host) = (network.sum(2, 11_000_000, 0.0), 1e-9);
        assert!((alone - 4e-3).abs() < 0.5e-3, "{alone}");
        assert!((network.sum(2, 11_000_000, host) - alone - 11e-3).abs() < 1e-6);
        // A few values are all latency: a message from each, twice, and one round of what they are about to do.
        assert!((network.sum(1_024, 8, 0.0) - 2_056.0 * 5e-6).abs() < 1e-6);
        assert!((network.sum_by_tree(1_024, 8, 0.0) - 30.0 * 5e-6).abs() < 1e-6);
    }
}
