//! Nothing outside the key reaches the origin: however a client spells its request, the origin gets the one canonical
//! form, and others get the same answer as without that client.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use futures_util::StreamExt as _;
use futures_util::stream;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use proptest::{collection, option, prop_oneof, sample};

use super::{Use, in_both};
use crate::client::raw;
use crate::harness::{Script, Upstream};

/// How many requests are generated.
const REQUESTS: usize = 1_500;

/// A client's meaning: the parameters that count, with their values.
type Meaning = BTreeMap<&'static str, String>;

/// A request as a client spells it, and its canonical target.
#[derive(Clone, Debug)]
struct Spelled {
    request: String,
    asks: String,
}

/// A text with some needless percent-encodings, by the bits of `how`.
fn spelled(text: &str, how: u64) -> String {
    let mut out = String::new();
    for (index, byte) in text.bytes().enumerate() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match how >> (2 * (index % 32)) & 3 {
            0 | 1 if plain => out.push(char::from(byte)),
            3 => write!(out, "%{byte:02x}").unwrap(),
            _ => write!(out, "%{byte:02X}").unwrap(),
        }
    }
    out
}

/// The query to the origin, in its documented order and without defaults.
fn asked(meaning: &Meaning) -> String {
    let mut query = Vec::new();
    for name in ["sport", "state", "city", "page", "per_page"] {
        let Some(value) = meaning.get(name) else { continue };
        let value = match (name, value.as_str()) {
            ("page", "1") | ("per_page", "50") => continue,
            (_, value) => value,
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let value: String = value
            .bytes()
            .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
            .collect();
        query.push(format!("{name}={value}"));
    }
    let question = if query.is_empty() { "" } else { "?" };
    format!("/api/listings.json{question}{}", query.join("&"))
}

fn meanings() -> impl proptest::strategy::Strategy<Value = Meaning> {
    let slug = || sample::select(vec!["golf", "track-field", "Golf", "a b", "caf\u{e9}", "x&y=z", "50%", "a+b", "a/b"]);
    let number = |numbers: &[&'static str]| sample::select(numbers.to_vec());
    (
        option::of(slug()),
        option::of(slug()),
        option::of(number(&["1", "2", "17"])),
        option::of(number(&["7", "50", "100"])),
    )
        .prop_map(|(sport, state, page, per_page)| {
            let pairs = [("sport", sport), ("state", state), ("page", page), ("per_page", per_page)];
            pairs.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned()))).collect()
        })
}

/// Fields with which caches have been poisoned.
fn fields() -> impl proptest::strategy::Strategy<Value = Vec<(String, String)>> {
    let name = prop_oneof![
        sample::select(vec![
            "X-Forwarded-Host",
            "x-forwarded-for",
            "X-FORWARDED-PROTO",
            "X-Forwarded-Scheme",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-HTTP-Method-Override",
            "X-Host",
            "Forwarded",
            "Cookie",
            "Authorization",
            "Accept",
            "Accept-Encoding",
            "Accept-Language",
            "Cache-Control",
            "Pragma",
            "Range",
            "If-Range",
            "If-Modified-Since",
            "User-Agent",
            "Referer",
            "Origin",
            "Via",
            "TE",
            "Max-Forwards",
            "X-Amz-Website-Redirect-Location",
            "Transfer-Encoding-X",
            "Proxy",
        ])
        .prop_map(str::to_owned),
        "[Xx]-[a-zA-Z_]{1,12}",
    ];
    let value = prop_oneof![
        sample::select(vec!["evil.example", "no-cache", "only-if-cached", "bytes=0-3", "gzip", "*/*", "br;q=0.1", ""])
            .prop_map(str::to_owned),
        "[ -~]{0,40}",
    ];
    collection::vec((name, value), 0..6)
}

