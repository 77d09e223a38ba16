//! grandstand

pub mod sample;
