//! The promises of the contract, seen from outside: a scriptable origin, the real binary, a real client.
//!
//! One integration binary with a module for each group of promises. No fixed ports and no sleeps: everything waits for
//! a condition. `harness` runs the server, `client` asks it, `compare` compares two answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]
#![allow(missing_docs, reason = "nothing here is called from outside")]

/// That of the program, which many tests run within this process.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod client;
mod compare;
mod harness;
mod origin_faults;

mod access_log;
mod actions;
mod admin;
mod answers;
mod attacks;
mod audit;
mod behind_nginx;
mod bodies;
mod budget;
mod bundle;
mod cache;
mod caches;
mod certificates;
mod changes;
mod client_address;
mod clocks;
mod codings;
mod conditional;
mod connections;
mod contradictions;
mod corpus;
mod cost;
mod crash;
mod crawl;
mod crowds;
mod damage;
mod details_backoff;
mod dialects;
mod dialects_exact;
mod disk;
mod docs;
mod dumps;
mod examiner;
mod excerpts;
mod faults;
mod fleet;
mod floods;
mod forward_proxy;
mod gap;
mod golden;
mod headers;
mod heads;
mod kept;
mod kills;
mod known;
mod limit;
mod loops;
mod metrics;
mod monitoring;
mod open_cases;
mod operator;
mod order;
mod pages;
mod pass;
mod paths;
mod private;
mod process;
mod proxied;
mod publication;
mod read_through;
mod refresh;
mod reload;
mod room;
mod sample;
mod search;
mod seconds;
mod service;
mod shapes;
mod shared_limit;
mod shield;
mod shrink;
mod simulation;
mod snapshots;
mod stamps;
mod stated;
mod terminal;
mod terms;
mod tls;
mod uses;
