// SPDX-License-Identifier: MIT
//! What the processor is plugged into.

use itanium_mmu::fields::Attribute;

/// Physical memory and devices. Addresses are multiples of the size; bit 63, which says that an address of physical mode
/// is not cacheable, is not part of them. None where nothing answers.
pub trait Bus {
    /// `size` bytes, 1 to 8, in the lower part of the word, the byte of the lowest address lowest.
    fn load(&mut self, physical: u64, size: u32, attribute: Attribute) -> Option<u64>;

    /// Stores the lower `size` bytes, 1 to 8, of a word.
    fn store(&mut self, physical: u64, size: u32, value: u64, attribute: Attribute) -> Option<()>;

    /// An external interrupt that devices have for the processor. Asked after each access that is not cacheable, as
    /// nothing else a program does reaches a device.
    fn interrupt(&mut self) -> Option<u8> {
        None
    }

    /// A bundle.
    fn fetch(&mut self, physical: u64) -> Option<u128> {
        let low = self.load(physical, 8, Attribute::WriteBack)?;
        let high = self.load(physical + 8, 8, Attribute::WriteBack)?;
        Some(u128::from(high) << 64 | u128::from(low))
    }
}

/// For the walker, which reads memory in the byte order that DCR.be says.
pub(crate) struct Walked<'a> {
    pub bus: &'a mut dyn Bus,
    pub big_endian: bool,
}

impl itanium_mmu::mmu::Memory for Walked<'_> {
    fn read(&mut self, physical: u64) -> Option<u64> {
        let word = self.bus.load(physical, 8, Attribute::WriteBack)?;
        Some(if self.big_endian { word.swap_bytes() } else { word })
    }
}
