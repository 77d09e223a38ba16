//! A synthetic origin: a made-up world of sports venues behind the API that grandstand mirrors.
//!
//! It is the opponent of the tests and shares only the clock with the rest of the crate: filters walk the model, bodies
//! have a writer of their own, other code compares entity tags. It is no mock, but a server with real sockets, a rate
//! limit and a CDN, all switchable while it runs. Tests bring the faults ([`Mishap`]). Without a socket and with
//! another clock it is the origin of the simulation.
//!
//! All data is invented, except names and rough positions of states and cities, and says so in each body.
//!
//! | question | file |
//! |---|---|
//! | which venues there are, how a test changes them | `world`, `venue`, `gazetteer`, `places`, `sports`, `names` |
//! | their order, the spelling of numbers | `order`, `spelling`, `json` |
//! | the answers | `answer`, `query`, `lists`, `links`, `listing`, `terms`, `regions`, `etag` |
//! | how it is served | `origin`, `server`, `wire`, `log`, `limit`, `cdn` |
//! | what can be varied, which requests fail | `switches`, `edges`, `fault` |
//!
//! Callers: `grandstand demo`, `grandstand origin`, the wire tests, the benches.

mod answer;
mod cdn;
mod dice;
mod edges;
mod etag;
mod fault;
mod gazetteer;
mod json;
mod limit;
mod links;
mod listing;
mod lists;
mod log;
mod names;
mod order;
mod origin;
mod places;
mod query;
mod regions;
mod server;
mod spelling;
mod sports;
mod switches;
mod terms;
#[cfg(test)]
mod tests;
mod venue;
mod wire;
mod world;

pub use edges::{BadNumber, BeyondLast, Commas, Edges, Elsewhere, OddSince, Repeated, TooMany, UnknownSlug};
pub use fault::{Asked, FaultRule, Mishap};
pub use links::LinkStyle;
pub use log::Seen;
pub use order::ItemOrder;
pub use origin::Origin;
pub use spelling::{Decimal, Digits, Stamp, Zone};
pub use switches::{
    ApiUrlStyle, Cdn, Combine, CopyHeader, CountStyle, Dates, EmptyFilters, EmptyPages, EtagStyle, Generated,
    GeneratedAt, ModifiedStyle, Numbers, Reading, Since, Slugs, Switches, TaxonomyShape, TermFields, TermNames,
};
pub use venue::Venue;
pub use wire::Body;
pub use world::World;
