//! One request to the origin: within the budget, bounded in time and size, never retried behind the budget's back.
//!
//! It knows HTTP but not the API. Every request on the wire takes a slot, a followed redirect too. Callers:
//! [`crate::audit`], [`crate::mirror::copies`], [`crate::mirror::details`], [`crate::proxy`].

mod error;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::Version;
use http::header::{
    ACCEPT, AGE, DATE, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, InvalidHeaderValue,
    LAST_MODIFIED, LOCATION, RETRY_AFTER,
};
use url::Url;

use crate::clock::{Clock, Monotonic, WallTime};
use crate::semantics::freshness::{self, Stamps};
use crate::semantics::hops::{Pseudonym, Trail};

use super::budget::{Budget, Demand};
use super::collected::Collected;
use super::health::{FEW, Verdict, Witness};
use super::jitter::Jitter;
use super::log_throttle::LogThrottle;
use super::room::{Held, Room};
use super::stamps::StampWatch;
use super::status::OriginStatus;
use super::transport::{Arrival, MOST_RETRIES, Transport, TransportError};
use super::window::Class;

pub(crate) use error::AskError;

/// How old the copies of the origin's CDN can be where nothing else is known.
const CACHE_TTL: Duration = Duration::from_secs(300);

/// Room for bodies where nothing else is said, in bytes.
const ROOM: u64 = 128 << 20;

/// The validators of a stored answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag` as it came.
    pub etag: Option<String>,
    /// `Last-Modified` as it came.
    pub last_modified: Option<String>,
}

/// Who asks, and how patiently.
#[derive(Clone, Debug)]
pub struct Asker {
    /// What the request is for.
    pub class: Class,
    /// The client that waits for it.
    pub client: Option<IpAddr>,
    /// How long to wait for the budget; `None`: as long as it takes.
    pub patience: Option<Duration>,
    /// How much it is wanted, where nobody waits because something stale is served meanwhile.
    pub demand: Option<Demand>,
    /// Whether it was answered well before: that it fails is then no doing of the client.
    pub was_well: bool,
    /// Which processes of this program the client's request came through.
    pub trail: Trail,
}

impl Asker {
    /// The mirror itself, which has all the time in the world.
    pub const fn mirror(class: Class) -> Self {
        Self { class, client: None, patience: None, demand: None, was_well: false, trail: Trail::NONE }
    }

    /// A client that waits no longer than this.
    pub const fn client(client: Option<IpAddr>, patience: Duration) -> Self {
        let (class, patience) = (Class::Client, Some(patience));
        Self { class, client, patience, demand: None, was_well: false, trail: Trail::NONE }
    }
}

/// An answer that says something: 200, 304, 404 or 410.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header as it came.
    pub headers: HeaderMap,
    /// The decoded body; empty for 304.
    pub body: Bytes,
    /// The instant that the header speaks for.
    pub stamps: Stamps,
    /// When it was asked for.
    pub asked: WallTime,
    /// When it arrived.
    pub received: WallTime,
    /// The room that its body takes until it is judged.
    pub room: Arc<Held>,
}

impl Answer {
    /// The instant that the header speaks for: `Date - Age`. What the body says is judged by [`super::stamps`].
    pub fn sent(&self) -> WallTime {
        freshness::origin_time(self.stamps, self.received).at()
    }

    /// The validators to ask with next time; one that is too long to be sent back is none.
    pub fn validators(&self) -> Validators {
        const LONGEST: usize = 1024;
        let short = |value: &&HeaderValue| value.len() <= LONGEST;
        let text = |name| self.headers.get(name).filter(short).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Validators { etag: text(ETAG), last_modified: text(LAST_MODIFIED) }
    }
}

/// How the origin is reached.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The base address, without a trailing slash.
    pub base: Url,
    /// For connecting, and for the whole of one answer.
    pub timeout: Duration,
    /// Largest decoded body in bytes.
    pub max_body: u64,
    /// How long a failing origin is left alone at most, unless it asks for more.
    pub longest_pause: Duration,
}

/// Why no client can be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The CA file cannot be used.
    #[error("origin.ca_file: {0}")]
    CaFile(String),
    /// The name of this program cannot be sent.
    #[error("origin.user_agent: {0}")]
    UserAgent(String),
    /// The TLS library refuses what it is given.
    #[error("TLS to the origin cannot be set up: {0}")]
    Tls(String),
}

/// The polite client; cheap to clone.
#[derive(Clone)]
pub struct OriginClient {
    transport: Arc<dyn Transport>,
    config: ClientConfig,
    budget: Budget,
    status: OriginStatus,
    clock: Clock,
    chance: Jitter,
    told: Arc<LogThrottle>,
    stamps: StampWatch,
    room: Room,
    name: Pseudonym,
}

impl OriginClient {
    /// A client for one origin that is reached over this wire, or over what a test puts in its place.
    pub fn over(
        transport: Arc<dyn Transport>,
        config: ClientConfig,
        budget: Budget,
        status: OriginStatus,
        clock: Clock,
    ) -> Self {
        let stamps = StampWatch::new(status.clone(), CACHE_TTL);
        let room = Room::new(ROOM, config.max_body);
        let (chance, told, name) = (Jitter::default(), Arc::default(), Pseudonym::of(rand::random()));
        Self { transport, config, budget, status, clock, chance, told, stamps, room, name }
    }

