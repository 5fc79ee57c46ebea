//! An allocator with the rules of `CubeCL`'s pools: first fit in pages sized for the largest allocation.

use std::collections::BTreeMap;

use plimsoll_predict::page_for;
use plimsoll_types::Bytes;

const ALIGNMENT: u64 = 512;
const SMALL: u64 = 64 << 10;
const SMALL_PAGE: u64 = 8 << 20;

#[derive(Default)]
pub(crate) struct Arena {
    small: Pool,
    current: Pool,
    /// Pages of earlier sizes that still hold something.
    outdated: Vec<Pool>,
    /// Where each allocation lies: generation of its pool (0 for the small one), page and offset.
    places: BTreeMap<usize, (u64, usize, u64)>,
    in_use: u64,
    pub(crate) peak_in_use: u64,
    pub(crate) peak_reserved: u64,
    pub(crate) largest: u64,
}

#[derive(Default)]
struct Pool {
    generation: u64,
    page_size: u64,
    /// Slices of each page, by offset.
    pages: Vec<BTreeMap<u64, u64>>,
}

impl Pool {
    fn new(generation: u64, page_size: u64) -> Self {
        Self { generation, page_size, pages: Vec::new() }
    }

    /// Takes the first gap that is wide enough; a gap between two slices is one, however it came about.
    fn take(&mut self, size: u64) -> (usize, u64) {
        for (page, slices) in self.pages.iter_mut().enumerate() {
            let mut end = 0;
            for (offset, length) in slices.iter() {
                if offset - end >= size {
                    break;
                }
                end = offset + length;
            }
            if end + size <= self.page_size {
                slices.insert(end, size);
                return (page, end);
            }
        }
        self.pages.push(BTreeMap::from([(0, size)]));
        (self.pages.len() - 1, 0)
    }

    fn reserved(&self) -> u64 {
        self.page_size * self.pages.len() as u64
    }

    fn held(&self) -> u64 {
        self.page_size * self.pages.iter().filter(|it| !it.is_empty()).count() as u64
    }
}

impl Arena {
    pub(crate) fn allocate(&mut self, id: usize, size: u64) {
        let size = size.max(1).next_multiple_of(ALIGNMENT);
        let pool = self.pool_for(size);
        let (page, offset) = pool.take(size);
        let generation = pool.generation;
        self.places.insert(id, (generation, page, offset));
        self.in_use += size;
        self.largest = self.largest.max(size);
        self.peak_in_use = self.peak_in_use.max(self.in_use);
        self.peak_reserved = self.peak_reserved.max(self.reserved());
    }

    pub(crate) fn free(&mut self, id: usize) {
        let (generation, page, offset) = self.places.remove(&id).expect("what is freed is live");
        let pools = [&mut self.small, &mut self.current].into_iter().chain(&mut self.outdated);
        let pool = pools.into_iter().find(|it| it.generation == generation).expect("a pool with a live slice stays");
        self.in_use -= pool.pages[page].remove(&offset).expect("a slice lies where it was placed");
    }

    fn pool_for(&mut self, size: u64) -> &mut Pool {
        if size <= SMALL {
            self.small.page_size = SMALL_PAGE;
            return &mut self.small;
        }
        // An outdated page goes back once it is empty, at the next reservation.
        self.outdated.retain(|it| it.held() > 0);
        if size > self.current.page_size {
            let next = Pool::new(self.current.generation + 1, page_for(Bytes(size)).0);
            self.outdated.push(std::mem::replace(&mut self.current, next));
        }
        &mut self.current
    }

    /// Returns the size of the largest pages.
    pub(crate) fn page(&self) -> Bytes {
        Bytes(self.small.page_size.max(self.current.page_size))
    }

    fn reserved(&self) -> u64 {
        self.small.reserved() + self.current.reserved() + self.outdated.iter().map(Pool::held).sum::<u64>()
    }
}
