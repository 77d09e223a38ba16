//! What tests and benches use of the crate, module by module. Not an interface: it changes without notice.
//!
//! Everything else is visible inside the crate only, so that the compiler tells what nobody uses. What a new test or
//! bench needs is added here. Callers: `tests/`, `benches/`.

#![expect(missing_docs, reason = "each item has its own where it is made")]

pub mod answer {
    pub mod admit {
        pub use crate::answer::admit::{Rules, View, admit};
    }
    pub mod compose {
        pub use crate::answer::compose::{Asked, ConstantHeaders, FromSnapshot};
    }
    pub mod head {
        pub use crate::answer::head::Lines;
    }
}
pub mod api {
    pub use crate::api::{json, links};
    pub mod envelope {
        pub use crate::api::envelope::{Envelope, EnvelopeField};
    }
    pub mod hash {
        pub use crate::api::hash::ContentHash;
    }
    pub mod listing {
        pub use crate::api::listing::{ListingId, Summary};
    }
    pub mod query {
        pub use crate::api::query::{ListQuery, ModifiedSince, Parameters};
    }
    pub mod render {
        pub use crate::api::render::{Frame, ListPage, VolatileValues};
    }
    pub mod route {
        pub use crate::api::route::Route;
    }
    pub mod taxonomy {
        pub use crate::api::taxonomy::{TaxonomyKind, VolatileKeys};
    }
}
pub mod app {
    pub use crate::app::{Sockets, serve};
    pub mod core {
        pub use crate::app::core::Core;
    }
}
pub mod cache {
    pub use crate::cache::{Cache, Key};
    pub mod coded {
        pub use crate::cache::coded::{Effort, encode};
    }
    pub mod doorkeeper {
        pub use crate::cache::doorkeeper::Doorkeeper;
    }
    pub mod reply {
        pub use crate::cache::reply::Reply;
    }
}
pub mod clock {
    pub use crate::clock::{Clock, Monotonic, RuntimeHand, WallTime};
}
pub mod config {
    pub use crate::config::{Config, Settings};
}
pub mod fuzz;
pub mod limit {
    pub use crate::limit::{LimitConfig, Limiter};
}
pub mod telemetry {
    pub mod table {
        pub use crate::telemetry::table::{ALL, Kind, Metric};
    }
}
pub mod shared_limit {
    pub use crate::shared_limit::{ADMIT, REPLAY};
}
pub mod mirror {
    pub mod commands {
        pub use crate::mirror::commands::Commands;
    }
    pub mod copies {
        pub use crate::mirror::copies::Copies;
    }
    pub mod crawl {
        pub use crate::mirror::crawl::Crawler;
    }
    pub mod details {
        pub use crate::mirror::details::Details;
        pub mod worker {
            pub use crate::mirror::details::worker::DetailWorker;
        }
    }
    pub mod edges {
        pub use crate::mirror::edges::EdgeLearner;
    }
    pub mod task {
        pub use crate::mirror::task::Mirror;
    }
    pub mod sweep {
        pub use crate::mirror::sweep::Sweeper;
    }
}
pub mod semantics {
    pub use crate::semantics::{path, precondition};
    pub mod cache_status {
        pub use crate::semantics::cache_status::CacheOutcome;
    }
    pub mod client_address {
        pub use crate::semantics::client_address::{ClientIpConfig, ClientIpHeader};
    }
    pub mod coding {
        pub use crate::semantics::coding::{Coding, negotiate};
    }
    pub mod etag {
        pub use crate::semantics::etag::EntityTag;
    }
    pub mod freshness {
        pub use crate::semantics::freshness::CacheControl;
    }
    pub mod hops {
        pub use crate::semantics::hops::Pseudonym;
    }
    pub mod proxy_protocol {
        pub use crate::semantics::proxy_protocol::{BadHeader, Header, read};
    }
}
pub mod snapshot {
    pub mod content {
        pub use crate::snapshot::content::Content;
    }
    pub mod dataset {
        pub use crate::snapshot::dataset::{Dataset, Doubt};
    }
    pub mod edges {
        pub use crate::snapshot::edges::Edges;
    }
    pub mod pointer {
        pub use crate::snapshot::pointer::{Snapshot, SnapshotPointer};
    }
    pub mod membership {
        pub use crate::snapshot::membership::Evidence;
    }
    pub mod meta {
        pub use crate::snapshot::meta::{Certificate, SnapshotMeta};
    }
}
pub mod store {
    pub use crate::store::{BlockKey, DataDir, DetailMeta, DetailRecord, DetailState, Store};
}
pub mod words {
    pub use crate::words::counted;
}
pub mod upstream {
    pub mod budget {
        pub use crate::upstream::budget::Budget;
    }
    pub mod client {
        pub use crate::upstream::client::{ClientConfig, OriginClient};
    }
    pub mod status {
        pub use crate::upstream::status::OriginStatus;
    }
    pub mod transport {
        pub use crate::upstream::transport::{Arrival, Transport, TransportError};
    }
}
pub mod snapshots {
    pub use crate::snapshots::{Policy, Snapshots};
}
