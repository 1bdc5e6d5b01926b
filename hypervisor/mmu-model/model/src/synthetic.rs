// SPDX-License-Identifier: MIT
//! A machine made of page tables only, for tests and the bench.
//!
//! [`Tables`](crate::x86::Tables) are built in a sparse memory, and [`World`] lets a hypervisor, a guest's kernel
//! and two of its processes run on them, remapping and invalidating as kernels do.

use std::convert::Infallible;

use crate::address::{GuestPhysical, Machine, PageSize, Virtual};
use crate::context::{Kind, Layer};
use crate::memory::Memory;
use crate::x86::steps::{Access, Plain, Walker};
use crate::x86::{Context, Control, Event, Levels, Tables, bit};

/// A small generator of numbers that look random (SplitMix64): the same seed, the same numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Start from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Pages of words; what was never written reads as zero.
#[derive(Clone, Debug, Default)]
pub struct Pages(Vec<Option<Box<[u64; 512]>>>);

impl Pages {
    /// Write a word, below 4 GiB.
    pub fn write(&mut self, at: Machine, value: u64) {
        let page = (at.raw() >> 12) as usize;
        assert!(page < 1 << 20, "{at:?} is above 4 GiB");
        if self.0.len() <= page {
            self.0.resize(page + 1, None);
        }
        self.0[page].get_or_insert_with(|| Box::new([0; 512]))[(at.raw() >> 3) as usize & 511] = value;
    }

    /// A word.
    pub fn get(&self, at: Machine) -> u64 {
        let page = self.0.get((at.raw() >> 12) as usize);
        page.and_then(Option::as_ref).map_or(0, |words| words[(at.raw() >> 3) as usize & 511])
    }
}

impl Memory for Pages {
    type Error = Infallible;

    fn read(&mut self, at: Machine) -> Result<u64, Infallible> {
        Ok(self.get(at))
    }

    fn set_bits(&mut self, at: Machine, bits: u64) -> Result<(), Infallible> {
        self.write(at, self.get(at) | bits);
        Ok(())
    }
}

/// One table under construction. Its pages are taken one after the other from `next`, an address of the kind that
/// its entries hold; they lie in memory `moved` bytes further on.
#[derive(Clone, Debug)]
pub struct Builder {
    /// The top page.
    pub root: u64,
    /// Depth.
    pub levels: Levels,
    next: u64,
    moved: u64,
}

/// Rights for anyone.
pub const OPEN: u64 = bit::PRESENT | bit::WRITE | bit::USER;

impl Builder {
    /// An empty table whose pages start at `first`.
    pub fn new(first: u64, moved: u64, levels: Levels) -> Self {
        Self { root: first, levels, next: first + 4096, moved }
    }

    /// Where the entry for an address is at the level of a page size, with the tables above it made.
    pub fn entry(&mut self, memory: &mut Pages, address: u64, size: PageSize) -> Machine {
        let mut table = self.root;
        let last = (size.shift() / 9) as u8;
        for level in (last..=self.levels as u8).rev() {
            let at = Machine::new(table + self.moved + (address >> (3 + 9 * level) & 511) * 8);
            if level == last {
                return at;
            }
            let entry = memory.get(at);
            if entry & bit::PRESENT == 0 {
                memory.write(at, self.next | OPEN);
                table = self.next;
                self.next += 4096;
            } else {
                assert_eq!(entry & bit::LARGE, 0, "{address:#x} lies in a large page");
                table = entry & bit::FRAME;
            }
        }
        unreachable!("the last level returns")
    }

    /// Map a page; returns where its entry is.
    pub fn map(&mut self, memory: &mut Pages, address: u64, size: PageSize, frame: u64, bits: u64) -> Machine {
        let at = self.entry(memory, address, size);
        let large = if size == PageSize::K4 { 0 } else { bit::LARGE };
        memory.write(at, frame | bits | large);
        at
    }
}

/// User code on one table, or on a guest's with a host's behind it.
pub fn user_on(guest: &Builder, host: Option<&Builder>) -> Context {
    let tables = match host {
        Some(host) => Tables::Nested {
            guest: Some((GuestPhysical::new(guest.root), guest.levels)),
            root: Machine::new(host.root),
            levels: host.levels,
            nxe: true,
        },
        None => Tables::Flat { root: Machine::new(guest.root), levels: guest.levels },
    };
    let asid = u16::from(host.is_some());
    Context { layer: Layer::GuestUser, space: 0, user: true, control: Control::default(), asid, pcid: 0, tables }
}

