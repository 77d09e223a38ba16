//! What fuzzing feeds: each target takes any bytes, reads them as the program reads what strangers send, and checks what
//! must hold whatever they are.
//!
//! Shared by the fuzzer (`tests/fuzz/fuzz.rs`) and by the test that replays the inputs kept in `tests/fuzz/corpus`
//! (`tests/wire/corpus.rs`).

use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::pin::pin;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use grandstand::api::links::Rewrite;
use grandstand::api::page::Page;
use grandstand::api::query::Parameters;
use grandstand::api::query::finder::{FinderForm, FinderQuery};
use grandstand::api::query::search::SearchQuery;
use grandstand::api::taxonomy::{self, TaxonomyError, VolatileKeys};
use grandstand::clock::WallTime;
use grandstand::data::bundle::Bundle;
use grandstand::data::bundle::signature::{Signature, TrustedKeys};
use grandstand::data::snapshot::journal::codec;
use grandstand::data::store::{DataDir, Store, StoreError, salvage};
use grandstand::edge::serve::request_head;
use grandstand::fleet::head::Head;
use grandstand::protocol::caching::{self, Exchange, Freshness, Policy, RequestDirectives, ResponseDirectives};
use grandstand::protocol::client_address::{ClientIpConfig, resolve};
use grandstand::protocol::precondition::EntityTag;
use grandstand::protocol::proxy_protocol::{self, Header};
use grandstand::protocol::{precondition, target};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

/// A target.
pub type Target = fn(&[u8]);

/// All targets by name, which is also the name of their directory in the corpus.
pub const ALL: [(&str, Target); 14] = [
    ("query", query),
    ("path", normal_path),
    ("request-head", head_of_request),
    ("conditions", conditions),
    ("forwarded", forwarded),
    ("proxy-header", proxy_header),
    ("page", page),
    ("taxonomy", taxonomy),
    ("cache-control", cache_control),
    ("bundle", bundle),
    ("bundle-parts", bundle_parts),
    ("fleet-head", fleet_head),
    ("journal", journal),
    ("store", store),
];

/// A query that is understood is understood the same when it is sent on.
fn query(bytes: &[u8]) {
    let Ok(raw) = std::str::from_utf8(bytes) else { return };
    if let Ok(search) = SearchQuery::parse(raw) {
        let mut sent = String::new();
        search.write(search.list.page, &mut sent);
        let again = SearchQuery::parse(sent.split_once('?').map_or("", |(_, query)| query));
        assert_eq!(again.as_ref(), Ok(&search), "{sent}");
    }
    let finder = FinderQuery::parse(raw, FinderForm::Page);
    let link = finder.link("explore", finder.search.list.page);
    let again = FinderQuery::parse(link.split_once('?').map_or("", |(_, query)| query), FinderForm::Page);
    assert_eq!((&again.search, &again.place), (&finder.search, &finder.place), "{link}");
    assert!(again.left_out.is_empty(), "{link}: {:?}", again.left_out);
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

/// A head that is accepted stays as it is, or its target in absolute form is in origin form then, and nothing else of it
/// has moved. What comes after it is not looked at, and it does not matter where the pieces end.
fn head_of_request(bytes: &[u8]) {
    let read = |begun: &[u8], mut rest: &[u8]| {
        let begun = Some(BytesMut::from(begun)).filter(|begun| !begun.is_empty());
        let reading = pin!(request_head::read(&mut rest, begun));
        reading.now_or_never().expect("it is all here").ok()
    };
    let Some(head) = read(b"", bytes) else { return };
    // Empty lines in front count for nothing.
    let lines = |bytes: &[u8]| {
        let empty = |line: &&[u8]| matches!(**line, [] | [b'\r']);
        bytes.split(|byte| *byte == b'\n').skip_while(empty).count()
    };
    assert_eq!(lines(&head), lines(bytes));
    assert_eq!(read(b"", &head).as_ref(), Some(&head));
    if head != bytes {
        let target = head[..].split(|byte| *byte == b' ').nth(1).expect("a target");
        assert!(target.starts_with(b"/") || target == b"*");
    }
    let (begun, rest) = bytes.split_at(bytes.len() / 2);
    if let Some(again) = read(begun, rest) {
        assert!(head.starts_with(&again));
    }
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
        assert_eq!(resolve(&config, stranger, &fields), stranger);
        let client = resolve(&config, proxy, &fields);
        assert_eq!(client, client.to_canonical());
    }
    fields.append("x-forwarded-for", HeaderValue::from_static("192.0.2.9"));
    fields.append("forwarded", HeaderValue::from_static("for=192.0.2.9"));
    for header in ["x-forwarded-for", "forwarded"] {
        let header = HeaderName::from_static(header);
        let config = ClientIpConfig { trusted_proxies: vec!["10.0.0.0/8".parse().expect("a network")], header };
        assert_eq!(resolve(&config, proxy, &fields), stranger);
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
    let page = Page::parse(&Bytes::copy_from_slice(bytes), &VolatileKeys::default());
    assert!(page.map_or(true, |page| page.items.len() <= 100));
}

/// A body without its addresses is the same as with ours.
fn taxonomy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let slugs = |text: &str| -> Result<Vec<String>, TaxonomyError> {
        Ok(taxonomy::terms(text)?.into_iter().map(|term| term.slug).collect())
    };
    let origin = Url::parse("https://api.example.org/v1").expect("an address");
    let rewrite = Rewrite::new(Some(&origin), &[], "http://mirror.test/base");
    if let Ok(rewritten) = rewrite.apply(text, "/api/sports.json") {
        assert_eq!(slugs(&rewritten).ok(), slugs(text).ok(), "{rewritten}");
    }
}

