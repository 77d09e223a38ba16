//! The process: exit codes, signals, the command line, and who may use a data directory.

mod configured;
mod limits;
mod log;
mod status;
mod sync;

use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use http::Method;
use socket2::{Domain, Socket, Type};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::{Reply, http2_client, plain_client, raw_get};
use crate::harness::{PATIENCE, Process, Setup, origin, run, wait_until};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[tokio::test]
async fn an_address_that_is_taken_ends_it_at_once_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (key, setup) in [
        ("listen", Setup::offline().set("listen", &format!("[{address:?}]"))),
        ("listen", Setup::offline().set("listen", &format!("[\"127.0.0.1:0\", {address:?}]"))),
        ("admin.listen", Setup::offline().set("admin.listen", &address)),
    ] {
        let start = Instant::now();
        let (code, said) = run(&setup.arguments(&["serve"], &dir.path().join("data"))).await;
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&format!("grandstand: {key}: cannot listen on {address}: ")), "{said}");
        assert!(said.contains("stop the program that listens there"), "{said}");
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

/// A port that no other program takes while this lives. A server can listen on it, in IPv4 and IPv6.
pub fn reserved_port() -> (u16, [Socket; 2]) {
    let reserve = |address: SocketAddr| {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        if address.is_ipv6() {
            socket.set_only_v6(true).unwrap();
        }
        socket.bind(&address.into()).map(|()| socket)
    };
    loop {
        let v4 = reserve(SocketAddr::from(([0, 0, 0, 0], 0))).unwrap();
        let port = v4.local_addr().unwrap().as_socket().unwrap().port();
        if let Ok(v6) = reserve(SocketAddr::from(([0; 16], port))) {
            return (port, [v4, v6]);
        }
    }
}

