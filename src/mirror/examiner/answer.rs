//! An answer of the origin to an example, dated, and the snapshot to compare it with.
//!
//! Callers: [`super`], [`super::instants`].

use std::sync::Arc;

use crate::api::odd::Meaning;
use crate::api::page::Page;
use crate::data::snapshot::pointer::Snapshot;
use crate::mirror::MirrorContext;
use crate::origin::client::{AskError, Asker};
use crate::origin::generated_at::{AnswerClass, DATE_GRAIN_MS};
use crate::tasks::{Aborted, blocking};

pub(super) struct Answered {
    /// The newest snapshot when it came: it is compared with that, not with the one at the time of the request.
    pub(super) newest: Arc<Snapshot>,
    /// Its status; `None`: it is no answer that the origin can mean.
    pub(super) status: Option<u16>,
    /// The text of a 200; `None`: it is not UTF-8.
    pub(super) text: Option<String>,
    /// The text in the stored wording, and the page of the list in it; `None`: it is no list.
    pub(super) page: Option<(String, Page)>,
    /// For which instant of the origin's time it is sure.
    pub(super) at_ms: i64,
    /// Whether it came without `Age`, so that it may be an old copy of a CDN.
    pub(super) may_be_old: bool,
    /// Whether it is older than the data of the snapshot.
    pub(super) is_old: bool,
}

impl Answered {
    /// A refusal that is one of the meanings of open cases.
    pub(super) fn refused(&self) -> Option<Meaning> {
        self.status.and_then(Meaning::of_status)
    }
}

/// Asks the origin for an example. The error says why no answer says anything about the request.
pub(super) async fn ask(shared: &MirrorContext, path: &str, asker: Asker) -> Result<Answered, String> {
    let (client, copies) = (&shared.copies.client, shared.copies.clone());
    let (status, answer) = match client.ask(path, None, Asker { is_example: true, ..asker }).await {
        Ok(answer) => (Some(answer.status), Some(answer)),
        Err(AskError::Status { status, .. }) if Meaning::of_status(status).is_some() => (Some(status), None),
        Err(error) if error.is_nonsense() && !says_nothing(&error) => (None, None),
        Err(error) => {
            tracing::debug!(path, %error, "an example was not answered");
            return Err(error.to_string());
        }
    };
    let now_ms = shared.clock.now_wall().as_millis();
    let found = answer.as_ref().filter(|answer| answer.status == 200);
    let text = found.and_then(|answer| String::from_utf8(answer.body.to_vec()).ok());
    let date = |answer| client.stamps().date(AnswerClass::of(path), answer, text.as_deref(), None).until_ms;
    let dated = answer.as_ref().map(date);
    let at_ms = dated.unwrap_or(now_ms);
    let may_be_old = answer.as_ref().is_none_or(|answer| answer.stamps.age.is_none());
    let of_path = path.to_owned();
    let read = move || Ok::<_, Aborted>(answer.and_then(|answer| copies.page_in(&of_path, &answer.body)));
    let page = blocking(read).await.map_err(|_| "this server is too busy")?;
    let newest = shared.newest.get().ok_or("there is no snapshot")?;
    let is_old = at_ms + 2 * DATE_GRAIN_MS < client.by_origin_ms(newest.meta.published_ms.min(now_ms));
    Ok(Answered { newest, status, text, page, at_ms, may_be_old, is_old })
}

/// Whether a refusal is about something else than the query.
const fn says_nothing(error: &AskError) -> bool {
    matches!(error, AskError::Status { status: 401 | 403 | 407 | 408 | 421 | 425 | 429 | 451, .. })
}