/// How long an answer is fresh, how old it is when it arrives, and whether it answers a request a minute later.
fn cache_control(bytes: &[u8]) {
    const NAMES: [&str; 7] = ["cache-control", "cdn-cache-control", "expires", "date", "age", "pragma", "vary"];
    let halves = bytes.split(|byte| *byte == 0).collect::<Vec<_>>();
    let (answer, request) = (fields(halves[0], &NAMES), fields(halves.get(1).copied().unwrap_or_default(), &NAMES));
    let now = WallTime::from_seconds(1_700_000_000);
    let exchange = Exchange { asked: now, received: now };
    let policy = Policy { known: false, stale_while_revalidate: Duration::ZERO, stale_if_error: Duration::ZERO };
    for status in [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::BAD_GATEWAY] {
        let terms = Freshness::of(status, &answer, &ResponseDirectives::of(&answer), exchange, None);
        let (lifetime, age) = (terms.lifetime, terms.initial_age.saturating_add(Duration::from_secs(60)));
        let _reuse = caching::reuse(&terms, age, &RequestDirectives::of(&request), &policy);
        // RFC 9111 section 1.2.2 caps both.
        assert!(lifetime.as_secs() <= 1 << 31 && age.as_secs() <= (1 << 31) + 60, "{lifetime:?} {age:?}");
    }
}

fn bundle(bytes: &[u8]) {
    read_bundle(bytes);
    let _signature = Signature::parse(bytes);
    let _keys = TrustedKeys::parse([std::str::from_utf8(bytes).unwrap_or_default()]);
}

fn read_bundle(file: &[u8]) {
    if let Ok(opened) = Bundle::open(Cursor::new(file), &mut |_, _| {}) {
        let _details = opened.details(Cursor::new(file)).collect::<Result<Vec<_>, _>>();
        let _content = opened.content();
    }
}

