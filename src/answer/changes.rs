//! Answers `/changes.json` from the journal of changes.
//!
//! Callers: [`super::find`].

use std::sync::Arc;

use crate::cache::Key;
use crate::semantics::problem::Problem;
use crate::snapshot::pointer::Snapshot;

use super::find::{Finder, Found};
use super::render;

impl Finder {
    pub(super) async fn changes(&self, published: Arc<Snapshot>, since: Box<str>) -> Found {
        let key = Key::Changes(since.clone());
        let kept = self.cache.reply(&key);
        if let Some(reply) = kept.clone().filter(|reply| reply.epoch() == published.epoch) {
            return Found::Snapshot { reply, published, forwarded: None, pinned: false };
        }
        let journal = (self.journal)();
        let large = journal.is_large();
        let (shown, named) = (published.clone(), since.clone());
        let make = move || {
            let changes = journal.since(&named, shown.dataset.id.as_str())?;
            Some(render::changes(&shown, &named, &changes))
        };
        // Other clients of this thread must not wait for a look at a million ids.
        let made = if large { tokio::task::spawn_blocking(make).await } else { Ok(make()) };
        let made = match made {
            Ok(Some(made)) => made,
            Ok(None) => {
                return Problem::snapshot_gone("since", &*since, Some(published.dataset.id.as_str())).into();
            }
            Err(error) => {
                tracing::error!(%error, "/changes.json cannot be answered");
                return Problem::internal().into();
            }
        };
        // One of them must not push out all others.
        let keepable = made.weight() as u64 <= self.cache.largest();
        let reply = match kept {
            Some(kept) if keepable => self.cache.renew_reply(key, kept, made),
            _ => {
                let made = Arc::new(made);
                if keepable {
                    self.cache.keep_if_wanted(key, &made);
                }
                made
            }
        };
        Found::Snapshot { reply, published, forwarded: None, pinned: false }
    }
}