/// Who hears what a [`World`] does.
pub trait Observer {
    /// This context runs now.
    fn context(&mut self, context: &Context);
    /// An access has been made; the emulator found it at `machine`.
    fn access(&mut self, memory: &mut Pages, address: Virtual, kind: Kind, machine: Machine);
    /// An instruction invalidates.
    fn invalidate(&mut self, event: Event);
    /// The region begins or ends.
    fn region(&mut self, on: bool);
}

/// Where the guest's kernel sees guest-physical memory.
const DIRECT: u64 = 0xffff_8880_0000_0000;
/// Where a process's memory begins.
const HEAP: u64 = 0x5555_5540_0000;
/// Guest-physical and machine addresses of tables stay below this; data lies above.
const TABLES: u64 = 64 << 20;
/// Guest-physical memory.
const GUEST_MEMORY: u64 = 512 << 20;
/// Where the guest's memory begins in the machine.
const GUEST_BASE: u64 = 1 << 30;
/// Small pages in a process.
const HEAP_PAGES: u64 = 16_384;

/// A hypervisor, one guest under nested paging, its kernel and two processes.
#[derive(Debug)]
pub struct World {
    /// All of memory that matters.
    pub memory: Pages,
    random: Random,
    host: Builder,
    hypervisor: Builder,
    processes: [Builder; 2],
    running: usize,
    context: Context,
}

impl World {
    /// Build all tables. The host backs three quarters of the guest with large pages, and processes map every other
    /// 2 MiB with one.
    pub fn new(seed: u64) -> Self {
        let mut memory = Pages::default();
        let mut host = Builder::new(0x10_0000, 0, Levels::Four);
        for region in (0..GUEST_MEMORY).step_by(2 << 20) {
            if region / (2 << 20) % 4 == 3 {
                for page in (region..region + (2 << 20)).step_by(4096) {
                    host.map(&mut memory, page, PageSize::K4, GUEST_BASE + page, OPEN);
                }
            } else {
                host.map(&mut memory, region, PageSize::M2, GUEST_BASE + region, OPEN);
            }
        }
        let mut hypervisor = Builder::new(0x80_0000, 0, Levels::Four);
        for region in 0..8 {
            let bits = bit::PRESENT | bit::WRITE | bit::GLOBAL;
            hypervisor.map(&mut memory, region << 30, PageSize::G1, region << 30, bits);
        }
        let mut first = 0x1000;
        let processes = [0, 1].map(|process| {
            let mut table = Builder::new(first, GUEST_BASE, Levels::Four);
            first += TABLES / 4;
            for region in (0..GUEST_MEMORY).step_by(2 << 20) {
                let bits = bit::PRESENT | bit::WRITE | bit::GLOBAL;
                table.map(&mut memory, DIRECT + region, PageSize::M2, region, bits);
            }
            for region in (0..HEAP_PAGES / 512).map(|r| r << 21) {
                let frame = TABLES + (process as u64) * (HEAP_PAGES << 12) + region;
                if region >> 21 & 1 == 0 {
                    table.map(&mut memory, HEAP + region, PageSize::M2, frame, OPEN);
                } else {
                    for page in (0..2 << 20).step_by(4096) {
                        table.map(&mut memory, HEAP + region + page, PageSize::K4, frame + page, OPEN);
                    }
                }
            }
            table
        });
        let context = Context {
            layer: Layer::GuestUser,
            space: processes[0].root,
            user: true,
            control: Control::default(),
            asid: 1,
            pcid: 0,
            tables: Tables::Off,
        };
        let mut world = Self { memory, random: Random::new(seed), host, hypervisor, processes, running: 0, context };
        world.context.tables = world.guest_tables();
        world
    }

    fn guest_tables(&self) -> Tables {
        let guest = &self.processes[self.running];
        Tables::Nested {
            guest: Some((GuestPhysical::new(guest.root), guest.levels)),
            root: Machine::new(self.host.root),
            levels: self.host.levels,
            nxe: true,
        }
    }

    fn become_layer(&mut self, layer: Layer, observer: &mut impl Observer) {
        let guest = layer != Layer::Hypervisor;
        self.context = Context {
            layer,
            space: if guest { self.processes[self.running].root } else { 0 },
            user: layer == Layer::GuestUser,
            asid: u16::from(guest),
            tables: if guest {
                self.guest_tables()
            } else {
                Tables::Flat { root: Machine::new(self.hypervisor.root), levels: Levels::Four }
            },
            ..self.context
        };
        observer.context(&self.context);
    }

