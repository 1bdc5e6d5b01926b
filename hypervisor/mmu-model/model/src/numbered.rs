// SPDX-License-Identifier: MIT
//! Enums whose values number counters.

/// Defines one: each value with the name that counters give it, all of them in order, and how many there are.
macro_rules! numbered {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $value:ident: $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $value,)*
        }

        impl $name {
            /// How many there are.
            pub const COUNT: usize = [$($text),*].len();
            /// All, in the order of counters.
            pub const ALL: [Self; Self::COUNT] = [$(Self::$value),*];

            /// As counters name it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }
        }
    };
}

pub(crate) use numbered;
