//! The tables: the origin's possible faults, before and after the first snapshot, everywhere and in one resource.

use std::time::Duration;

use sample_origin::{FaultRule, World};

use super::table::{LIST, Told, complete, delay_the_first_crawl, harm_nobody, restless};
use crate::compare::list_is_the_origins;
use crate::harness::{each, origin, wait_until};
use crate::origin_faults::{Fault, Raw, Tamper};

const EVERYTHING: &str = "";

/// Texts that are no list of this API, or a false one.
fn false_texts() -> Vec<Fault> {
    let texts = [
        Tamper::DeepItem,
        Tamper::RepeatedId,
        Tamper::SharedId(7),
        Tamper::Total("130000000"),
        Tamper::Total("18446744073709551615"),
        Tamper::Total("-1"),
        Tamper::Total("130.5"),
        Tamper::Total("1e30"),
        Tamper::TwoTotals,
    ];
    texts.map(Fault::Tampered).into()
}

/// Bytes that are no JSON text.
fn broken_texts() -> Vec<Fault> {
    let texts = [Tamper::BadUtf8, Tamper::Nul, Tamper::Garbage, Tamper::Twice, Tamper::Utf16];
    texts.map(Fault::Tampered).into()
}

/// Bytes that are no HTTP, or contradict themselves.
fn broken_bytes() -> Vec<Fault> {
    let bytes = [
        Raw::LongLength,
        Raw::ShortLength,
        Raw::CutChunks,
        Raw::HugeHeader,
        Raw::ManyHeaders,
        Raw::HeaderDrip(Duration::from_millis(200)),
        Raw::InterimFlood,
        Raw::ControlTag,
        Raw::StatusOnly,
    ];
    bytes.map(Fault::Raw).into()
}

/// Documents that are none of this API.
fn other_documents() -> Vec<Fault> {
    let texts = [
        "[]",
        "{}",
        "",
        "null",
        r#"{"@type":"ItemList","total":130,"items":[{"id":1,"na"#,
        r#"{"page":"1","per_page":50,"total":"many","total_pages":{},"filters":3,"items":{"id":[]}}"#,
        r#"{"page":1,"per_page":100,"total":0,"total_pages":0,"filters":{},"items":[]}"#,
    ];
    let mut faults: Vec<Fault> = texts.map(|text| Fault::Body(text.to_owned())).into();
    faults.extend([Fault::HtmlWith200, Fault::Truncated, Fault::Body("[".repeat(100_000))]);
    faults
}

/// Errors, and answers without an end.
fn failures() -> Vec<Fault> {
    let mut faults: Vec<Fault> = [500, 503, 404, 204].map(Fault::Status).into();
    faults.extend([
        Fault::TooManyRequests(Some(1)),
        Fault::TooManyRequests(None),
        Fault::Redirect("http://127.0.0.1:1/elsewhere".into()),
        Fault::EndlessBody,
        Fault::Hang,
        Fault::Reset,
        Fault::SlowDrip(Duration::from_secs(5)),
    ]);
    faults
}

/// Refusals, and answers to another question.
fn refusals() -> Vec<Fault> {
    vec![
        Fault::GzipBomb,
        Fault::Falsified(vec![("content-encoding", b"br".to_vec())]),
        // A gzip body in the name of another coding.
        Fault::Falsified(vec![("content-encoding", b"x-foo".to_vec())]),
        Fault::Later(429, 2),
        Fault::Later(503, 2),
        Fault::Status(206),
        Fault::Detour(4),
        Fault::Redirect("https://127.0.0.1/api/listings.json".into()),
        Fault::Redirect("//elsewhere.invalid/api/listings.json".into()),
        Fault::Redirect("\\\\".into()),
    ]
}

#[tokio::test]
async fn other_documents_harm_nobody() {
    harm_nobody(EVERYTHING, Told::Yes, other_documents()).await;
}

#[tokio::test]
async fn errors_and_answers_without_end_harm_nobody() {
    harm_nobody(EVERYTHING, Told::Yes, failures()).await;
}

#[tokio::test]
async fn lists_that_are_not_true_harm_nobody() {
    harm_nobody(LIST, Told::Yes, false_texts()).await;
}

#[tokio::test]
async fn texts_that_are_not_json_harm_nobody() {
    harm_nobody(EVERYTHING, Told::Yes, broken_texts()).await;
}

#[tokio::test]
async fn bytes_that_are_not_http_harm_nobody() {
    harm_nobody(EVERYTHING, Told::Yes, broken_bytes()).await;
}

#[tokio::test]
async fn refusals_and_bombs_harm_nobody() {
    harm_nobody(EVERYTHING, Told::Yes, refusals()).await;
}

/// Such answers look like a CDN's old copies, or an origin without changes.
#[tokio::test]
async fn answers_that_claim_to_be_old_or_unchanged_harm_nobody() {
    let old = |name, value: &[u8]| Fault::Falsified(vec![(name, value.to_vec())]);
    let faults = vec![
        old("date", b"Thu, 01 Jan 1970 00:00:00 GMT"),
        old("age", b"99999999999"),
        Fault::NotModified,
        Fault::Raw(Raw::NotModifiedWithBody),
    ];
    harm_nobody(EVERYTHING, Told::No, faults).await;
}

#[tokio::test]
async fn lists_that_are_not_true_delay_the_first_crawl() {
    delay_the_first_crawl(LIST, false_texts()).await;
}

#[tokio::test]
async fn texts_that_are_not_json_delay_the_first_crawl() {
    delay_the_first_crawl(EVERYTHING, broken_texts()).await;
}

#[tokio::test]
async fn bytes_that_are_not_http_delay_the_first_crawl() {
    delay_the_first_crawl(EVERYTHING, broken_bytes()).await;
}

#[tokio::test]
async fn refusals_and_bombs_delay_the_first_crawl() {
    let mut faults = refusals();
    // Without a copy nothing can be unmodified.
    faults.extend([Fault::NotModified, Fault::Raw(Raw::NotModifiedWithBody)]);
    delay_the_first_crawl(EVERYTHING, faults).await;
}

#[tokio::test]
async fn a_fault_in_one_page_or_taxonomy_delays_the_first_crawl() {
    each(["/api/listings.json?page=2", "/api/cities.json"], async |prefix| {
        delay_the_first_crawl(prefix, vec![Fault::Status(500), Fault::Tampered(Tamper::Utf16)]).await;
    })
    .await;
}

#[tokio::test]
async fn a_fault_in_one_question_of_a_refresh_harms_nobody() {
    each(["/api/cities.json", "/api/listings.json?per_page=100"], async |prefix| {
        harm_nobody(prefix, Told::Yes, vec![Fault::Status(500), Fault::HtmlWith200, Fault::Reset]).await;
    })
    .await;
}

/// The probe only saves requests: without its answer every page is read.
#[tokio::test]
async fn a_probe_that_is_not_answered_hides_no_change() {
    let origin = origin(130).await;
    let server = restless(&origin).start().await;
    complete(&server).await;
    let ids = origin.world(World::ids);
    for fault in [Fault::Status(500), Fault::Status(400), Fault::HtmlWith200, Fault::Reset] {
        eprintln!("{fault:?}");
        let before = server.snapshot().await;
        let rule = FaultRule::always("/api/listings.json?modified_since=", fault);
        origin.set(|switches| switches.faults = vec![rule]);
        origin.edit(|world| assert!(world.touch(ids[3])));
        wait_until("the change shows", || async { server.snapshot().await != before }).await;
        list_is_the_origins(&server, &origin, LIST).await;
        origin.set(|switches| switches.faults.clear());
    }
}
