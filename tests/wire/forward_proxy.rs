//! An HTTP proxy between grandstand and the servers that it asks: the origin, and object stores.
//!
//! The names of those servers lead nowhere, so that only the proxy reaches them.

use std::net::SocketAddr;
use std::sync::Arc;

use ct_codecs::{Base64, Encoder as _};
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::fleet::bucket::{Bucket, Fault};
use crate::harness::openssl::{certificate, in_front_of};
use crate::harness::{Process, Script, Server, Setup, Upstream, origin, run, wait_until};

const PATH: &str = "/api/other.json";
const NAME: &str = "api.example.test";

/// The proxy: it asks one server in the place of all.
pub struct ForwardProxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    accepting: AbortHandle,
}

impl Drop for ForwardProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl ForwardProxy {
    pub async fn to(there: SocketAddr) -> Self {
        Self::asking(there, None).await
    }

    /// One that asks for these credentials, `user:password`.
    pub async fn asking(there: SocketAddr, credentials: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let expected = credentials.map(|pair| format!("Basic {}", Base64::encode_to_string(pair).unwrap()));
        let seen = heads.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (seen, expected) = (seen.clone(), expected.clone());
                // Either end may hang up.
                tokio::spawn(async move { pass(client, there, &seen, expected.as_deref()).await.ok() });
            }
        });
        Self { address, heads, accepting: accepting.abort_handle() }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn url_of(&self, credentials: &str) -> String {
        format!("http://{credentials}@{}", self.address)
    }

    /// Accepts no more connections.
    pub fn close(&self) {
        self.accepting.abort();
    }

    /// The heads of the requests so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().clone()
    }
}

async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8(head).unwrap())
}

