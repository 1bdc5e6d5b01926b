// SPDX-License-Identifier: MIT
//! Accesses: an address and what is done with it become a physical address, or a fault.

use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Kind, Kinds};
use crate::fields::{Attribute, bits};
use crate::first::Ticket;
use crate::mmu::{Memory, Mmu};
use crate::rights::{self, EXECUTE, READ, WRITE};
use crate::tlb::{Place, Side, Translation};
use crate::walker::Walk;

/// The bits of the processor status register that matter to the MMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Psr {
    /// Instructions are translated.
    pub it: bool,
    /// Data are.
    pub dt: bool,
    /// What the register stack engine does is.
    pub rt: bool,
    /// Interruptions are collected; false also while that is in flight.
    pub ic: bool,
    /// Keys are checked.
    pub pk: bool,
    /// Data's access and dirty bits do not fault.
    pub da: bool,
    /// The instructions' access bit does not fault.
    pub ia: bool,
    /// Privilege level: for the register stack engine that of its configuration register.
    pub cpl: u8,
}

/// What is done with an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Access {
    /// Instructions are fetched. That the address is implemented is the processor's to see: its trap comes at the
    /// branch (SDM vol. 2, 4.3.2).
    Fetch,
    /// A load.
    Read,
    /// A store.
    Write,
    /// A semaphore.
    ReadWrite,
    /// The register stack engine fills.
    StackRead,
    /// The register stack engine spills.
    StackWrite,
    /// `fc`: it must be readable, but neither keys nor the access bit are looked at (SDM vol. 3, fc).
    Flush,
}

impl Access {
    const fn side(self) -> Side {
        if matches!(self, Self::Fetch) { Side::Instruction } else { Side::Data }
    }

    const fn wants(self) -> u8 {
        match self {
            Self::Fetch => EXECUTE,
            Self::Read | Self::StackRead | Self::Flush => READ,
            Self::Write | Self::StackWrite => WRITE,
            Self::ReadWrite => READ | WRITE,
        }
    }

    const fn translated(self, psr: Psr) -> bool {
        match self {
            Self::Fetch => psr.it,
            Self::StackRead | Self::StackWrite => psr.rt,
            _ => psr.dt,
        }
    }

    /// Whether the processor's state lets the walker serve it (SDM vol. 2, 4.1.7).
    const fn walked(self, psr: Psr) -> bool {
        match self {
            Self::Fetch => psr.it && psr.dt && psr.ic,
            Self::StackRead | Self::StackWrite => psr.rt && psr.dt,
            _ => psr.dt,
        }
    }
}

/// An access that may be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hit {
    /// Where.
    pub physical: u64,
    /// How memory is to take it.
    pub attribute: Attribute,
    /// The translation that says so; none in physical mode.
    pub translation: Option<Translation>,
    /// By which it is found again, where there is a first level and a translation.
    pub ticket: Option<Ticket>,
}

/// A translation, and how to find it again.
type Found = (Translation, Option<Ticket>);

enum Miss {
    Alternate,
    Table,
    Walked,
}

impl Mmu {
    /// Translates an address for an access.
    pub fn translate(&mut self, memory: &mut impl Memory, psr: Psr, access: Access, va: u64) -> Result<Hit, Fault> {
        self.speculate(memory, psr, access, va, Kinds::NONE).map(|hit| hit.expect("no fault was to be deferred"))
    }

    /// The same for a speculative load, of which these faults are deferred; none then. A miss, and a page that is not
    /// present, hide all faults below them; others do not, so that one of lower priority is raised if only those above
    /// it are deferred (SDM vol. 2, 5.5.5, table 5-3).
    pub fn speculate(
        &mut self,
        memory: &mut impl Memory,
        psr: Psr,
        access: Access,
        va: u64,
        defer: Kinds,
    ) -> Result<Option<Hit>, Fault> {
        let side = access.side();
        if !access.translated(psr) {
            return self.physical(va, side, defer);
        }
        let (found, hit) = if side == Side::Data && !self.implements(va) {
            (Kinds::NONE.with(Kind::UnimplementedData), None)
        } else {
            match self.look_up(memory, psr, side, access.walked(psr), va) {
                Err(miss) => (Kinds::NONE.with(kind_of(&miss, side, psr)), None),
                Ok(found) => (self.conditions(&found.0, psr, access), Some(found)),
            }
        };
        if let Some(kind) = found.without(defer).first() {
            return Err(self.fault(kind, va));
        }
        Ok(hit.filter(|_| found == Kinds::NONE).map(|(translation, ticket)| Hit {
            physical: translation.physical(va),
            attribute: Attribute::of_field(translation.pte.ma()).expect("reserved attributes are not inserted"),
            translation: Some(translation),
            ticket,
        }))
    }

