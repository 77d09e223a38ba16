//! `grandstand origin`: the sample origin alone.
//!
//! It answers as the documentation of the API says, and walks all venues for each filter. Tests use another origin,
//! `tests/origin`, which has a renderer of its own. Callers: [`super`].

use std::io::BufRead;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, DATE, ETAG, HeaderName, HeaderValue, RETRY_AFTER, VARY,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use parking_lot::RwLock;
use sample::data::{ATTRIBUTION, DOCS, LICENSE};
use sample::{Term, Venue, World};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use xxhash_rust::xxh3::xxh3_64;

use crate::api::query::{ListQuery, Parameters};
use crate::api::route::Route;
use crate::api::taxonomy::TaxonomyKind;
use crate::clock::{Clock, WallTime};
use crate::data::cache::coded::{Effort, encode};
use crate::edge::limit::{LimitConfig, Limiter};
use crate::edge::serve::listener::BindError;
use crate::protocol::coding::{Coding, negotiate};
use crate::protocol::precondition::{EntityTag, Precondition, evaluate};
use crate::words::counted;

use super::Failure;
use super::terminal::{say, tell};

/// Arguments of `grandstand origin`.
#[derive(Debug, Args)]
pub(super) struct Origin {
    /// Address to listen on; port 0: any free port
    #[arg(long, default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// Number of venues
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(..=5_000_000))]
    listings: u32,
    /// Seed: the same seed makes the same venues
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Largest number of requests in any 60 seconds; 0: no limit
    #[arg(long, default_value_t = 0)]
    requests_per_minute: u32,
    /// Stop when standard input ends; a line `touch N` there changes N venues, `remove N` removes N
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

