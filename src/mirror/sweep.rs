//! The sweep: looks at every page again, slowly, for what a refresh cannot see.
//!
//! Its conditional requests use the background's tenth of the budget and never delay a refresh. It only reports what it
//! finds; the mirror then reads the whole list again. Callers: [`crate::server`] runs it.

use std::time::Duration;

use crate::api::query::ListQuery;
use crate::clock::WallTime;
use crate::origin::client::Asker;
use crate::origin::window::Class;

use super::{MirrorContext, pass, refresh};

/// Store key of the end of the last sweep.
const STATE: &str = "swept";

/// The shortest wait for a sweep that is due.
const SHORTEST: Duration = Duration::from_millis(100);

/// Pause after a sweep that could not read every page.
const SOON: Duration = Duration::from_secs(600);

/// The sweeper: every `mirror.sweep_every`.
pub struct Sweeper(pub MirrorContext);

impl Sweeper {
    pub async fn run(self) {
        let mut swaps = self.0.newest.watch();
        while self.0.newest.get().is_none() {
            if swaps.changed().await.is_err() {
                return;
            }
        }
        let mut changes = self.0.settings.changes();
        let (mut began, mut gone, mut most) = (self.0.clock.now_mono(), self.since_the_last(), Duration::MAX);
        loop {
            let wait = self.0.settings.load().mirror.sweep_every.min(most).saturating_sub(gone).max(SHORTEST);
            let wait = wait.saturating_sub(self.0.clock.now_mono().since(began));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Another interval, perhaps.
                Ok(()) = changes.changed() => continue,
            }
            most = match self.sweep().await {
                // Some pages were not read: the sweep does not count.
                Swept::InPart => SOON,
                swept => {
                    if swept == Swept::Differs {
                        tracing::info!("a sweep found a change that the refreshes had missed");
                        self.0.commands.pass();
                    }
                    let now = self.0.clock.now_wall().as_millis();
                    if let Err(error) = self.0.store.put_instant(STATE, now) {
                        tracing::warn!(%error, "the end of the sweep could not be stored; a restart may sweep again");
                    }
                    Duration::MAX
                }
            };
            (began, gone) = (self.0.clock.now_mono(), Duration::ZERO);
        }
    }

    /// How long ago the last sweep ended, across restarts; zero if none did.
    fn since_the_last(&self) -> Duration {
        let Some(last) = self.0.store.instant(STATE).ok().flatten() else { return Duration::ZERO };
        let since = self.0.clock.now_wall().millis_since(WallTime::from_millis(last));
        // A clock that was set back must not put the sweep off.
        Duration::from_millis(u64::try_from(since).unwrap_or(0))
    }

    /// One sweep. A page that is not as published ends it.
    async fn sweep(&self) -> Swept {
        let mut swept = Swept::Agrees;
        for page in 1.. {
            let Some(published) = self.0.newest.get() else { return Swept::InPart };
            if page > pass::pages_of(&published.dataset) {
                break;
            }
            let query = ListQuery::largest_pages().with_page(page);
            let path = query.path_and_query();
            let looked = self.0.copies.look(&path, Asker::mirror(Class::Background)).await;
            // Compare with what is published by now.
            let Some(published) = self.0.newest.get() else { return Swept::InPart };
            let published_ms = published.meta.published_ms.min(self.0.clock.now_wall().as_millis());
            match looked.and_then(|copy| Ok((self.0.copies.page(&copy)?, copy))) {
                // A copy from before the publication says nothing about it.
                Ok((_, copy)) if copy.is_before(self.0.copies.client.by_origin_ms(published_ms)) => {
                    swept = Swept::InPart;
                }
                Ok((page, _)) if refresh::agrees(&page, &query, &published.dataset) => {}
                Ok(_) => return Swept::Differs,
                Err(error) => {
                    tracing::debug!(path, %error, "the sweep skips a page");
                    swept = Swept::InPart;
                }
            }
        }
        swept
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Swept {
    /// Every page is as published.
    Agrees,
    /// A page is not.
    Differs,
    /// Some pages could not be read; the others are as published.
    InPart,
}
