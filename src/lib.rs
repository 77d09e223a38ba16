//! grandstand

pub mod clock;
pub mod limit;
pub mod semantics;