impl Origin {
    pub(super) fn run(&self) -> Result<ExitCode, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let bound = runtime.block_on(TcpListener::bind(self.listen));
        let listener = bound.map_err(|source| BindError { key: "--listen", address: self.listen, source })?;
        let url = format!("http://{}", listener.local_addr()?);
        let limit = LimitConfig { requests_per_minute: self.requests_per_minute, ..LimitConfig::default() };
        let site = RwLock::new(Site::of(World::generate(self.listings as usize, self.seed)));
        let (limiter, clock) = (Limiter::new(&limit), Clock::system());
        let served = Arc::new(Served { url, site, limiter, clock });
        runtime.spawn(accept(listener, Arc::clone(&served)));
        say(&served.url)?;
        if self.until_stdin_closes {
            for line in std::io::stdin().lock().lines() {
                let edited = served.site.write().edited(&line?);
                say(edited)?;
            }
        } else {
            let venues = counted(u64::from(self.listings), "synthetic venue");
            runtime.block_on(async {
                // A container's first process gets SIGTERM only if it handles it.
                let (mut interrupt, mut terminate) =
                    (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
                tell(format!("{venues} at {}/api/listings.json; press Ctrl-C to stop", served.url));
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                Ok::<_, std::io::Error>(())
            })?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn accept(listener: TcpListener, served: Arc<Served>) {
    loop {
        let Ok((stream, client)) = listener.accept().await else {
            // Out of file descriptors, most likely: no reason to spin.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Without it, a packet of a body waits for the client's acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let served = Arc::clone(&served);
        let answer = service_fn(move |request| {
            let answer = served.answer(client, &request);
            async { answer }
        });
        let mut builder = http1::Builder::new();
        // An error is a client that has gone.
        tokio::spawn(builder.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), answer));
    }
}

struct Served {
    url: String,
    site: RwLock<Site>,
    limiter: Limiter,
    clock: Clock,
}

/// The time of generation goes in here. It takes no part in the entity tag.
const GENERATED_AT: &str = r#""generated_at":""#;

impl Served {
    fn answer(&self, client: SocketAddr, request: &Request<Incoming>) -> std::io::Result<Response<Full<Bytes>>> {
        // Whole seconds, as in `Date`; taken before the venues are read, so that the answer is never older than it says.
        let (method, now) = (request.method(), WallTime::from_seconds(self.clock.now_wall().as_seconds()));
        let limited = self.limiter.admit(client.ip(), self.clock.now_mono());
        if let Some(seconds) = limited.retry_after_seconds() {
            let wait = (RETRY_AFTER, HeaderValue::from(seconds));
            return Ok(refusal(StatusCode::TOO_MANY_REQUESTS, "too many requests", Some(wait)));
        }
        if method != Method::GET && method != Method::HEAD {
            let allow = (ALLOW, HeaderValue::from_static("GET, HEAD"));
            return Ok(refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD", Some(allow)));
        }
        let site = self.site.read();
        let text = match Route::of(request.uri().path()) {
            Route::List => match Parameters::parse(request.uri().query().unwrap_or_default()) {
                Ok(parameters) => Some(site.list(&parameters.list)),
                Err(error) => return Ok(refusal(StatusCode::BAD_REQUEST, &error.to_string(), None)),
            },
            Route::Detail(id) => site.detail(id.0),
            Route::Taxonomy(kind) => Some(site.taxonomy(kind, &self.url)),
            _ => None,
        };
        drop(site);
        let Some(text) = text else { return Ok(refusal(StatusCode::NOT_FOUND, "no such resource", None)) };
        let coding = negotiate(request.headers(), &[Coding::Gzip]);
        // A strong tag names bytes: each coding has its own (RFC 9110 §8.8.1).
        let tag = EntityTag::parse(format!("\"{:016x}-{}\"", xxh3_64(text.as_bytes()), coding.as_str()).as_bytes());
        let tag = tag.ok_or(std::io::ErrorKind::InvalidData)?;
        let mut response = Response::default();
        let date = HeaderValue::try_from(now.http_date().unwrap_or_default()).map_err(std::io::Error::other)?;
        response.headers_mut().extend([
            (DATE, date),
            (ETAG, tag.to_header_value()),
            (CACHE_CONTROL, HeaderValue::from_static("public, max-age=300")),
            (VARY, HeaderValue::from_static("Accept-Encoding")),
        ]);
        if evaluate(method, request.headers(), Some(&tag)) == Precondition::NotModified {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return Ok(response);
        }
        let text = text.replacen(GENERATED_AT, &format!("{GENERATED_AT}{now}"), 1);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if coding == Coding::Gzip {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        *response.body_mut() = Full::from(encode(coding, Effort::Quick, text.as_bytes())?);
        Ok(response)
    }
}

fn refusal(status: StatusCode, message: &str, header: Option<(HeaderName, HeaderValue)>) -> Response<Full<Bytes>> {
    let text = json!({"error": {"status": status.as_u16(), "message": message}}).to_string();
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().extend(header);
    response
}

/// The venues, and what an edit changes of their views.
struct Site {
    world: World,
    /// Positions in the order of the list.
    order: Vec<u32>,
    terms: [Vec<Term>; 3],
}

impl Site {
    fn of(world: World) -> Self {
        Self { order: world.newest_first(), terms: world.terms(), world }
    }

    /// Executes a line of standard input; returns the number of changed venues.
    fn edited(&mut self, line: &str) -> usize {
        let (word, count) = line.trim().split_once(' ').unwrap_or((line.trim(), "1"));
        let (count, venues) = (count.parse().unwrap_or(0), &mut self.world.venues);
        // Spread over all ids, so that every part of the list changes.
        let step = (venues.len() / count.max(1)).max(1);
        let chosen: Vec<usize> = (step / 2..venues.len()).step_by(step).take(count).collect();
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::MAX);
        match word {
            "touch" => chosen.iter().for_each(|at| venues[*at].touch(now)),
            "remove" => {
                let mut positions = 0..venues.len();
                venues.retain(|_| positions.next().is_none_or(|at| chosen.binary_search(&at).is_err()));
            }
            _ => return 0,
        }
        (self.order, self.terms) = (self.world.newest_first(), self.world.terms());
        chosen.len()
    }

    fn list(&self, query: &ListQuery) -> String {
        let since = query.modified_since.as_ref().map(|since| i128::from(since.at));
        let passes = |venue: &&Venue| {
            let mut slugs = query.slugs.iter().zip(self.world.labels(venue));
            slugs.all(|(asked, (slug, _))| asked.as_deref().is_none_or(|asked| asked == slug))
                && since.is_none_or(|since| venue.modified.at.as_nanosecond() > since)
        };
        let venue = |position: &u32| &self.world.venues[*position as usize];
        let size = usize::from(query.per_page);
        let skip = usize::try_from(query.page - 1).map_or(usize::MAX, |before| before.saturating_mul(size));
        let (total, venues): (usize, Vec<&Venue>) = if query.is_filtered() {
            let found: Vec<&Venue> = self.order.iter().map(venue).filter(passes).collect();
            (found.len(), found.into_iter().skip(skip).take(size).collect())
        } else {
            (self.order.len(), self.order.iter().skip(skip).take(size).map(venue).collect())
        };
        let filters: Vec<String> =
            query.filters().map(|(name, value)| format!(r#""{name}":{}"#, json!(value))).collect();
        let item =
            |venue: &Venue| format!(r#"{{{},"modified":"{}"}}"#, self.world.members(venue), venue.modified.text());
        format!(
            r#"{{{},"page":{},"per_page":{size},"total":{total},"total_pages":{},"filters":{{{}}},"items":[{}]}}"#,
            envelope("ItemList"),
            query.page,
            query.total_pages(total as u64),
            filters.join(","),
            venues.into_iter().map(item).collect::<Vec<String>>().join(",")
        )
    }

    fn detail(&self, id: u64) -> Option<String> {
        let venue = &self.world.venues[self.world.position(id)?];
        let (members, details) = (self.world.members(venue), self.world.details(venue));
        Some(format!(r#"{{{},"@type":"SportsActivityLocation",{members},{details}}}"#, credits()))
    }

    fn taxonomy(&self, kind: TaxonomyKind, url: &str) -> String {
        let terms = &self.terms[kind.index()];
        let term = |Term { slug, name, count }: &Term| {
            let api_url = format!("{url}/api/listings.json?{}={slug}", kind.parameter());
            format!(r#"{{"slug":"{slug}","name":"{name}","count":{count},"api_url":"{api_url}"}}"#)
        };
        let items = terms.iter().map(term).collect::<Vec<String>>().join(",");
        format!(r#"{{{},"total":{},"items":[{items}]}}"#, envelope("DefinedTermSet"), terms.len())
    }
}

/// The first members of lists and taxonomies, without the time of generation.
fn envelope(kind: &str) -> String {
    format!(r#"{},"docs":"{DOCS}",{GENERATED_AT}","@type":"{kind}""#, credits())
}

fn credits() -> String {
    format!(r#""@context":"https://schema.org","license":"{LICENSE}","attribution":"{ATTRIBUTION}""#)
}
