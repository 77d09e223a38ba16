//! An origin that repeats what it is asked, and a client that asks for markup: nothing of it reaches a browser.
//!
//! The origin repeats values wherever an answer has a place for them. Whatever of it is read through, no answer of ours has the
//! value as markup outside a sandbox, and no field of ours repeats it.

use std::collections::BTreeSet;
use std::io;

use async_trait::async_trait;
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use percent_encoding::percent_decode_str;
use sample_origin::{Asked, Body, FaultRule, Mishap, Origin, Switches};

use super::{LIST, ask, examined, switches};
use crate::client::Reply;
use crate::harness::virtually::origin_with;
use crate::harness::{Server, Setup, each};

/// Where the origin repeats a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// In a page of HTML, decoded.
    Html,
    /// As the name of an element.
    Tag,
    /// In a script within the page.
    Script,
    /// In an address within the page, as it was sent.
    Encoded,
    /// In JSON, without escaping.
    Json,
    /// In a document of XML.
    Xml,
    /// In a drawing, which browsers run.
    Svg,
    /// In the type of the body.
    MediaType,
    /// In the address of a redirect on the same host.
    Location,
    /// In many fields of an answer whose body stays the same.
    Fields,
}

impl Where {
    const ALL: [Self; 10] = [
        Self::Html,
        Self::Tag,
        Self::Script,
        Self::Encoded,
        Self::Json,
        Self::Xml,
        Self::Svg,
        Self::MediaType,
        Self::Location,
        Self::Fields,
    ];

    /// Status, fields and body for a value as it was sent.
    fn answer(self, sent: &str) -> (u16, Vec<(&'static str, String)>, String) {
        let told = percent_decode_str(&sent.replace('+', " ")).decode_utf8_lossy().into_owned();
        let of = |media_type: &str, body: String| (400, vec![("content-type", media_type.to_owned())], body);
        match self {
            Self::Html => of("text/html; charset=utf-8", format!("<!doctype html><p>no such thing: {told}</p>")),
            Self::Tag => of("text/html", format!("<!doctype html><{told}>not found")),
            Self::Script => of("text/html", format!("<script>var asked = \"{told}\"</script>")),
            Self::Encoded => of("text/html", format!("<a href=\"/api/listings.json?page={sent}\">again</a>")),
            Self::Json => of("application/json", format!("{{\"error\":\"no such thing: {told}\"}}")),
            Self::Xml => of("application/xml", format!("<error>{told}</error>")),
            Self::Svg => of("image/svg+xml", format!("<svg xmlns=\"http://www.w3.org/2000/svg\">{told}</svg>")),
            Self::MediaType => of(&format!("text/html; charset={told}"), "<p>no</p>".to_owned()),
            Self::Location => {
                let fields =
                    vec![("location", format!("/login?next={sent}")), ("content-type", "text/html".to_owned())];
                (302, fields, format!("<a href=\"{told}\">moved</a>"))
            }
            Self::Fields => {
                let names =
                    ["location", "link", "refresh", "x-error", "content-location", "content-disposition", "set-cookie"];
                let mut fields: Vec<_> = names.into_iter().map(|name| (name, format!("asked={told}"))).collect();
                fields.push(("content-type", "text/html".to_owned()));
                (400, fields, "<p>no</p>".to_owned())
            }
        }
    }
}

/// Answers odd requests with what they ask for.
#[derive(Debug)]
struct Repeats {
    place: Where,
    sports: BTreeSet<String>,
}

/// The first value that no ordinary request has, as it was sent.
fn odd_value(target: &str, sports: &BTreeSet<String>) -> Option<String> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let id = path.strip_prefix("/api/listings/").and_then(|rest| rest.strip_suffix(".json"));
    if let Some(id) = id {
        return (!id.bytes().all(|byte| byte.is_ascii_digit())).then(|| id.to_owned());
    }
    let is_odd = |(name, value): &(&str, &str)| match *name {
        "page" | "per_page" => !value.bytes().all(|byte| byte.is_ascii_digit()),
        "sport" => !sports.contains(*value),
        _ => false,
    };
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(is_odd).map(|(_, value)| value.to_owned())
}

#[async_trait]
impl Mishap for Repeats {
    async fn befall(&self, asked: &Asked<'_>) -> io::Result<Response<Body>> {
        let Some(value) = odd_value(asked.target, &self.sports) else { return Ok(asked.right().await) };
        let (status, fields, body) = self.place.answer(&value);
        let body = Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed_unsync();
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            // What HTTP forbids in a field is left out, as servers do.
            if let Ok(value) = http::HeaderValue::from_bytes(value.as_bytes()) {
                response = response.header(name, value);
            }
        }
        Ok(response.body(body).unwrap())
    }
}

/// The sports that listings have.
fn sports(origin: &Origin) -> BTreeSet<String> {
    origin.world(|world| {
        let of = |id| world.slugs_of(id).map(|(sport, _, _)| sport.to_owned());
        world.ids().into_iter().filter_map(of).collect()
    })
}