#[tokio::test]
async fn ipv4_and_ipv6_share_a_port_and_one_ipv6_address_serves_both() {
    let (port, _reserved) = reserved_port();
    let any = [SocketAddr::from(([127, 0, 0, 1], port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    for listen in [["0.0.0.0", "[::]"], ["[::]", "0.0.0.0"], ["127.0.0.1", "[::]"], ["0.0.0.0", "[::1]"]] {
        let listen = listen.map(|host| format!("{host}:{port}"));
        let server = Setup::offline().set("listen", &format!("{listen:?}")).start().await;
        for address in any {
            assert_eq!(raw_get(address, "/nothing").await.status, 404, "{listen:?} {address}");
        }
        assert_eq!(server.status().await["listen"], serde_json::json!(listen));
    }
    let server = Setup::offline().set("listen", "[::]:0").set("admin.listen", "[::]:0").start().await;
    for host in ["127.0.0.1", "::1"] {
        let at = |port| SocketAddr::new(host.parse().unwrap(), port);
        assert_eq!(raw_get(at(server.public.port()), "/nothing").await.status, 404, "{host}");
        let livez = format!("http://{}/livez", at(server.admin.port()));
        assert_eq!(plain_client().get(livez).send().await.unwrap().status(), 200, "{host}");
    }
}

#[tokio::test]
async fn a_wrong_configuration_ends_it_with_64_and_all_errors() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = [
        ("ttl", "soon"),
        ("rate_limit.requests_per_minute", "-1"),
        ("origin.urll", "x"),
        ("listen", "[]"),
        ("client_ip.proxy_protocol", "true"),
        ("origin.ca_file", "/nowhere/ca.pem"),
        ("a..b", "1"),
    ];
    let setup = wrong.iter().fold(Setup::offline(), |setup, (key, value)| setup.set(key, value));
    for command in ["serve", "check"] {
        let mut arguments = setup.arguments(&[command], &dir.path().join("data"));
        arguments.extend(words(&["--set", "novalue"]));
        let (code, said) = run(&arguments).await;
        assert_eq!(code, 64, "{said}");
        for (key, _) in wrong.into_iter().chain([("novalue", "")]) {
            assert!(said.contains(key), "{command} does not name {key}: {said}");
        }
    }
    assert!(!dir.path().join("data").exists(), "nothing is touched");
}

#[tokio::test]
async fn links_lead_to_the_first_listener_when_no_public_url_is_set() {
    let origin = origin(60).await;
    let setup = || Setup::mirror_of(&origin).without("public_url");
    for (listen, host) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "localhost")] {
        let server = setup().set("listen", &format!(r#"["{listen}", "127.0.0.1:0"]"#)).start().await;
        server.settled(&origin).await;
        let own = format!("http://{host}:{}/api/", server.public.port());
        let list = server.ok("/api/listings.json").await;
        assert!(list.the("link").contains(&format!("<{own}listings.json?page=2>; rel=\"next\"")), "{list:?}");
        let states = server.ok("/api/states.json").await;
        let states = states.text();
        assert!(states.contains(&format!("{own}listings.json?state=")), "{states}");
    }
    // The same for read-through answers.
    let shield = Setup::shield_of(&origin).without("public_url").start().await;
    let states = shield.ok("/api/states.json").await;
    let states = states.text();
    assert!(states.contains(&format!("http://{}/api/listings.json?state=", shield.public)), "{states}");
}

#[tokio::test]
async fn a_public_url_on_a_loopback_port_that_nobody_listens_on_is_warned_of() {
    let setup = Setup::offline().set("public_url", "http://127.0.0.1:1");
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = run(&setup.arguments(&["check"], dir.path())).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("warning: --set: public_url: ") && said.contains("port 1"), "{said}");
    let server = setup.start().await;
    wait_until("serve warns", || async { server.process.said().contains("but no listener here has it") }).await;
    let elsewhere = run(&Setup::offline().arguments(&["check"], dir.path())).await.1;
    assert!(!elsewhere.contains("public_url: "), "{elsewhere}");
}

#[tokio::test]
async fn a_stop_finishes_the_request_in_flight_and_ends_with_0() {
    for signal in ["TERM", "INT"] {
        let origin = origin(20).await;
        // Only the request delays it: a stop that waits in vain would take minutes.
        let mut server = Setup::mirror_of(&origin).set("drain", "10m").start().await;
        server.settled(&origin).await;
        origin.clear_log();
        origin.set(|switches| switches.latency = Duration::from_millis(1_500));
        let url = format!("http://{}/api/regions.json", server.public);
        let in_flight = tokio::spawn(async move { Reply::of(plain_client().get(url).send().await.unwrap()).await });
        wait_until("the request is at the origin", || async { origin.count() > 0 }).await;
        server.process.signal(signal);
        let reply = in_flight.await.unwrap();
        assert_eq!(reply.status, 200, "{signal}");
        assert!(reply.text().contains("northeast"));
        assert_eq!(server.process.exit().await, 0, "{signal}");
        assert!(TcpStream::connect(server.public).await.is_err(), "nobody listens any more");
    }
}

#[tokio::test]
async fn a_client_that_sends_its_headers_in_drips_is_cut() {
    const BOUND: Duration = Duration::from_secs(38);
    let server = Setup::offline().start().await;
    let mut stream = TcpStream::connect(server.public).await.unwrap();
    stream.write_all(b"GET /api/listings.json HTTP/1.1\r\nHost: a\r\nX-Slow: ").await.unwrap();
    let start = Instant::now();
    let (mut reading, mut writing) = stream.into_split();
    let cut = async {
        let mut rest = Vec::new();
        // An answer such as 408 in front of the end is fine.
        let _ = reading.read_to_end(&mut rest).await;
    };
    let drip = async {
        loop {
            tokio::time::sleep(Duration::from_millis(400)).await;
            if writing.write_all(b"x").await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let ended = tokio::time::timeout(BOUND, async {
        tokio::select! { () = cut => {}, () = drip => {} }
    });
    assert!(ended.await.is_ok(), "still connected after {:?}", start.elapsed());
}

#[tokio::test]
async fn probes_of_load_balancers_cost_nothing_and_reach_nobody_else() {
    let origin = origin(60).await;
    origin.shutdown().await;
    let setup = Setup::mirror_of(&origin).set("rate_limit.requests_per_minute", "2").set("log.access", "true");
    let server = setup.set("passthrough.paths", "[\"/\"]").start().await;
    for (path, status, word) in [("/livez", 200, "alive\n"), ("/readyz", 503, "unready\n")] {
        for _ in 0..5 {
            let reply = server.get(path).await;
            assert_eq!((reply.status, reply.text()), (status, word), "{path}");
            assert_eq!((reply.the("cache-control").as_str(), reply.header("ratelimit")), ("no-store", None), "{path}");
        }
        let head = server.send(Method::HEAD, &format!("{path}?x=1"), &[]).await;
        assert_eq!((head.status, head.body.len(), head.the("content-length")), (status, 0, word.len().to_string()));
    }
    origin.restart().await.unwrap();
    wait_until("it is ready", || async { server.get("/readyz").await.status == 200 }).await;
    assert_eq!(server.get("/readyz").await.text(), "ready\n");
    let over_http2 = http2_client().get(format!("http://{}/livez", server.public)).send().await.unwrap();
    assert_eq!((over_http2.status().as_u16(), over_http2.text().await.unwrap()), (200, "alive\n".to_owned()));
    assert!(
        origin.log().iter().all(|seen| !seen.path_and_query.contains("vez") && !seen.path_and_query.contains("dyz"))
    );
    assert_eq!(server.send(Method::POST, "/livez", &[]).await.status, 405);
    assert!(!server.process.said().contains("GET /livez"), "{}", server.process.said());
    let shield = Setup::shield_of(&origin).start().await;
    assert_eq!(shield.get("/readyz").await.status, 200);
}

#[tokio::test]
async fn status_prints_what_the_running_server_knows() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let admin = format!("http://{}", server.admin);
    for arguments in [
        words(&["status", "--json", "--admin", &admin]),
        server.setup.arguments(&["status", "--json"], &server.data_dir()),
    ] {
        let (code, said) = run(&arguments).await;
        assert_eq!(code, 0, "{said}");
        let status: serde_json::Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        assert_eq!(status["snapshot"]["id"], server.snapshot().await.as_str());
    }
    for admin in
        [&admin, &server.admin.to_string(), &format!("{admin}/"), &format!("localhost:{}", server.admin.port())]
    {
        let (code, said) = run(&words(&["status", "--admin", admin])).await;
        assert_eq!(code, 0, "{said}");
        assert!(said.starts_with("grandstand healthy (mirror)\n") && said.contains("20"), "{said}");
    }
    let (code, said) = run(&words(&["status", "--admin", ":9090"])).await;
    assert!(code == 64 && said.contains("HOST:PORT"), "{code} {said}");
    let (code, said) = run(&words(&["status", "--admin", "127.0.0.1:1"])).await;
    assert!(code == 1 && said.contains("http://127.0.0.1:1") && said.contains("refused"), "{code} {said}");
}

#[tokio::test]
async fn an_offline_server_without_data_starts_and_says_why_it_is_not_ready() {
    let no_source = "no snapshot has been imported yet, and origin.url is not set";
    let mut server = Setup::offline().start().await;
    assert_eq!(server.admin(Method::GET, "/livez").await.status, 200);
    let ready = server.admin(Method::GET, "/readyz").await;
    assert!(ready.status == 503 && !ready.body.is_empty(), "the reason: {ready:?}");
    for target in ["/api/listings.json", "/api/sports.json", "/api/listings/1.json"] {
        let reply = server.get(target).await;
        reply.assert_problem(503, &[]);
        reply.the("retry-after");
    }
    assert_eq!(server.get("/api/listings.json?page=0").await.status, 400);
    wait_until("the log says it", || async { server.process.said().contains(no_source) }).await;
    let said = server.process.said();
    let line = said.lines().find(|line| line.contains(no_source)).unwrap();
    assert!(line.contains("WARN") && line.contains("set origin.url") && line.contains("bundle import"), "{line}");
    let status = server.status().await;
    let first = &status["findings"][0];
    assert_eq!(
        (&status["use"], &first["name"], &first["unhealthy"]),
        (&"offline".into(), &"no-data".into(), &true.into())
    );
    assert!(first["text"].as_str().unwrap().starts_with(no_source), "{first}");
    assert!(first["todo"].as_str().unwrap().contains("bundle import"), "{first}");
    assert!(status["reasons"][0].as_str().unwrap().starts_with(no_source), "{status:#}");
    let check = server.setup.arguments(&["check"], &server.data_dir());
    for is_running in [true, false] {
        if !is_running {
            server.down().await;
        }
        let (code, said) = run(&check).await;
        assert!(code == 0 && said.contains(&format!("warning: {no_source}")), "{is_running}: {said}");
    }
    let origin = origin(20).await;
    let mut mirror = Setup::mirror_of(&origin).start().await;
    mirror.settled(&origin).await;
    mirror.down().await;
    let (code, said) = run(&Setup::offline().arguments(&["check"], &mirror.data_dir())).await;
    assert!(code == 0 && !said.contains("warning"), "{said}");
    let shield = Setup::shield_of(&origin).start().await;
    shield.get("/api/sports.json").await;
    assert_eq!(shield.status().await["findings"], serde_json::json!([]), "a shield needs none");
}

/// Runs a command line as a shell does, until it succeeds and says something.
async fn paste(command: &str) -> String {
    let start = Instant::now();
    loop {
        let shell = ["-c".to_owned(), command.to_owned()];
        // Some save a file where they run.
        let mut pasted = std::process::Command::new("sh");
        pasted.args(shell).current_dir(std::env::temp_dir());
        let output = tokio::task::spawn_blocking(move || pasted.output().unwrap());
        let output = output.await.unwrap();
        let quiet = command.starts_with("kill ");
        if output.status.success() && (quiet || !output.stdout.is_empty()) {
            return String::from_utf8_lossy(&output.stdout).into_owned();
        }
        assert!(start.elapsed() < PATIENCE, "{command}: {output:?}");
    }
}

/// No port is named here, so the usual ones are tried, which are taken.
#[tokio::test]
async fn the_demo_chooses_free_ports_and_prints_commands_that_work_as_pasted() {
    // One that cannot be bound is taken already.
    let taken = [8080, 9090].map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let dir = tempfile::tempdir().unwrap();
    let data = format!("data_dir={}", dir.path().join("data").display());
    let mut demo = Process::spawn_in(&words(&["demo", "--listings", "200", "--set", &data]), dir.path());
    wait_until("the demo is complete", || {
        assert_eq!(demo.ended(), None, "{}", demo.said());
        let complete = demo.said().contains("complete       200 listings");
        async move { complete }
    })
    .await;
    let said = demo.said();
    assert!(said.to_lowercase().contains("synthetic"), "it says that the data is made up: {said}");
    for port in [8080, 9090] {
        let told = said.lines().filter(|line| line.starts_with(&format!("port {port} is in use; "))).count();
        assert_eq!(told, 1, "{said}");
        assert!(!said.contains(&format!("127.0.0.1:{port}")), "{said}");
    }
    let commands: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("  ")).map(str::trim).collect();
    let with = |word: &str| commands.iter().filter(|line| line.contains(word)).copied().collect::<Vec<_>>();
    assert!(with("curl ").len() >= 5 && with("kill ").len() == 1, "{said}");
    for command in with("curl ") {
        let answer = paste(command).await;
        assert!(!answer.contains("\"status\": 4") && !answer.starts_with("HTTP/1.1 4"), "{command}: {answer}");
    }
    let open = said.lines().find(|line| line.starts_with("open ")).unwrap();
    let [public, operators] = open.split(' ').filter(|word| word.starts_with("http")).collect::<Vec<_>>()[..] else {
        panic!("{open}");
    };
    for target in ["", "explore", "venues/1"] {
        let shown = paste(&format!("curl --silent --header 'Accept: text/html' {public}{target}")).await;
        assert!(shown.contains("This is a demo: its data is invented."), "{target}: {shown}");
    }
    let status = paste(&format!("curl --silent {operators}status")).await;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&status).unwrap()["demo"], true);
    paste(with("kill ")[0]).await;
    assert!(paste(with("state=texas")[0]).await.contains("\"items\""), "the mirror stays");
    demo.signal("INT");
    assert_eq!(demo.end().await.0, 0);
    drop(taken);
}

