//! An origin address that leads back to us: refused at start if visible, else ended at the first request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::client::{Reply, http2_client};
use crate::harness::{Script, Seen, Server, Setup, Upstream, origin, run, wait_until};

const PATH: &str = "/api/regions.json";
const KNOWN: &str = "/api/sports.json";

/// An answer to anything, kept for an hour.
fn kept(_: &Seen) -> Script {
    Script::new(200, "[]").with("Cache-Control", "max-age=3600").with("Content-Type", "application/json")
}

/// The name of a server, as its origin sees it.
fn name_in(seen: &Seen) -> String {
    let name = seen.header("cdn-loop").unwrap_or_else(|| panic!("{}", seen.head)).to_owned();
    assert!(name.starts_with("grandstand-") && name.len() == "grandstand-".len() + 16, "{name}");
    name
}

#[tokio::test]
async fn every_request_to_the_origin_names_who_asks() {
    let origin = Upstream::start(kept).await;
    let methods = r#"["GET", "HEAD", "POST"]"#;
    let server = Setup::shield_of_url(&origin.url()).set("passthrough.methods", methods).start().await;
    server.get(KNOWN).await;
    server.get(PATH).await;
    server.head("/api/head").await;
    server.send(Method::POST, "/api/post", &[("content-length", "0")]).await;
    let name = name_in(&origin.seen()[0]);
    for seen in origin.seen() {
        assert_eq!(seen.header("cdn-loop"), Some(&*name), "{}", seen.head);
        assert_eq!(seen.header("via"), Some(&*format!("1.1 {name}")), "{}", seen.head);
    }
    let url = format!("http://{}/api/http2", server.public);
    http2_client().get(url).send().await.unwrap();
    assert_eq!(origin.seen().pop().unwrap().header("via"), Some(&*format!("2.0 {name}")));
    // Existing values stay in front.
    let fields = [("via", "1.0 fred (a, b)"), ("via", "1.1 p.example.net"), ("cdn-loop", "foo; a=\"b\"")];
    for (method, target) in [(Method::GET, "/api/chain"), (Method::POST, "/api/chain")] {
        server.send(method, target, &fields).await;
        let seen = origin.seen().pop().unwrap();
        assert_eq!(seen.header("via"), Some(&*format!("1.0 fred (a, b), 1.1 p.example.net, 1.1 {name}")));
        assert_eq!(seen.header("cdn-loop"), Some(&*format!("foo; a=\"b\", {name}")));
        assert_eq!(seen.headers.get_all("via").iter().count(), 1);
    }
    // Another server has another name, and so has this one after a restart.
    let other = Setup::shield_of_url(&origin.url()).start().await;
    other.get(PATH).await;
    assert_ne!(name_in(&origin.seen().pop().unwrap()), name);
}

