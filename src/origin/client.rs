//! Client of the origin: one request, within the budget, bounded in time and size, never retried behind the budget's back.
//!
//! It knows HTTP but not the API. Every request on the wire takes a slot, a followed redirect too. Callers:
//! [`crate::mirror::copies`], [`crate::mirror::details`], `mirror::examiner`, [`crate::edge::proxy`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http::header::{AGE, DATE, LOCATION};
use http::{Method, Version};
use url::Url;

use crate::clock::backoff::{Jitter, doubled};
use crate::clock::{Clock, Monotonic, WallTime};
use crate::protocol::freshness::{self, Stamps};
use crate::protocol::grammar::http_date;
use crate::protocol::hops::Pseudonym;
use crate::tasks::fair::{FairPermit, TieredSemaphore};

use super::ask::{as_understood, is_about_us, is_another_detail, is_refusal, judge, question, without_mark};
use super::body_memory::{Held, Room};
use super::budget::{Budget, Spent};
use super::generated_at::StampWatch;
use super::health::{FEW, Judgement, Witness};
use super::status::OriginStatus;
use super::window::Class;
use super::wire::{Arrival, Transport, TransportError};

pub(crate) use super::ask::{Answer, AskError, Asker, ClientError, Validators};

/// How old copies of the origin's CDN can be by default.
const CACHE_TTL: Duration = Duration::from_secs(300);

/// Room for bodies by default, in bytes.
const ROOM: u64 = 128 << 20;

/// How many requests of clients may be on the wire by default.
const ON_THE_WIRE: usize = 512;

/// How many bytes of a body are decoded before other tasks of the thread run.
const MOST_IN_A_ROW: usize = 64 << 10;

/// Bodies over this size, in bytes, are joined on a blocking thread: copying 32 MiB takes 10 ms and more.
const MOST_JOINED_HERE: usize = 1 << 20;

/// The size of a block of a collected body, in bytes.
const BLOCK: usize = 64 << 10;

/// How often one request is sent again, at most. Each time takes a slot.
const MOST_RETRIES: u32 = 2;

/// How the origin is reached.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The base address, without a trailing slash.
    pub base: Url,
    /// For connecting, for the head of an answer, for the whole of one that is read whole, and for each piece of one
    /// that is streamed.
    pub timeout: Duration,
    /// Largest decoded body in bytes.
    pub max_body: u64,
    /// The longest pause of a failing origin, unless it asks for more; [`OriginClient::set_longest_pause`] changes it.
    pub longest_pause: Duration,
}

/// The client of the origin; cheap to clone.
#[derive(Clone)]
pub struct OriginClient {
    transport: Arc<dyn Transport>,
    config: ClientConfig,
    budget: Budget,
    status: OriginStatus,
    clock: Clock,
    chance: Jitter,
    stamps: StampWatch,
    room: Room,
    longest_pause: Arc<AtomicU64>,
    /// Requests of clients that may be on the wire; each may have a connection of its own.
    on_the_wire: TieredSemaphore,
    /// Those of them whose answers are streamed, and end when their readers want.
    streams: TieredSemaphore,
    name: Pseudonym,
}

/// The head of an answer; when it was requested and arrived.
#[derive(Debug)]
pub(super) struct Answered<T> {
    pub answer: T,
    pub asked: WallTime,
    pub received: WallTime,
    /// Its place on the wire, until its body has ended.
    pub place: Option<Place>,
}

/// A place on the wire for the request of a client, and one among the streams if its answer is one.
#[derive(Debug)]
pub(super) struct Place {
    _on_the_wire: FairPermit,
    _stream: Option<FairPermit>,
}

/// So many at once, at most half of them for one household; the last quarter is for households that have few. The same within
/// three quarters for streams: whoever reads slowly leaves a quarter to those who ask for what is read whole.
fn places(all: usize) -> [TieredSemaphore; 2] {
    [all, all - all / 4].map(|places| TieredSemaphore::new(places, (all / 2).max(1)))
}