    /// Physical mode: bit 63 says that memory is not cacheable (SDM vol. 2, 4.2).
    fn physical(&mut self, va: u64, side: Side, defer: Kinds) -> Result<Option<Hit>, Fault> {
        let physical = bits(va, 62, 0);
        if side == Side::Data && physical >> self.config.physical_bits != 0 {
            let kind = Kind::UnimplementedData;
            return if defer.has(kind) { Ok(None) } else { Err(self.fault(kind, va)) };
        }
        let attribute = if va >> 63 == 0 { Attribute::WriteBack } else { Attribute::Uncacheable };
        Ok(Some(Hit { physical, attribute, translation: None, ticket: None }))
    }

    /// `probe`: whether code at this level, or at the processor's if that is less privileged, may read or write. That
    /// a key forbids it is an answer, that no register has the key a fault (SDM vol. 3, probe).
    pub fn probe(
        &mut self,
        memory: &mut impl Memory,
        psr: Psr,
        va: u64,
        level: u8,
        write: bool,
    ) -> Result<bool, Fault> {
        if !self.implements(va) {
            return Ok(false);
        }
        let access = if write { Access::Write } else { Access::Read };
        let psr = Psr { cpl: level.max(psr.cpl), da: true, ..psr };
        let found = match self.look_up(memory, psr, Side::Data, psr.dt, va) {
            Err(miss) => Kinds::NONE.with(kind_of(&miss, Side::Data, psr)),
            Ok((translation, _)) => self.conditions(&translation, psr, access),
        };
        match found.first() {
            Some(Kind::DataKeyPermission | Kind::DataAccessRights) => Ok(false),
            Some(kind) => Err(self.fault(kind, va)),
            None => Ok(true),
        }
    }

    /// `tpa`: the physical address of a virtual one, whatever the rights (SDM vol. 3, tpa).
    pub fn tpa(&mut self, memory: &mut impl Memory, psr: Psr, va: u64) -> Result<u64, Fault> {
        if !self.implements(va) {
            return Err(self.fault(Kind::UnimplementedData, va));
        }
        match self.look_up(memory, psr, Side::Data, psr.dt, va) {
            Err(miss) => Err(self.fault(kind_of(&miss, Side::Data, psr), va)),
            Ok((translation, _)) if !translation.pte.present() => Err(self.fault(Kind::DataNotPresent, va)),
            Ok((translation, _)) if is_nat_page(&translation) => Err(self.fault(Kind::DataNatPage, va)),
            Ok((translation, _)) => Ok(translation.physical(va)),
        }
    }

    /// `tak`: the key of a page that is present, in bits 31:8; 1 where there is none (SDM vol. 3, tak).
    pub fn tak(&mut self, memory: &mut impl Memory, psr: Psr, va: u64) -> u64 {
        if !self.implements(va) {
            return 1;
        }
        match self.look_up(memory, psr, Side::Data, psr.dt, va) {
            Ok((translation, _)) if translation.pte.present() => u64::from(translation.key) << 8,
            _ => 1,
        }
    }

    /// The translation of an address: of the first level, the second, or the VHPT.
    fn look_up(
        &mut self,
        memory: &mut impl Memory,
        psr: Psr,
        side: Side,
        walked: bool,
        va: u64,
    ) -> Result<Found, Miss> {
        let region = self.region_of(va);
        let place = match self.find(side, region.rid, va) {
            Some((place, Some(ticket))) => return Ok((self.at(side, place), Some(ticket))),
            Some((place, None)) => place,
            None if !(walked && region.walker && self.pta.walker()) => return Err(Miss::Alternate),
            None => match self.walk(memory, psr, side, va) {
                Walk::Inserted(place) => place,
                Walk::Missed => return Err(Miss::Table),
                Walk::Aborted => return Err(Miss::Walked),
            },
        };
        let ticket = self.fill_first(side, region.rid, va, place);
        Ok((self.at(side, place), ticket))
    }

    fn at(&self, side: Side, place: Place) -> Translation {
        *self.tlb(side).get(place).expect("what was found is there")
    }

