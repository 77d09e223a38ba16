//! A caching reverse proxy and mirror of the Public Sports Venue Listings API: the plan on one page.
//!
//! One binary has four uses, chosen by configuration. A **mirror** crawls the origin into a durable snapshot and answers
//! from it. A **shield** crawls nothing and caches what clients ask for. A **replica** follows the bundles that a mirror
//! publishes in an object store. An **offline** server answers from an imported bundle. Mirrors and shields forward what
//! they cannot answer themselves; replicas and offline servers forward nothing.
//!
//! # Nine rooms
//!
//! A *room* is a top-level module; `config` and the ground serve all of them. Imports only point down, or to another room of the
//! same floor that does not import back (`tests/source` reads this table). The first page of a room says what belongs in it.
//!
//! | floor | room | what it is |
//! |---|---|---|
//! | 7 | [`cli`] | verbs and the terminal; a verb about a server is a request to the admin API |
//! | 6 | [`server`] | builds and runs one of the four uses; reload, stop, admin API, console |
//! | 5 | [`edge`] | the life of a request: connections, limits, answers, the HTTP cache, pages, files, search |
//! | 4 | [`fleet`], [`mirror`] | publishes and follows bundles; keeps the copy of the origin, and finds out what its queries mean |
//! | 3 | [`origin`] | the only way to the origin: client, budget, health, dates |
//! | 2 | [`data`] | what is held: snapshot, store, kept snapshots, bundle, cached answers |
//! | 1 | [`api`], [`config`] | the mirrored API as values; every key of the configuration, declared once |
//! | 0 | [`protocol`] | the rules of HTTP as functions |
//! | ground | [`clock`], [`tasks`], [`telemetry`], [`words`] | what every room uses: time, threads, counters and findings, parts of messages |
//!
//! Decisions are functions of values (`now` is an argument); pingora and tokio only move bytes around them. From pingora
//! come listeners, TLS, and HTTP/1 towards clients; HTTP/2 is the crate `h2`, and requests to the origin go over hyper.
//! The interface is [`command`], [`run`] and [`serve_within`]; all else that is public is so for tests and benches.
//!
//! # A request
//!
//! [`edge::serve`] admits a connection and reads a head within bounds. [`edge::answer`] has the rest on one screen
//! (`Responder::respond`): client address, limit, route, negotiation, then *find*: a reply of [`data::cache`], a page rendered
//! from the snapshot by copying slices of stored text, a stored detail, a file, a document for people, or the origin's answer
//! through the HTTP cache ([`edge::proxy`]). Then preconditions, head, record. What one client does decides about that client only.
//!
//! # A refresh
//!
//! One task publishes ([`mirror::task`]). A first crawl reads every page; a refresh asks five conditional questions, and if
//! anything differs, reads the pages that must have changed, asks once more, and publishes what fits together. Details are
//! fetched beside it ([`mirror::details`]). The examiner ([`mirror::examiner`]) asks the origin for an example of each shape of query: what
//! was not equal is forwarded. All of it counts in the origin's time ([`mirror::copies`]), takes slots of one budget
//! ([`origin::budget`]), and becomes visible by one transaction ([`data::snapshots`]). A replica's import is the same path.
//!
//! # What is stored
//!
//! One redb file ([`data::store`]): snapshots as trees of content-addressed blocks, details by listing in the order of their last change,
//! copies with their validators, evidence, journal. The public id of a snapshot is a hash of its logical content. A
//! [`data::bundle`] carries records, not blocks. The budget's ledger is a file of its own, shared by all commands.
//!
//! # Where to look
//!
//! | question | file |
//! |---|---|
//! | Why was this 304, or 412? | `protocol/precondition.rs` |
//! | Why this `Age` of what comes from the snapshot? | `data/snapshot/pointer.rs` |
//! | Why this `Age` of a stored answer of the origin? | `data/cache/reply.rs` |
//! | When is a stored answer fresh, and when may it stand in stale? | `protocol/caching.rs` |
//! | What does the cache do about a request? | `edge/proxy/decision.rs` |
//! | Why 429, and until when? | `edge/limit.rs` |
//! | How long may a client take to send a request? | `edge/serve/connection.rs` |
//! | How long may a client take to read an answer? | `edge/limit/backlog.rs` |
//! | Why does this venue come before that one? | `edge/search/order.rs` |
//! | Which queries are forwarded, because their meaning is in doubt? | `data/snapshot/verdicts.rs` |
//! | What does the examiner know of a shape of query? | `data/snapshot/verdicts/table.rs` |
//! | What does `?page=0` mean where the origin is not asked? | `api/odd.rs` |
//! | Which listings has a slug? | `data/snapshot/membership.rs` |
//! | Who may write the current snapshot? | `data/snapshots.rs` |
//! | Which snapshots are kept, and until when? | `data/snapshots/retention.rs` |
//! | How is a damaged store repaired? | `data/store/repair.rs` |
//! | When does the next refresh begin? | `mirror/task/schedule.rs` |
//! | When may a request go to the origin, and before which others? | `origin/budget/state.rs` |
//! | When does the origin count as failing? | `origin/health.rs` |
//! | What does a replica do about the `head.json` of its publisher? | `fleet/replica/decide.rs` |
//! | What is wrong, and what is to be done? | `telemetry/findings.rs` |
//! | What is in `/status`? | `server/admin/facts.rs` |
//! | Which keys are there, and which need a restart? | `config/keys.rs` |
//! | What does SIGTERM, SIGQUIT or SIGHUP do? | `server/stop.rs` |

#![warn(unreachable_pub)]
// `println!` panics where nobody reads, or a disk is full: `cli::terminal` writes instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![expect(missing_docs, reason = "no interface: a name that says it all has no comment")]
#![allow(rustdoc::private_intra_doc_links, reason = "for people who work on it: cargo doc --document-private-items")]

pub mod api;
mod cli;
pub mod clock;
pub mod config;
pub mod data;
pub mod edge;
pub mod fleet;
pub mod mirror;
pub mod origin;
pub mod protocol;
pub mod server;
mod tasks;
pub mod telemetry;
pub mod words;

pub use cli::{command, run, serve_within};
