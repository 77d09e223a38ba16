//! The sweep: looks at every page again, slowly, for what a refresh cannot see.
//!
//! Conditional requests out of the background's tenth of the budget, beside the refreshes and never in their way. What
//! it finds it only reports; the mirror then reads the whole list anew. Callers: [`crate::app`] runs it.

use std::sync::Arc;
use std::time::Duration;

use crate::api::query::ListQuery;
use crate::clock::{Clock, WallTime};
use crate::snapshot::live::Live;
use crate::store::Store;

use super::client::Asker;
use super::commands::Commands;
use super::copies::{Copies, DATE_GRAIN_MS};
use super::crawl::check_page;
use super::pass;
use super::refresh;
use super::window::Class;

/// Where the end of the last sweep is kept in the store.
const STATE: &str = "swept";

/// The sweeper.
pub struct Sweeper {
    /// The copies.
    pub copies: Copies,
    /// The store.
    pub store: Arc<Store>,
    /// The served snapshot.
    pub live: Live,
    /// How the mirror is told.
    pub commands: Commands,
    /// How often.
    pub every: Duration,
    /// The clock.
    pub clock: Clock,
}

impl Sweeper {
    /// Sweeps, for ever.
    pub async fn run(self) {
        let mut swaps = self.live.watch();
        while self.live.load().is_none() {
            if swaps.changed().await.is_err() {
                return;
            }
        }
        loop {
            tokio::time::sleep(self.until_due()).await;
            if self.sweep().await {
                tracing::info!("a sweep found a change that no refresh had seen");
                self.commands.pass();
            }
            let now = self.clock.now_wall().as_millis();
            if let Err(error) = self.store.put_state(STATE, &now.to_le_bytes()) {
                tracing::warn!(%error, "the end of the sweep cannot be kept; a restart may sweep again");
            }
        }
    }

    /// How long until the next sweep: one interval after the last one, whatever restarts lie between.
    fn until_due(&self) -> Duration {
        let kept =
            self.store.state(STATE).ok().flatten().and_then(|bytes| Some(i64::from_le_bytes(bytes.try_into().ok()?)));
        let Some(last) = kept else { return self.every };
        let since = self.clock.now_wall().millis_since(WallTime::from_millis(last));
        // A clock that was set back must not put the sweep off.
        self.every
            .saturating_sub(Duration::from_millis(u64::try_from(since).unwrap_or(0)))
            .max(Duration::from_millis(100))
    }

    /// One sweep; `true` when a page is not as published.
    async fn sweep(&self) -> bool {
        let mut page = 1;
        loop {
            let Some(published) = self.live.current() else { return false };
            if page > pass::pages(published.dataset.len() as u64) {
                return false;
            }
            let path = pass::page_path(page);
            match self.copies.look(&path, Asker::mirror(Class::Background), check_page).await {
                Ok(copy) => {
                    // What was published meanwhile is what counts.
                    let Some(published) = self.live.current() else { return false };
                    let query = ListQuery { page, per_page: ListQuery::MAX_PER_PAGE, ..ListQuery::default() };
                    // A copy from before the publication says nothing about it.
                    let older = copy.until_ms + 2 * DATE_GRAIN_MS < published.meta.published_ms;
                    if !older && !refresh::agrees(&copy, &query, &published.dataset, &self.copies.volatile()) {
                        return true;
                    }
                }
                Err(error) => tracing::debug!(path, %error, "the sweep leaves a page out"),
            }
            page += 1;
        }
    }
}
