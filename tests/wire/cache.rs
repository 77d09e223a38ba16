//! The rules of the HTTP cache as scenes of a few rows: what is stored, for whom, for how long, and what reaches the origin.
//!
//! No sockets and no waiting ([`scene`]): connections, framing, streams and crowds of real clients are in `pass` and
//! `known`. The calculations (lifetimes, ages, dates, directives) have unit tests in `src/protocol`; the public test suite
//! runs in `tests/cache_suite`.

#![expect(clippy::needless_raw_string_hashes, reason = "all scenes are written the same way")]

mod fields;
mod known;
mod methods;
mod outage;
mod poison;
mod scene;
mod sharing;
mod validation;
mod variants;
