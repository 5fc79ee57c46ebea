//! The dynamic program behind the edges.

/// The best partitions of sorted values into 1, 2, .. contiguous groups, each value padded to the largest of its group.
pub(super) struct Partition {
    values: Vec<u32>,
    /// `before[i]` samples have one of the first `i` values.
    before: Vec<u64>,
    /// `costs[j]` is the least sum of padded values of the first `j` values in as many groups as there are now.
    costs: Vec<u64>,
    /// For each number of groups from 2, where the last of them begins when `j` values are divided.
    starts: Vec<Vec<u32>>,
}

impl Partition {
    /// Starts with all in one group; values increase, each with the number of its samples.
    pub(super) fn new(counts: &[(u32, u64)]) -> Self {
        let values: Vec<u32> = counts.iter().map(|it| it.0).collect();
        let sums = counts.iter().scan(0, |sum, it| {
            *sum += it.1;
            Some(*sum)
        });
        let before: Vec<u64> = std::iter::once(0).chain(sums).collect();
        let costs = (0..=values.len()).map(|j| if j == 0 { 0 } else { u64::from(values[j - 1]) * before[j] }).collect();
        Self { values, before, costs, starts: Vec::new() }
    }

    pub(super) fn n_groups(&self) -> usize {
        self.starts.len() + 1
    }

    /// Returns the sum of all padded values.
    pub(super) fn cost(&self) -> u64 {
        self.costs[self.values.len()]
    }

    /// Allows one more group; `false` when each value has its own already.
    pub(super) fn refine(&mut self) -> bool {
        let n_values = self.values.len();
        if self.n_groups() >= n_values {
            return false;
        }
        let mut layer = Layer { partition: self, costs: self.costs.clone(), starts: vec![0; n_values + 1] };
        // At least one value in each group: `j` values cannot be divided into more than `j` groups.
        let fewest = self.n_groups();
        layer.fill((fewest + 1, n_values), (fewest, n_values - 1));
        let Layer { costs, starts, .. } = layer;
        self.costs = costs;
        self.starts.push(starts);
        true
    }

    /// Returns the largest value of each group, smallest first.
    pub(super) fn edges(&self) -> Vec<u32> {
        let mut end = self.values.len();
        let mut edges = vec![self.values[end - 1]];
        for starts in self.starts.iter().rev() {
            end = starts[end] as usize;
            edges.push(self.values[end - 1]);
        }
        edges.reverse();
        edges
    }

    /// Returns the least sum when the last group of the first `end` values begins at `start`.
    fn split(&self, start: usize, end: usize) -> u64 {
        self.costs[start] + u64::from(self.values[end - 1]) * (self.before[end] - self.before[start])
    }
}

/// The costs for one more group, as they are found.
struct Layer<'a> {
    partition: &'a Partition,
    costs: Vec<u64>,
    starts: Vec<u32>,
}

impl Layer<'_> {
    /// Finds the best start for each end in the inclusive range, knowing that it is one of `starts`, inclusive as well.
    fn fill(&mut self, ends: (usize, usize), starts: (usize, usize)) {
        if ends.0 > ends.1 {
            return;
        }
        let end = usize::midpoint(ends.0, ends.1);
        let possible = starts.0..=starts.1.min(end - 1);
        let best = possible.min_by_key(|start| self.partition.split(*start, end)).unwrap_or(starts.0);
        self.costs[end] = self.partition.split(best, end);
        self.starts[end] = u32::try_from(best).unwrap_or(u32::MAX);
        self.fill((ends.0, end - 1), (starts.0, best));
        self.fill((end + 1, ends.1), (best, starts.1));
    }
}
