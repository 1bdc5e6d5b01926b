// SPDX-License-Identifier: MIT
//! A bundle: a template of 5 bits and three slots of 41, in 16 bytes (SDM vol. 3, 4.1, table 4-1).

/// What executes a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unit {
    /// Memory.
    M,
    /// Integer.
    I,
    /// Floating point.
    F,
    /// Branches.
    B,
    /// The first half of an instruction of two slots: 41 bits of its immediate.
    L,
    /// The second half: the instruction itself.
    X,
}

/// A bundle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Bundle(pub u128);

/// By template, without its lowest bit, which is a stop at the end: the units, and after which slot there is another
/// stop.
const TEMPLATES: [Option<([Unit; 3], Option<usize>)>; 16] = {
    use Unit::{B, F, I, L, M, X};
    [
        Some(([M, I, I], None)),
        Some(([M, I, I], Some(1))),
        Some(([M, L, X], None)),
        None,
        Some(([M, M, I], None)),
        Some(([M, M, I], Some(0))),
        Some(([M, F, I], None)),
        Some(([M, M, F], None)),
        Some(([M, I, B], None)),
        Some(([M, B, B], None)),
        None,
        Some(([B, B, B], None)),
        Some(([M, M, B], None)),
        None,
        Some(([M, F, B], None)),
        None,
    ]
};

impl Bundle {
    /// Of 16 bytes at a multiple of 16.
    pub const fn of_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// Of its parts; what does not fit is cut off.
    pub const fn of_parts(template: u8, slots: [u64; 3]) -> Self {
        const SLOT: u128 = (1 << 41) - 1;
        let [first, second, third] = slots;
        let slots = (first as u128 & SLOT) << 5 | (second as u128 & SLOT) << 46 | (third as u128 & SLOT) << 87;
        Self(template as u128 & 31 | slots)
    }

    /// The template: its 5 bits.
    pub const fn template(self) -> u8 {
        (self.0 & 31) as u8
    }

    /// The units of its slots; none where the template is reserved.
    pub fn units(self) -> Option<[Unit; 3]> {
        TEMPLATES[usize::from(self.template() >> 1)].map(|(units, _)| units)
    }

    /// Whether an instruction group ends after this slot.
    pub fn stops_after(self, slot: usize) -> bool {
        let middle = TEMPLATES[usize::from(self.template() >> 1)].and_then(|(_, stop)| stop);
        middle == Some(slot) || slot == 2 && self.template() & 1 != 0
    }

    /// The 41 bits of a slot.
    pub const fn slot(self, slot: usize) -> u64 {
        (self.0 >> (5 + 41 * slot)) as u64 & ((1 << 41) - 1)
    }
}