/// An origin that repeats values there.
async fn repeating(place: Where) -> Origin {
    let origin = origin_with(60, switches("documented")).await;
    let repeats = Repeats { place, sports: sports(&origin) };
    origin.set(|switches: &mut Switches| switches.faults.push(FaultRule::always("", repeats)));
    origin
}

/// Values that become markup, an address, or another field where nobody takes care, as they are sent.
const ATTACKS: [&str; 10] = [
    "%3Cscript%3Ealert(1)%3C%2Fscript%3E",
    "%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
    "%253Cscript%253Ealert(1)%253C%252Fscript%253E",
    "javascript:alert(1)",
    "x%27%3Balert(1)%2F%2F",
    "%26lt%3Bscript%26gt%3B",
    "%0d%0aSet-Cookie%3A%20a%3Dalert(1)",
    "%E2%80%AEalert(1)",
    "%7B%7Balert(1)%7D%7D",
    "..%5C..%5Calert(1)",
];

/// Every place of a request in which a value can stand.
fn targets(value: &str) -> Vec<String> {
    vec![
        format!("{LIST}?page={value}"),
        format!("{LIST}?per_page={value}"),
        format!("{LIST}?sport={value}"),
        format!("{LIST}?modified_since={value}"),
        format!("{LIST}?page=1&page={value}"),
        format!("{LIST}?sport=golf&sport={value}"),
        format!("{LIST}?page={value}&sport=qzvxk"),
        format!("{LIST}?page=qzvxk&sport={value}"),
        format!("{LIST}?page=0&per_page=0&state={value}"),
        format!("{LIST}?sport={value}&state={value}&city={value}"),
        format!("/api/listings/{value}.json"),
    ]
}

/// Whether browsers run a body of this type.
fn is_run(media_type: &str) -> bool {
    ["html", "xml", "svg", "script"].iter().any(|kind| media_type.contains(kind))
}

/// Nothing of the value is in an answer as markup or as a field.
fn is_harmless(reply: &Reply, target: &str) {
    assert!(!(300..400).contains(&reply.status), "{target}: {reply:?}");
    for name in ["location", "refresh", "set-cookie", "x-error", "content-location", "content-disposition"] {
        assert_eq!(reply.header(name), None, "{target}: {reply:?}");
    }
    for (name, value) in &reply.headers {
        // In `Link`, which is ours, the value is percent-encoded.
        assert!(!String::from_utf8_lossy(value.as_bytes()).contains("alert("), "{target}: {name} {value:?}");
    }
    let media_type = reply.header("content-type").unwrap_or_default();
    assert_eq!(reply.the("x-content-type-options"), "nosniff", "{target}");
    if is_run(&media_type) {
        assert_eq!(reply.the("content-security-policy"), "sandbox; default-src 'none'", "{target}: {reply:?}");
        let text = String::from_utf8_lossy(&reply.body);
        assert!(!text.contains("alert"), "{target}: {text}");
    }
}

async fn attack(server: &Server, place: Where) {
    for value in ATTACKS {
        for target in targets(value) {
            is_harmless(&ask(server, &target).await, &format!("{place:?} {target}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_an_origin_repeats_anywhere_is_never_markup_or_a_field() {
    each(Where::ALL, async |place| {
        let origin = repeating(place).await;
        let server = examined(&origin).await;
        // A refusal is in our words, and what has no meaning is the origin's, in a sandbox where browsers run it.
        let word = ask(&server, &format!("{LIST}?page=xyz")).await;
        is_harmless(&word, &format!("{place:?}"));
        let odd = ask(&server, &format!("{LIST}?page=2.0")).await;
        is_harmless(&odd, &format!("{place:?}"));
        if !matches!(place, Where::Location | Where::MediaType) {
            let (status, fields, body) = place.answer("2.0");
            let media_type = fields.iter().find(|(name, _)| *name == "content-type").map(|(_, value)| value.clone());
            assert_eq!((odd.status, odd.header("content-type"), odd.text()), (status, media_type, body.as_str()));
        }
        origin.clear_log();
        attack(&server, place).await;
        let log = origin.log();
        let brought: Vec<_> = log.iter().filter(|seen| seen.path_and_query.contains("alert")).collect();
        assert!(brought.is_empty(), "{place:?}: {brought:#?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_page_of_html_that_is_read_through_is_in_a_sandbox() {
    for place in [Where::Html, Where::Xml, Where::Json] {
        let origin = repeating(place).await;
        let shield = Setup::shield_of(&origin).start().await;
        let reply = shield.get(&format!("{LIST}?sport=%3Cscript%3Ealert(1)%3C%2Fscript%3E")).await;
        // The body is the origin's by contract, whatever it repeats.
        assert!(reply.status == 400 && reply.text().contains("<script>alert(1)</script>"), "{reply:?}");
        assert_eq!(reply.the("x-content-type-options"), "nosniff");
        let sandbox = reply.header("content-security-policy");
        assert_eq!(sandbox.as_deref(), (place != Where::Json).then_some("sandbox; default-src 'none'"), "{place:?}");
        let data = shield.ok(&format!("{LIST}?sport={}", sports(&origin).first().unwrap())).await;
        assert_eq!(data.header("content-security-policy"), None, "data needs none");
    }
}
