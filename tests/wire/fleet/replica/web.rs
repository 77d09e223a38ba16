//! A store behind a plain web server: conditional reads of the head, downloads that go on after an interruption.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sample_origin::Switches;

use super::{Shelf, all_of, follows, polled, says};
use crate::forward_proxy::ForwardProxy;
use crate::gap::{is_one_of, mirrored};
use crate::harness::nginx::OnPort;
use crate::harness::openssl::in_front_of;
use crate::harness::{Script, Seen, Setup, Upstream, soon};
use crate::tls::certified;

/// How much of a large file a connection delivers before it breaks, in bytes.
const PIECE: usize = 40_000;

/// Answers like a web server with the files of a directory; large files break off.
fn files(root: PathBuf, breaks: bool) -> impl Fn(&Seen) -> Script + Send + Sync + 'static {
    move |seen| {
        let path = root.join(seen.target.trim_start_matches("/fleet/"));
        let Ok(content) = fs::read(path) else { return Script::new(404, "") };
        let tag = format!("\"{}\"", &blake3::hash(&content).to_hex()[..16]);
        if seen.header("if-none-match") == Some(&tag) {
            return Script::new(304, "").with("ETag", tag);
        }
        let range = seen.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let from = range.and_then(|(from, _)| from.parse().ok());
        let (whole, from) = (content.len(), from.unwrap_or(0_usize));
        let mut rest = content[from..].to_vec();
        let length = rest.len();
        let status = if from > 0 { 206 } else { 200 };
        if breaks && seen.target.contains("/full/") {
            rest.truncate(PIECE);
        }
        let mut script =
            Script::new(status, rest).with("ETag", tag).with("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT");
        if from > 0 {
            script = script.with("Content-Range", format!("bytes {from}-{}/{whole}", whole - 1));
        }
        if breaks && length > PIECE && seen.target.contains("/full/") { script.announced(length) } else { script }
    }
}

/// Whether a file is an unfinished download.
fn is_part(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "part")
}

