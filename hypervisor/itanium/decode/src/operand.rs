// SPDX-License-Identifier: MIT
//! Operands: where in a slot they are, and how they are written (SDM vol. 3, 4.2 to 4.7).

use crate::table::Instruction;

/// Bits `low` to `high` of a word, both included.
pub(crate) const fn bits(word: u64, high: u32, low: u32) -> u64 {
    word >> low & u64::MAX >> (63 - (high - low))
}

/// What an operand is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A general register.
    General,
    /// A floating-point register.
    Float,
    /// A predicate register.
    Predicate,
    /// A branch register.
    Branch,
    /// An application register.
    Application,
    /// A control register.
    Control,
    /// A number, written in decimal.
    Number,
    /// A number, written in hexadecimal.
    Bits,
    /// How far from the bundle a target is, in bytes.
    Target,
    /// How mux1 permutes.
    Permutation,
}

macro_rules! operands {
    ($($(#[$doc:meta])* $variant:ident $name:literal $kind:ident $value:expr;)*) => {
        /// An operand, by its place in the slot.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Operand {
            $($(#[$doc])* $variant,)*
        }

        impl Operand {
            /// Each.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Of its name in the table; none where it is plain text.
            pub(crate) fn of_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// What it is.
            pub const fn kind(self) -> Kind {
                match self {
                    $(Self::$variant => Kind::$kind,)*
                }
            }

            /// Its value: a register's number, or a number, which may be negative.
            pub fn value(self, instruction: &Instruction) -> i64 {
                let cut: fn(u64, u64) -> i64 = match self {
                    $(Self::$variant => $value,)*
                };
                cut(instruction.slot, instruction.long)
            }
        }
    };
}

operands! {
    /// Bits 12:6, a general register.
    R1 "r1" General |s, _| plain(s, 12, 6);
    /// Bits 19:13, a general register.
    R2 "r2" General |s, _| plain(s, 19, 13);
    /// Bits 26:20, a general register.
    R3 "r3" General |s, _| plain(s, 26, 20);
    /// Bits 21:20, one of the first four general registers.
    R3Two "r3two" General |s, _| plain(s, 21, 20);
    /// Bits 12:6, a floating-point register.
    F1 "f1" Float |s, _| plain(s, 12, 6);
    /// Bits 19:13, a floating-point register.
    F2 "f2" Float |s, _| plain(s, 19, 13);
    /// Bits 26:20, a floating-point register.
    F3 "f3" Float |s, _| plain(s, 26, 20);
    /// Bits 33:27, a floating-point register.
    F4 "f4" Float |s, _| plain(s, 33, 27);
    /// Bits 11:6, a predicate register.
    P1 "p1" Predicate |s, _| plain(s, 11, 6);
    /// Bits 32:27, a predicate register.
    P2 "p2" Predicate |s, _| plain(s, 32, 27);
    /// Bits 8:6, a branch register.
    B1 "b1" Branch |s, _| plain(s, 8, 6);
    /// Bits 15:13, a branch register.
    B2 "b2" Branch |s, _| plain(s, 15, 13);
    /// Bits 26:20, an application register.
    Ar3 "ar3" Application |s, _| plain(s, 26, 20);
    /// Bits 26:20, a control register.
    Cr3 "cr3" Control |s, _| plain(s, 26, 20);
    /// Eight bits with a sign.
    Imm8 "imm8" Number |s, _| sign(plain(s, 36, 36) << 7 | plain(s, 19, 13), 8);
    /// Fourteen bits with a sign.
    Imm14 "imm14" Number |s, _| sign(plain(s, 36, 36) << 13 | plain(s, 32, 27) << 7 | plain(s, 19, 13), 14);
    /// Twenty-two bits with a sign.
    Imm22 "imm22" Number |s, _| {
        sign(plain(s, 36, 36) << 21 | plain(s, 26, 22) << 16 | plain(s, 35, 27) << 7 | plain(s, 19, 13), 22)
    };
    /// Nine bits with a sign, of a store.
    Imm9A "imm9a" Number |s, _| sign(plain(s, 36, 36) << 8 | plain(s, 27, 27) << 7 | plain(s, 12, 6), 9);
    /// Nine bits with a sign, of a load.
    Imm9B "imm9b" Number |s, _| sign(plain(s, 36, 36) << 8 | plain(s, 27, 27) << 7 | plain(s, 19, 13), 9);
    /// One bit, which is the sign.
    Imm1 "imm1" Number |s, _| -plain(s, 36, 36);
    /// Two bits.
    Imm2 "imm2" Number |s, _| plain(s, 14, 13);
    /// Five bits and 32: a feature.
    Imm5 "imm5" Number |s, _| 32 + plain(s, 18, 14);
    /// Twenty-one bits.
    Imm21 "imm21" Bits |s, _| plain(s, 36, 36) << 20 | plain(s, 25, 6);
    /// Twenty-four bits.
    Imm24 "imm24" Bits |s, _| plain(s, 36, 36) << 23 | plain(s, 32, 31) << 21 | plain(s, 26, 6);
    /// Forty-four bits with a sign, of which sixteen are 0.
    Imm44 "imm44" Bits |s, _| sign(plain(s, 36, 36) << 43 | plain(s, 32, 6) << 16, 44);
    /// Sixty-two bits of two slots.
    Imm62 "imm62" Bits |s, l| plain(l, 40, 0) << 21 | plain(s, 36, 36) << 20 | plain(s, 25, 6);
    /// Sixty-four bits of two slots.
    Imm64 "imm64" Bits |s, l| {
        let low = plain(s, 21, 21) << 21 | plain(s, 26, 22) << 16 | plain(s, 35, 27) << 7 | plain(s, 19, 13);
        plain(s, 36, 36) << 63 | plain(l, 40, 0) << 22 | low
    };
    /// A mask of predicates: seventeen bits with a sign, of which the lowest is 0.
    Mask17 "mask17" Bits |s, _| sign(plain(s, 36, 36) << 16 | plain(s, 31, 24) << 8 | plain(s, 12, 6) << 1, 17);
    /// A count from 1 to 4.
    Count2 "count2" Number |s, _| plain(s, 28, 27) + 1;
    /// A count of 0, 7, 15 or 16.
    Count2D "count2d" Number |s, _| [0, 7, 15, 16][plain(s, 31, 30) as usize];
    /// A count of five bits.
    Count5B "count5b" Number |s, _| plain(s, 18, 14);
    /// A count of five bits, complemented.
    Count5C "count5c" Number |s, _| 31 - plain(s, 24, 20);
    /// A count of six bits.
    Count6D "count6d" Number |s, _| plain(s, 32, 27);
    /// A position.
    Pos6B "pos6b" Number |s, _| plain(s, 19, 14);
    /// A position, complemented.
    Cpos6B "cpos6b" Number |s, _| 63 - plain(s, 19, 14);
    /// A position, complemented.
    Cpos6C "cpos6c" Number |s, _| 63 - plain(s, 25, 20);
    /// A position, complemented.
    Cpos6D "cpos6d" Number |s, _| 63 - plain(s, 36, 31);
    /// A length from 1 to 16.
    Len4D "len4d" Number |s, _| plain(s, 30, 27) + 1;
    /// A length from 1 to 64.
    Len6D "len6d" Number |s, _| plain(s, 32, 27) + 1;
    /// How mux1 permutes.
    Mbtype4 "mbtype4" Permutation |s, _| plain(s, 23, 20);
    /// How mux2 permutes.
    Mhtype8 "mhtype8" Bits |s, _| plain(s, 27, 20);
    /// What fetchadd adds: 1, 4, 8 or 16, or less than nothing.
    Inc3 "inc3" Number |s, _| [16, 8, 4, 1][plain(s, 14, 13) as usize] * (1 - 2 * plain(s, 15, 15));
    /// Registers of the frame.
    Sof "sof" Number |s, _| plain(s, 19, 13);
    /// Of these, local ones.
    Sol "sol" Number |s, _| plain(s, 26, 20);
    /// Of these, those that rotate.
    Sor "sor" Number |s, _| plain(s, 30, 27) << 3;
    /// Classes of numbers.
    Fclass9 "fclass9" Bits |s, _| plain(s, 26, 20) << 2 | plain(s, 34, 33);
    /// Seven bits to keep.
    Amask7 "amask7" Bits |s, _| plain(s, 19, 13);
    /// Seven bits to set.
    Omask7 "omask7" Bits |s, _| plain(s, 26, 20);
    /// Where a check goes, of chk.s.
    Target20 "target20" Target |s, _| sign(plain(s, 36, 36) << 20 | plain(s, 32, 20) << 7 | plain(s, 12, 6), 21) << 4;
    /// Where a check goes, of chk.a.
    Target20B "target20b" Target |s, _| sign(plain(s, 36, 36) << 20 | plain(s, 32, 13), 21) << 4;
    /// Where a check goes, of fchkf.
    Target20F "target20f" Target |s, _| sign(plain(s, 36, 36) << 20 | plain(s, 25, 6), 21) << 4;
    /// Where a branch goes.
    Target25 "target25" Target |s, _| sign(plain(s, 36, 36) << 20 | plain(s, 32, 13), 21) << 4;
    /// Where a long branch goes.
    Target64 "target64" Target |s, l| plain(s, 36, 36) << 63 | plain(l, 40, 2) << 24 | plain(s, 32, 13) << 4;
    /// The branch that is predicted, of brp.
    Tag9B "tag9b" Target |s, _| sign(plain(s, 34, 33) << 7 | plain(s, 12, 6), 9) << 4;
    /// The branch that is predicted, of mov to a branch register.
    Tag9C "tag9c" Target |s, _| sign(plain(s, 32, 24), 9) << 4;
}

const fn plain(word: u64, high: u32, low: u32) -> i64 {
    bits(word, high, low) as i64
}

/// Of a number of so many bits, the highest is the sign.
const fn sign(value: i64, width: u32) -> i64 {
    value << (64 - width) >> (64 - width)
}

/// The names of application registers that have one (SDM vol. 1, 3.1.8, table 3-3).
pub(crate) fn application(number: i64) -> String {
    let name = match number {
        0..8 => return format!("ar.k{number}"),
        16 => "rsc",
        17 => "bsp",
        18 => "bspstore",
        19 => "rnat",
        21 => "fcr",
        24 => "eflag",
        25 => "csd",
        26 => "ssd",
        27 => "cflg",
        28 => "fsr",
        29 => "fir",
        30 => "fdr",
        32 => "ccv",
        36 => "unat",
        40 => "fpsr",
        44 => "itc",
        45 => "ruc",
        64 => "pfs",
        65 => "lc",
        66 => "ec",
        _ => return format!("ar{number}"),
    };
    format!("ar.{name}")
}

/// The names of control registers that have one (SDM vol. 2, 3.3.4, table 3-3).
pub(crate) fn control(number: i64) -> String {
    let name = match number {
        0 => "dcr",
        1 => "itm",
        2 => "iva",
        8 => "pta",
        16 => "ipsr",
        17 => "isr",
        19 => "iip",
        20 => "ifa",
        21 => "itir",
        22 => "iipa",
        23 => "ifs",
        24 => "iim",
        25 => "iha",
        26 => "iib0",
        27 => "iib1",
        64 => "lid",
        65 => "ivr",
        66 => "tpr",
        67 => "eoi",
        68..72 => return format!("cr.irr{}", number - 68),
        72 => "itv",
        73 => "pmv",
        74 => "cmcv",
        80 => "lrr0",
        81 => "lrr1",
        _ => return format!("cr{number}"),
    };
    format!("cr.{name}")
}

impl Operand {
    /// As the GNU disassembler writes it, for a bundle at this address.
    pub fn text(self, instruction: &Instruction, address: u64) -> String {
        let value = self.value(instruction);
        match self.kind() {
            Kind::General => format!("r{value}"),
            Kind::Float => format!("f{value}"),
            Kind::Predicate => format!("p{value}"),
            Kind::Branch => format!("b{value}"),
            Kind::Application => application(value),
            Kind::Control => control(value),
            Kind::Number => format!("{value}"),
            Kind::Bits => format!("{value:#x}"),
            Kind::Target => format!("{:#x}", address.wrapping_add(value as u64)),
            Kind::Permutation => match value {
                0 => "@brcst".to_owned(),
                8 => "@mix".to_owned(),
                9 => "@shuf".to_owned(),
                10 => "@alt".to_owned(),
                11 => "@rev".to_owned(),
                _ => format!("{value:#x}"),
            },
        }
    }
}
