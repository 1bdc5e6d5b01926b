// SPDX-License-Identifier: MIT
//! Who may do what with a page (SDM vol. 2, 4.1.1.6, table 4-4; its rows are from memory and from another
//! implementation, with which they agree).

/// Reading.
pub const READ: u8 = 1;
/// Writing.
pub const WRITE: u8 = 2;
/// Running.
pub const EXECUTE: u8 = 4;

const R: u8 = READ;
const RX: u8 = READ | EXECUTE;
const RW: u8 = READ | WRITE;
const RWX: u8 = READ | WRITE | EXECUTE;
const X: u8 = EXECUTE;

/// By the field `ar`: what code may do at level 0, between level 0 and the page's, and at the page's level.
const ALLOWED: [[u8; 3]; 8] =
    [[R, R, R], [RX, RX, RX], [RW, RW, RW], [RWX, RWX, RWX], [RW, RW, R], [RWX, RX, RX], [RW, RW, RWX], [RX, X, X]];

/// Whether code at privilege level `cpl` may do all that is wanted with a page of level `pl` and rights `ar`; 0 is the
/// most privileged level. Less privileged code may do nothing, but enter a page that promotes (`ar` 7).
pub fn allowed(ar: u8, pl: u8, cpl: u8, wants: u8) -> bool {
    let [kernel, between, own] = ALLOWED[usize::from(ar & 7)];
    let granted = match cpl {
        0 => kernel,
        _ if cpl < pl => between,
        _ if cpl == pl => own,
        _ if ar == 7 => X,
        _ => 0,
    };
    granted & wants == wants
}
