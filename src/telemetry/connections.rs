//! Counters of connections: open, closed to make room, refused.
//!
//! Callers: [`crate::serve::connections`].

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::table;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusedLabels {
    limit: &'static str,
}

/// The counters; cheap to clone. The default is not registered.
#[derive(Clone, Default)]
pub(crate) struct ConnectionCounters {
    open: Gauge,
    evicted: Counter,
    refused: Family<RefusedLabels, Counter>,
}

impl ConnectionCounters {
    /// Counters registered in `registry`.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let this = Self::default();
        table::register(registry, table::CONNECTIONS, this.open.clone());
        table::register(registry, table::CONNECTIONS_EVICTED, this.evicted.clone());
        table::register(registry, table::CONNECTIONS_REFUSED, this.refused.clone());
        this
    }

    /// A connection was accepted.
    pub(crate) fn opened(&self) {
        self.open.inc();
    }

    /// A connection ended.
    pub(crate) fn closed(&self) {
        self.open.dec();
    }

    /// A connection is closed to make room.
    pub(crate) fn evicted(&self) {
        self.evicted.inc();
    }

    /// A connection was refused.
    pub(crate) fn refused(&self, limit: &'static str) {
        self.refused.get_or_create(&RefusedLabels { limit }).inc();
    }
}
