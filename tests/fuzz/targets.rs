//! What fuzzing feeds: each target takes any bytes, reads them as the program reads what strangers send, and checks what
//! must hold whatever they are.
//!
//! Shared by the fuzzer (`tests/fuzz/fuzz.rs`) and by the test that replays the inputs kept in `tests/fuzz/corpus`
//! (`tests/wire/corpus.rs`).

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;

use bytes::Bytes;
use grandstand::parts::api::query::Parameters;
use grandstand::parts::fuzz;
use grandstand::parts::semantics::client_address::ClientIpConfig;
use grandstand::parts::semantics::etag::EntityTag;
use grandstand::parts::semantics::proxy_protocol::{self, Header};
use grandstand::parts::semantics::{precondition, target};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name, which is also the name of their directory in the corpus.
pub const ALL: [(&str, Target); 11] = [
    ("query", query),
    ("path", normal_path),
    ("conditions", conditions),
    ("forwarded", forwarded),
    ("proxy-header", proxy_header),
    ("page", page),
    ("taxonomy", taxonomy),
    ("cache-control", cache_control),
    ("bundle", bundle),
    ("bundle-parts", bundle_parts),
    ("store", store),
];

/// A query that is understood is understood the same when it is sent on.
fn query(bytes: &[u8]) {
    let Ok(raw) = std::str::from_utf8(bytes) else { return };
    let Ok(parameters) = Parameters::parse(raw) else { return };
    let sent = parameters.list.path_and_query();
    let again = sent.split_once('?').map_or("", |(_, query)| query);
    let again = Parameters::parse(again).unwrap_or_else(|error| panic!("{sent}: {error}"));
    assert_eq!(again.list, parameters.list, "{sent}");
    assert_eq!(again.list.path_and_query(), sent);
}

/// A path that is accepted is in its normal form afterwards, and has no segment that leads elsewhere.
fn normal_path(bytes: &[u8]) {
    let Ok(normal) = target::normalise(bytes) else { return };
    assert_eq!(target::normalise(normal.as_bytes()).as_deref(), Ok(&*normal));
    let inner = normal.strip_suffix('/').unwrap_or(&normal);
    assert!(
        inner.split('/').skip(1).all(|segment| !matches!(segment, "" | "." | "..")) || inner.is_empty(),
        "{normal}"
    );
}

/// The fields of a request: a line each, with an index into `names` in front of the value.
fn fields(bytes: &[u8], names: &[&'static str]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some((name, value)) = line.split_first() else { continue };
        let name = HeaderName::from_static(names[usize::from(*name) % names.len()]);
        if let Ok(value) = HeaderValue::from_bytes(value) {
            fields.append(name, value);
        }
    }
    fields
}

fn conditions(bytes: &[u8]) {
    const NAMES: [&str; 6] =
        ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"];
    let fields = fields(bytes, &NAMES);
    let tag = EntityTag::parse(b"W/\"abc\"");
    for method in [Method::GET, Method::HEAD, Method::POST] {
        let _judged = precondition::evaluate(&method, &fields, tag.as_ref());
        let _judged = precondition::evaluate(&method, &fields, None);
    }
    let _tag = EntityTag::parse(bytes);
}