impl OriginClient {
    /// A client for one origin over this wire, or over a test's replacement.
    pub fn over(
        transport: Arc<dyn Transport>,
        config: ClientConfig,
        budget: Budget,
        status: OriginStatus,
        clock: Clock,
    ) -> Self {
        let stamps = StampWatch::new(status.clone(), CACHE_TTL);
        let (room, longest_pause) = (Room::new(ROOM, config.max_body), Arc::new(AtomicU64::new(0)));
        let (chance, name) = (Jitter::default(), Pseudonym::of(rand::random()));
        let [on_the_wire, streams] = places(ON_THE_WIRE);
        let longest = config.longest_pause;
        let client = Self {
            transport,
            config,
            budget,
            status,
            clock,
            chance,
            stamps,
            room,
            longest_pause,
            on_the_wire,
            streams,
            name,
        };
        client.set_longest_pause(longest);
        client
    }

    /// The same client with room for so many bytes of bodies at once; 128 MiB otherwise.
    #[must_use]
    pub fn with_room(mut self, bytes: u64) -> Self {
        self.room = Room::new(bytes, self.config.max_body);
        self
    }

    /// The same client with at most so many requests of clients on the wire at once; 512 otherwise.
    #[must_use]
    pub fn with_most_on_the_wire(mut self, most: usize) -> Self {
        [self.on_the_wire, self.streams] = places(most);
        self
    }

    /// What a reload changes: the longest pause of a failing origin.
    pub fn set_longest_pause(&self, longest: Duration) {
        self.longest_pause.store(longest.as_millis() as u64, Ordering::Relaxed);
    }

    fn longest_pause(&self) -> Duration {
        Duration::from_millis(self.longest_pause.load(Ordering::Relaxed))
    }

    /// The name of this process on requests to the origin.
    pub const fn name(&self) -> &Pseudonym {
        &self.name
    }

    /// The room for bodies that are being received.
    pub const fn room(&self) -> &Room {
        &self.room
    }

    /// The same client of an origin whose CDN sends copies of this age without `Age`; 5 minutes otherwise.
    #[must_use]
    pub fn with_cache_ttl(mut self, cache_ttl: Duration) -> Self {
        self.stamps = self.stamps.with_cache_ttl(cache_ttl);
        self
    }

