//! Counts connections that were closed because of the PROXY protocol.
//!
//! Callers: [`crate::serve::proxy_header`].

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::table;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusedLabels {
    reason: &'static str,
}

/// The counters; cheap to clone. The default is not registered.
#[derive(Clone, Default)]
pub(crate) struct ProxyProtocolCounters {
    refused: Family<RefusedLabels, Counter>,
}

impl ProxyProtocolCounters {
    /// Counters registered in `registry`.
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let this = Self::default();
        table::register(registry, table::PROXY_REFUSED, this.refused.clone());
        this
    }

    /// A connection was closed.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&RefusedLabels { reason }).inc();
    }
}
