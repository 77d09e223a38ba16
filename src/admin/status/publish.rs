//! `publish` in `/status`: what the object store has.
//!
//! Callers: [`super`].

use serde_json::{Value, json};

use crate::clock::{Clock, WallTime};
use crate::fleet::publisher::status::View;

/// The state of the publisher.
pub(super) fn describe(view: &View, clock: &Clock) -> Value {
    json!({
        "sequence": view.sequence,
        "last_success": view.last_success.and_then(WallTime::rfc3339),
        "behind_seconds": view.behind_seconds(clock.now_mono()),
        "why": view.why(),
    })
}
