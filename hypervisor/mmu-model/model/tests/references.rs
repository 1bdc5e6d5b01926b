// SPDX-License-Identifier: MIT
//! With every cache off, a walk makes exactly the references that the manuals describe.

use mmu_model::address::{GuestPhysical, Machine, PageSize, Virtual};
use mmu_model::context::{Kind, Layer};
use mmu_model::cpu::Cpu;
use mmu_model::mmu::Mmu;
use mmu_model::synthetic::{Builder, OPEN, Pages};
use mmu_model::walk::Dimension;
use mmu_model::x86::{Context, Control, Levels, Tables};

const ADDRESS: u64 = 0x7f12_3456_7abc;

fn context(tables: Tables) -> Context {
    let (layer, control) = (Layer::GuestUser, Control::default());
    Context { layer, space: 1, user: true, control, asid: 1, pcid: 0, tables }
}

/// References in all, and by dimension, of one access on a bare processor.
fn references(memory: &mut Pages, tables: Tables, expected: u64) -> (u64, [u64; 3]) {
    let mut mmu = Mmu::new(&Cpu::bare());
    mmu.set_context(&context(tables));
    mmu.set_region(true);
    assert_eq!(mmu.access(memory, Virtual::new(ADDRESS), Kind::Load), Ok(Machine::new(expected)));
    let bank = mmu.counters().total();
    assert_eq!(bank.accesses(Kind::Load), 1);
    (bank.served.iter().sum(), Dimension::ALL.map(|d| bank.refs[d as usize].iter().sum()))
}

fn flat(size: PageSize, levels: Levels) -> u64 {
    let mut memory = Pages::default();
    let mut table = Builder::new(0x1000, 0, levels);
    table.map(&mut memory, ADDRESS, size, 5 << 30, OPEN);
    let tables = Tables::Flat { root: Machine::new(table.root), levels };
    let (all, by) = references(&mut memory, tables, 5 << 30 | ADDRESS & size.offset_mask());
    assert_eq!(by, [all, 0, 0]);
    all
}

fn nested(guest_size: PageSize, host_size: PageSize, levels: Levels) -> u64 {
    let mut memory = Pages::default();
    // Guest-physical memory from 0: tables in the first page of the host's size, data at 3 GiB.
    let moved = 2 << 30;
    let mut guest = Builder::new(0x1000, moved, levels);
    guest.map(&mut memory, ADDRESS, guest_size, 3 << 30, OPEN);
    let data = 3 << 30 | ADDRESS & guest_size.offset_mask();
    let mut host = Builder::new(0x10_0000, 0, levels);
    if host_size == PageSize::K4 {
        for page in (0..16).map(|n| n << 12) {
            host.map(&mut memory, page, host_size, moved + page, OPEN);
        }
    } else {
        host.map(&mut memory, 0, host_size, moved, OPEN);
    }
    let frame = data & !host_size.offset_mask();
    host.map(&mut memory, frame, host_size, frame + (4 << 30), OPEN);
    let tables = Tables::Nested {
        guest: Some((GuestPhysical::new(guest.root), levels)),
        root: Machine::new(host.root),
        levels,
        nxe: true,
    };
    let (all, by) = references(&mut memory, tables, data + (4 << 30));
    assert_eq!(by[1], levels as u64 - u64::from(guest_size.shift() - 12) / 9);
    assert_eq!(by[2], all - by[1]);
    all
}

#[test]
fn one_dimension() {
    let [k4, m2, g1] = PageSize::ALL;
    assert_eq!([k4, m2, g1].map(|s| flat(s, Levels::Four)), [4, 3, 2]);
    assert_eq!([k4, m2, g1].map(|s| flat(s, Levels::Five)), [5, 4, 3]);
}

#[test]
fn two_dimensions() {
    let [k4, m2, g1] = PageSize::ALL;
    let four = |guest, host| nested(guest, host, Levels::Four);
    assert_eq!([four(k4, k4), four(k4, m2), four(m2, k4), four(m2, m2)], [24, 19, 19, 15]);
    assert_eq!([four(k4, g1), four(g1, k4), four(g1, g1)], [14, 14, 8]);
    assert_eq!(nested(k4, k4, Levels::Five), 35);
}
