//! A caching reverse proxy and mirror of the Public Sports Venue Listings API.
//!
//! One binary has four uses, chosen by configuration. A **mirror** crawls the origin into a durable snapshot and
//! answers from it. A **shield** crawls nothing and caches the answers that clients ask for. A **replica** follows the
//! bundles that a mirror writes to an object store. An **offline** server answers from an imported snapshot and makes
//! no outgoing connection, unless `publish.url` or `rate_limit.store` is set. A mirror answers a request from its
//! snapshot if the snapshot covers the request. Mirrors and shields forward other requests to the origin, unless the
//! answer is in their cache. Replicas and offline servers forward nothing.
//!
//! This page is the plan. The first page of each room says what belongs in it, and why it is as it is.
//!
//! # The layers
//!
//! A *room* is a top-level module, a *floor* a layer of rooms. Imports only point down: to a lower floor, or to another
//! room of the same floor that does not import back. `tests/source` reads this table and the `use` lines, and
//! fails on an import that points up.
//!
//! | floor | rooms | what it is |
//! |---|---|---|
//! | 9 | [`cli`] | arguments, exit codes, the terminal |
//! | 8 | [`app`] | builds the state, wires the services |
//! | 7 | [`admin`], [`serve`] | the admin listener and the public listener |
//! | 6 | [`answer`] | the life of a request: admit, find, render, conditions, head; no sockets |
//! | 5 | [`proxy`], [`pages`], [`dumps`], [`search`], [`fleet`] | the HTTP cache for what the snapshot does not cover; documents and pages for people, rendered from a snapshot; the snapshot as one file; words and places over an index of it; the object store that feeds other machines |
//! | 4 | [`mirror`] | keeps the copy: crawl, refresh, sweep, terms, details; compares answers with the origin's |
//! | 3 | [`snapshots`], [`upstream`], [`shared_limit`] | which snapshots are kept and which one is current; the only way to the origin; the one limit of a fleet, in Redis |
//! | 2 | [`store`], [`bundle`] | disk: the durable store; the file that crosses an air gap |
//! | 1 | [`snapshot`], [`cache`], [`limit`], [`config`] | memory: immutable data and its indexes; cached answers (the only user of moka); exact limits; settings |
//! | 0 | [`api`], [`semantics`] | pure: route, query, render; RFC 9110 and RFC 9111 as functions |
//! | ground | [`clock`], [`telemetry`], [`tasks`], [`words`] | time, counters, blocking and shared work, parts of messages |
//!
//! The interface is [`command`] and [`run`]; [`serve_within`] is `grandstand serve` inside another program. Other public
//! items are public because tests, benches and fuzzing use them; they change without notice. The data of `demo` and `origin`
//! is the crate [`sample`]. The origin of the tests is another crate, `tests/origin`, which the program does not link.
//!
//! Decisions are functions of values (`now` is an argument); pingora and tokio only move bytes around them. From
//! pingora come the services, TLS, and HTTP/1 towards clients; HTTP/2 towards clients is that of the crate `h2`. Requests
//! to the origin go over hyper; [`upstream::wire`] says why.
//!
//! # Where to look
//!
//! | question | answer |
//! |---|---|
//! | Where is `Retry-After` decided? | Whoever refuses knows for how long: [`limit`] and [`shared_limit`] for a client's quota, [`upstream`] for the origin (`budget::state`), [`answer`] for what is not there yet. The problem carries it (`Problem::after`), and `answer::compose` writes the field |
//! | Where is a page of a list rendered? | `snapshot::index` selects the listings, [`answer`] (`render`) makes a page of them, `api::render` copies their texts into its body |
//! | What does a refresh write? | The copies' new validators ([`mirror::copies`]). If nothing has changed, the certificate ([`snapshots`], `renew`). Else one transaction (`publish` in [`snapshots`] and [`store`]): new blocks, record, certificate, evidence, journal entry, mark, sizes, and the switch; what is not needed any more goes in a later one. Details have transactions of their own |
//! | What changes the current snapshot? | Only [`snapshots`]: a publication, an import, a rollback, a release |
//! | What does an import read? | The bundle, verified as a whole ([`bundle`], `open`), then its details once more, part by part ([`snapshots`], `import`). Beside a server a command sends the file, after a look at its signature where it knows keys |
//! | What is asked of the origin, and when? | [`mirror::task`] (`schedule`) for the list, `mirror::details::worker` for details, [`proxy`] for clients; [`upstream::budget`] for when |
//! | Where is a key of the configuration declared? | [`config`] (`keys`), once, with its bounds and its documentation |
//!
//! A *household* is what the limits count as one client: an IPv4 address, or an IPv6 network of
//! `rate_limit.ipv6_prefix` bits. The words of the product are in `docs/README.md`.
//!
//! # The life of a request
//!
//! 1. [`serve`] accepts a connection if there is room, and detects its protocol. Behind a load balancer, it first reads
//!    who the client is. It reads the head of a request within deadlines and bounds, and accepts HTTP/2 streams.
//! 2. [`answer`] admits the request, in this order: client address, preflight, limit, host, loop, size, path, route,
//!    method, body, query, coding. The limit awaits only [`shared_limit`]. A client that has not read its other answers
//!    waits then, and holds little meanwhile (`limit::unread`).
//! 3. [`answer`] finds the answer, and may wait for the origin. The answer is one of: a reply in [`cache`]; a reply
//!    rendered from the [`snapshot`], or from an older snapshot that the client names ([`snapshots::earlier`]), by
//!    copying slices of stored text; a stored detail; a dump ([`dumps`]); a document ([`pages`]); the origin's answer
//!    ([`proxy`]). A rendered reply enters the cache at its second request, and stays there if a new snapshot does not
//!    change it.
//! 4. [`answer`] evaluates preconditions and makes the answer: a value, which one function writes for HTTP/1 and one
//!    for HTTP/2. [`serve`] sends head and body together, without copying the body, or streams the body.
//!
//! `/changes.json` reads the journal of publications ([`snapshot::journal`]), which has ids but no contents.
//! `/changes.ndjson` adds them, and the details that came since; [`dumps`] renders it while it is sent. Pages and their
//! assets have a limiter of their own.
//!
//! A search ([`search`]) has an index of the current snapshot's words and places, made after each publication, off the
//! threads that serve clients. Until it is there, the snapshot before is searched.
//!
//! What no snapshot covers goes through an HTTP cache as RFC 9111 defines it ([`proxy`]); a shield consists of it.
//! Clients that wait for the same answer share one request. Every request to the origin takes a slot of one budget
//! ([`upstream::budget`]); a stale answer is sent at once, and a cache miss waits for a slot if one comes in time. What
//! one client does decides about that client only.
//!
//! # The life of a refresh
//!
//! Of a mirror's tasks, only [`mirror::task`] publishes. A first crawl fetches every page and taxonomy; if they are one
//! consistent list ([`mirror::pass`]), it is published. Closing rounds then revalidate what was not confirmed since the
//! latest change, until there is one instant at which every copy was current.
//!
//! A refresh sends at most five conditional requests (`mirror::refresh`). If the answers differ from the newest
//! snapshot, the changed listings are placed by the rule that explains the origin's order (`mirror::order`), and
//! the pages that hold them are read; if doubt remains, every page is. Then the conditional requests are sent once more, and the list is published if
//! they show no further change. A sweep finds what a refresh cannot see ([`mirror::sweep`]). [`mirror::details`]
//! fetches details independently and publishes nothing. [`mirror::examiner`] compares answers with the origin's.
//!
//! Every inference - what a filter means, which listings a slug has, that nothing changed - rests on evidence, and
//! outside of it the origin is asked: [`snapshot::membership`], [`mirror::examiner`]. All of it
//! counts in the origin's time, not in the time of arrival ([`mirror::copies`]): an old copy of a CDN replaces no newer
//! data. `tests/wire/simulation` checks this under edits, faults, aborts and jumping clocks, in virtual time. It enters
//! through [`upstream::wire::Transport`] and [`clock::Clock::of_runtime`]. [`app::in_memory`] is a whole server in virtual
//! time, for tests.
//!
//! # What is stored
//!
//! One redb file ([`store`]). A snapshot is a tree of content-addressed blocks; snapshots share blocks, and publication
//! switches a pointer. The public id ([`snapshot::content::SnapshotId`]) is a hash of the logical content and does not
//! depend on blocks. Details lie beside the snapshots, as copies, evidence and certificates do, in the order of their last
//! change: what has changed since a place in it is read in one piece (`store::places`). Who serves a chain of bundles or a
//! copy elsewhere needs to remember no more than such a place. A full or read-only disk is still read; [`app::keeper`]
//! replaces a damaged file by what can be read of it, and the rest is fetched again.
//!
//! [`snapshots`] is the one place that changes the *newest* snapshot, which the mirror refreshes, and the *current*
//! one, which clients get. They differ only during a rollback. Each change is one transaction; only after it do clients
//! get the new current snapshot.
//!
//! A [`bundle`] carries a snapshot, or a delta, as records and not as blocks, so it stays readable when the store
//! changes.
//!
//! # The fleet
//!
//! [`fleet`]: a publisher writes the current snapshot to an object store, as a full bundle with deltas after it (a
//! *chain*), the journal, and one signed *head* that names them. A replica polls the head, fetches what it lacks,
//! verifies it, and imports it in one transaction, together with where it then stands. For the publisher, a refresh, a
//! rollback and an import are the same: it only sees that the current snapshot has changed.
//!
//! # Reload, restart
//!
//! [`config::Settings`] is the configuration in effect. Who uses a key that can change reads it at each use, without a
//! lock; [`app::reload`] replaces what costs more to make. Listening sockets may come from a service manager
//! ([`app::sockets`]) and outlive the process. [`app::serve`] returns when all of the server has stopped: a process can run
//! several, each with its own clock, log and counters. At a stop, the process answers the requests that have arrived, and tells
//! clients that their connection ends.
//!
//! Where the product deviates from a rule of HTTP, the line says `DEVIATION:`; [`semantics`] lists the deviations.

#![warn(unreachable_pub)]
// `println!` panics where nobody reads, or a disk is full: `cli::terminal` writes instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![expect(missing_docs, reason = "no interface: a name that says it all has no comment")]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "this page is for people who work on the crate: cargo doc --document-private-items"
)]

pub mod admin;
pub mod answer;
pub mod api;
pub mod app;
pub mod bundle;
pub mod cache;
mod cli;
pub mod clock;
pub mod config;
mod dumps;
pub mod fleet;
pub mod limit;
pub mod mirror;
mod pages;
mod proxy;
pub mod search;
pub mod semantics;
pub mod serve;
pub mod shared_limit;
pub mod snapshot;
pub mod snapshots;
pub mod store;
mod tasks;
pub mod telemetry;
pub mod upstream;
pub mod words;

pub use cli::{command, run, serve_within};
