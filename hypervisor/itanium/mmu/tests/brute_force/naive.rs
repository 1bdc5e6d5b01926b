// SPDX-License-Identifier: MIT
//! A naive MMU, written from the manual alone: lists of translations kept as the words that software gave, from which
//! each answer is derived anew by arithmetic on whole addresses. It shares no code with the crate.

use std::collections::HashMap;

pub type Words = HashMap<u64, u64>;

/// A translation: the region's identifier at its insertion, the address, and both words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held {
    pub rid: u64,
    pub va: u64,
    pub first: u64,
    pub second: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    Region,
    Ignored,
    Wide,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Fetch,
    Load,
    Store,
    Swap,
    Fill,
    Spill,
    Flush,
}

/// The processor's state, as letters: i, d, r (translated), c (collected), k (keys), a (no data bits), x (no
/// instruction bit); and its level.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    pub on: &'a str,
    pub level: u64,
}

impl State<'_> {
    fn has(&self, letter: char) -> bool {
        self.on.contains(letter)
    }
}

#[derive(Clone, Debug)]
pub struct Naive {
    pub region: [u64; 8],
    pub pta: u64,
    pub keys: [u64; 16],
    /// Of instructions, and of data: registers.
    pub fixed: [Vec<Option<Held>>; 2],
    /// The same: the cache, in the order in which they would have to go.
    pub cached: [Vec<Held>; 2],
    pub entries: usize,
    pub refreshed: bool,
    pub entry: Entry,
    pub top_bit: u64,
}

fn field(word: u64, low: u64, width: u64) -> u64 {
    (word / (1 << low)) % (1 << width)
}

const SIZES: [u64; 12] = [12, 13, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32];

impl Held {
    fn bytes(&self) -> u64 {
        1 << field(self.second, 2, 6)
    }

    /// The first and the last address, of 61 bits.
    fn span(&self) -> (u64, u64) {
        let begin = self.va % (1 << 61) / self.bytes() * self.bytes();
        (begin, begin + self.bytes() - 1)
    }

    fn meets(&self, rid: u64, first: u64, last: u64) -> bool {
        self.rid == rid && self.span().0 <= last && first <= self.span().1
    }

    fn place(&self, va: u64) -> u64 {
        let frame = field(self.first, 12, 38) * 4096;
        frame / self.bytes() * self.bytes() + va % self.bytes()
    }
}

/// The vector of the fault, or the physical address.
pub type Answer = Result<u64, u64>;

const NESTED: u64 = 0x1400;

impl Naive {
    fn rid(&self, va: u64) -> u64 {
        field(self.region[(va >> 61) as usize], 8, 24)
    }

    fn size(&self, va: u64) -> u64 {
        field(self.region[(va >> 61) as usize], 2, 6)
    }

    fn exists(&self, va: u64) -> bool {
        let upper = va % (1 << 61) >> self.top_bit;
        upper == 0 || upper == (1 << (61 - self.top_bit)) - 1
    }

    pub fn hash(&self, va: u64) -> u64 {
        let page = va % (1 << (self.top_bit + 1)) / (1 << self.size(va));
        let table = 1_u64 << field(self.pta, 2, 6);
        let base = self.pta / 32768 * 32768;
        if field(self.pta, 8, 1) == 1 {
            return base / table * table + (page ^ self.rid(va)) * 32 % table;
        }
        let each = if self.entry == Entry::Wide { 16 } else { 8 };
        let low = base % (1 << 61) / table * table;
        (va >> 61 << 61) + low + page.wrapping_mul(each) % table
    }

    pub fn tag(&self, va: u64) -> u64 {
        (va % (1 << (self.top_bit + 1)) / (1 << self.size(va))) ^ (self.rid(va) << 39)
    }

    /// Whether the words may be a translation.
    fn sound(first: u64, second: u64) -> bool {
        let size = SIZES.contains(&field(second, 2, 6)) && second % 4 == 0;
        let gone = first % 2 == 0;
        let bits = field(first, 1, 1) == 0 && field(first, 50, 2) == 0 && second >> 32 == 0;
        size && (gone || bits && ![1, 2, 3].contains(&field(first, 2, 3)))
    }

    fn overlap_fixed(&self, side: usize, held: &Held) -> bool {
        let (first, last) = held.span();
        self.fixed[side].iter().flatten().any(|other| other.meets(held.rid, first, last))
    }

    fn forget(&mut self, side: usize, rid: u64, first: u64, last: u64) {
        self.cached[side].retain(|other| !other.meets(rid, first, last));
    }

    fn put(&mut self, side: usize, held: Held) {
        let (first, last) = held.span();
        self.forget(side, held.rid, first, last);
        if self.cached[side].len() == self.entries {
            self.cached[side].remove(0);
        }
        self.cached[side].push(held);
    }

