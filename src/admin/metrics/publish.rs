//! Metrics of the publisher: what was written to the object store, and how far it is behind.
//!
//! Callers: [`super::answer`].

use super::super::status::Status;
use super::families::Families;
use crate::fleet::publisher::status::KINDS;

/// Writes all of them, if this instance publishes.
pub(super) fn write(status: &Status, families: &mut Families) {
    let Some(publish) = &status.publish else { return };
    let view = publish.view();
    if let Some(sequence) = view.sequence {
        families.gauge("grandstand_publish_sequence", "Sequence of the last published head", sequence);
    }
    let help = "Seconds for which the object store has lacked something that is served";
    families.gauge("grandstand_publish_behind_seconds", help, view.behind_seconds(status.clock.now_mono()));
    let help = "Objects written to the object store, by kind";
    families.counters("grandstand_publish_objects", help, "kind", KINDS.into_iter().zip(view.written));
    families.counter("grandstand_publish_bytes", "Bytes of published bundles", view.bytes);
    let help = "Failed attempts to publish, by reason";
    families.counters("grandstand_publish_failures", help, "reason", view.failures);
}