#[tokio::test]
async fn a_request_that_comes_back_is_508() {
    let origin = Upstream::start(kept).await;
    let server = Setup::shield_of_url(&origin.url()).set("passthrough.methods", r#"["GET", "POST"]"#).start().await;
    server.get(PATH).await;
    let name = name_in(&origin.seen()[0]);
    origin.forget();
    let via = format!("1.0 fred, 2.0 {name}, 1.1 p.example.net");
    let cdn_loop = format!("other, {name}; x=y");
    for fields in [[("via", via.as_str())], [("cdn-loop", cdn_loop.as_str())]] {
        // Kept or not, known or not.
        for target in [PATH, "/api/other", KNOWN, "/api/listings/1.json", "/nowhere"] {
            server.get_with(target, &fields).await.assert_problem(508, &["Via or CDN-Loop"]);
        }
        assert_eq!(server.send(Method::POST, "/api/x", &fields).await.status, 508);
        let url = format!("http://{}{PATH}", server.public);
        let reply = http2_client().get(url).header(fields[0].0, fields[0].1).send().await.unwrap();
        Reply::of(reply).await.assert_problem(508, &[]);
    }
    assert_eq!(origin.count(), 0);
    // The names of others, of other servers of this kind as well, are none of our business.
    for fields in [("via", "1.1 grandstand-0123456789abcdef"), ("cdn-loop", "cloudflare, fastly")] {
        assert_eq!(server.get_with(PATH, &[fields]).await.status, 200);
        assert_eq!(server.get_with(KNOWN, &[fields]).await.status, 200);
    }
}

#[tokio::test]
async fn a_snapshot_does_not_hide_a_loop_and_what_a_mirror_asks_for_itself_has_no_via() {
    let sample = origin(20).await;
    // In front of a mirror of the sample: a scripted origin that sees its name.
    let listening = Upstream::start(|_| Script::new(404, "")).await;
    let mut server = Setup::mirror_of(&sample).start().await;
    server.settled(&sample).await;
    server.restart_with("origin.url", &listening.url()).await;
    wait_until("it asks", || async { listening.count() > 0 }).await;
    let name = name_in(&listening.seen()[0]);
    for seen in listening.seen() {
        assert_eq!(
            (name_in(&seen), seen.header("via")),
            (name.clone(), None),
            "nginx compresses nothing then: {}",
            seen.head
        );
    }
    assert_eq!(server.ok("/api/listings.json").await.total(), 20, "the snapshot is served");
    let reply = server.get_with("/api/listings.json", &[("cdn-loop", &name)]).await;
    reply.assert_problem(508, &[]);
}

/// An address whose target is decided later.
struct Relay {
    address: SocketAddr,
    to: Arc<Mutex<Option<SocketAddr>>>,
}

impl Relay {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, to) = (listener.local_addr().unwrap(), Arc::<Mutex<Option<SocketAddr>>>::default());
        let leads = to.clone();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let leads = *leads.lock();
                tokio::spawn(async move {
                    let mut to = TcpStream::connect(leads.expect("it leads somewhere")).await?;
                    copy_bidirectional(&mut from, &mut to).await
                });
            }
        });
        Self { address, to }
    }

    fn leads_to(&self, address: SocketAddr) {
        *self.to.lock() = Some(address);
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A shield with more patience than any test.
fn patient(url: &str) -> Setup {
    Setup::shield_of_url(url).set("origin.timeout", "10m").set("origin.wait", "10m")
}

#[tokio::test]
async fn servers_that_ask_each_other_stop_at_once() {
    for length in [1, 2, 3] {
        let relay = Relay::start().await;
        let first = patient(&relay.url()).start().await;
        let mut others: Vec<Server> = Vec::new();
        for _ in 1..length {
            let next = others.last().unwrap_or(&first).public;
            others.push(patient(&format!("http://{next}")).start().await);
        }
        relay.leads_to(others.last().unwrap_or(&first).public);
        for (target, status) in [(PATH, 508), (KNOWN, 503), ("/api/listings/1.json", 503)] {
            let start = Instant::now();
            let reply = first.get(target).await;
            assert_eq!(reply.status, status, "{length} {target}: {reply:?}");
            assert!(start.elapsed() < Duration::from_secs(25), "{length} {target}: {:?}", start.elapsed());
        }
    }
}

#[tokio::test]
async fn a_chain_of_servers_is_no_loop() {
    let upstream = Upstream::start(kept).await;
    let inner = Setup::shield_of_url(&upstream.url()).start().await;
    let outer = Setup::shield_of_url(&format!("http://{}", inner.public)).start().await;
    for target in [PATH, KNOWN] {
        assert_eq!(outer.ok(target).await.text(), "[]", "{target}");
        let seen = upstream.seen_of(target).pop().unwrap();
        let names: Vec<&str> = seen.header("cdn-loop").unwrap().split(", ").collect();
        assert!(names.len() == 2 && names[0] != names[1], "{}", seen.head);
        assert_eq!(seen.header("via").unwrap(), format!("1.1 {}, 1.1 {}", names[0], names[1]));
    }
    // A mirror behind a shield.
    let sample = origin(20).await;
    let shield = Setup::shield_of(&sample).start().await;
    let url = format!("http://{}", shield.public);
    let mirror = Setup::mirror_of(&sample).set("origin.url", &url).start().await;
    mirror.ready().await;
    assert_eq!(mirror.ok("/api/listings.json").await.total(), 20);
}

#[tokio::test]
async fn an_origin_that_is_one_of_our_own_listeners_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::offline().set("listen", r#"["0.0.0.0:1"]"#).set("admin.listen", "127.0.0.1:2");
    for (url, key) in [
        ("http://127.0.0.1:1", Some("(listen)")),
        ("http://localhost:1/base", Some("(listen)")),
        ("http://127.0.0.1:2", Some("(admin.listen)")),
        (crate::harness::PUBLIC, Some("is also public_url")),
        ("http://127.0.0.1:3", None),
        ("http://127.0.0.2:2", None),
        ("http://nowhere.invalid:1", None),
    ] {
        let setup = setup.clone().set("origin.url", url);
        let (code, said) = run(&setup.arguments(&["check"], dir.path())).await;
        assert_eq!(code, if key.is_some() { 64 } else { 0 }, "{url}: {said}");
        assert!(key.is_none_or(|key| said.contains("origin.url") && said.contains(key)), "{url}: {said}");
    }
    let serve = setup.set("origin.url", "http://127.0.0.1:1").arguments(&["serve"], &dir.path().join("data"));
    let (code, said) = run(&serve).await;
    assert_eq!(code, 64, "{said}");
    assert!(!dir.path().join("data").exists(), "nothing is touched");
}