/// Whoever is not trusted is the client, and what a trusted proxy appends decides.
fn forwarded(bytes: &[u8]) {
    const NAMES: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];
    let (proxy, stranger) = (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9)));
    let mut fields = fields(bytes, &NAMES);
    for header in NAMES {
        let header = HeaderName::from_static(header);
        let config = ClientIpConfig { trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")], header };
        assert_eq!(fuzz::client(&config, stranger, &fields), stranger);
        let client = fuzz::client(&config, proxy, &fields);
        assert_eq!(client, client.to_canonical());
    }
    fields.append("x-forwarded-for", HeaderValue::from_static("192.0.2.9"));
    fields.append("forwarded", HeaderValue::from_static("for=192.0.2.9"));
    for header in ["x-forwarded-for", "forwarded"] {
        let header = HeaderName::from_static(header);
        let config = ClientIpConfig { trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")], header };
        assert_eq!(fuzz::client(&config, proxy, &fields), stranger);
    }
}

/// More bytes change nothing once there is a result.
fn proxy_header(bytes: &[u8]) {
    let whole = proxy_protocol::read(bytes);
    let mut results = (0..bytes.len().min(4200)).map(|end| proxy_protocol::read(&bytes[..end]));
    let first = results.find(|result| *result != Ok(Header::Unfinished));
    assert!(first.is_none_or(|first| first == whole), "{first:?} and {whole:?}");
    if let Ok(Header::Complete { length, announced }) = whole {
        assert!(length <= bytes.len().min(4096));
        assert_eq!(proxy_protocol::read(&bytes[..length]), whole);
        assert!(announced.is_none_or(|client| client.ip() == client.ip().to_canonical()));
    }
}

fn page(bytes: &[u8]) {
    let ids = fuzz::page(&Bytes::copy_from_slice(bytes));
    assert!(ids.is_none_or(|ids| ids.len() <= 100));
}

/// A body without its addresses is the same as with ours.
fn taxonomy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let before = fuzz::taxonomy(text);
    if let Some(rewritten) = fuzz::rewritten(text) {
        assert_eq!(fuzz::taxonomy(&rewritten), before, "{rewritten}");
    }
}

fn cache_control(bytes: &[u8]) {
    const NAMES: [&str; 7] = ["cache-control", "cdn-cache-control", "expires", "date", "age", "pragma", "vary"];
    let halves = bytes.split(|byte| *byte == 0).collect::<Vec<_>>();
    let (answer, request) = (fields(halves[0], &NAMES), fields(halves.get(1).copied().unwrap_or_default(), &NAMES));
    for status in [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::BAD_GATEWAY] {
        let (lifetime, age, _) = fuzz::caching(status, &answer, &request);
        // RFC 9111 section 1.2.2 caps both.
        assert!(lifetime.as_secs() <= 1 << 31 && age.as_secs() <= (1 << 31) + 60, "{lifetime:?} {age:?}");
    }
}

fn bundle(bytes: &[u8]) {
    let _read = fuzz::bundle(bytes);
    let _signature = fuzz::signature(bytes, &[std::str::from_utf8(bytes).unwrap_or_default()]);
}

/// The same behind the hashes. Each part is a kind, a length of two bytes, and so many bytes.
fn bundle_parts(bytes: &[u8]) {
    let (mut rest, mut parts) = (bytes, Vec::new());
    while let [kind, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (raw, after) = after.split_at(length);
        parts.push((kind % 9 + 1, raw));
        rest = after;
    }
    if let Some(file) = fuzz::sealed(&parts) {
        let _read = fuzz::bundle(&file);
    }
}

/// A small store with one snapshot.
fn small_store() -> &'static [u8] {
    static STORE: OnceLock<Vec<u8>> = OnceLock::new();
    STORE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let bundle = include_bytes!("../fixtures/bundle-v1.gsb");
        fuzz::small_store(&dir.path().join("data"), bundle).expect("a store")
    })
}

/// A store in which some bytes are changed: it is read, or repaired, or refused. Each change is a place of three bytes and
/// a byte; a place behind the end cuts the file there.
fn store(bytes: &[u8]) {
    let mut file = small_store().to_vec();
    for change in bytes.chunks_exact(4).take(64) {
        let place = usize::from(change[0]) << 16 | usize::from(change[1]) << 8 | usize::from(change[2]);
        match file.get_mut(place) {
            Some(byte) => *byte ^= change[3],
            None => file.truncate(place % (file.len() + 1)),
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    // It makes the directory as it must be.
    let _empty = fuzz::store(&data);
    std::fs::write(data.join(fuzz::STORE), file).expect("a file");
    let _read = fuzz::store(&data);
}
