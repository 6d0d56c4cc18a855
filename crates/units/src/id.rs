//! Identifiers as types of their own, so that none is taken for another.

use core::fmt;

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// The one after this.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

identifier! {
    /// One path of a connection. Ids only grow and are never used twice under
    /// one set of keys: (path id, packet number) is the nonce.
    PathId(u32), "path"
}

identifier! {
    /// The number of a packet on its path, per transmission, never reused.
    PacketNumber(u64), "#"
}

identifier! {
    /// A source symbol, counted from 0 over the whole life of one direction of
    /// a connection.
    SymbolId(u64), "sym"
}

identifier! {
    /// A stream. The lowest bit tells who opened it: 0 the client, 1 the server.
    StreamId(u64), "stream"
}

impl SymbolId {
    /// The symbol `count` further on.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0 + count)
    }
}