    /// An insertion into the cache, or into a register; whether it was done.
    pub fn insert(&mut self, side: usize, register: Option<usize>, va: u64, first: u64, second: u64) -> bool {
        if !Self::sound(first, second) || !self.exists(va) {
            return false;
        }
        let held = Held { rid: self.rid(va), va, first, second };
        if self.overlap_fixed(side, &held) {
            return false;
        }
        let Some(register) = register else {
            self.put(side, held);
            return true;
        };
        let (from, to) = held.span();
        self.forget(side, held.rid, from, to);
        self.fixed[side][register] = Some(held);
        true
    }

    /// A purge of caches (no side), or of a side's registers and cache; whether it was done.
    pub fn purge(&mut self, side: Option<usize>, va: u64, size: u64) -> bool {
        if !self.exists(va) || !SIZES.contains(&size) {
            return false;
        }
        let held = Held { rid: self.rid(va), va, first: 0, second: size * 4 };
        let (first, last) = held.span();
        if let Some(side) = side {
            for slot in &mut self.fixed[side] {
                if slot.is_some_and(|other| other.meets(held.rid, first, last)) {
                    *slot = None;
                }
            }
            self.forget(side, held.rid, first, last);
            return true;
        }
        if self.overlap_fixed(0, &held) || self.overlap_fixed(1, &held) {
            return false;
        }
        self.forget(0, held.rid, first, last);
        self.forget(1, held.rid, first, last);
        true
    }

    fn held(&mut self, side: usize, rid: u64, va: u64) -> Option<Held> {
        let at = va % (1 << 61);
        if let Some(held) = self.fixed[side].iter().flatten().find(|held| held.meets(rid, at, at)) {
            return Some(*held);
        }
        let found = self.cached[side].iter().position(|held| held.meets(rid, at, at))?;
        let held = self.cached[side][found];
        if self.refreshed {
            self.cached[side].remove(found);
            self.cached[side].push(held);
        }
        Some(held)
    }

    /// Whether a key lets one read, write or run; none without a register.
    fn key(&self, key: u64, letter: char) -> Option<bool> {
        let register = self.keys.iter().find(|word| field(**word, 0, 1) == 1 && field(**word, 8, 24) == key)?;
        let bit = match letter {
            'w' => 1,
            'r' => 2,
            _ => 3,
        };
        Some(field(*register, bit, 1) == 0)
    }

    /// The table's entry for an address: what to insert, or the vector of the fault, of data.
    fn walk(&mut self, words: &Words, state: State, va: u64) -> Result<Held, u64> {
        const ENDED: u64 = 0x800;
        let at = self.hash(va);
        if !self.exists(at) {
            return Err(ENDED);
        }
        let rid = self.rid(at);
        let Some(table) = self.held(1, rid, at) else { return Err(0) };
        let good = field(table.first, 0, 1) == 1
            && field(table.first, 2, 3) == 0
            && field(table.first, 5, 1) == 1
            && (!state.has('k') || self.key(field(table.second, 8, 24), 'r') == Some(true));
        if !good {
            return Err(ENDED);
        }
        let physical = table.place(at);
        let word = |index: u64| words.get(&(physical + index * 8)).copied().ok_or(ENDED);
        let first = word(0)?;
        let own = self.region[(va >> 61) as usize] / 4 * 4;
        let second = match (field(self.pta, 8, 1), self.entry) {
            (1, _) if word(2)? == self.tag(va) => word(1)?,
            (1, _) => return Err(ENDED),
            (_, Entry::Wide) => word(1)?,
            (_, Entry::Ignored) if field(first, 53, 6) > 0 => own / 256 * 256 + field(first, 53, 6) * 4,
            _ => own,
        };
        let held = Held { rid: self.rid(va), va, first, second };
        if Self::sound(first, second) { Ok(held) } else { Err(ENDED) }
    }

    /// The translation of an address, or the vector of the fault.
    fn look(&mut self, words: &Words, state: State, act: Act, va: u64) -> Result<Held, u64> {
        let side = usize::from(act != Act::Fetch);
        let rid = self.rid(va);
        if let Some(held) = self.held(side, rid, va) {
            return Ok(held);
        }
        let wanted = match act {
            Act::Fetch => "idc",
            Act::Fill | Act::Spill => "rd",
            _ => "d",
        };
        let on = wanted.chars().all(|letter| state.has(letter));
        let on = on && self.pta % 2 == 1 && self.region[(va >> 61) as usize] % 2 == 1;
        let missed = if on {
            match self.walk(words, state, va) {
                Ok(held) if !self.overlap_fixed(side, &held) => {
                    self.put(side, held);
                    return Ok(held);
                }
                Ok(_) => 0x800,
                Err(vector) => vector,
            }
        } else {
            0x1000
        };
        Err(match (side, missed) {
            (0, 0x800) => 0x400,
            (0, 0x1000) => 0xc00,
            (1, _) if !state.has('c') => NESTED,
            (_, vector) => vector,
        })
    }