    /// The same client with room for so many bytes of bodies at once; 128 MiB otherwise.
    #[must_use]
    pub fn with_room(mut self, bytes: u64) -> Self {
        self.room = Room::new(bytes, self.config.max_body);
        self
    }

    /// The name of this process on requests to the origin.
    pub const fn name(&self) -> &Pseudonym {
        &self.name
    }

    /// The room for bodies that are being received.
    pub const fn room(&self) -> &Room {
        &self.room
    }

    /// The same client of an origin whose CDN hands out copies of this age when it does not say; 5 minutes otherwise.
    #[must_use]
    pub fn with_cache_ttl(mut self, cache_ttl: Duration) -> Self {
        self.stamps = self.stamps.with_cache_ttl(cache_ttl);
        self
    }

    /// The same client, whose jitter is drawn from a seed: for a run that is to be repeated exactly.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.chance = Jitter::of(seed);
        self
    }

    /// A random part of `span`, at least half of it: what a pause is made of so that nobody acts in step.
    pub fn jittered(&self, span: Duration) -> Duration {
        self.chance.jittered(span)
    }

    /// The budget that its requests take from.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What is known of the stamps in its answers.
    pub const fn stamps(&self) -> &StampWatch {
        &self.stamps
    }

    /// What is known of the origin's health.
    pub fn status(&self) -> &OriginStatus {
        &self.status
    }

    /// The clock that only goes forward.
    pub fn now_mono(&self) -> Monotonic {
        self.clock.now_mono()
    }

    /// The wall clock, in milliseconds since the epoch.
    pub fn now_ms(&self) -> i64 {
        self.clock.now_wall().as_millis()
    }

    /// How the origin is reached.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// The base address.
    pub fn base(&self) -> &Url {
        &self.config.base
    }

    /// Asks for a path with its query, conditionally where there are validators.
    ///
    /// # Errors
    /// When there is no answer that says something; the budget has then been told to pause where that helps.
    pub async fn ask(&self, path: &str, validators: Option<&Validators>, asker: Asker) -> Result<Answer, AskError> {
        let witness = self.witness(&asker, true);
        let outcome = self.follow(path, validators, asker).await;
        match &outcome {
            Ok(_) => self.succeeded(),
            Err(AskError::Spent(_)) => {}
            Err(error) => self.failed(error, witness),
        }
        outcome
    }

    /// The origin gave an answer.
    pub fn succeeded(&self) {
        self.status.succeeded();
        self.budget.try_gently(None);
        if self.told.answered() {
            tracing::info!("the origin answers again");
        }
    }

    async fn follow(&self, path: &str, validators: Option<&Validators>, asker: Asker) -> Result<Answer, AskError> {
        const MOST_REDIRECTS: usize = 3;
        let base = self.config.base.as_str().trim_end_matches('/');
        let bad = |reason: String| AskError::Connection { path: path.to_owned(), reason, reached: true };
        let mut url: Url = format!("{base}{path}").parse().map_err(|error| bad(format!("{error}")))?;
        for _ in 0..=MOST_REDIRECTS {
            let (status, answer) = self.send(url.clone(), path, validators, asker.clone()).await?;
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return judge(path, answer, asker.class);
            }
            let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("(nowhere)");
            // For clients none is followed: what they ask for is kept under its own address.
            let followed = Some(&url).filter(|_| asker.class != Class::Client);
            let next = followed
                .and_then(|url| url.join(to).ok())
                .filter(|next| next.scheme() == url.scheme() && next.host() == url.host() && next.port() == url.port());
            url = next.ok_or_else(|| AskError::Redirect { path: path.to_owned(), to: to.to_owned() })?;
        }
        Err(AskError::Redirect { path: path.to_owned(), to: url.to_string() })
    }

    /// One request on the wire.
    async fn send(
        &self,
        url: Url,
        path: &str,
        validators: Option<&Validators>,
        asker: Asker,
    ) -> Result<(u16, Answer), AskError> {
        let failed = |error| AskError::of(path, error, self.config.timeout);
        let mut fields = question(validators).map_err(|error| AskError::nonsense(path, error))?;
        let Asker { class, client, patience, demand, was_well: _, trail } = asker;
        if class == Class::Client {
            trail.write(&mut fields);
            self.name.sign_forwarded(&mut fields, Version::HTTP_11);
        } else {
            self.name.sign(&mut fields);
        }
        let mut tries = 0;
        let (asked, arrival) = loop {
            let permit = self.budget.acquire_for(class, client, patience, demand.clone()).await?;
            self.status.sent(class);
            let asked = self.clock.now_wall();
            match self.transport.get(url.clone(), fields.clone()).await {
                Ok(arrival) => {
                    // The answer's head is the answer: the origin has counted the request by now.
                    permit.answered();
                    break (asked, arrival);
                }
                // Not one that may have arrived: the mirror has patience, and for clients a kept answer stands in.
                Err(TransportError::Unsent(_)) if tries < MOST_RETRIES => tries += 1,
                Err(error) => return Err(failed(error)),
            }
        };
        let received = self.clock.now_wall();
        let Arrival { status, headers, body: mut pieces } = arrival;
        let (mut body, mut held) = (Collected::default(), Held::default());
        let limit = self.config.max_body.min(self.room.largest());
        // What a client asked for may be refused in the origin's own words.
        if status == 200 || (class == Class::Client && is_refusal(status)) {
            while let Some(chunk) = pieces.next().await {
                let chunk = chunk.map_err(failed)?;
                if (body.len() + chunk.len()) as u64 > limit {
                    return Err(AskError::TooLarge { path: path.to_owned(), limit });
                }
                let taking = self.room.take(&mut held, chunk.len() as u64);
                if tokio::time::timeout(self.config.timeout, taking).await.is_err() {
                    return Err(failed(TransportError::Timeout));
                }
                body.push(&chunk);
            }
        }
        let date = headers.get(DATE).and_then(|value| value.to_str().ok()).and_then(WallTime::parse_http_date);
        let age = headers.get(AGE).and_then(|value| freshness::parse_age(value.as_bytes()));
        let stamps = Stamps { date, age };
        Ok((status, Answer { status, headers, body: body.into_bytes(), stamps, asked, received, room: Arc::new(held) }))
    }

    /// Whose request this is. `is_ours`: as in [`Witness`].
    pub fn witness(&self, asker: &Asker, is_ours: bool) -> Witness {
        let alone = asker.client.filter(|_| !asker.was_well);
        Witness { class: asker.class, household: alone.map(|client| self.budget.household(client)), is_ours }
    }

    /// Leaves the origin alone for as long as it asks, or longer and longer, with jitter, while nothing works.
    ///
    /// What only one resource, one household or one odd question brings about never stops the rest ([`super::health`]).
    /// Failures of requests that were on the wire together count once.
    pub fn failed(&self, error: &AskError, witness: Witness) {
        /// A try that hangs holds up the next one no longer than this at least.
        const SPACING: Duration = Duration::from_secs(1);
        let paused = !self.budget.view().paused.is_zero();
        let Verdict { outage, asked, .. } = self.status.failed(error, witness, paused, self.clock.now_wall());
        let own = outage.map(|failures| {
            let doubled = Duration::from_millis(500) * 2_u32.saturating_pow(failures.saturating_sub(FEW).min(10));
            // Its return shows within seconds, and what is tried until then leaves most of the budget.
            let pause = doubled.min(self.config.longest_pause).min(Duration::from_secs(4));
            self.budget.try_gently(Some(pause.max(SPACING)));
            pause + self.jittered(pause / 4)
        });
        let asked = asked.map(|asked| asked.unwrap_or(self.config.longest_pause));
        let span = asked.max(own);
        self.tell(error, witness.class, span);
        if let Some(span) = span {
            self.budget.pause(span);
        }
    }
}

