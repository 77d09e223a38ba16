//! A store behind a plain web server: conditional reads of the head, downloads that go on after an interruption, nginx.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sample_origin::Switches;
use tokio::net::{TcpListener, TcpStream};

use super::{Shelf, all_of, follows, says};
use crate::fleet::relay::{Line, Relay};
use crate::forward_proxy::ForwardProxy;
use crate::gap::{is_one_of, mirrored};
use crate::harness::nginx::OnPort;
use crate::harness::openssl::acceptor;
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
async fn a_web_server_that_is_down_or_refuses_disturbs_nothing() {
    let (_mirror, mut shelf, setup) = signed_shelf(60).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let web = Upstream::start(files(shelf.root(), false)).await;
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
    replica.ok("/api/listings.json").await;
    web.answers(files(shelf.root(), false));
    let sequence = shelf.publish();
    follows(&replica, &snapshot, sequence).await;
}

#[tokio::test]
async fn a_web_server_that_sends_chunks_or_compresses_unasked_is_followed() {
    let (mirror, mut shelf, setup) = signed_shelf(60).await;
    let web = Upstream::start(files(shelf.root(), false)).await;
    let setup = setup.set("replica.url", &format!("{}/fleet", web.url()));
    for compresses in [false, true] {
        let (snapshot, sequence, root) = (shelf.snapshot(), shelf.publish(), shelf.root());
        web.answers(move |seen| {
            let Ok(mut content) = fs::read(root.join(seen.target.trim_start_matches("/fleet/"))) else {
                return Script::new(404, "");
            };
            if compresses {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                gzip.write_all(&content).unwrap();
                content = gzip.finish().unwrap();
            }
            let script = Script::new(200, content[..1].to_vec()).then(Duration::ZERO, content[1..].to_vec());
            if compresses { script.with("Content-Encoding", "gzip") } else { script }
        });
        let replica = setup.clone().start().await;
        follows(&replica, &snapshot, sequence).await;
        is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    }
}