    /// Who may do what, as the manual's table has it: for each `ar` and page level, levels 3, 2, 1 and 0.
    fn may(first: u64, level: u64, letter: char) -> bool {
        const TABLE: [&str; 8] = [
            "r r r r",
            "rx rx rx rx",
            "rw rw rw rw",
            "rwx rwx rwx rwx",
            "r rw rw rw",
            "rx rx rx rwx",
            "rwx rw rw rw",
            "x x x rx",
        ];
        let (ar, page) = (field(first, 9, 3), field(first, 7, 2));
        let columns: Vec<&str> = TABLE[ar as usize].split(' ').collect();
        let cell = if ar == 7 {
            columns[3 - level as usize]
        } else if level > page {
            ""
        } else if level == 0 {
            columns[3]
        } else if level == page {
            columns[0]
        } else {
            columns[1]
        };
        cell.contains(letter)
    }

    /// An access: where it goes, or the vector of its fault.
    pub fn access(&mut self, words: &Words, state: State, act: Act, va: u64) -> Answer {
        let (mode, letters) = match act {
            Act::Fetch => ('i', "x"),
            Act::Load | Act::Flush => ('d', "r"),
            Act::Fill => ('r', "r"),
            Act::Store => ('d', "w"),
            Act::Spill => ('r', "w"),
            Act::Swap => ('d', "rw"),
        };
        let data = act != Act::Fetch;
        if !state.has(mode) {
            let physical = va % (1 << 63);
            return if data && physical >= 1 << 50 { Err(0x5400) } else { Ok(physical) };
        }
        if data && !self.exists(va) {
            return Err(0x5400);
        }
        let held = self.look(words, state, act, va)?;
        let first = held.first;
        if first % 2 == 0 {
            return Err(0x5000);
        }
        if field(first, 2, 3) == 7 {
            return Err(0x5600);
        }
        if act != Act::Flush && state.has('k') {
            let answers: Vec<Option<bool>> =
                letters.chars().map(|letter| self.key(field(held.second, 8, 24), letter)).collect();
            if answers.contains(&None) {
                return Err(if data { 0x1c00 } else { 0x1800 });
            }
            if answers.contains(&Some(false)) {
                return Err(0x5100);
            }
        }
        if !letters.chars().all(|letter| Self::may(first, state.level, letter)) {
            return Err(if data { 0x5300 } else { 0x5200 });
        }
        if act != Act::Flush && !state.has(if data { 'a' } else { 'x' }) {
            if letters.contains('w') && field(first, 6, 1) == 0 {
                return Err(0x2000);
            }
            if field(first, 5, 1) == 0 {
                return Err(if data { 0x2800 } else { 0x2400 });
            }
        }
        Ok(held.place(va))
    }

    /// probe: 1, 0, or the vector of its fault.
    pub fn probe(&mut self, words: &Words, state: State, va: u64, level: u64, letter: char) -> Answer {
        if !self.exists(va) {
            return Ok(0);
        }
        let held = self.look(words, state, Act::Load, va)?;
        if held.first % 2 == 0 {
            return Err(0x5000);
        }
        if field(held.first, 2, 3) == 7 {
            return Err(0x5600);
        }
        if state.has('k') {
            match self.key(field(held.second, 8, 24), letter) {
                None => return Err(0x1c00),
                Some(false) => return Ok(0),
                Some(true) => {}
            }
        }
        Ok(u64::from(Self::may(held.first, level.max(state.level), letter)))
    }

    /// tpa: the physical address, or the vector of its fault.
    pub fn tpa(&mut self, words: &Words, state: State, va: u64) -> Answer {
        if !self.exists(va) {
            return Err(0x5400);
        }
        let held = self.look(words, state, Act::Load, va)?;
        match (held.first % 2, field(held.first, 2, 3)) {
            (0, _) => Err(0x5000),
            (_, 7) => Err(0x5600),
            _ => Ok(held.place(va)),
        }
    }

    /// tak: the key, or 1.
    pub fn tak(&mut self, words: &Words, state: State, va: u64) -> u64 {
        match self.exists(va).then(|| self.look(words, state, Act::Load, va)) {
            Some(Ok(held)) if held.first % 2 == 1 => field(held.second, 8, 24) * 256,
            _ => 1,
        }
    }
}
