//! The test origin: the synthetic world of `tests/sample` behind the API that grandstand mirrors.
//!
//! It is the opponent of the tests and shares no code with grandstand: filters walk the model, bodies have a writer of
//! their own, other code compares entity tags. It is no mock, but a server with real sockets, a rate limit and a CDN, all
//! switchable while it runs. Tests bring the faults ([`Mishap`]). Without a socket and with another clock it is the
//! origin of the simulation.
//!
//! | question | file |
//! |---|---|
//! | which venues there are | the crate `sample` |
//! | how a test changes them, their order | `world`, `order`, `clock` |
//! | the answers | `answer`, `query`, `lists`, `listing`, `terms`, `regions`, `etag`, `json` |
//! | how it is served | `origin`, `server`, `wire`, `log`, `limit`, `cdn` |
//! | what can be varied, which requests fail | `switches`, `edges`, `fault` |
//!
//! Callers: the wire tests, the unit tests, the benches.

mod answer;
mod cdn;
mod clock;
mod edges;
mod etag;
mod fault;
mod json;
mod limit;
mod listing;
mod lists;
mod log;
mod order;
mod origin;
mod query;
mod regions;
mod server;
mod switches;
mod terms;
#[cfg(test)]
mod tests;
mod wire;
mod world;

pub use clock::Clock;
pub use edges::{BadNumber, BeyondLast, Commas, Edges, Elsewhere, OddSince, Repeated, TooMany, UnknownSlug};
pub use fault::{Asked, FaultRule, Mishap};
pub use log::Seen;
pub use order::ItemOrder;
pub use origin::{Origin, Reach};
pub use sample::{Decimal, Digits, Stamp, Venue, Zone};
pub use switches::{
    ApiUrlStyle, Cdn, Combine, CopyHeader, CountStyle, Dates, EmptyFilters, EmptyPages, EtagStyle, Generated,
    GeneratedAt, ListStyle, ModifiedStyle, Numbers, Quirk, Reading, Since, Slugs, Switches, TaxonomyShape, TermFields,
    TermNames,
};
pub use wire::Body;
pub use world::World;