#[tokio::test]
async fn the_demo_leaves_nothing_in_the_temporary_folder() {
    let demo = |dir: &Path, limit: &str| {
        let under = format!(r#"ulimit {limit}; TMPDIR={} exec "$0" "$@""#, dir.display());
        let setup = Setup::offline().without("ttl").without("public_url").under(&["bash", "-c", &under]);
        setup.demo()
    };
    let left = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
    for signal in ["INT", "TERM"] {
        let dir = tempfile::tempdir().unwrap();
        let demo = demo(dir.path(), "-c 0");
        wait_until("it is ready", || async { demo.said().contains("ready          ") }).await;
        assert_eq!(left(dir.path()), 1, "{}", demo.said());
        assert!(demo.said().contains("until the demo ends"), "{}", demo.said());
        demo.signal(signal);
        let (code, said) = demo.end().await;
        assert_eq!((code, left(dir.path())), (0, 0), "{said}");
    }
    // Nobody reads.
    let dir = tempfile::tempdir().unwrap();
    let under = format!(r#"TMPDIR={} "$0" "$@" | head -c 1; exit ${{PIPESTATUS[0]}}"#, dir.path().display());
    let (code, said) = Setup::offline().without("public_url").under(&["bash", "-c", &under]).demo().end().await;
    assert_eq!((code, left(dir.path())), (0, 0), "{said}");
    // A store that cannot be written.
    let dir = tempfile::tempdir().unwrap();
    let (code, said) = demo(dir.path(), "-f 1").end().await;
    assert!(code == 1 && said.contains("no space left") && left(dir.path()) == 0, "{code} {said}");
}

#[tokio::test]
async fn the_demo_takes_no_other_port_than_one_that_was_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let demo = ["demo", "--set", r#"listen=["127.0.0.1:0"]"#, "--set", &format!("admin.listen={address}")];
    let (code, said) = run(&words(&demo)).await;
    assert!(code == 1 && said.contains(&format!("cannot listen on {address}")), "{code} {said}");
}