    /// A place of the second level, with a ticket where the first level had it.
    fn find(&mut self, side: Side, rid: u32, va: u64) -> Option<(Place, Option<Ticket>)> {
        self.counters.of(side).lookups += 1;
        let (first, second) = match side {
            Side::Instruction => (&mut self.first_instruction, &mut self.instruction),
            Side::Data => (&mut self.first_data, &mut self.data),
        };
        if let Some((place, ticket)) = first.find(rid, va) {
            return Some((place, Some(ticket)));
        }
        let found = second.find(rid, va);
        if let Some(place) = found {
            second.touch(place);
        }
        let counters = self.counters.of(side);
        counters.first_misses += 1;
        counters.second_misses += u64::from(found.is_none());
        found.map(|place| (place, None))
    }

    fn fill_first(&mut self, side: Side, rid: u32, va: u64, place: Place) -> Option<Ticket> {
        match side {
            Side::Instruction => self.first_instruction.fill(&self.instruction, rid, va, place),
            Side::Data => self.first_data.fill(&self.data, rid, va, place),
        }
    }

    /// All that is wrong with an access through a translation.
    fn conditions(&self, translation: &Translation, psr: Psr, access: Access) -> Kinds {
        let pte = translation.pte;
        let instruction = access.side() == Side::Instruction;
        let pick = |of_instruction, of_data| if instruction { of_instruction } else { of_data };
        let mut found = Kinds::NONE;
        if !pte.present() {
            return found.with(pick(Kind::InstructionNotPresent, Kind::DataNotPresent));
        }
        if is_nat_page(translation) {
            found = found.with(pick(Kind::InstructionNatPage, Kind::DataNatPage));
        }
        if psr.pk && access != Access::Flush {
            match self.key_allows(translation.key, access.wants()) {
                None => found = found.with(pick(Kind::InstructionKeyMiss, Kind::DataKeyMiss)),
                Some(false) => found = found.with(pick(Kind::InstructionKeyPermission, Kind::DataKeyPermission)),
                Some(true) => {}
            }
        }
        if !rights::allowed(pte.rights(), pte.level(), psr.cpl, access.wants()) {
            found = found.with(pick(Kind::InstructionAccessRights, Kind::DataAccessRights));
        }
        if access == Access::Flush || if instruction { psr.ia } else { psr.da } {
            return found;
        }
        if access.wants() & WRITE != 0 && !pte.dirty() {
            found = found.with(Kind::DataDirtyBit);
        }
        if !pte.accessed() {
            found = found.with(pick(Kind::InstructionAccessBit, Kind::DataAccessBit));
        }
        found
    }

    /// Whether the register of a key allows this; none where no register has the key.
    pub(crate) fn key_allows(&self, key: u32, wants: u8) -> Option<bool> {
        let register = self.keys.iter().find(|register| register.valid() && register.key() == key)?;
        Some(!register.forbids(wants & WRITE != 0, wants & READ != 0, wants & EXECUTE != 0))
    }

    fn fault(&mut self, kind: Kind, va: u64) -> Fault {
        *self.counters.faults.entry(kind).or_default() += 1;
        let entry = self.thash(va);
        let table = matches!(kind, Kind::VhptInstruction | Kind::VhptData);
        let miss = matches!(kind, Kind::InstructionTlb | Kind::DataTlb);
        let region = self.region_of(if table { entry } else { va });
        Fault { kind, address: va, itir: region.itir(), entry: (table || miss).then_some(entry) }
    }
}

fn is_nat_page(translation: &Translation) -> bool {
    Attribute::of_field(translation.pte.ma()) == Some(Attribute::NatPage)
}

/// The fault of a miss. One of data is nested where interruptions are not collected, whichever it was
/// (SDM vol. 2, figure 4-16).
const fn kind_of(miss: &Miss, side: Side, psr: Psr) -> Kind {
    match (side, miss) {
        (Side::Instruction, Miss::Alternate) => Kind::AlternateInstruction,
        (Side::Instruction, Miss::Table) => Kind::VhptInstruction,
        (Side::Instruction, Miss::Walked) => Kind::InstructionTlb,
        (Side::Data, _) if !psr.ic => Kind::DataNested,
        (Side::Data, Miss::Alternate) => Kind::AlternateData,
        (Side::Data, Miss::Table) => Kind::VhptData,
        (Side::Data, Miss::Walked) => Kind::DataTlb,
    }
}
