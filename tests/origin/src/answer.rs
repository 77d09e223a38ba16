//! The sample origin's answer to a path and a query: status and body, no other HTTP.
//!
//! Pure: a world, the switches and the time in, an [`Answer`] out. Not conditional requests, codings, limits, faults or
//! the CDN. Callers: the server for requests, tests for expected values.

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use sample::data::{ATTRIBUTION, DOCS, LICENSE};
use sample::dice::Dice;
use sample::{Stamp, Zone};

use super::json::{Json, Text};
use super::switches::{ApiUrlStyle, GeneratedAt, Numbers, Switches};
use super::world::World;
use super::{listing, lists, query, regions, terms};

/// The inputs of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    pub(super) world: &'a World,
    pub(super) switches: &'a Switches,
    /// The origin's address with its prefix.
    pub(super) base: &'a str,
    /// The origin's time.
    pub(super) now: Timestamp,
    /// Differs with every answer.
    pub(super) nonce: u64,
}

/// Status and body.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) media_type: &'static str,
    /// `Location`, of a redirect.
    pub(super) location: Option<String>,
    pub(super) body: Text,
}

impl Answer {
    /// JSON.
    pub(super) const fn json(status: u16, body: Text) -> Self {
        Self { status, media_type: "application/json", location: None, body }
    }
}

impl Context<'_> {
    /// Answers `target`, path and query as received, with the origin's prefix.
    pub(super) fn answer(&self, target: &str) -> Answer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let Some(path) = path.strip_prefix(self.switches.mount().as_str()) else {
            return self.error(404, &format!("no such path: {path}"));
        };
        if let Some(bare) = path.strip_suffix('/').filter(|_| self.switches.edges.slash_redirects) {
            let mount = self.switches.mount();
            let location = if query.is_empty() { format!("{mount}{bare}") } else { format!("{mount}{bare}?{query}") };
            return Answer { location: Some(location), ..self.error(301, "moved") };
        }
        match path {
            "/api/listings.json" => lists::page(self, query),
            "/api/sports.json" => terms::sports(self),
            "/api/states.json" => terms::states(self),
            "/api/cities.json" => terms::cities(self),
            "/api/regions.json" => regions::regions(self, query),
            _ => listing_id(path, self.switches.numbers)
                .and_then(|id| listing::detail(self, id))
                .unwrap_or_else(|| self.error(404, &format!("no such resource: {path}"))),
        }
    }

    /// An error as the origin words it.
    pub(super) fn error(&self, status: u16, message: &str) -> Answer {
        if self.switches.edges.html {
            let text = format!("<!doctype html>\n<title>Error {status}</title>\n<h1>{status}</h1>\n<p>{message}</p>\n");
            let body = Text { text, volatile: Vec::new() };
            return Answer { status, media_type: "text/html; charset=utf-8", location: None, body };
        }
        let mut json = self.json();
        json.object(|json| {
            json.key("error").object(|json| {
                json.key("status").raw(status);
                json.field("message", message);
            });
        });
        Answer::json(status, json.finish())
    }

    /// A writer that spells as the switches say.
    pub(super) fn json(&self) -> Json {
        Json::new(self.switches.pretty, self.switches.api_url == ApiUrlStyle::EscapedSlashes)
    }

    /// Writes the members with which bodies begin.
    pub(super) fn envelope(&self, json: &mut Json, kind: &str, generated: GeneratedAt) {
        credits(json);
        json.field("docs", DOCS);
        self.generated_at(json, generated);
        self.request_id(json);
        json.field("@type", kind);
    }

    /// Writes the time of generation, if there is one.
    pub(super) fn generated_at(&self, json: &mut Json, says: GeneratedAt) {
        let seconds = match says {
            GeneratedAt::Absent => return,
            GeneratedAt::Now => self.now.as_second(),
            GeneratedAt::StandsStill(at) => at,
            GeneratedAt::Ahead(seconds) => self.now.as_second().saturating_add(seconds),
        };
        let at = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        json.volatile_field("generated_at", &Stamp { at, zone: Zone::Hours(0) }.text());
    }

    /// Writes the request id, if it is switched on.
    pub(super) fn request_id(&self, json: &mut Json) {
        if self.switches.request_id {
            let id = Dice::of(&[self.nonce]).roll();
            json.volatile_field("request_id", &format!("{id:016x}"));
        }
    }

    /// The `api_url` of a bucket.
    pub(super) fn api_url(&self, parameter: &str, slug: &str) -> String {
        let mount = self.switches.mount();
        let scheme = self.base.find("//").unwrap_or(0);
        let base = match &self.switches.api_url {
            ApiUrlStyle::Sibling => return format!("listings.json?{parameter}={slug}"),
            ApiUrlStyle::Dotted => return format!("../api/./listings.json?{parameter}={slug}"),
            ApiUrlStyle::WithoutScheme => &self.base[scheme..],
            ApiUrlStyle::Absolute | ApiUrlStyle::EscapedSlashes => self.base,
            ApiUrlStyle::Relative => &mount,
            ApiUrlStyle::Alias(base) => base,
        };
        format!("{base}/api/listings.json?{parameter}={slug}")
    }
}

/// Writes context, licence and attribution.
pub(super) fn credits(json: &mut Json) {
    json.field("@context", "https://schema.org");
    json.field("license", LICENSE);
    json.field("attribution", ATTRIBUTION);
}

/// The id in `/api/listings/{id}.json`.
fn listing_id(path: &str, numbers: Numbers) -> Option<u64> {
    let id = path.strip_prefix("/api/listings/")?.strip_suffix(".json")?;
    query::number(&percent_decode_str(id).decode_utf8().ok()?, numbers)
}
