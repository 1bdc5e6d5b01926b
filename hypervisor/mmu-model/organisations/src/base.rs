// SPDX-License-Identifier: MIT
//! BASE of Jacob & Mudge 1998: virtual caches, and nothing else. What others cost is told by the difference.

use mmu_model::address::PageSize;

use crate::table::{Pair, Shape, Space, Store, Table, Visit};

/// No table.
#[derive(Debug)]
pub struct Base;

impl Table for Base {
    fn sizes(&self) -> &[PageSize] {
        &[]
    }

    fn without_tlb(&self) -> bool {
        true
    }

    fn set(&mut self, _: &mut Store, _: Space, _: u64, _: PageSize, _: u32) -> Vec<u32> {
        vec![]
    }

    fn get(&self, _: &Store, _: Space, _: u64) -> (u32, PageSize) {
        (0, PageSize::K4)
    }

    fn refill(&mut self, _: &mut Store, _: Space, _: u64, _: &mut dyn Visit) -> Option<Pair> {
        None
    }

    fn end(&mut self, _: &mut Store, _: Space) -> Vec<u32> {
        vec![]
    }

    fn shape(&self, store: &Store) -> Shape {
        [("bytes", store.arena.used())].into()
    }
}
