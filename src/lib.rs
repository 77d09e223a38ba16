//! grandstand

pub mod clock;
pub mod semantics;
