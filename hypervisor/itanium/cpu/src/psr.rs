// SPDX-License-Identifier: MIT
//! The processor status register (SDM vol. 2, 3.3.2, table 3-2).

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident $at:literal;)*) => { $($(#[$doc])* pub const $name: u64 = 1 << $at;)* };
}

bits! {
    /// Data is big-endian.
    BE 1;
    /// User performance monitors.
    UP 2;
    /// Alignment is checked.
    AC 3;
    /// Lower floating-point registers were written.
    MFL 4;
    /// Upper floating-point registers were written.
    MFH 5;
    /// Interruptions are collected.
    IC 13;
    /// External interrupts are taken.
    I 14;
    /// Protection keys are checked.
    PK 15;
    /// Data is translated.
    DT 17;
    /// Lower floating-point registers are disabled.
    DFL 18;
    /// Upper floating-point registers are disabled.
    DFH 19;
    /// Secure performance monitors.
    SP 20;
    /// Privileged performance monitors.
    PP 21;
    /// Transitions of the instruction set are disabled.
    DI 22;
    /// The interval timer is secure.
    SI 23;
    /// Data breakpoints.
    DB 24;
    /// Lower-privilege transfer trap.
    LP 25;
    /// Taken branch trap.
    TB 26;
    /// The register stack is translated.
    RT 27;
    /// Another instruction set.
    IS 34;
    /// Machine checks are masked.
    MC 35;
    /// Instructions are translated.
    IT 36;
    /// Instruction debug faults are off, once.
    ID 37;
    /// Data's access and dirty bits do not fault, once.
    DA 38;
    /// Data debug faults are off, once.
    DD 39;
    /// Single step trap.
    SS 40;
    /// A speculative load's fault is deferred, once.
    ED 43;
    /// Register bank 1.
    BN 44;
    /// The instructions' access bit does not fault, once.
    IA 45;
}

/// The user mask.
pub const USER: u64 = BE | UP | AC | MFL | MFH;
/// The system mask with the user mask: bits 23:0 that there are.
pub const SYSTEM: u64 = USER | IC | I | PK | DT | DFL | DFH | SP | PP | DI | SI;
/// What `mov psr.l` may set: bits 31:0 that there are.
pub const LOW: u64 = SYSTEM | DB | LP | TB | RT;
/// What an instruction that completes clears.
pub const ONCE: u64 = ID | DA | DD | ED | IA;
/// What an interruption keeps: all else becomes 0, or DCR's (table 3-2, from memory, and another implementation).
pub const KEPT: u64 = UP | MFL | MFH | PK | DT | RT | MC | IT;
/// The privilege level.
pub const CPL: u64 = 3 << 32;
/// Which slot is next.
pub const RI: u64 = 3 << 41;
/// All that there are.
pub const ALL: u64 = LOW | CPL | RI | IS | MC | IT | ONCE | SS | BN;
