//! grandstand

pub mod clock;
