//! What an operator can do from the page: the request, and what the page says before and after it.
//!
//! The page's script sends the requests to the admin listener, whose guards apply. Callers: [`super::gather`],
//! [`super::advice`], [`super::view`].

use crate::admin::snapshots::Action as OnSnapshot;

use super::words::short;

/// Who may act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// Everybody who reaches the page.
    Free,
    /// Everybody who knows `admin.token`.
    Token,
    /// Nobody: the listener is not on loopback, and there is no token.
    Refused,
}

/// One request that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Action {
    /// For the button; unique on the page.
    pub id: String,
    /// `POST` or `DELETE`.
    pub method: &'static str,
    /// Path and query.
    pub path: String,
    /// The button's text.
    pub label: &'static str,
    /// The button's subject, if the label alone does not say it.
    pub about: Option<String>,
    /// Its effect, in the question before it is sent.
    pub ask: String,
    /// The text after success.
    pub done: String,
}

impl Action {
    fn post(id: &str, path: &str, label: &'static str, ask: &str, done: &str) -> Self {
        let (id, path, ask, done) = (format!("do-{id}"), path.to_owned(), ask.to_owned(), done.to_owned());
        Self { id, method: "POST", path, label, about: None, ask, done }
    }

    pub(super) fn refresh() -> Self {
        let ask = "The mirror asks the origin for changes now. If there are none, this costs at most five requests.";
        Self::post("refresh", "/refresh", "Refresh now", ask, "A refresh begins. What it finds shows here.")
    }

    pub(super) fn sync() -> Self {
        let ask = "The mirror checks every page of the origin with conditional requests. This costs one request of the budget for each 100 listings.";
        Self::post("sync", "/sync", "Check every page", ask, "The check begins. Its progress shows here.")
    }

    pub(super) fn audit() -> Self {
        let ask = "20 requests are also sent to the origin, and the answers are compared. This uses the background share of the budget.";
        Self::post(
            "audit",
            "/audit?samples=20",
            "Compare 20 requests",
            ask,
            "The comparison begins. Its progress shows here.",
        )
    }

    pub(super) fn accept() -> Self {
        let ask = "The snapshot that is held back becomes current, with fewer listings than now. Do this only if the origin really lost the others.";
        Self::post(
            "accept",
            "/snapshots/accept",
            "Accept the snapshot",
            ask,
            "The next refresh publishes the snapshot.",
        )
    }

    pub(super) fn purge() -> Self {
        let ask = "All cached answers are dropped. They are rendered or fetched again when a client asks for them.";
        let purge = Self::post("purge", "/cache", "Purge the cache", ask, "The cache is empty.");
        Self { method: "DELETE", ..purge }
    }

    pub(super) fn release() -> Self {
        let path = OnSnapshot::Release.path();
        let ask = "The newest snapshot becomes current again, and later ones follow it.";
        Self::post("release", &path, "Release", ask, "The newest snapshot is current again.")
    }

    pub(super) fn rollback(id: &str) -> Self {
        let ask = format!(
            "Clients get snapshot {} until you release it. Refreshes continue; newer snapshots wait.",
            short(id)
        );
        let done = format!("Snapshot {} is current now. Release it to get the newest one again.", short(id));
        Self::on(&OnSnapshot::Rollback(id.to_owned()), id, "Roll back", &ask, &done)
    }

    pub(super) fn pin(id: &str) -> Self {
        let ask = format!("Snapshot {} is kept, and takes disk space, until you unpin it.", short(id));
        Self::on(&OnSnapshot::Pin(id.to_owned()), id, "Pin", &ask, &format!("Snapshot {} is pinned.", short(id)))
    }

    pub(super) fn unpin(id: &str) -> Self {
        let ask = format!("Normal retention applies to snapshot {} again; it may be removed soon.", short(id));
        Self::on(
            &OnSnapshot::Unpin(id.to_owned()),
            id,
            "Unpin",
            &ask,
            &format!("Snapshot {} is not pinned now.", short(id)),
        )
    }

    pub(super) fn verify(id: &str) -> Self {
        let ask = format!("Snapshot {} is read with all its details, and every hash is checked.", short(id));
        let done = format!("Snapshot {} is intact: every hash is right.", short(id));
        Self::on(&OnSnapshot::Verify(id.to_owned()), id, "Verify", &ask, &done)
    }

    fn on(action: &OnSnapshot, id: &str, label: &'static str, ask: &str, done: &str) -> Self {
        let name = label.to_lowercase().replace(' ', "-");
        let about = Some(format!("snapshot {}", short(id)));
        Self { about, ..Self::post(&format!("{name}-{id}"), &action.path(), label, ask, done) }
    }
}