fn spellings() -> impl proptest::strategy::Strategy<Value = Spelled> {
    let noise = collection::vec("[a-z_]{1,8}=[a-zA-Z0-9%]{0,0}[a-z0-9]{0,8}", 0..3);
    let taxonomy = sample::select(vec![None, None, None, Some("/api/sports.json"), Some("/api/listings/77.json")]);
    let host = sample::select(vec!["mirror.test", "evil.example", "mirror.test:81"]);
    let turns = (0..64_usize, proptest::num::u64::ANY, proptest::bool::ANY, proptest::bool::ANY);
    (meanings(), fields(), noise, taxonomy, host, turns).prop_map(
        |(meaning, fields, noise, other, host, (turn, how, repeats, empties))| {
            let mut query: Vec<String> = meaning
                .iter()
                .map(|(name, value)| format!("{}={}", spelled(name, how.rotate_left(7)), spelled(value, how)))
                .collect();
            if repeats {
                query.extend(meaning.iter().next().map(|(name, value)| format!("{name}={}", spelled(value, !how))));
            }
            // An empty value of a filter is an open case, which is the origin's.
            if empties {
                query.extend(["cities=", "callback=", "&"].map(str::to_owned));
            }
            let known = ["page", "per_page", "sport", "state", "city", "modified_since", "snapshot"];
            query.extend(
                noise.into_iter().filter(|pair| !known.iter().any(|name| pair.starts_with(&format!("{name}=")))),
            );
            let turn = turn % query.len().max(1);
            query.rotate_left(turn);
            let path = other.unwrap_or("/api/listings.json");
            // One letter of the path is encoded, too.
            let path = if how & 1 == 1 {
                path.replace("sp", "%73p").replace("st", "s%74").replace("77", "7%37")
            } else {
                path.to_owned()
            };
            let mut request = format!("GET {path}?{} HTTP/1.1\r\nHost: {host}\r\n", query.join("&"));
            for (name, value) in fields {
                write!(request, "{name}: {value}\r\n").unwrap();
            }
            request.push_str("Connection: close\r\n\r\n");
            Spelled { request, asks: other.map_or_else(|| asked(&meaning), str::to_owned) }
        },
    )
}

/// A head without the name of the server that asks, which it has in it once each.
fn unsigned(head: &str) -> String {
    let (names, rest): (Vec<&str>, Vec<&str>) =
        head.split_inclusive("\r\n").partition(|line| line.starts_with("via: ") || line.starts_with("cdn-loop: "));
    assert!(names.len() == 2 && names.iter().all(|line| line.matches("grandstand-").count() == 1), "{head}");
    rest.concat()
}

/// The head of the canonical request for a target.
fn canonical(upstream: &Upstream, target: &str) -> String {
    let host = upstream.url();
    let host = host.strip_prefix("http://").unwrap();
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "GET {target} HTTP/1.1\r\naccept: application/json\r\n\
         user-agent: grandstand/{version}\r\naccept-encoding: zstd,gzip,br\r\nhost: {host}\r\n\r\n"
    )
}

#[tokio::test]
async fn however_a_question_is_spelled_the_origin_gets_the_canonical_one_and_others_get_the_answer_to_theirs() {
    let mut runner = TestRunner::deterministic();
    let strategy = spellings();
    let all: Vec<Spelled> = (0..REQUESTS).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect();
    in_both(async |uses| {
        // It repeats its whole request, so that an answer in the wrong place shows.
        let upstream = Upstream::start(|seen| {
            let body = serde_json::json!({ "head": seen.head.lines().filter(|line| !line.contains("grandstand-")).fold(String::new(), |head, line| head + line + "\r\n"), "padding": "x".repeat(300) }).to_string();
            Script::new(200, body).with("cache-control", "max-age=3600").with("content-type", "application/json")
        })
        .await;
        let server = uses.start(&upstream).await;
        // A crawl asks for these, too: they are no list to it, so that nothing is published.
        let crawled = |target: &str| {
            uses == Use::Uncovered && (target.contains("per_page=100") || !target.starts_with("/api/listings"))
        };
        let asked: HashMap<String, String> =
            all.iter().map(|one| (one.asks.clone(), canonical(&upstream, &one.asks))).collect();
        let public = server.public;
        let mut asking = stream::iter(&all)
            .map(|one| async move { (one, raw(public, one.request.as_bytes()).await) })
            .buffer_unordered(8);
        while let Some((one, reply)) = asking.next().await {
            let reply = reply.unwrap_or_else(|| panic!("no answer to {one:?}"));
            assert_eq!(reply.status, 200, "{one:?}: {reply:?}");
            let body: serde_json::Value = serde_json::from_slice(&reply.decoded()).unwrap();
            assert_eq!(body["head"], asked[&one.asks], "{one:?}");
        }
        for seen in upstream.seen().iter().filter(|seen| !crawled(&seen.target)) {
            assert_eq!(Some(&unsigned(&seen.head)), asked.get(&seen.target), "the origin was asked something else");
        }
        for target in asked.keys().filter(|target| !crawled(target)) {
            assert_eq!(upstream.count_of(target), 1, "{target} in {} questions", all.len());
        }
    })
    .await;
}