    fn access(&mut self, address: u64, kind: Kind, observer: &mut impl Observer) {
        let Context { user, control, tables, .. } = self.context;
        let access = Access { kind, user, control };
        let address = Virtual::new(address);
        // What an emulator does before it tells: it walks, and sets accessed and dirty bits.
        let leaf = tables.walk(address, access, &mut Plain(&mut self.memory)).expect("the world maps what it uses");
        let machine = leaf.machine.plus(address.raw() & leaf.size.offset_mask());
        observer.access(&mut self.memory, address, kind, machine);
    }

    /// Let about this many accesses happen, all but the first tenth inside the region.
    pub fn run(&mut self, accesses: u64, observer: &mut impl Observer) {
        self.become_layer(Layer::GuestUser, observer);
        let mut cursor = 0;
        for done in 0..accesses {
            if done == accesses / 10 {
                observer.region(true);
            }
            let jump = self.random.one_in(4);
            cursor = if jump { self.random.below(HEAP_PAGES << 12) & !7 } else { (cursor + 8) % (HEAP_PAGES << 12) };
            let kind = [Kind::Load, Kind::Load, Kind::Store][self.random.below(3) as usize];
            self.access(HEAP + cursor, kind, observer);
            match self.random.below(4096) {
                0..8 => self.system_call(observer),
                8 => self.exit(observer),
                _ => {}
            }
        }
        observer.region(false);
    }

    /// The kernel runs: it may move a page, split or clear what it likes, or switch processes.
    fn system_call(&mut self, observer: &mut impl Observer) {
        self.become_layer(Layer::GuestKernel, observer);
        for _ in 0..8 {
            let address = DIRECT + (self.random.below(GUEST_MEMORY - TABLES) & !7) + TABLES;
            self.access(address, Kind::Load, observer);
        }
        match self.random.below(4) {
            0 => self.move_page(observer),
            1 => self.clear_bits(observer),
            2 => {
                self.running ^= 1;
                self.become_layer(Layer::GuestKernel, observer);
                observer.invalidate(Event::Cr3 { keep: false });
            }
            _ => {}
        }
        self.become_layer(Layer::GuestUser, observer);
    }

    /// Swap the frames of two small pages, each with a store to its entry, and invalidate both.
    fn move_page(&mut self, observer: &mut impl Observer) {
        let odd_page = |r: &mut Random| HEAP + (r.below(HEAP_PAGES / 1024) << 22 | 1 << 21 | r.below(512) << 12);
        let pages = [odd_page(&mut self.random), odd_page(&mut self.random)];
        let table = &mut self.processes[self.running];
        let entries = pages.map(|page| table.entry(&mut self.memory, page, PageSize::K4));
        let values = entries.map(|at| self.memory.get(at));
        for ((at, value), page) in entries.into_iter().zip([values[1], values[0]]).zip(pages) {
            self.memory.write(at, value);
            self.access(DIRECT + at.raw() - GUEST_BASE, Kind::Store, observer);
            observer.invalidate(Event::Invlpg(Virtual::new(page)));
        }
    }

    /// Clear accessed and dirty bits of an entry, as reclaim does.
    fn clear_bits(&mut self, observer: &mut impl Observer) {
        let page = HEAP + (self.random.below(HEAP_PAGES / 512) << 21);
        let size = if page >> 21 & 1 == (HEAP >> 21) & 1 { PageSize::M2 } else { PageSize::K4 };
        let at = self.processes[self.running].entry(&mut self.memory, page, size);
        self.memory.write(at, self.memory.get(at) & !(bit::ACCESSED | bit::DIRTY));
        self.access(DIRECT + at.raw() - GUEST_BASE, Kind::Store, observer);
        observer.invalidate(Event::Invlpg(Virtual::new(page)));
    }

    /// The guest leaves to the hypervisor, which may change what is behind the guest's memory.
    fn exit(&mut self, observer: &mut impl Observer) {
        self.become_layer(Layer::Hypervisor, observer);
        for _ in 0..16 {
            let address = self.random.below(8 << 30) & !7;
            self.access(address, Kind::Load, observer);
        }
        let tlb_control = [0, 0, 0, 1, 3, 7][self.random.below(6) as usize];
        if tlb_control == 1 || tlb_control == 3 {
            let page = (self.random.below(GUEST_MEMORY >> 23) << 23 | 3 << 21) + (self.random.below(512) << 12);
            let at = self.host.entry(&mut self.memory, page, PageSize::K4);
            let value = self.memory.get(at) ^ (1 << 31);
            self.memory.write(at, value);
            self.access(at.raw(), Kind::Store, observer);
        }
        observer.invalidate(Event::Vmrun { tlb_control, asid: 1 });
        self.become_layer(Layer::GuestUser, observer);
    }
}