/// Where a web server can be reached over TLS, with the certificate in this directory. It ends with the test.
async fn behind_tls(certificate: &Path, web: &Upstream) -> SocketAddr {
    let (acceptor, listener) = (acceptor(certificate), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (address, to) = (listener.local_addr().unwrap(), web.address());
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust the certificate hangs up.
                let Ok(mut client) = acceptor.accept(tcp).await else { return };
                let mut server = TcpStream::connect(to).await.unwrap();
                let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn over_https_heads_need_no_signature_and_the_server_a_good_certificate() {
    let (_origin, mirror) = mirrored(60, Switches::default()).await;
    let mut shelf = Shelf::new();
    shelf.full(&mirror).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let (web, certificate) = (Upstream::start(files(shelf.root(), false)).await, certified());
    let secure = behind_tls(certificate.path(), &web).await;
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
async fn a_store_that_stops_in_the_middle_of_an_object_is_left_and_the_download_goes_on() {
    let (mirror, mut shelf, setup) = signed_shelf(700).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let web = Upstream::start(files(shelf.root(), false)).await;
    let relay = Relay::to(web.address().port()).await;
    relay.set(Line::Stops(PIECE as u64));
    let address = format!("http://127.0.0.1:{}/fleet", relay.port());
    let replica = setup.set("replica.url", &address).start().await;
    says(&replica, "the object store did not answer within 30 s (full/").await;
    let ready = replica.admin(http::Method::GET, "/readyz").await;
    assert_eq!(ready.status, 503, "{ready:?}");
    relay.set(Line::Open);
    replica.refresh().await;
    follows(&replica, &snapshot, sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    let seen = web.seen_of(&format!("/fleet/{}", shelf.key_of(0)));
    assert!(
        seen[0].header("range").is_none() && seen[1..].iter().all(|seen| seen.header("range").is_some()),
        "{seen:?}"
    );
    // A head that does not come is waited for as long as any small answer.
    relay.set(Line::Hangs);
    says(&replica, "the object store did not answer within 20 s (head.json)").await;
    replica.ok("/api/listings.json").await;
}

#[tokio::test]
async fn nginx_serves_a_store_as_plain_files() {
    let (mirror, mut shelf, setup) = signed_shelf(120).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let nginx = OnPort::files(&shelf.root()).await;
    let replica = setup.set("replica.url", &format!("{}/fleet", nginx.url())).start().await;
    follows(&replica, &snapshot, sequence).await;
    is_one_of(&all_of(&replica).await, &[&all_of(&mirror).await]);
    super::polled(&replica, "unchanged").await;
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

#[tokio::test]
async fn redirects_lead_only_to_the_same_scheme_host_and_port() {
    let (_mirror, mut shelf, setup) = signed_shelf(60).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let elsewhere = Upstream::start(files(shelf.root(), false)).await;
    let to = elsewhere.url();
    let web = Upstream::start(move |seen| Script::new(302, "").with("Location", format!("{to}{}", seen.target))).await;
    let replica = setup.set("replica.url", &format!("{}/fleet", web.url())).start().await;
    says(&replica, "only redirects to the same scheme, host and port are followed").await;
    assert_eq!(elsewhere.count(), 0);
    let root = shelf.root();
    web.answers(move |seen| match seen.target.strip_prefix("/fleet/moved/") {
        Some(rest) => files(root.clone(), false)(&Seen { target: format!("/fleet/{rest}"), ..seen.clone() }),
        None => Script::new(307, "").with("Location", seen.target.replace("/fleet/", "/fleet/moved/")),
    });
    follows(&replica, &snapshot, sequence).await;
    web.answers(|seen| Script::new(302, "").with("Location", &seen.target));
    shelf.publish();
    says(&replica, "it redirects more than 10 times").await;
    replica.ok("/api/listings.json").await;
}

#[tokio::test]
async fn a_download_that_drips_holds_neither_a_refresh_nor_the_true_reason() {
    let (_mirror, mut shelf, setup) = signed_shelf(60).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let root = shelf.root();
    let web = Upstream::start(move |seen| {
        let whole = files(root.clone(), false)(seen);
        if !seen.target.contains("/full/") {
            return whole;
        }
        let content = fs::read(root.join(seen.target.trim_start_matches("/fleet/"))).unwrap();
        let begin = Script::new(200, content[..1].to_vec()).announced(content.len());
        let begin = begin.with("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT");
        let drips = (1..200).fold(begin, |script, at| script.then(Duration::from_secs(1), content[at..=at].to_vec()));
        drips.counted()
    })
    .await;
    let replica = setup.set("replica.url", &format!("{}/fleet", web.url())).start().await;
    let downloads = || web.seen().iter().filter(|seen| seen.target.contains("/full/")).count();
    soon("it downloads", || async { downloads() > 0 }).await;
    soon("the progress is told", || async {
        let ready = replica.admin(http::Method::GET, "/readyz").await;
        ready.text().contains("is being downloaded")
    })
    .await;
    web.answers(files(shelf.root(), false));
    let heads = web.count_of("/fleet/head.json");
    replica.refresh().await;
    soon("the head is read again", || async { web.count_of("/fleet/head.json") > heads }).await;
    follows(&replica, &snapshot, sequence).await;
}

/// Answers that no sound store gives, for a head and for a bundle: each is told, and the data stays.
#[tokio::test]
async fn answers_with_odd_framing_are_told_and_change_nothing() {
    const FIELDS: &str = "ETag: \"odd\"\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\n";
    let (mirror, mut shelf, setup) = signed_shelf(60).await;
    let (snapshot, sequence) = (shelf.snapshot(), shelf.publish());
    let web = Upstream::start(files(shelf.root(), false)).await;
    let replica = setup.set("replica.url", &format!("{}/fleet", web.url())).start().await;
    follows(&replica, &snapshot, sequence).await;
    let raw = |rest: &str| Script::raw(format!("HTTP/1.1 {rest}"));
    let odd = move |case: usize| match case {
        0 => raw(&format!("200 OK\r\n{FIELDS}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")),
        1 => raw(&format!("200 OK\r\n{FIELDS}Content-Length: 5000\r\n\r\nshort")),
        2 => raw(&format!("200 OK\r\n{FIELDS}Content-Length: 3\r\n\r\nlonger than it says")),
        3 => raw(&format!("200 OK\r\n{FIELDS}Content-Length: 0\r\n\r\n")),
        4 => raw(&format!(
            "206 Partial Content\r\n{FIELDS}Content-Range: bytes 7-9/5000\r\nContent-Length: 3\r\n\r\nxyz"
        )),
        5 => Script::new(200, "<Error><Code>SlowDown</Code></Error>").with("ETag", "\"odd\""),
        6 => raw(&format!("200 OK\r\n{FIELDS}Content-Length: 18446744073709551616\r\n\r\nx")),
        7 => raw(&format!("200 OK\r\n{FIELDS}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd")),
        8 => raw("304 Not Modified\r\n\r\n"),
        9 => Script::new(200, "x".repeat(4096)).repeating("x".repeat(65_536), 100_000),
        10 => raw(&format!("200 OK\r\n{FIELDS}\r\nuntil the connection ends")),
        11 => raw("204 No Content\r\n\r\n"),
        12 => Script::new(200, "x").then(Duration::ZERO, "x").repeating("x".repeat(65_536), 100_000),
        _ => raw("200 OK\r\nLast-Modified: yesterday\r\nContent-Length: 2\r\n\r\n{}"),
    };
    for of_head in [true, false] {
        for case in 0..14 {
            if !of_head {
                // An empty disk has to download the bundle; with data, the head is read conditionally.
                shelf.full(&mirror).await;
                shelf.publish();
            }
            let (root, is_asked) = (shelf.root(), Arc::new(AtomicBool::new(false)));
            let asked = is_asked.clone();
            web.answers(move |seen| {
                if seen.target.ends_with("head.json") != of_head || seen.target.contains("journal") {
                    return files(root.clone(), false)(seen);
                }
                asked.store(true, Ordering::Relaxed);
                odd(case)
            });
            let fresh = (!of_head).then(|| replica.setup.clone());
            let server = match fresh {
                Some(setup) => &setup.start().await,
                None => &replica,
            };
            soon(&format!("case {case} is told ({of_head})"), || async {
                server.refresh().await;
                let status = server.status().await;
                is_asked.load(Ordering::Relaxed)
                    && status["replica"]["why"].as_str().is_some_and(|why| !why.is_empty() && why.len() <= 500)
            })
            .await;
            println!("{of_head} {case}: {}", server.status().await["replica"]["why"]);
            replica.ok("/api/listings.json").await;
            web.answers(files(shelf.root(), false));
            server.refresh().await;
            follows(server, &snapshot, shelf.sequence).await;
        }
    }
}
