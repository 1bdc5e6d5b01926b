// SPDX-License-Identifier: GPL-2.0-or-later
//! Places in translated code where instructions begin to come from a page, and where they run.

use std::ffi::c_void;

use crate::PAGE_SHIFT;
use crate::check::Code;

/// A place in a block of translated code. The block may run at another address than it was translated for: where the same
/// page of memory has other addresses, in another process.
pub struct Site {
    /// Its address when it was translated.
    pub start: u64,
    /// What is there.
    pub code: Code,
    runs_at: u64,
    /// How many flushes there had been then.
    flushes: u64,
}

impl Site {
    /// A callback's user data.
    ///
    /// # Safety
    /// It is what [`Sites::add`] gave, QEMU has not thrown away the code since, and no other reference is held.
    pub unsafe fn of_data<'a>(data: *mut c_void) -> &'a mut Self {
        // SAFETY: the caller's.
        unsafe { &mut *data.cast() }
    }

    /// The page it was translated for.
    pub fn translated_page(&self) -> u64 {
        self.start >> PAGE_SHIFT
    }

    /// Where it runs, if there was no flush since that was told.
    pub fn address(&self, flushes: u64) -> Option<u64> {
        (self.flushes == flushes).then_some(self.runs_at)
    }

    /// It runs there.
    pub fn runs_at(&mut self, address: u64, flushes: u64) {
        (self.runs_at, self.flushes) = (address, flushes);
    }
}

/// The places of all code that QEMU has translated and not thrown away.
#[derive(Default)]
#[allow(clippy::vec_box)] // callbacks know where each is
pub struct Sites(Vec<Box<Site>>);

impl Sites {
    /// One more, as a callback's user data.
    pub fn add(&mut self, start: u64, code: Code) -> *mut c_void {
        self.0.push(Box::new(Site { start, code, runs_at: 0, flushes: u64::MAX }));
        self.0.last_mut().map_or(std::ptr::null_mut(), |site| std::ptr::from_mut(&mut **site).cast())
    }

    /// None of the code is there any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_block_runs_is_known_until_a_flush() {
        let mut sites = Sites::default();
        let data = sites.add(0x5123, Code::new(&[1], true));
        sites.add(0x6000, Code::new(&[2], true));
        // SAFETY: as demanded.
        let site = unsafe { Site::of_data(data) };
        assert_eq!((site.translated_page(), site.address(0), site.code.is_users()), (5, None, true));
        site.runs_at(0x7123, 3);
        assert_eq!((site.address(3), site.address(4)), (Some(0x7123), None));
    }
}
