//! Metrics of the publisher: what was written to the object store, and how far it is behind.
//!
//! Callers: [`super::answer`].

use super::super::status::Status;
use super::families::Families;
use crate::fleet::publisher::status::KINDS;
use crate::telemetry::table;

/// Writes all of them, if this instance publishes.
pub(super) fn write(status: &Status, families: &mut Families) {
    let Some(publish) = &status.publish else { return };
    let view = publish.view();
    if let Some(sequence) = view.sequence {
        families.gauge(table::PUBLISH_SEQUENCE, sequence);
    }
    families.gauge(table::PUBLISH_BEHIND, view.behind_seconds(status.clock.now_mono()));
    families.counters(table::PUBLISH_OBJECTS, KINDS.into_iter().zip(view.written));
    families.counter(table::PUBLISH_BYTES, view.bytes);
    families.counters(table::PUBLISH_FAILURES, view.failures);
}
