//! One request on the wire, for any sender: a slot of the budget for each try, and the one rule for retries.
//!
//! It knows neither the request nor what an answer means. Callers: [`super`], [`crate::upstream::forward`].

use http::Method;

use crate::clock::WallTime;
use crate::upstream::asker::Asker;
use crate::upstream::error::AskError;
use crate::upstream::transport::TransportError;

use super::OriginClient;

/// How often one request is sent again, at most.
const MOST_RETRIES: u32 = 2;

/// The head of an answer; when it was requested and arrived.
#[derive(Debug)]
pub(in crate::upstream) struct Answered<T> {
    pub answer: T,
    pub asked: WallTime,
    pub received: WallTime,
}

impl OriginClient {
    /// Sends a request for `path`, again where that is safe, until the head of an answer arrives.
    ///
    /// # Errors
    /// When no head arrives, or the budget is spent.
    pub(in crate::upstream) async fn attempt<T, F>(
        &self,
        method: &Method,
        path: &str,
        asker: &Asker,
        send: impl Fn() -> F,
    ) -> Result<Answered<T>, AskError>
    where
        F: Future<Output = Result<T, TransportError>>,
    {
        let Asker { class, client, patience, .. } = *asker;
        let mut tries = 0;
        loop {
            let permit = if asker.spare {
                self.budget.acquire_spare().await?
            } else {
                self.budget.acquire_for(class, client, patience, asker.demand.clone()).await?
            };
            self.status.sent(class);
            let asked = self.clock.now_wall();
            match send().await {
                Ok(answer) => {
                    // The head is the answer: the origin has counted the request by now.
                    permit.answered();
                    return Ok(Answered { answer, asked, received: self.clock.now_wall() });
                }
                Err(error) if tries < MOST_RETRIES && error.allows_another_try(method, asker.is_awaited()) => {
                    tracing::debug!(%error, "an idle connection was closed while it was reused");
                    tries += 1;
                }
                Err(error) => return Err(AskError::of(path, error, self.config.timeout)),
            }
        }
    }
}
