//! Counters of connections: how many are open, had to go for others, or were refused.
//!
//! Callers: [`crate::serve::connections`].

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusedLabels {
    limit: &'static str,
}

/// The counters; cheap to clone. The default counts for nobody.
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
        registry.register("grandstand_connections", "Open client connections", this.open.clone());
        let help = "Idle client connections that were closed to make room";
        registry.register("grandstand_connections_evicted", help, this.evicted.clone());
        let help = "Client connections that were refused, by limit";
        registry.register("grandstand_connections_refused", help, this.refused.clone());
        this
    }

    /// One was let in.
    pub(crate) fn opened(&self) {
        self.open.inc();
    }

    /// One has ended.
    pub(crate) fn closed(&self) {
        self.open.dec();
    }

    /// One has to go for another.
    pub(crate) fn evicted(&self) {
        self.evicted.inc();
    }

    /// One was not let in.
    pub(crate) fn refused(&self, limit: &'static str) {
        self.refused.get_or_create(&RefusedLabels { limit }).inc();
    }
}
