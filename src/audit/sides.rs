//! The two sides of a comparison: the mirror's answer from its data, and the origin's to the same request.
//!
//! It compares nothing. Callers: [`super::Auditor`].

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::form::{ListForm, PageCount};
use crate::api::query::ListQuery;
use crate::api::render::{Frame, ListPage, VolatileValues};
use crate::api::taxonomy::VolatileKeys;
use crate::snapshot::dataset::Found;
use crate::snapshot::pointer::Snapshot;
use crate::store::{DetailState, StoreError};
use crate::upstream::client::{AskError, Asker};
use crate::upstream::stamps::Place;
use crate::upstream::window::Class;

use super::Auditor;
use super::sample::Request;
use super::verdict::{Ours, Theirs};

/// How long a sample waits for the budget.
const PATIENCE: Duration = Duration::from_secs(600);

impl Auditor {
    /// Requests of an audit take the background's share of the budget, and wait for it.
    pub(super) fn asker() -> Asker {
        Asker { patience: Some(PATIENCE), ..Asker::mirror(Class::Background) }
    }

    /// Asks the origin.
    pub(super) async fn ask(&self, request: &Request, form: &ListForm) -> Result<Theirs, String> {
        let client = &self.shared.copies.client;
        match client.ask(&request.path(form), None, Self::asker()).await {
            Ok(answer) => {
                let text = String::from_utf8(answer.body.to_vec());
                let text = text.map_err(|error| format!("{request}: the origin's answer is not UTF-8: {error}"))?;
                let place = Place::of(&request.path(form));
                let at_ms = client.stamps().date(place, &answer, Some(&text), None).until_ms;
                Ok(Theirs { status: answer.status, text, at_ms })
            }
            // A refusal is an answer too.
            Err(AskError::Status { status: status @ (400..=428 | 430..=499), .. }) => {
                Ok(Theirs { status, at_ms: self.shared.clock.now_wall().as_millis(), ..Theirs::default() })
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The mirror's answer, from the served data.
    pub(super) fn ours(&self, published: &Snapshot, request: &Request) -> Result<Ours, String> {
        let (dataset, meta) = (&published.dataset, &published.meta);
        let failed = |error: StoreError| format!("the data directory: {error}");
        Ok(match request {
            Request::List(query) if self.shared.verdicts.doubts(query).is_some() => Ours::ReadThrough,
            Request::List(query) => match dataset.find(query) {
                Err(_doubt) => Ours::ReadThrough,
                Ok(found) => page(published, query, found),
            },
            Request::Taxonomy(kind) => {
                Ours::Body { text: dataset.content.taxonomy(*kind).to_owned(), at_ms: meta.confirmed_ms }
            }
            Request::Detail(id) if dataset.summary(*id).is_none() => Ours::Missing(meta.confirmed_ms),
            Request::Detail(id) => match self.shared.details.get(*id).map_err(failed)? {
                None => Ours::ReadThrough,
                Some(record) if record.meta.state == DetailState::Gone => Ours::Missing(record.meta.origin_time_ms),
                Some(record) => {
                    let text = String::from_utf8_lossy(&record.body).into_owned();
                    Ours::Body { text, at_ms: record.meta.origin_time_ms }
                }
            },
        })
    }

    /// Fields that are not compared: volatile ones, and those omitted because they differ between pages.
    pub(super) fn ignored(&self, published: &Snapshot) -> VolatileKeys {
        let mut ignored = self.shared.copies.volatile();
        let form = &published.meta.form;
        let pages = (form.pages == PageCount::LeftOut).then_some("total_pages");
        let of_form = form.without.iter().map(String::as_str).chain(pages);
        for key in
            published.meta.volatile.iter().chain(published.meta.left_out.iter().map(String::as_str)).chain(of_form)
        {
            ignored.insert(key);
        }
        ignored
    }
}

/// A page of our list.
fn page(published: &Snapshot, query: &ListQuery, found: Found<'_>) -> Ours {
    let dataset = &published.dataset;
    let without = if query.is_filtered() { published.meta.form.without.clone() } else { BTreeSet::new() };
    let form = ListForm { without, ..published.meta.form.clone() };
    let frame = Frame::new(&dataset.content.envelope, &published.generated_at, &VolatileValues::new(), form);
    let query = &query.clone().within(dataset.content.envelope.largest_page);
    let Found { total, items } = found;
    let envelope_hash = dataset.envelope_hash;
    let page = ListPage { frame: &frame, envelope_hash, query, total, items };
    let text = String::from_utf8_lossy(&page.body()).into_owned();
    Ours::Body { text, at_ms: published.meta.confirmed_ms }
}