async fn signed_shelf(listings: usize) -> (crate::harness::Server, Shelf, Setup) {
    let (_origin, mirror) = mirrored(listings, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let key = shelf.make_key("ours");
    shelf.key = Some("ours");
    let setup = Setup::offline().set("bundle.trusted_keys", &format!("[\"{key}\"]")).set("replica.poll", "200ms");
    (mirror, shelf, setup)
}

#[tokio::test]
async fn a_download_goes_on_where_it_was_interrupted_also_by_the_end_of_the_process() {
    let (mirror, mut shelf, setup) = signed_shelf(700).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let bytes = shelf.chain[0]["bytes"].as_u64().unwrap();
    assert!(bytes > 3 * PIECE as u64, "{bytes}");
    let web = Upstream::start(files(shelf.root(), true)).await;
    let mut replica = setup.set("replica.url", &format!("{}/fleet", web.url())).start().await;
    let target = format!("/fleet/{}", shelf.key_of(0));
    let data = replica.data_dir();
    let part = || fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).find(|path| is_part(path));
    soon("some of it is on the disk", || async { part().is_some_and(|path| fs::metadata(path).unwrap().len() > 0) })
        .await;
    replica.restart().await;
    follows(&replica, &snapshot, sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    let seen = web.seen_of(&target);
    let ranges: Vec<u64> = seen
        .iter()
        .filter_map(|seen| seen.header("range")?.strip_prefix("bytes=")?.split_once('-')?.0.parse().ok())
        .collect();
    assert!(ranges.len() >= seen.len() - 1, "only the first one begins at the beginning: {ranges:?}");
    assert!(replica.process.said().contains("goes on where it was interrupted"), "{}", replica.process.said());
    // The head is read conditionally.
    let head = || web.seen_of("/fleet/head.json");
    let before = head().len();
    let conditional = || head()[before..].iter().filter(|seen| seen.header("if-none-match").is_some()).count();
    soon("it polls", || async { conditional() > 2 }).await;
}

#[tokio::test]
async fn a_server_that_sends_another_part_than_the_one_asked_for_is_asked_for_the_whole() {
    let (_mirror, mut shelf, setup) = signed_shelf(700).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let (breaks, whole, is_first) = (files(shelf.root(), true), files(shelf.root(), false), AtomicBool::new(true));
    let web = Upstream::start(move |seen| match seen.header("range") {
        Some(_) => Script::new(206, "x").with("ETag", "\"odd\"").with("Content-Range", "bytes 0-0/9999999"),
        None if seen.target.contains("/full/") && is_first.swap(false, Ordering::Relaxed) => breaks(seen),
        None => whole(seen),
    })
    .await;
    let replica = setup.set("replica.url", &format!("{}/fleet", web.url())).start().await;
    follows(&replica, &snapshot, sequence).await;
    let full = web.seen_of(&format!("/fleet/{}", shelf.key_of(0)));
    let asked: Vec<bool> = full.iter().map(|seen| seen.header("range").is_some()).collect();
    // The library asks for the rest, then we do, and then for the whole.
    assert_eq!(asked, [false, true, true, false]);
}

#[tokio::test]
async fn a_web_server_that_is_down_refuses_or_leads_elsewhere_disturbs_nothing() {
    let (_mirror, mut shelf, setup) = signed_shelf(60).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let (web, elsewhere) =
        (Upstream::start(files(shelf.root(), false)).await, Upstream::start(files(shelf.root(), false)).await);
    let replica = setup.set("replica.url", &format!("{}/fleet", web.url())).start().await;
    follows(&replica, &snapshot, sequence).await;
    web.go_down().await;
    says(&replica, "cannot be reached").await;
    replica.ok("/api/listings.json").await;
    web.come_back();
    let sequence = shelf.publish();
    follows(&replica, &snapshot, sequence).await;
    web.answers(|_| Script::new(403, "no"));
    says(&replica, "the object store refuses access").await;
    web.answers(|_| Script::new(200, "<html>").after(Duration::from_millis(10)));
    says(&replica, "the head cannot be read").await;
    let to = elsewhere.url();
    web.answers(move |seen| Script::new(302, "").with("Location", format!("{to}{}", seen.target)));
    says(&replica, "only redirects to the same scheme, host and port are followed").await;
    assert_eq!(elsewhere.count(), 0);
    web.answers(|seen| Script::new(302, "").with("Location", &seen.target));
    says(&replica, "it redirects more than 10 times").await;
    replica.ok("/api/listings.json").await;
    let (root, sequence) = (shelf.root(), shelf.publish());
    web.answers(move |seen| match seen.target.strip_prefix("/fleet/moved/") {
        Some(rest) => files(root.clone(), false)(&Seen { target: format!("/fleet/{rest}"), ..seen.clone() }),
        None => Script::new(307, "").with("Location", seen.target.replace("/fleet/", "/fleet/moved/")),
    });
    follows(&replica, &snapshot, sequence).await;
}

#[tokio::test]
async fn over_https_heads_need_no_signature_and_the_server_a_good_certificate() {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let (web, certificate) = (Upstream::start(files(shelf.root(), false)).await, certified());
    let secure = in_front_of(web.address(), certificate.path()).await;
    let setup = Setup::offline().set("replica.url", &format!("https://{secure}/fleet")).set("replica.poll", "200ms");
    let trusted = format!("SSL_CERT_FILE={}", certificate.path().join("ca.pem").display());
    let replica = setup.clone().under(&["env", &trusted]).start().await;
    follows(&replica, &snapshot, sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    let wary = setup.start().await;
    says(&wary, "cannot be reached").await;
    assert_eq!(wary.get("/api/listings.json").await.status, 503);
}

#[tokio::test]
async fn nginx_serves_a_store_as_plain_files() {
    let (mirror, mut shelf, setup) = signed_shelf(120).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let nginx = OnPort::files(&shelf.root()).await;
    let replica = setup.set("replica.url", &format!("{}/fleet", nginx.url())).start().await;
    follows(&replica, &snapshot, sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    polled(&replica, "unchanged").await;
    let sequence = shelf.publish();
    follows(&replica, &snapshot, sequence).await;
}

#[tokio::test]
async fn a_web_server_behind_a_proxy_and_a_password_is_followed() {
    let (_mirror, mut shelf, setup) = signed_shelf(60).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let files = files(shelf.root(), false);
    let web = Upstream::start(move |seen| match seen.header("authorization") {
        // me:hunter2
        Some("Basic bWU6aHVudGVyMg==") => files(seen),
        _ => Script::new(401, ""),
    })
    .await;
    let proxy = ForwardProxy::to(web.address()).await;
    let setup = setup.set("replica.url", "http://store.example.test/fleet").set("replica.proxy", &proxy.url());
    let setup = setup.set("replica.options.username", "me");
    let wrong = setup.clone().set("replica.options.password", "swordfish").start().await;
    says(&wrong, "the object store refuses access").await;
    let replica = setup.set("replica.options.password", "hunter2").start().await;
    follows(&replica, &snapshot, sequence).await;
    let status = replica.status().await;
    assert_eq!(status["replica"]["proxy"], proxy.url());
    assert!(!status.to_string().contains("hunter2") && !replica.process.said().contains("hunter2"));
    assert!(!wrong.process.said().contains("swordfish"));
    proxy.close();
    says(&replica, &format!("the proxy {} cannot be reached", proxy.url())).await;
}
