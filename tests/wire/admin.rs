//! The admin listener: whom it answers.
//!
//! Its answers are tested where they are made. Only `Host` reveals a web page whose name points to loopback (DNS
//! rebinding).

use std::net::{IpAddr, SocketAddr, UdpSocket};

use serde_json::Value;

use crate::client::{Reply, raw};
use crate::harness::{Setup, run};

async fn ask(to: SocketAddr, method: &str, target: &str, host: &str) -> Reply {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    raw(to, request.as_bytes()).await.unwrap_or_else(|| panic!("no answer to {request:?}"))
}

/// Asserts that a request was refused for its `Host`, with advice.
fn assert_foreign(reply: &Reply, host: &str) {
    assert_eq!(reply.status, 403, "{host}: {reply:?}");
    assert_eq!(reply.the("content-type"), "application/problem+json");
    let problem: Value = serde_json::from_str(reply.text()).unwrap();
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains(host) && detail.contains("admin.hosts"), "{detail}");
}

const READ: [&str; 9] =
    ["/livez", "/readyz", "/status", "/metrics", "/audit", "/snapshots", "/bundle", "/", "/nothing"];

#[tokio::test]
async fn whoever_names_another_host_learns_nothing_and_changes_nothing() {
    let server = Setup::offline().start().await;
    for host in ["evil.test", "evil.test:9090", "localhost.evil.test", "192.0.2.7", "mirror:9090"] {
        for target in READ {
            assert_foreign(&ask(server.admin, "GET", target, host).await, host);
        }
        for target in ["/refresh", "/bundle", "/audit", "/snapshots/release"] {
            assert_foreign(&ask(server.admin, "POST", target, host).await, host);
        }
        assert_foreign(&ask(server.admin, "DELETE", "/cache", host).await, host);
        let two = ask(server.admin, "GET", &format!("http://{host}/status"), "localhost").await;
        assert!([400, 403].contains(&two.status), "{two:?}");
    }
    let head = ask(server.admin, "HEAD", "/status", "evil.test").await;
    assert_eq!((head.status, head.text()), (403, ""));
    for host in [&server.admin.to_string(), "localhost", "LocalHost.:1", "127.3.2.1:80", "[::1]:9090"] {
        for target in ["/livez", "/metrics"] {
            assert_eq!(ask(server.admin, "GET", target, host).await.status, 200, "{host} {target}");
        }
        let status = ask(server.admin, "GET", "/status", host).await;
        assert!(status.text().contains("\"use\""), "{host}: {status:?}");
    }
    let old = raw(server.admin, b"GET /livez HTTP/1.0\r\n\r\n").await.unwrap();
    assert_eq!(old.status, 200, "HTTP/1.0 need not name a host");
}

#[tokio::test]
async fn a_scraper_asks_by_a_name_that_is_configured() {
    let server = Setup::offline().set("admin.hosts", r#"["Mirror", "192.0.2.7"]"#).start().await;
    for host in ["mirror:9090", "MIRROR", "192.0.2.7:9090", "localhost"] {
        let reply = ask(server.admin, "GET", "/metrics", host).await;
        assert!(reply.status == 200 && reply.text().contains("grandstand_"), "{host}: {reply:?}");
    }
    assert_foreign(&ask(server.admin, "GET", "/metrics", "mirror.evil.test").await, "mirror.evil.test");
}

/// An address of this machine that is not loopback; `None`: it has none. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_loopback() && !address.is_unspecified())
}

#[tokio::test]
async fn a_probe_by_address_is_answered_where_all_addresses_are_listened_on() {
    let server = Setup::offline().set("admin.listen", "0.0.0.0:0").start().await;
    let (code, said) = run(&server.setup.arguments(&["status", "--json"], &server.data_dir())).await;
    assert!(said.contains("\"use\""), "found through the data directory: {code} {said}");
    let Some(address) = own_address() else { return };
    let here = SocketAddr::new(address, server.admin.port());
    for target in ["/livez", "/readyz"] {
        assert_ne!(ask(here, "GET", target, &here.to_string()).await.status, 403, "{target}");
        // This connection came to another address.
        let loopback = SocketAddr::from(([127, 0, 0, 1], here.port()));
        assert_foreign(&ask(loopback, "GET", target, &here.to_string()).await, &here.to_string());
    }
    let (code, said) = run(&["status".into(), "--json".into(), "--admin".into(), here.to_string()]).await;
    assert!(said.contains("\"use\""), "{code} {said}");
}
