//! Counts connections that were closed because of the PROXY protocol.
//!
//! Callers: [`crate::serve::proxy_header`].

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

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
        let help = "Connections closed for lack of a proper PROXY protocol header from a trusted proxy, by reason";
        registry.register("grandstand_proxy_protocol_refused", help, this.refused.clone());
        this
    }

    /// A connection was closed.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&RefusedLabels { reason }).inc();
    }
}