/// One request: a tunnel, or a request in absolute form, after which the connection ends.
async fn pass(
    mut client: TcpStream,
    there: SocketAddr,
    seen: &Mutex<Vec<String>>,
    expected: Option<&str>,
) -> std::io::Result<()> {
    let head = read_head(&mut client).await?;
    seen.lock().push(head.clone());
    let is_own = |line: &&str| line.to_ascii_lowercase().starts_with("proxy-authorization:");
    let sent = head.lines().find(is_own).and_then(|line| line.split_once(": ")).map(|(_, value)| value);
    if expected.is_some() && sent != expected {
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"proxy\"\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n";
        return client.write_all(refusal.as_bytes()).await;
    }
    let mut server = TcpStream::connect(there).await?;
    if head.starts_with("CONNECT ") {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    } else {
        let (line, fields) = head.split_once("\r\n").unwrap();
        let [method, target, version] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let path = target.strip_prefix("http://").unwrap_or_else(|| panic!("no absolute form: {line}"));
        let path = &path[path.find('/').unwrap()..];
        let fields: String = fields.split_inclusive("\r\n").filter(|line| !is_own(line)).collect();
        server.write_all(format!("{method} {path} {version}\r\n{fields}").as_bytes()).await?;
        let length =
            head.to_ascii_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        copy(&mut (&mut client).take(length.unwrap_or(0)), &mut server).await?;
        let answer = read_head(&mut server).await?.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        client.write_all(answer.as_bytes()).await?;
    }
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

/// A server that says who it is.
async fn plain() -> Upstream {
    let body = json!({ "from": "the origin" }).to_string();
    Upstream::start(move |_| Script::new(200, body.clone()).with("Cache-Control", "no-store")).await
}

fn certified() -> TempDir {
    let dir = TempDir::new().unwrap();
    certificate(dir.path(), &format!("DNS:{NAME}"), &["-days", "2"]);
    dir
}

/// A shield of an origin that only the proxy reaches.
fn shield(scheme: &str) -> Setup {
    Setup::shield_of_url(&format!("{scheme}://{NAME}"))
}

async fn answers(server: &Server) {
    let reply = server.ok(PATH).await;
    assert_eq!(reply.json()["from"], "the origin");
}

/// The last error after a request that fails.
async fn fails(server: &Server) -> String {
    let reply = server.get(PATH).await;
    assert!(reply.status >= 500, "{reply:?}");
    server.status().await["last_error"]["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn an_http_origin_is_asked_in_absolute_form() {
    let web = plain().await;
    let proxy = ForwardProxy::asking(web.address(), Some("me:hunter2")).await;
    let server = shield("http").set("origin.proxy", &proxy.url_of("me:hunter2")).start().await;
    answers(&server).await;
    let heads = proxy.heads();
    assert!(heads[0].starts_with(&format!("GET http://{NAME}{PATH} HTTP/1.1\r\n")), "{heads:?}");
    assert_eq!(web.seen()[0].header("host"), Some(NAME));
    assert_eq!(web.seen()[0].header("proxy-authorization"), None);
    let status = server.status().await;
    assert_eq!(status["origin"]["proxy"], proxy.url());
    assert!(!status.to_string().contains("hunter2") && !server.process.said().contains("hunter2"));
}

#[tokio::test]
async fn an_https_origin_is_asked_through_a_tunnel() {
    let (web, dir) = (plain().await, certified());
    let proxy = ForwardProxy::asking(in_front_of(web.address(), dir.path()).await, Some("me:hunter2")).await;
    let ca = dir.path().join("ca.pem");
    let setup = shield("https").set("origin.ca_file", ca.to_str().unwrap());
    let server = setup.set("origin.proxy", &proxy.url_of("me:hunter2")).start().await;
    answers(&server).await;
    let heads = proxy.heads();
    assert!(heads[0].starts_with(&format!("CONNECT {NAME}:443 HTTP/1.1\r\n")), "{heads:?}");
    let seen = web.seen();
    assert_eq!((seen[0].target.as_str(), seen[0].header("proxy-authorization")), (PATH, None), "{seen:?}");
}

#[tokio::test]
async fn the_usual_variables_name_proxies_but_never_for_loopback() {
    let web = plain().await;
    let proxy = ForwardProxy::to(web.address()).await;
    let variable = |name: &str| format!("{name}={}", proxy.url());
    for (variables, is_asked) in [
        (vec![variable("http_proxy")], true),
        (vec![variable("ALL_PROXY"), "no_proxy=other.test".to_owned()], true),
        (vec![variable("http_proxy"), "NO_PROXY=.example.test".to_owned()], false),
        (vec![variable("HTTP_PROXY"), variable("https_proxy")], false),
    ] {
        let before = proxy.heads().len();
        let words: Vec<&str> = ["env"].into_iter().chain(variables.iter().map(String::as_str)).collect();
        let server = shield("http").set("origin.timeout", "1s").under(&words).start().await;
        let shown = server.status().await["origin"]["proxy"].clone();
        if is_asked {
            answers(&server).await;
            assert_eq!(shown, proxy.url());
        } else {
            assert_ne!(fails(&server).await, "");
            assert!(shown.is_null(), "{shown}");
        }
        assert_eq!(proxy.heads().len() > before, is_asked, "{variables:?}");
    }
    let before = proxy.heads().len();
    let near = Setup::shield_of_url(&web.url()).under(&["env", &variable("http_proxy"), &variable("all_proxy")]);
    let server = near.start().await;
    answers(&server).await;
    assert_eq!(proxy.heads().len(), before);
    let server = server.setup.clone().set("origin.proxy", &proxy.url()).start().await;
    answers(&server).await;
    assert_eq!(proxy.heads().len(), before + 1, "the key covers loopback");
}

#[tokio::test]
async fn an_error_names_the_proxy_and_says_what_it_wants() {
    let web = plain().await;
    let proxy = ForwardProxy::asking(web.address(), Some("me:hunter2")).await;
    web.go_down().await;
    let down = web.url();
    for scheme in ["http", "https"] {
        let server = shield(scheme).set("origin.proxy", &down).start().await;
        let told = fails(&server).await;
        assert!(told.contains(&format!("the proxy {down} cannot be reached: ")), "{told}");
        let server = shield(scheme).set("origin.proxy", &proxy.url()).start().await;
        let told = fails(&server).await;
        let want = format!("the proxy {} requires a user name and a password; write its address as", proxy.url());
        assert!(told.contains(&want), "{told}");
        let server = shield(scheme).set("origin.proxy", &proxy.url_of("me:swordfish")).start().await;
        let told = fails(&server).await;
        let want = format!("the proxy {} refuses the user name and the password in its address", proxy.url());
        assert!(told.contains(&want) && !server.process.said().contains("swordfish"), "{told}");
    }
}

#[tokio::test]
async fn check_shows_the_proxy_in_effect_without_its_password() {
    let dir = TempDir::new().unwrap();
    let arguments = |setup: &Setup| setup.arguments(&["check"], &dir.path().join("data"));
    let shown = |said: &str| said.lines().find(|line| line.contains("proxy:")).unwrap_or_default().to_owned();
    let (code, said) = run(&arguments(&shield("http").set("origin.proxy", "http://me:hunter2@one.test:3128"))).await;
    assert_eq!(
        (code, shown(&said).as_str()),
        (0, "# proxy: http://***@one.test:3128, user name and password not shown")
    );
    let set = "GRANDSTAND__ORIGIN__PROXY=http://one.test:3128";
    for (variables, line) in [
        (
            &["https_proxy=me:hunter2@two.test", "no_proxy=a.test"][..],
            "# proxy: from the environment: https_proxy=***@two.test, no_proxy=a.test",
        ),
        (&["https_proxy=two.test", set], "proxy = \"http://one.test:3128\""),
    ] {
        let words: Vec<String> = ["env"].iter().chain(variables).map(|&word| word.to_owned()).collect();
        let process = Process::spawn_under(&words, &arguments(&shield("http")), dir.path());
        let (_, said) = process.end().await;
        assert!(said.lines().any(|own| own == line) && !said.contains("hunter2"), "{said}");
    }
    let here = Setup::shield_of_url("http://127.0.0.1:9");
    let (code, said) =
        Process::spawn_under(&["env", "http_proxy=http://two.test"].map(str::to_owned), &arguments(&here), dir.path())
            .end()
            .await;
    assert_eq!((code, shown(&said).as_str()), (0, "# proxy: absent: no proxy"), "it never applies to this machine");
    let (code, said) = run(&arguments(&shield("http").set("origin.proxy", "socks5://me:hunter2@one.test"))).await;
    assert!(code == 64 && said.contains("is not the URL of an HTTP proxy") && !said.contains("hunter2"), "{said}");
    let bucket = Setup::offline().set("publish.url", "s3://bucket/one").set("publish.options.aws_proxy_url", "hunter2");
    let (code, said) = run(&arguments(&bucket)).await;
    let want = "publish.options.aws_proxy_url: is not supported: set the key `proxy` beside `options`";
    assert!(code == 64 && said.contains(want) && !said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn an_object_store_is_asked_through_its_own_proxy() {
    let (bucket, origin) = (Bucket::start(Fault::None).await, origin(60).await);
    let proxy = ForwardProxy::asking(bucket.address(), Some("me:hunter2")).await;
    let setup = bucket.publishing(Setup::mirror_of(&origin));
    let setup = setup.set("publish.options.aws_endpoint", &format!("http://{NAME}"));
    let server = setup.set("publish.proxy", &proxy.url_of("me:hunter2")).start().await;
    wait_until("the store has what is served", || async {
        let snapshot = server.snapshot().await;
        bucket.head().is_some_and(|head| head.snapshot() == snapshot)
    })
    .await;
    let status = server.status().await;
    assert_eq!((&status["publish"]["proxy"], &status["origin"]["proxy"]), (&json!(proxy.url()), &json!(null)));
    let heads = proxy.heads();
    assert!(heads.iter().all(|head| head.contains(&format!(" http://{NAME}/bucket"))), "{heads:?}");
    assert!(!status.to_string().contains("hunter2") && !server.process.said().contains("hunter2"));
}
