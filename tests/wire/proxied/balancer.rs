//! A real HAProxy in front, with both versions of the header, of cleartext and of TLS, and with health checks.

use std::net::{Ipv4Addr, SocketAddr};

use http::{Method, Version};
use reqwest::ClientBuilder;

use super::{PATH, left_after, setup, warnings};
use crate::client::Reply;
use crate::harness::haproxy::HaProxy;
use crate::harness::{each, wait_until};
use crate::tls::{address, certified, client, with_tls};

/// Asks from this address of loopback; what is left to the client afterwards.
async fn left(builder: ClientBuilder, from: u8, url: &str, version: Version) -> Option<u32> {
    let client = builder.local_address(Some(Ipv4Addr::new(127, 0, 0, from).into())).build().unwrap();
    // What clients claim themselves is not believed.
    let response = client.get(url).header("x-forwarded-for", "127.0.0.99").send().await.unwrap();
    assert_eq!(response.version(), version);
    left_after(&Reply::of(response).await)
}

fn url(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{address}{PATH}")
}

#[tokio::test]
async fn a_real_haproxy_announces_its_clients_in_every_way() {
    let dir = certified();
    let server = with_tls(setup(), dir.path()).start().await;
    let secure = address(&server).await;
    let plain = || crate::client::client_builder().no_proxy();
    // Each way has two clients of its own, and each of them asks over both versions of HTTP.
    each([("send-proxy", 10), ("send-proxy-v2", 20)], async |(option, number)| {
        let balancer = HaProxy::before(server.public, option);
        let url = url("http", balancer.address);
        for client in [number, number + 1] {
            assert_eq!(left(plain(), client, &url, Version::HTTP_11).await, Some(3));
            assert_eq!(left(plain().http2_prior_knowledge(), client, &url, Version::HTTP_2).await, Some(2));
        }
    })
    .await;
    each([("send-proxy", 30), ("send-proxy-v2", 40)], async |(option, number)| {
        let balancer = HaProxy::before(secure, option);
        let url = url("https", balancer.address);
        for from in [number, number + 1] {
            assert_eq!(left(client(dir.path()).http1_only(), from, &url, Version::HTTP_11).await, Some(3));
            assert_eq!(left(client(dir.path()), from, &url, Version::HTTP_2).await, Some(2));
        }
    })
    .await;
    let metrics = server.admin(Method::GET, "/metrics").await;
    assert!(metrics.text().contains("grandstand_limit_windows 8\n"), "eight clients: {}", metrics.text());
    assert!(!metrics.text().contains("grandstand_proxy_protocol_refused_total{"), "{}", metrics.text());
}

#[tokio::test]
async fn the_health_checks_of_a_real_haproxy_are_no_errors() {
    let server = setup().start().await;
    for (option, number) in [("send-proxy check inter 20ms", 50), ("send-proxy-v2 check inter 20ms", 60)] {
        let balancer = HaProxy::before(server.public, option);
        let url = url("http", balancer.address);
        let plain = || crate::client::client_builder().no_proxy();
        assert_eq!(left(plain(), number, &url, Version::HTTP_11).await, Some(3));
        let well = async || balancer.health().await == Some(("L4OK".to_owned(), 0));
        wait_until("a check succeeds", || async { well().await }).await;
        assert_eq!(left(plain(), number, &url, Version::HTTP_11).await, Some(2));
        assert!(well().await, "{:?}", balancer.health().await);
    }
    let none = async || server.admin(Method::GET, "/metrics").await.text().contains("grandstand_connections 0\n");
    wait_until("the last check is gone", || async { none().await }).await;
    let metrics = server.admin(Method::GET, "/metrics").await;
    assert!(!metrics.text().contains("grandstand_proxy_protocol_refused_total{"), "{}", metrics.text());
    assert_eq!(warnings(&server), 0, "{}", server.process.said());
}