impl OriginClient {
    /// An answer that came is not what it should be.
    pub fn unusable(&self, error: &AskError) {
        self.status.error(error, self.clock.now_wall());
        self.tell(error, Class::Client, None);
    }

    fn tell(&self, error: &AskError, class: Class, pause: Option<Duration>) {
        let now = self.clock.now_mono();
        if let Some(span) = pause {
            if let Some(failures) = self.told.left_alone(now) {
                let pause_seconds = span.as_secs_f32();
                tracing::warn!(%error, failures, pause_seconds, "requests to the origin are paused");
            }
        } else if class == Class::Client
            && let Some(failures) = self.told.failed(now)
        {
            tracing::warn!(%error, failures, "the origin gave no usable answer to a client's request");
        }
    }
}

/// The header of a request: conditional where there are validators.
fn question(validators: Option<&Validators>) -> Result<HeaderMap, InvalidHeaderValue> {
    let mut fields = HeaderMap::new();
    fields.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(validators) = validators {
        if let Some(etag) = &validators.etag {
            fields.insert(IF_NONE_MATCH, etag.parse()?);
        } else if let Some(date) = &validators.last_modified {
            fields.insert(IF_MODIFIED_SINCE, date.parse()?);
        }
    }
    Ok(fields)
}

/// Whether a status is about the question, and not about the origin, about us or about how often we ask.
const fn is_refusal(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 407 | 408 | 421 | 425 | 429)
}

/// Tells an answer that says something from a refusal.
fn judge(path: &str, answer: Answer, class: Class) -> Result<Answer, AskError> {
    match answer.status {
        200 | 304 | 404 | 410 => Ok(answer),
        status if class == Class::Client && is_refusal(status) => Ok(answer),
        status => {
            let wait = answer.headers.get(RETRY_AFTER);
            let wait = wait.and_then(|value| freshness::parse_retry_after(value.as_bytes(), answer.received));
            let retry_after = wait.map(|seconds| Duration::from_secs(u64::from(seconds)));
            Err(AskError::Status { status, path: path.to_owned(), retry_after })
        }
    }
}

#[cfg(test)]
mod tests;
