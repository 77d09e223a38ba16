//! grandstand

pub mod config;
