//! A caching reverse proxy and mirror of the Public Sports Venue Listings API.
//!
//! One binary, three uses, told apart by configuration: a **mirror** crawls the origin into a durable snapshot and
//! answers the whole API from it; a **shield** crawls nothing and keeps what clients ask for; an **offline** replica
//! answers from what it was given and makes no outgoing connection. One rule joins them: a request is answered from
//! the snapshot when the snapshot covers it; otherwise it is read through from the origin, kept, and never asked for
//! twice at once.
//!
//! # The house
//!
//! Imports only point down: to a lower floor, or to another room of the same floor that does not import back. A test reads
//! this table and the `use` lines, and fails on an import that points up.
//!
//! | floor | rooms | what it is |
//! |---|---|---|
//! | 9 | [`cli`] | arguments, exit codes, the terminal |
//! | 8 | [`app`] | builds the state, wires the services |
//! | 7 | [`admin`], [`serve`] | sockets and nothing else: the admin listener, the public listener |
//! | 6 | [`answer`] | the life of a request: admit, find, render, conditions, head; no sockets |
//! | 5 | [`proxy`], [`audit`], [`pages`] | the HTTP cache for what the snapshot does not cover; the comparison with the origin; documents and pages for people, rendered from a snapshot |
//! | 4 | [`mirror`] | keeps the copy: crawl, refresh, sweep, terms, details |
//! | 3 | [`versions`], [`upstream`] | which snapshots are kept and which one is current; the only way to the origin |
//! | 2 | [`store`], [`bundle`] | disk: the durable store, the file that crosses an air gap |
//! | 1 | [`snapshot`], [`cache`], [`limit`], [`config`] | memory: immutable data and its indexes, the only user of moka, exact limits, settings |
//! | 0 | [`api`], [`semantics`] | pure: route, query, render; RFC 9110 and RFC 9111 as functions |
//! | ground | [`clock`], [`telemetry`] | time, counters |
//!
//! Beside the house stand [`sample`], a synthetic origin that only `demo`, `origin`, tests and benches use and that imports
//! only [`clock`], and [`parts`], what tests and benches reach; everything else is visible inside the crate only.
//!
//! Decisions are functions of values (`now` is an argument); pingora and tokio only move bytes around them. Of pingora
//! this uses the server (services, listeners, shutdown), the HTTP/1 and HTTP/2 sessions towards clients, and TLS towards
//! them; requests to the origin go over hyper ([`upstream::wire`] says why).
//!
//! # The life of a request
//!
//! [`serve::gate`] lets a connection in if there is room for it ([`serve::connections`]) and tells protocols apart;
//! [`serve::tls`] makes it secure where it is to be.
//! [`serve::request_head`] reads the head of an HTTP/1 request, within the deadlines of `serve::connection` and `limits.head`;
//! pingora's session parses it once, when it is whole. [`serve::public`] takes it to [`answer::admit`]:
//! client address, preflight, limit, host, size, path, route, method, body, query, coding. [`answer::find`] looks the answer up, which
//! is the only await: a reply kept in [`cache`], one rendered from the [`snapshot`] by copying slices of stored text, a
//! stored detail, or one read through [`proxy::read_through`]; one from an older version ([`versions::kept`]) if the client
//! names that. [`answer::compose`] evaluates preconditions and writes the head: for HTTP/1 at once as the lines that go on
//! the wire ([`answer::head`]), for HTTP/2 as a map. Head and body leave in one send, from where they lie in memory. What is rendered is kept when it is asked for again, and stays over
//! publications that do not change it. Paths that are not known here go to [`proxy::pass_through`], whose bodies
//! are streamed.
//!
//! Documents of this server (`/`, `/docs`, `/explore` ...) take the same way: [`answer::find`] has them rendered by [`pages`]
//! off the threads that serve clients, and [`cache`] keeps them with a strong entity tag for each coding. Pages and their
//! assets have a limiter of their own.
//!
//! `/changes.json` reads the journal of what was served ([`snapshot::journal`]), which knows ids and no contents.
//!
//! # The caching reverse proxy
//!
//! [`proxy`] is an HTTP cache by RFC 9111, in shield use the whole of the program. What may be stored, for how long it is
//! fresh, whom it answers and what a 304 changes are plain functions in [`semantics::caching`]; [`cache`] holds what is
//! stored, bounded by bytes, under one policy with the rendered replies; the proxy decides whether to ask, once for all
//! who wait ([`upstream::flight`]).
//!
//! | | known endpoints ([`proxy::read_through`]) | other paths ([`proxy::pass_through`]) |
//! |---|---|---|
//! | key, and request sent | the canonical query, with our fields only | path and query byte for byte, the client's fields that `passthrough.request_headers` names |
//! | body | read whole, checked to be JSON, `api_url` rewritten, coded for each client | streamed as it comes, held until its end only to be kept |
//! | lifetime | the origin's, else `ttl` | the origin's, else a tenth of the time since `Last-Modified` |
//! | a client's `no-cache` and `max-age` | ignored | one revalidation per resource in 10 s |
//! | stale while it is fetched anew | `cache.stale_while_revalidate`, or what the origin says | only what the origin says |
//! | stale when the origin fails | `cache.stale_if_error`, or what the origin says; not with `must-revalidate`, `proxy-revalidate`, `no-cache` | the same, and not with `s-maxage` |
//!
//! Why our own and not pingora-cache: out of the box that passes 112 of the 160 required and 73 of the 105 optimal cases of
//! the public HTTP cache test suite, lacks what would have to be added around it (`Age` of the upstream, request
//! directives, invalidation, the whole update by a 304, `CDN-Cache-Control`), and stores bodies for each coding. This one
//! passes 157 and 82, the others mostly because it keeps no error that a client's own field may have caused, and no cookie for
//! everybody: `tests/cache_suite`
//! runs the suite and says why.
//!
//! **An entry cannot be poisoned** through known endpoints: nothing of a client's header is sent. On other paths a client's
//! GET says nothing but what `passthrough.request_headers` names. With `["*"]` it says all but what is known to change
//! answers without `Vary` (`X-Forwarded-*`, `X-Original-URL`, `X-HTTP-Method-Override` ...). Either way an answer that shows
//! the value of a field that `Vary` does not name is not kept, and neither is any error (400 and above) to a request with a
//! field that others do not send.
//!
//! **A read that has something stale at hand does not wait for the origin's budget.** It is served that, and the resource
//! is fetched when there is room: by turns with what nobody has, the most wanted first. Who has nothing waits in the
//! queue, at most `origin.wait`. While more wait than there are slots, slots are given out over time instead of all at
//! once, so that a minute of overload does not leave the next without fresh answers.
//!
//! **Bodies are bounded together** ([`upstream::room`]): those that are read whole wait for room in order, those that are passed
//! on are kept only while there is some. Nothing over 64 KiB is parsed, rewritten or searched on a thread that serves clients,
//! and no more members of a document are remembered than this API has.
//!
//! **An origin that is down** (no connection, or errors on three resources in a row) is left alone for longer and longer,
//! up to 4 s, then tried by about one request at a time; refreshes, crawl, stale reads and waiting clients take turns at
//! that. Errors count only if no single client can have caused them: requests of the mirror, resources that were
//! answered before, known endpoints that several households asked for ([`upstream::health`]). A resource that fails alone
//! rests for 1, 2, then 4 s, or as long as the origin asks. A 429 with `Retry-After` stops everything for that long if
//! the request was ours; otherwise that resource rests.
//!
//! # The life of a refresh
//!
//! [`mirror::task`] is one task that decides what is published; [`mirror::plan`] says what it does next. A first crawl
//! ([`mirror::crawl`]) fetches every page and taxonomy, batch by batch; [`mirror::pass`] says whether they are one
//! consistent list, which is then served; closing rounds confirm what is not proven yet, so that there is one instant
//! that fits every copy. Between rounds the origin's CDN has time to let its old copies go, and refreshes go on.
//!
//! A refresh ([`mirror::refresh`]) asks five conditional questions. When the answers differ from what is published,
//! [`mirror::amend`] puts what has changed in its place by the rules that explain the origin's order
//! ([`mirror::order`]), and hunts down what is gone by halving; where that leaves a doubt, every page is looked at
//! again. Either way the five questions are asked once more, and what holds still is published.
//!
//! | certificate | what it says |
//! |---|---|
//! | `provisional` | every page was read and they fit together; perhaps not of one instant |
//! | `full` | there is one instant at which the origin was just so |
//! | `incremental` | a refresh on a full one: first page, taxonomies and probe held still, and all else follows from them |
//! | `best-effort` | it never held still in several tries; what is open is in `/status` |
//!
//! **What a refresh cannot see:** a change that does not move `modified`, and a deletion made good by an insertion that
//! does not show as modified, both beyond the first page and where the counts of the terms do not tell. [`mirror::sweep`]
//! looks at every page now and then, and finds them. A change of a detail that moves nothing in its summary is found
//! when the detail is revalidated. An origin that answers 304 whatever it has cannot be seen through.
//!
//! [`mirror::details`] fetches details beside all this and publishes nothing. [`audit`] compares answers with the
//! origin's, now and then or when asked to, and only tells the others what to fetch anew.
//!
//! Which listings a slug stands for is evidence, never a guess ([`snapshot::membership`]): display names and counts
//! where they leave one reading, else what the origin lists for the term ([`mirror::terms`]), and for the last of
//! several namesakes what the others leave. What is not known is read through. What filters mean is asked once
//! ([`mirror::assumptions`]).
//!
//! Everything fetched is kept with its validators ([`mirror::copies`]), and speaks for an interval of the *origin's*
//! time: from when its content was first seen to when it was last confirmed. `Date` minus `Age` dates an answer, so
//! that an old copy of the origin's CDN neither certifies what it does not prove nor takes data back. A `generated_at` in
//! the body makes that earlier, unless it is no time of generation: [`upstream::stamps`] finds that out.
//!
//! Every request takes a slot of one budget ([`upstream::budget`]), which frees 60 s after the *answer* and whose ledger
//! survives a kill -9.
//!
//! That all this holds under edits, faults, aborts and clocks that jump is what `tests/wire/simulation` checks, in virtual
//! time: [`upstream::transport`] and [`clock::Clock::of_runtime`] are its ways in.
//!
//! # What is stored
//!
//! One redb file, and why not immutable packs: see `benches/runs/2026-11-20-store.md`. A snapshot is a tree of
//! content-addressed blocks: summaries by ranges of listing ids, the origin's order in content-defined chunks,
//! taxonomies and envelope beside them; versions share blocks, publication switches a pointer. Its public id
//! ([`snapshot::content::SnapshotId`]) is a hash of the logical content and knows nothing of blocks. Details, copies,
//! evidence and certificates are sync state, beside it.
//!
//! A disk that takes no writes is read from all the same; a damaged file is replaced by what can still be read of it
//! ([`app::keeper`] looks after both), and whoever misses something fetches it again. Offline it is an error to start with,
//! and an import puts the file right before it writes.
//!
//! # Versions and bundles
//!
//! [`versions`] is the one place that switches what is served. Its *head* is the newest version, which the mirror
//! refreshes; *live* is what clients see. They differ only while a rollback pins an older one. Each switch is one
//! transaction: version, certificate, rollback and journal entry are there together or not at all, and only then does the
//! pointer move. Whoever publishes says which head it builds upon; the mirror begins anew when an import has put another one
//! there. Details belong to no version: they stay for as long as some kept version lists them. What the origin listed for terms
//! does: what a version rests on is kept beside it when the next one takes its place, and goes into its bundles.
//!
//! A [`bundle`] carries one version with its details as records, not as blocks, so that it outlives changes of the store. It
//! is verified as a whole before [`versions`] takes it in, in one transaction with its details and evidence. A delta
//! carries what differs from a base that both sides keep; which details the other side has is remembered with each export.
//!
//! # Deviations
//!
//! * A detail counts as confirmed while its summary is: `Age` and `Mirror-Confirmed` of a detail are the snapshot's.
//! * A detail of a known listing that is read through is stored first and then answered as from the snapshot, with our
//!   entity tag: the tag does not change when the next request finds it stored.
//! * On unknown paths caches send a client's cache directives and other end-to-end fields on with a GET (RFC 9111 §5.2,
//!   RFC 9110 §7.6); this one sends those that `passthrough.request_headers` names. With `["*"]` fields that no stored `Vary`
//!   names are sent on although the answer may be kept, but for the guards above: what they matter is known from the
//!   answer's `Vary` only.
//! * A read that has something stale at hand gets it at once when the budget is spent, instead of waiting first.
//! * Before the first snapshot a list or taxonomy that the crawl is just asking for may be asked for once more by a client;
//!   what clients read is kept for the snapshot.
//! * A page of the list is cut and coded anew after each new certificate, also when its entity tag stays: it names the
//!   instant. Details and taxonomies stay as they are.
//! * `Date` is that of sending, also on stored answers: pingora writes it. `Age` is counted so that it does not matter.
//! * On known endpoints `s-maxage` does not forbid `stale_if_error` ([`semantics::caching::may_stand_in`]).
//! * A request with `Cookie` counts as authorized unless `Vary` names it, and an answer with `Set-Cookie` is kept only if
//!   it says `public`: stricter than RFC 9111, whose §7.3 warns of it.
//! * Of a client's `Via` and `CDN-Loop` a read of a known endpoint sends on the names of this program's processes only
//!   (RFC 9110 §7.6.3): it is the question of all who wait, and others must not be refused for what one client writes there.
//!   Answers carry no `Via`, which that section leaves to a gateway, so that no client learns the name.
//! * Interim answers of the origin are cut at 16 over HTTP/1. Over HTTP/2 hyper tells nobody of them: there
//!   `origin.timeout` ends them, with 503.
//! * A query in doubt of a kept snapshot that is not the newest is 503: the origin could only answer for the present.
//! * Parts (206) are not stored, and interim answers are not sent over HTTP/2, which pingora cannot.
//! * A detail that is answered 404 once, after it was here, is kept until a second 404 confirms that it is gone.
//! * Limits above 4,096 a minute count in steps of a millisecond: see [`limit`].

#![warn(unreachable_pub)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "this page is for people who work on the house: cargo doc --document-private-items"
)]

mod admin;
mod answer;
mod api;
mod app;
mod audit;
mod bundle;
mod cache;
mod cli;
mod clock;
mod config;
#[cfg(test)]
mod floors;
mod limit;
mod mirror;
mod pages;
pub mod parts;
mod proxy;
pub mod sample;
mod semantics;
mod serve;
mod snapshot;
mod store;
mod telemetry;
mod upstream;
mod versions;

pub use cli::run;
