//! The limit of the fleet on the operator's page: whether the store counts, and what it was asked.
//!
//! Callers: [`super::gather`].

use crate::shared_limit::SharedLimit;

use super::model::Line;
use super::words;

pub(super) fn lines(shared: &SharedLimit) -> Vec<Line> {
    let counters = &shared.counters;
    let state = match (shared.why_local(), shared.alone_since()) {
        (Some(why), Some(since)) => {
            let since = format!("Since {}: {}", words::instant(since), words::sentence(&why));
            Line::new("State", "Not in use: this machine counts clients by itself").with([since])
        }
        _ => Line::new("State", "In use: all machines count clients together"),
    };
    let mut lines = vec![Line::new("Store", shared.store()), state];
    for (by, count) in counters.decisions() {
        let name = match by {
            "store" => "Round trips to Redis",
            "memory" => "Refusals known without a round trip",
            _ => "Decisions of this machine alone",
        };
        lines.push(Line::new(name, words::count(count)));
    }
    let replayed = words::count(counters.replayed());
    let forgotten = shared.forgotten();
    let told = format!("{replayed} local decisions were reported to Redis afterwards.");
    let lost = (forgotten > 0).then(|| format!("{} were dropped before that.", words::count(forgotten)));
    lines.push(Line::new("Connections lost", words::count(counters.lost())).with([told]).with(lost));
    lines
}