    /// The same client, with jitter from a seed: for a run that can be repeated exactly.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.chance = Jitter::of(seed);
        self
    }

    /// A random part of `span`, at least half of it: with it, several processes do not act at the same time.
    pub fn jittered(&self, span: Duration) -> Duration {
        self.chance.jittered(span)
    }

    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// What is known of `generated_at` in its answers.
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

    /// An instant by our clock, in milliseconds, as stamps of the origin are kept: one that is behind has its own clock.
    pub fn by_origin_ms(&self, at_ms: i64) -> i64 {
        at_ms.saturating_sub(self.clock.origin_lag_ms().max(0))
    }

    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    pub fn base(&self) -> &Url {
        &self.config.base
    }

    /// Asks for a path with its query, conditionally if there are validators, and again without them if a 304 is about
    /// another answer. Without a usable answer, the budget pauses where that helps.
    pub async fn ask(&self, path: &str, validators: Option<&Validators>, asker: Asker) -> Result<Answer, AskError> {
        let (witness, is_example, is_spare) = (self.witness(&asker, !asker.spare), asker.is_example, asker.spare);
        let mut outcome = self.follow(path, validators, asker.clone()).await;
        if let (Ok(answer), Some(validators)) = (&outcome, validators)
            && answer.status == 304
            && !answer.is_about(validators)
        {
            // RFC 9111 §4.3.4.
            outcome = match self.follow(path, None, asker).await {
                Ok(answer) if answer.status == 304 => Err(AskError::nonsense(path, "a 304 without conditions")),
                outcome => outcome,
            };
        }
        let outcome = outcome.map_err(|error| self.named(error));
        if let Err(AskError::Status { status, .. }) = &outcome
            && is_spare
            && is_about_us(*status)
        {
            self.budget.refused_spare(*status);
        }
        match &outcome {
            Ok(_) => self.succeeded(witness.is_ours),
            Err(AskError::Status { status: 500.., .. }) if is_example => {}
            // A refusal of what an example asks is an answer.
            Err(AskError::Status { status, .. }) if is_example && is_refusal(*status) && *status != 451 => {
                self.succeeded(witness.is_ours);
            }
            Err(error) => self.failed(error, witness),
        }
        outcome
    }

    async fn follow(&self, path: &str, validators: Option<&Validators>, asker: Asker) -> Result<Answer, AskError> {
        // At worst a question takes 24 slots: four hops, each sent three times, and all that once more without validators.
        const MOST_REDIRECTS: usize = 3;
        let base = self.config.base.as_str().trim_end_matches('/');
        let prefix = self.config.base.path().trim_end_matches('/');
        let bad = |reason: String| AskError::Connection { path: path.to_owned(), reason, reached: true };
        let mut url: Url = format!("{base}{path}").parse().map_err(|error| bad(format!("{error}")))?;
        let mut hop = asker.clone();
        for _ in 0..=MOST_REDIRECTS {
            let (status, answer) = self.send(&Method::GET, url.clone(), path, validators, &hop).await?;
            if asker.spare && matches!(status, 406 | 451) {
                return Err(AskError::Status { status, path: path.to_owned(), retry_after: None });
            }
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                return judge(path, answer, asker.class);
            }
            let to = answer.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or("(nowhere)");
            // For clients none is followed, but for one in bytes of their own: answers are kept under the requested address.
            let followed = Some(&url).filter(|_| asker.class != Class::Client || asker.spare);
            let next = followed
                .and_then(|url| url.join(to).ok())
                .filter(|next| next.scheme() == url.scheme() && next.host() == url.host() && next.port() == url.port())
                .filter(|next| !is_another_detail(path, next.path().strip_prefix(prefix).unwrap_or_default()));
            // A client has two requests in its own bytes; where they lead is not another one of them.
            hop.client = hop.client.filter(|_| !asker.spare);
            url = next.ok_or_else(|| AskError::Redirect { path: path.to_owned(), to: to.to_owned() })?;
        }
        Err(AskError::Redirect { path: path.to_owned(), to: url.to_string() })
    }

    /// One request on the wire.
    async fn send(
        &self,
        method: &Method,
        url: Url,
        path: &str,
        validators: Option<&Validators>,
        asker: &Asker,
    ) -> Result<(u16, Answer), AskError> {
        let failed = |error| AskError::of(path, error, self.config.timeout);
        let mut fields =
            question(validators, self.stamps.validate()).map_err(|error| AskError::nonsense(path, error))?;
        let class = asker.class;
        if class == Class::Client {
            asker.trail.write(&mut fields);
            self.name.sign_forwarded(&mut fields, Version::HTTP_11);
        } else {
            self.name.sign(&mut fields);
        }
        let fetch = || self.transport.fetch(method, url.clone(), fields.clone());
        let Answered { answer: arrival, asked, received, place: _place } =
            self.attempt(method, path, (asker, false), fetch, |arrival| arrival.status).await?;
        let Arrival { status, headers, body: mut pieces } = arrival;
        let status = as_understood(status);
        let date = headers.get(DATE).and_then(|date| http_date(date.as_bytes(), received));
        let age = headers.get(AGE).and_then(|value| freshness::parse_age(value.as_bytes()));
        if let Some(date) = date.filter(|_| age.unwrap_or(0) == 0 && status < 500) {
            self.clock.note_origin_date(date, received);
        }
        let lag_ms = self.clock.origin_lag_ms();
        let (mut body, mut held, mut in_a_row) = (Collected::default(), Held::default(), 0);
        let room = self.room();
        let limit = self.config.max_body.min(room.largest());
        // A client may get a refusal in the origin's own words; a 400 may say that the port is for TLS.
        if matches!(status, 200 | 400) || (class == Class::Client && is_refusal(status)) {
            while let Some(chunk) = pieces.next().await {
                let chunk = chunk.map_err(failed)?;
                if (body.len() + chunk.len()) as u64 > limit {
                    return Err(AskError::TooLarge { path: path.to_owned(), limit });
                }
                let taking = room.take(&mut held, chunk.len() as u64);
                if tokio::time::timeout(self.config.timeout, taking).await.is_err() {
                    return Err(failed(TransportError::Timeout));
                }
                body.push(&chunk);
                // A few kilobytes that unpack to megabytes never wait: yield to other tasks.
                in_a_row += chunk.len();
                if in_a_row >= MOST_IN_A_ROW {
                    in_a_row = 0;
                    tokio::task::yield_now().await;
                }
            }
        }
        let body = if body.len() > MOST_JOINED_HERE {
            let joined = room.parse(move || body.into_bytes()).await;
            joined.map_err(|error| AskError::nonsense(path, error))?
        } else {
            body.into_bytes()
        };
        let body = without_mark(body);
        let stamps = Stamps { date, age };
        Ok((status, Answer { status, headers, body, stamps, asked, received, lag_ms, room: Arc::new(held) }))
    }

    /// Sends a request for `path`, again where that is safe, until the head of an answer arrives.
    pub(super) async fn attempt<T, F>(
        &self,
        method: &Method,
        path: &str,
        (asker, is_streamed): (&Asker, bool),
        send: impl Fn() -> F,
        status_of: impl Fn(&T) -> u16,
    ) -> Result<Answered<T>, AskError>
    where
        F: Future<Output = Result<T, TransportError>>,
    {
        let Asker { class, client, patience, .. } = *asker;
        let (mut tries, came) = (0, self.clock.now_mono());
        loop {
            let given = asker.slot.as_ref().and_then(|slot| slot.lock().take());
            let permit = match given {
                Some(permit) => permit,
                None if asker.spare => self.budget.acquire_spare(client).await?,
                None => self.budget.acquire(class, client, patience).await?,
            };
            // Who finds no place on the wire gives the slot back.
            let permit = permit.unsent();
            // After the slot: the owner of a place waits for no slot, so this wait ends.
            let place = self.place(asker, is_streamed, came).await?;
            let permit = permit.sent();
            self.status.sent(class);
            let (asked, began) = (self.clock.now_wall(), self.clock.now_mono());
            match send().await {
                Ok(answer) => {
                    // The head is the answer: the origin has counted the request by now.
                    permit.answered();
                    self.status.arrived(class, status_of(&answer), self.clock.now_mono().since(began));
                    return Ok(Answered { answer, asked, received: self.clock.now_wall(), place });
                }
                Err(error) if tries < MOST_RETRIES && error.allows_another_try(method, asker.is_awaited()) => {
                    tracing::debug!(%error, "an idle connection was closed while it was reused");
                    tries += 1;
                }
                Err(error) => return Err(AskError::of(path, error, self.config.timeout)),
            }
        }
    }

    /// A place on the wire for a client that came then; the mirror's own requests are few and need none.
    async fn place(&self, asker: &Asker, is_streamed: bool, came: Monotonic) -> Result<Option<Place>, Spent> {
        if asker.class != Class::Client {
            return Ok(None);
        }
        let household = asker.client.map(|client| self.budget.household(client));
        let patience = if asker.spare { Duration::ZERO } else { asker.patience.unwrap_or(self.config.timeout) };
        let left = patience.saturating_sub(self.clock.now_mono().since(came));
        let taking = async {
            let stream = if is_streamed { Some(self.streams.take(household).await.ok()?) } else { None };
            Some(Place { _on_the_wire: self.on_the_wire.take(household).await.ok()?, _stream: stream })
        };
        let taken = tokio::time::timeout(left, Box::pin(taking)).await.ok().flatten();
        taken.map(Some).ok_or(Spent::soon())
    }

    /// `is_ours`: as in [`Witness`].
    pub fn succeeded(&self, is_ours: bool) {
        self.status.succeeded(is_ours);
        self.budget.try_gently(None);
    }

    /// An error with the whole URL that was asked.
    pub fn named(&self, error: AskError) -> AskError {
        error.at(&self.config.base)
    }

    /// The witness of a request. `is_ours`: as in [`Witness`].
    pub fn witness(&self, asker: &Asker, is_ours: bool) -> Witness {
        let alone = asker.client.filter(|_| !asker.was_well);
        Witness { class: asker.class, household: alone.map(|client| self.budget.household(client)), is_ours }
    }

    /// Pauses the origin for as long as it asks, or longer and longer, with jitter, while nothing works.
    ///
    /// A failure of only one resource, one household or one odd request never stops the rest
    /// ([`super::health`]). Failures of requests that were on the wire together count once.
    pub fn failed(&self, error: &AskError, witness: Witness) {
        /// A hanging try delays the next one by at least this.
        const SPACING: Duration = Duration::from_secs(1);
        // A spent budget is nobody's failure.
        if matches!(error, AskError::Spent(_)) {
            return;
        }
        // Before the judgement, and not under its lock: neither lock is taken while the other is held.
        let paused = !self.budget.view().paused.is_zero();
        let Judgement { outage, asked, .. } = self.status.failed(error, witness, paused, self.clock.now_wall());
        let own = outage.map(|failures| {
            // Its return shows within seconds, and the tries until then leave most of the budget.
            let longest = self.longest_pause().min(Duration::from_secs(4));
            let pause = doubled(Duration::from_millis(500), failures.saturating_sub(FEW), longest);
            self.budget.try_gently(Some(pause.max(SPACING)));
            pause + self.jittered(pause / 4)
        });
        let asked = asked.map(|asked| asked.unwrap_or_else(|| self.longest_pause()));
        // `Retry-After: 0` asks for no pause.
        let span = asked.max(own).filter(|span| !span.is_zero());
        tracing::debug!(%error, ?span, "a request to the origin failed");
        if let Some(span) = span {
            self.budget.pause(span);
            self.budget.asked_to_pause(asked.unwrap_or_default());
        }
    }

    /// An answer that came cannot be used.
    pub fn unusable(&self, error: &AskError) {
        self.status.note(error, self.clock.now_wall());
    }

    /// The content of an answer for a client is usable, or not: then why.
    pub fn judged(&self, error: Option<&AskError>) {
        self.status.judged(error, self.clock.now_wall());
    }
}

