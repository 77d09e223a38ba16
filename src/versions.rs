//! The versions that are kept beside the one that is served.
//!
//! Callers: [`crate::serve`] looks kept versions up.

pub mod kept;
