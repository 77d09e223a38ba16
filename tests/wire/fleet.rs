//! A fleet: what a publisher writes to an object store, and what becomes of it.
//!
//! `store` reads a store as an outsider does, without our code; `s3` runs a real server, `bucket` one that fails on
//! request. `replica` is about those who follow. `stores` has the tests that `tests/stores/run.py` runs on other real
//! stores.

pub mod bucket;
mod publish;
mod relay;
mod replica;
mod s3;
pub mod store;
mod stores;