/// A bundle of these parts, kind and content, with the hashes that it must have (`src/data/bundle/FORMAT.md`).
fn sealed(format: u8, parts: &[(u8, &[u8])]) -> Vec<u8> {
    let mut file = [&b"\x89GSB\r\n\x1a\n"[..], &[format, 0]].concat();
    let mut chain = blake3::hash(&file);
    for (kind, raw) in parts {
        let packed = zstd::bulk::compress(raw, 1).expect("a frame");
        let lengths = [raw.len() as u32, packed.len() as u32].map(u32::to_le_bytes).concat();
        let head = [&[*kind, 0, 0, 0], &lengths[..]].concat();
        let mut hasher = blake3::Hasher::new();
        chain = hasher.update(chain.as_bytes()).update(&head).update(&packed).finalize();
        file.extend([&head, &chain.as_bytes()[..], &packed].concat());
    }
    file
}

/// The same behind the hashes. Each part is a kind, a length of two bytes, and so many bytes.
fn bundle_parts(bytes: &[u8]) {
    let (mut rest, mut parts) = (bytes, Vec::new());
    while let [kind, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (raw, after) = after.split_at(length);
        parts.push((kind % 10 + 1, raw));
        rest = after;
    }
    for format in [3, 4] {
        read_bundle(&sealed(format, &parts));
    }
}

/// The file of a head, or its text alone: what is read is the same when it is written and read again, and an unsigned one
/// is nobody's.
fn fleet_head(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let wrapped = serde_json::json!({ "head": text, "signature": null }).to_string();
    for file in [bytes, wrapped.as_bytes()] {
        let Ok(head) = Head::read_unverified(file) else { continue };
        let again = head.to_file(None).expect("an unsigned file");
        assert_eq!(Head::read_unverified(&again).ok().as_ref(), Some(&head));
        let clock = WallTime::from_millis(head.written_ms);
        let read = Head::read(&again, &TrustedKeys::default(), clock);
        assert!(read.map_or(true, |(read, key)| read == head && key.is_none()));
    }
}

/// The entries of a journal, or its whole file: what is read is the same when it is written and read again.
fn journal(bytes: &[u8]) {
    let packed = zstd::bulk::compress(bytes, 1).expect("a frame");
    let file = [&b"\x89GSJ\r\n\x1a\n\x02\0"[..], &(bytes.len() as u32).to_le_bytes(), &packed].concat();
    for file in [bytes, &file] {
        let Ok(entries) = codec::decode(file) else { continue };
        assert_eq!(codec::decode(&codec::encode(entries.iter())).as_ref(), Ok(&entries));
    }
}

/// The name of the store in its directory.
const STORE: &str = "grandstand.redb";

/// The bytes of a small store with one snapshot.
fn small_store() -> &'static [u8] {
    static STORED: OnceLock<Vec<u8>> = OnceLock::new();
    STORED.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let bundle = include_bytes!("../fixtures/bundle-v1.gsb");
        let bundle = Bundle::open(Cursor::new(bundle), &mut |_, _| {}).expect("a bundle");
        let data = dir.path().join("data");
        let store = Store::open(&DataDir::open(&data).expect("a data directory")).expect("a store");
        store.publish(bundle.content().expect("no delta"), &bundle.meta(0)).expect("a snapshot");
        drop(store);
        std::fs::read(data.join(STORE)).expect("a file")
    })
}

/// Reads everything in the store of a data directory, and repairs it if something cannot be read.
fn read_store(directory: &Path) -> Option<()> {
    let dir = DataDir::open(directory).ok()?;
    let store = if let Ok(store) = Store::open(&dir) {
        store
    } else {
        salvage(&dir).ok()?;
        Store::open(&dir).ok()?
    };
    let read = || -> Result<(), StoreError> {
        for (record, _) in &store.snapshots()? {
            store.load(record)?;
            store.evidence_of(record.seq)?;
        }
        store.current()?;
        store.evidence()?;
        store.copy_metas()?;
        store.detail_index(|meta| meta)?.iter().try_for_each(|(id, _)| store.detail(*id).map(drop))
    };
    if read().is_err() {
        store.heal(None).ok()?;
        read().ok()?;
    }
    Some(())
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
    let _empty = read_store(&data);
    std::fs::write(data.join(STORE), file).expect("a file");
    let _read = read_store(&data);
}
