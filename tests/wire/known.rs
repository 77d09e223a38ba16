//! Known endpoints as an HTTP cache serves them: in a shield, and in a mirror whose snapshot does not cover them yet.
//!
//! The origin is scripted. What is equal in both uses is tested in both. Rules of the cache are rows in `cache`, and unknown
//! paths are not tested here.

mod outage;
mod poison;
mod refusals;
mod shedding;
mod told;
mod uncovered;

use std::time::{Duration, SystemTime};

use crate::client::Reply;
use crate::harness::{Script, Seen, Server, Setup, Upstream};

/// What every table is run in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Use {
    Shield,
    /// A mirror whose crawl gets nothing.
    Uncovered,
}

pub const CODINGS: [&str; 4] = ["gzip", "br", "zstd", "identity"];

/// Fields of an answer; a value `@-10` is the HTTP-date 10 seconds before it is sent.
pub type Fields<'a> = &'a [(&'a str, &'a str)];

impl Use {
    /// A setup without a budget, and without stale-while-revalidate of its own.
    pub fn setup(self, upstream: &Upstream) -> Setup {
        let enabled = if self == Self::Shield { "false" } else { "true" };
        let setup = Setup::shield_of_url(&upstream.url()).set("mirror.enabled", enabled);
        setup.set("cache.stale_while_revalidate", "0s")
    }

    pub async fn start(self, upstream: &Upstream) -> Server {
        started(self.setup(upstream), self).await
    }
}

/// Runs a test in both uses at once.
pub async fn in_both(test: impl AsyncFn(Use)) {
    tokio::join!(test(Use::Shield), test(Use::Uncovered));
}

pub async fn started(setup: Setup, uses: Use) -> Server {
    let server = setup.start().await;
    if uses == Use::Shield {
        server.ready().await;
    }
    server
}

/// The resource of a case of a table: a list or a detail. A crawl asks for none of them.
pub fn target(case: usize) -> String {
    if case.is_multiple_of(2) {
        format!("/api/listings.json?sport=case-{case}")
    } else {
        format!("/api/listings/{}.json", 1_000_000 + case)
    }
}

/// The case of a request; `None` for those of a crawl.
pub fn case_of(seen: &Seen) -> Option<usize> {
    let list = seen.target.strip_prefix("/api/listings.json?sport=case-").and_then(|case| case.parse().ok());
    let detail = || {
        let id = seen.target.strip_prefix("/api/listings/")?.strip_suffix(".json")?;
        id.parse::<usize>().ok()?.checked_sub(1_000_000)
    };
    list.or_else(detail)
}

/// What a crawl gets.
pub fn nothing() -> Script {
    Script::new(404, "").with("cache-control", "no-store")
}

/// A document that names itself, and is worth a coding.
pub fn document(number: usize) -> String {
    format!(r#"{{"number":{number},"padding":"{}"}}"#, "grandstand ".repeat(60))
}

/// An answer with a document and these fields.
pub fn answer(number: usize, fields: Fields<'_>) -> Script {
    with(Script::new(200, document(number)).with("content-type", "application/json"), fields)
}

pub fn with(script: Script, fields: Fields<'_>) -> Script {
    fields.iter().fold(script, |script, (name, value)| script.with(name, dated(value)))
}

fn dated(value: &str) -> String {
    let Some(offset) = value.strip_prefix('@') else { return value.to_owned() };
    let offset: i64 = offset.parse().unwrap();
    let span = Duration::from_secs(offset.unsigned_abs());
    let now = SystemTime::now();
    httpdate::fmt_http_date(if offset < 0 { now - span } else { now + span })
}

/// Which document a reply holds, without its coding.
pub fn number(reply: &Reply) -> u64 {
    assert_eq!(reply.status, 200, "{reply:?}");
    let document: serde_json::Value = serde_json::from_slice(&reply.decoded()).unwrap();
    document["number"].as_u64().unwrap()
}

/// Lets this much time pass: the test is about time.
pub async fn pass(span: Duration) {
    tokio::time::sleep(span).await;
}