#[derive(Debug, Default)]
pub(super) struct Collected {
    full: Vec<Bytes>,
    last: BytesMut,
    length: usize,
}

impl Collected {
    /// One more piece. It is copied: a small piece may hold on to the large buffer it came from.
    pub(super) fn push(&mut self, mut piece: &[u8]) {
        self.length += piece.len();
        while !piece.is_empty() {
            if self.last.capacity() == self.last.len() {
                let full = std::mem::replace(&mut self.last, BytesMut::with_capacity(piece.len().clamp(4096, BLOCK)));
                if !full.is_empty() {
                    self.full.push(full.freeze());
                }
            }
            let room = self.last.capacity() - self.last.len();
            let (fits, rest) = piece.split_at(room.min(piece.len()));
            self.last.extend_from_slice(fits);
            piece = rest;
        }
    }

    /// How many bytes there are.
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    pub(super) fn into_bytes(self) -> Bytes {
        if self.full.is_empty() {
            return self.last.freeze();
        }
        let mut whole = BytesMut::with_capacity(self.length);
        // Each block is freed once it is copied.
        self.full.into_iter().for_each(|block| whole.extend_from_slice(&block));
        whole.extend_from_slice(&self.last);
        whole.freeze()
    }
}

#[cfg(test)]
mod tests;
