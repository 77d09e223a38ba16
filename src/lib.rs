//! A caching reverse proxy and mirror of the Public Sports Venue Listings API.
//!
//! One binary has four uses, chosen by configuration. A **mirror** crawls the origin into a durable snapshot and
//! answers from it. A **shield** crawls nothing and caches the answers that clients ask for. A **replica** follows the
//! bundles that a mirror writes to an object store. An **offline** server answers from an imported snapshot and makes
//! no outgoing connection, unless `publish.url` or `rate_limit.store` is set. A mirror answers a request from its
//! snapshot if the snapshot covers the request. Mirrors and shields forward other requests to the origin, unless the
//! answer is in their cache. Clients that wait for the same answer share one request to the origin, and the answer is
//! cached. Replicas and offline servers forward nothing.
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
//! | 5 | [`proxy`], [`audit`], [`pages`], [`dumps`], [`fleet`] | the HTTP cache for what the snapshot does not cover; the comparison with the origin; documents and pages for people, rendered from a snapshot; the snapshot as one file; the object store that feeds other machines |
//! | 4 | [`mirror`] | keeps the copy: crawl, refresh, sweep, terms, details |
//! | 3 | [`snapshots`], [`upstream`], [`shared_limit`] | which snapshots are kept and which one is current; the only way to the origin; the one limit of a fleet, in Redis |
//! | 2 | [`store`], [`bundle`] | disk: the durable store; the file that crosses an air gap |
//! | 1 | [`snapshot`], [`cache`], [`limit`], [`config`] | memory: immutable data and its indexes; cached answers (the only user of moka); exact limits; settings |
//! | 0 | [`api`], [`semantics`] | pure: route, query, render; RFC 9110 and RFC 9111 as functions |
//! | ground | [`clock`], [`telemetry`], [`tasks`], [`words`] | time, counters, blocking and shared work, parts of messages |
//!
//! The interface is [`command`] and [`run`]. Other public items are public because tests, benches and fuzzing use them;
//! they change without notice. The data of `demo` and `origin` is the crate [`sample`]. The origin of the tests is another
//! crate, `tests/origin`, which the program does not link.
//!
//! Decisions are functions of values (`now` is an argument); pingora and tokio only move bytes around them. From
//! pingora come the services, TLS, and HTTP/1 towards clients; HTTP/2 towards clients is that of the crate `h2`. Requests
//! to the origin go over hyper; [`upstream::wire`] says why.
//!
//! A *household* is what the limits count as one client: an IPv4 address, or an IPv6 network of
//! `rate_limit.ipv6_prefix` bits.
//!
//! # The life of a request
//!
//! 1. [`serve::gate`] accepts a connection if there is room ([`serve::connections`]) and detects its protocol. Behind a
//!    load balancer, it first reads who the client is. [`serve::tls`] does the TLS handshake.
//! 2. [`serve::request_head`] reads the head of an HTTP/1 request, within the deadlines of `serve::connection` and
//!    within `limits.head`. pingora's session parses the complete head. `serve::http2` accepts the streams of an HTTP/2
//!    connection, and sends answers that are ready at the same time with one write.
//! 3. [`answer`] calls steps 3 to 5. Step 3 is [`answer::admit`]: it checks, in this order: client address,
//!    preflight, limit, host, loop, size, path, route, method, body, query, coding.
//! 4. [`answer::find`] finds the answer, and may wait for the origin. The answer is one of: a reply in [`cache`]; a
//!    reply rendered from the [`snapshot`], or from an older snapshot that the client names ([`snapshots::loaded`]), by
//!    copying slices of stored text; a stored detail; a learned answer to an odd request ([`snapshot::edges`]); the
//!    origin's answer ([`proxy`]). A rendered reply enters the cache at its second request, and stays there if a new
//!    snapshot does not change it. Requests wait in three other places, too. [`answer`] waits for
//!    [`shared_limit`] before step 3, and for a dump that is being written. [`serve`] waits for the origin's answer
//!    on other paths; [`proxy`] then streams its body.
//! 5. [`answer::compose`] evaluates preconditions and chooses the fields of the head. Its answer is a value, of which
//!    [`mod@answer::write`] makes the bytes of HTTP/1, or the map that HTTP/2 code takes. Head and body are sent together,
//!    without copying the body.
//!
//! A dump ([`dumps`]) is the current snapshot as one file. It is written when a client first asks for it, and streamed.
//!
//! Documents of this server (`/`, `/docs`, `/explore` ...) go through steps 1 to 5, too: [`pages`] renders them off the
//! threads that serve clients, and [`cache`] keeps them with a strong entity tag for each coding. Pages and their
//! assets have a limiter of their own.
//!
//! `/changes.json` reads the journal of publications ([`snapshot::journal`]), which has ids but no contents.
//!
//! # The caching reverse proxy
//!
//! [`proxy`] is an HTTP cache as RFC 9111 defines it; a shield consists of it. Plain functions in
//! [`semantics::caching`] decide what may be stored, how long it is fresh, which requests it answers, and what a 304
//! changes. [`cache`] stores the origin's answers and the rendered replies together, under one bound in bytes and one
//! policy. For each request, the proxy decides whether to ask the origin. Clients that wait for the same answer share
//! one request ([`tasks::single_flight`], `proxy::together`). Requests to known endpoints and to other paths take
//! the same steps. They differ in this:
//!
//! | | known endpoints (`proxy::judged`) | other paths (`proxy::streamed`) |
//! |---|---|---|
//! | key, and request sent | the canonical query, with our headers only | path and query byte for byte, and the client's headers in `passthrough.request_headers` |
//! | body | read whole, checked to be JSON, `api_url` rewritten, compressed for each client | streamed; also collected if it will be cached |
//! | lifetime | the origin's, else `ttl` | the origin's, else a tenth of the time since `Last-Modified` |
//! | a client's `no-cache` and `max-age` | ignored | one revalidation per resource in 10 s |
//! | stale while revalidating | the origin's value, else `cache.stale_while_revalidate` | only the origin's value |
//! | stale while the origin takes more than 2 s to answer | yes, if stale is allowed when the origin fails | no |
//! | stale if the origin fails | the origin's value, else `cache.stale_if_error`; not with `must-revalidate`, `proxy-revalidate`, `no-cache` | the same, and not with `s-maxage` |
//!
//! Why not pingora-cache: out of the box it passes 112 of the 160 required and 73 of the 105 optimal cases of the
//! public HTTP cache test suite. It lacks five things: the upstream's `Age`, request directives, invalidation,
//! `CDN-Cache-Control`, and the complete update by a 304. It also stores a separate body for each coding. This cache
//! passes 157 and 80. Most other cases fail because this cache does not store errors that a client's header may have
//! caused, and does not share answers with cookies: `tests/cache_suite` runs the suite and says why.
//!
//! **Cache poisoning.** On known endpoints no client header is forwarded, except the entries in `Via` and `CDN-Loop`
//! that grandstand processes wrote; they show loops. On other paths `Via`, `CDN-Loop` and the headers in
//! `passthrough.request_headers` are forwarded with GET; `["*"]` forwards all but those that are known to change
//! answers without `Vary` (`X-Forwarded-*`, `X-Original-URL`, `X-HTTP-Method-Override` ...). A response that echoes a
//! request header not listed in `Vary` is not cached, and neither is an error (400 and above) to a request with an
//! unusual header. Only the answer to a GET without such headers says something about the resource: `private`, `no-store`
//! or an error that another request gets removes no cached answer, pauses nothing, and lets others share their requests
//! (`proxy::question`).
//!
//! **Stale answers and the budget.** A request with a stale answer at hand gets it without waiting for the budget. The
//! resource is fetched when there is a slot. Such fetches and cache misses take turns: of the stale resources, the most
//! wanted goes first; of the misses, the one of the household that was served longest ago. A cache miss waits only if
//! its slot comes within `origin.wait`, judging by its place and by the slots that become free ([`upstream::budget`]);
//! otherwise it is refused at once and told when its turn comes. *Overload* means that in the last minute more than two
//! cache misses per slot were refused. Then slots are given out evenly over time, not all at once. A resource that was
//! refused to several households is then fetched, although no client waits for it (`proxy::wanted`). A new cache miss
//! may then wait only if it has the next turn, that is, if every waiting household was served more recently than its
//! own.
//!
//! **Memory for bodies** ([`upstream::room`]). Bodies that are read whole wait for room, first come, first served.
//! Streamed bodies are cached, and shared, only while there is room; one household has at most half of it. Bodies over
//! 64 KiB are parsed, rewritten and searched outside the threads that serve clients. The mirror refuses objects and
//! arrays with more than 100,000 members.
//!
//! **An origin that is down.** An origin is *down* after three failures in a row on at least two resources. A failure
//! does not count if one client alone could have caused it; a missing connection always counts ([`upstream::health`]).
//! Some failures that count are weaker evidence: a 5xx answer to a client's request, to a fetch of a detail, or to a
//! background check. If the last failure is one of these, at least three resources must have failed. An origin that is
//! down is paused for longer and longer, up to 5 s. Then about one request at a time tries it; refreshes, crawl, stale
//! reads and waiting clients take turns. A resource that fails alone is paused for 1, 2, then 4 s; a longer
//! `Retry-After` counts. A 429 pauses everything, for its `Retry-After`, else for at most 10 s. But a 429 to a request
//! that carried a client's headers pauses only that resource; if several clients get 429 for three resources,
//! everything pauses.
//!
//! # The life of a refresh
//!
//! Of a mirror's tasks, only [`mirror::task`] publishes; `mirror::task::schedule` says what it does next. A first crawl
//! (`mirror::task::reading`) fetches every page and taxonomy, batch by batch. If [`mirror::pass`] finds that they are one
//! consistent list, it is published. Closing rounds then revalidate the pages and taxonomies that were not confirmed
//! since the latest change, until there is one instant at which every copy was current. Between rounds the origin's CDN
//! has time to drop old copies, and refreshes continue.
//!
//! A refresh (`mirror::refresh`) sends at most five conditional requests. If the answers differ from the newest
//! snapshot, `mirror::task::amend` places the changed listings by the rules that explain the origin's order
//! (`mirror::order`), and finds deleted listings by bisection. If doubt remains, every page is read again. Whether the
//! list was amended or read again, the conditional requests are then sent once more, and the list is published if they
//! show no further change.
//!
//! Pages that contradict each other although they do not change (`mirror::task::contradicting`) are lived with: what
//! they lack is looked for where the cuts lie elsewhere, and the best list is published. The envelope keeps the total
//! that the origin states if that is not the number of listings.
//!
//! | certificate | what it says |
//! |---|---|
//! | `provisional` | every page was read and they fit together, but perhaps not at one instant |
//! | `full` | there is one instant at which the origin had exactly this data |
//! | `incremental` | a refresh of a full or incremental snapshot. While it ran, the first page, the taxonomies and the answer to the probe did not change; the rest of the list is derived from them and from the snapshot before |
//! | `best-effort` | three tries gave no proof, or the pages contradict each other; `/status` says what is not proven |
//!
//! **A refresh misses two things,** if they are not on the first page and the counts of the terms stay the same: a
//! change that leaves `modified` as it was; and a deletion together with the insertion of a listing with an old
//! `modified`. [`mirror::sweep`] reads every page from time to time and finds them. A change of a detail that does not
//! change its summary is found when the detail is revalidated. Nothing helps against an origin that answers 304 to
//! everything.
//!
//! [`mirror::details`] fetches details independently and publishes nothing. [`audit`] compares answers with the
//! origin's, regularly or on request, and only tells the other tasks what to fetch again.
//!
//! Which listings belong to a slug is known only from evidence ([`snapshot::membership`]): from names and counts, if
//! they allow one answer only; else from the origin's own list for the term (`mirror::task::terms`). Suppose several
//! terms share a name, and grandstand knows the listings of each of these terms except one. Then the remaining listings
//! with this name belong to that one term, provided that there are as many of them as the term's count says. Unknown
//! slugs match no listing. What filters mean is asked once and then weekly (`mirror::assumptions`): any answer other
//! than the expected one, repeated, disproves what the question uses. A difference that an audit finds is asked with
//! them. [`snapshot::meta`] says which queries are then forwarded.
//!
//! What the API's documentation leaves open is answered as the origin answers it ([`api::edges`], [`snapshot::edges`]):
//! [`mirror::edges`] sends the origin two test requests for each case. It also tests whether two kinds of lists are
//! empty: for a city outside the given state, and for several terms with commas between them. A request counts as odd
//! only if the query parser says so, or if it selects no listing.
//!
//! Each fetched page and taxonomy is stored with its validators ([`mirror::copies`]). It is valid for an interval of
//! the *origin's* time: from when its content was first seen to when it was last confirmed. An answer is as old as its
//! `Age` or the time since its `Date` says, whichever is more (RFC 9111 §4.2.3): it does not matter whether the CDN keeps
//! the origin's `Date` or sets its own. How far the origin's clock is behind ours is learned from answers that no cache
//! kept ([`clock::Clock::origin_lag_ms`]). So an old copy in the CDN can neither certify nor replace newer data. A
//! `generated_at` in the body makes the date earlier, unless [`upstream::stamps`] finds that it is not a time of
//! generation. An answer without `Age` may be an old copy of a cache that does not say so: a changed detail is then
//! asked for once more (`mirror::details::fetch`), and once such a cache was seen, the answer confirms less.
//!
//! Every request takes a slot of one budget ([`upstream::budget`]). The slot is free again 60 s after the *answer*. The
//! ledger survives a kill -9.
//!
//! `tests/wire/simulation` checks all this under edits, faults, aborts and jumping clocks, in virtual time. It enters
//! through [`upstream::wire::Transport`] and [`clock::Clock::of_runtime`].
//!
//! # What is stored
//!
//! One redb file; `benches/runs/2026-11-20-store.md` says why not immutable packs. A snapshot is a tree of
//! content-addressed blocks: summaries by ranges of listing ids, the origin's order in content-defined chunks,
//! taxonomies and envelope. Snapshots share blocks, and publication switches a pointer. The public id
//! ([`snapshot::content::SnapshotId`]) is a hash of the logical content and does not depend on blocks. Details, copies,
//! evidence and certificates are stored beside the snapshots, as state of the synchronisation.
//!
//! A full or read-only disk is still read. [`app::keeper`] replaces a damaged file by what can be read of it. The rest
//! is fetched again: from the origin, or from the object store that a replica follows. Offline, a damaged file is an
//! error at start, and an import repairs it.
//!
//! # Kept snapshots and bundles
//!
//! [`snapshots`] is the one place that changes the *newest* snapshot, which the mirror refreshes, and the *current*
//! one, which clients get. They differ only during a rollback. Each change is one transaction with the snapshot, its
//! certificate, the rollback and the journal entry. Only after the transaction do clients get the new current snapshot.
//! A publication says on which newest snapshot it was built. If an import has replaced that snapshot meanwhile, the
//! mirror continues with the imported one. Details belong to no snapshot: they lie in the order of their arrival, and
//! stay as long as a kept snapshot lists them. The origin's lists for terms belong to a snapshot. A snapshot that is
//! replaced as the newest keeps its own term lists: they are stored with it, and go into its bundles.
//!
//! A [`bundle`] carries one snapshot with its details as records, not as blocks, so it stays readable when the store
//! changes. The whole bundle is verified before [`snapshots`] imports it, in one transaction with its details and the
//! origin's lists. A delta carries the differences from a base that both sides keep. Each export records which details
//! it carried.
//!
//! # The fleet
//!
//! [`fleet::publisher`] writes the current snapshot to an object store: bundles that follow each other (a *chain*), the
//! journal, and one *head* that names them ([`fleet::head`]). `fleet::publisher::plan` decides what is written next;
//! [`snapshots::export`] exports what is missing from the bundles that the chain already has. The publisher writes
//! objects, then a record of the chain in this server's store, then the head. So a crash never leaves a head without
//! its objects. For the publisher, a refresh, a rollback and an import are the same: it only sees that the current
//! snapshot has changed ([`snapshot::pointer`]).
//!
//! [`fleet::replica`] polls the head of an object store. What it does about a head is one pure function,
//! `fleet::replica::decide`: nothing, note the confirmation, fetch deltas, fetch everything, or refuse. Downloads go to files
//! in the data directory whose names are the hashes of the objects, so that the next process can continue an unfinished
//! download. Bundles are applied in memory and imported in one transaction, together with where the replica then stands
//! ([`snapshots::follow`]): the number of the head, and the digest of its last bundle. An import by hand, or a repair,
//! removes the digest; the same head is then taken again. If a bundle cannot be used, the replica ends the attempt and
//! tries again later. Independently, the publisher reads its objects back (`fleet::publisher::tidy`); if one is
//! lost or altered, it writes a new chain.
//!
//! # Reload, restart
//!
//! [`config::Settings`] is the configuration in effect. Some keys can change while the server runs. A module that uses
//! such a key keeps the `Settings`, and reads the key at each use, without a lock. [`app::reload`] replaces what costs
//! more to make: the rules for requests, the headers that are the same in every answer, the quotas, the certificate.
//! The declaration of a key (`config::keys`) says whether it can change, or needs a restart.
//!
//! Listening sockets may come from a service manager ([`app::sockets`]) and outlive the process. At a stop, the
//! process answers the requests that have arrived, and tells clients that their connection ends. Connections that it
//! has not accepted yet are left to the next process.
//!
//! # Deviations
//!
//! * A detail counts as confirmed as long as its summary is confirmed. So its `Age` and `Mirror-Confirmed` are those of
//!   the snapshot.
//! * A detail of a known listing that is fetched for a client is stored first and then answered as from the snapshot,
//!   with our entity tag, so the tag does not change when the next request finds it stored.
//! * On other paths, the RFCs expect a cache to forward a client's cache directives and other end-to-end fields with a
//!   GET (RFC 9111 §5.2, RFC 9110 §7.6). grandstand forwards only `Via`, `CDN-Loop` and the headers in
//!   `passthrough.request_headers`. With `["*"]`, a header is forwarded even if no stored `Vary` lists it, and the
//!   answer may still be cached; only the answer's `Vary` says whether the header matters. The rules under *Cache
//!   poisoning* still apply.
//! * If the budget is spent, a request with a stale answer gets it at once instead of waiting first.
//! * Before the first snapshot, a client may fetch a list or taxonomy that the crawl is fetching, too. What clients
//!   fetch is used for the snapshot.
//! * After each new confirmation, a page of the list is rendered and compressed again, even if its entity tag stays,
//!   because the page contains the instant of confirmation (`generated_at`). Details and taxonomies stay as they are.
//! * `Date` is the time of sending, also for stored answers. `Age` is counted accordingly.
//! * On known endpoints `s-maxage` does not forbid `stale_if_error` ([`semantics::caching::may_stand_in`]).
//! * A request with `Cookie` is treated like a request with `Authorization` (RFC 9111 §3.5), unless `Vary` names
//!   `Cookie`. An answer with `Set-Cookie` is cached only if it says `public`. This is stricter than RFC 9111, which
//!   only warns (§7.3) that answers with cookies may be shared.
//! * On known endpoints, only entries of grandstand processes are forwarded from a client's `Via` and `CDN-Loop`
//!   (RFC 9110 §7.6.3). One request to the origin serves all waiting clients, and one client's header must not make the
//!   origin refuse it. Answers carry no `Via`, so that no client learns this process's name; RFC 9110 §7.6.3 lets a
//!   gateway omit `Via`.
//! * Interim answers of the origin are limited to 16 over HTTP/1. Over HTTP/2, hyper does not report them, so they are
//!   not counted; if they do not stop, the request ends after `origin.timeout`, and the client gets 503.
//! * A query about a term in doubt is 503 in a snapshot that is not the newest: the origin can only answer for its
//!   present data.
//! * Parts (206) are not stored. Interim answers are not sent over HTTP/2: pingora cannot.
//! * If the origin answers 404 for a stored detail, the detail stays stored until a second 404 confirms that it is
//!   gone.

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
mod audit;
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
pub mod semantics;
mod serve;
pub mod shared_limit;
pub mod snapshot;
pub mod snapshots;
pub mod store;
mod tasks;
pub mod telemetry;
pub mod upstream;
pub mod words;

pub use cli::{command, run};
