//! Who counts as one client: the peer, or whom a trusted proxy names. How headers are read is a table in
//! `src/protocol/client_address`, how windows are counted one in `src/edge/limit`.

use crate::harness::{Server, Setup};

/// A path that counts and needs no data.
const PATH: &str = "/nothing";

/// A server that admits two requests of each client.
async fn limited(extra: &[(&str, &str)]) -> Server {
    let setup = Setup::offline().set("rate_limit.requests_per_minute", "2");
    extra.iter().fold(setup, |setup, (key, value)| setup.set(key, value)).start().await
}

async fn trusting(extra: &[(&str, &str)]) -> Server {
    let trusted = [("client_ip.trusted_proxies", r#"["127.0.0.0/8", "10.0.0.0/8"]"#)];
    limited(&[&trusted[..], extra].concat()).await
}

/// What is left to the client that these headers tell of, after this request; `None` when it was refused.
async fn left(server: &Server, headers: &[(&str, &str)]) -> Option<u32> {
    let reply = server.get_with(PATH, headers).await;
    if reply.status == 429 {
        return None;
    }
    assert_eq!(reply.status, 404, "{reply:?}");
    let text = reply.the("ratelimit");
    let left = text.strip_prefix("\"default\";r=").and_then(|rest| rest.split_once(';'));
    Some(left.unwrap_or_else(|| panic!("RateLimit: {text}")).0.parse().unwrap())
}

async fn left_for(server: &Server, forwarded_for: &str) -> Option<u32> {
    left(server, &[("x-forwarded-for", forwarded_for)]).await
}

#[tokio::test]
async fn nobody_is_believed_who_is_not_in_the_list() {
    for extra in [&[][..], &[("client_ip.trusted_proxies", r#"["192.0.2.0/24"]"#)]] {
        let server = limited(extra).await;
        assert_eq!(left_for(&server, "192.0.2.1").await, Some(1));
        assert_eq!(left(&server, &[("forwarded", "for=192.0.2.2"), ("x-real-ip", "192.0.2.3")]).await, Some(0));
        for nth in 0..20 {
            assert_eq!(left_for(&server, &format!("198.51.100.{nth}")).await, None, "one client, whatever it says");
        }
    }
}

#[tokio::test]
async fn the_client_that_a_trusted_proxy_names_has_a_window_of_its_own() {
    let server = trusting(&[]).await;
    for (forwarded_for, expected) in [
        ("192.0.2.1", Some(1)),
        ("192.0.2.2", Some(1)),
        ("203.0.113.9, 192.0.2.1", Some(0)),
        ("garbage, 192.0.2.1 ,\t10.1.2.3, 127.0.0.1", None),
        ("::ffff:192.0.2.1", None),
        ("2001:db8:1:2::1", Some(1)),
        ("2001:db8:1:2:ffff::99", Some(0)),
        ("2001:db8:1:3::1", Some(1)),
        // The peer itself, and without the header as well.
        ("192.0.2.1, garbage", Some(1)),
    ] {
        assert_eq!(left_for(&server, forwarded_for).await, expected, "{forwarded_for}");
    }
    assert_eq!(left(&server, &[]).await, Some(0));
    let lines = [("x-forwarded-for", "203.0.113.1"), ("x-forwarded-for", "192.0.2.2")];
    assert_eq!(left(&server, &lines).await, Some(0), "several lines are one list");
    assert_eq!(left_for(&server, "203.0.113.1").await, Some(1), "the first line alone was never believed");
}

#[tokio::test]
async fn the_header_that_is_configured_names_the_client() {
    for (header, value, same, other) in [
        (
            "forwarded",
            "for=192.0.2.1;proto=https",
            "for=203.0.113.1, For=\"192.0.2.1:4711\"",
            "for=\"[2001:db8::1]:80\"",
        ),
        ("cf-connecting-ip", "192.0.2.1", "192.0.2.1", "192.0.2.2"),
    ] {
        let server = trusting(&[("client_ip.header", header)]).await;
        for (value, expected) in [(value, Some(1)), (same, Some(0)), (value, None), (other, Some(1))] {
            assert_eq!(
                left(&server, &[(header, value), ("x-forwarded-for", "203.0.113.50")]).await,
                expected,
                "{value}"
            );
        }
    }
}

#[tokio::test]
async fn overrides_apply_per_address_and_the_longest_prefix_wins() {
    let overrides = r#"[{ network = "192.0.0.0/16", requests_per_minute = 4 },
        { network = "192.0.2.0/24", requests_per_minute = 1 }, { network = "192.0.2.7", requests_per_minute = 0 },
        { network = "2001:db8::/32", requests_per_minute = 3 }]"#;
    let server = trusting(&[("rate_limit.override", overrides)]).await;
    for (client, expected) in [
        ("192.0.9.1", Some(3)),
        ("192.0.9.2", Some(3)),
        ("192.0.2.1", Some(0)),
        ("192.0.2.1", None),
        ("2001:db8::1", Some(2)),
        ("203.0.113.1", Some(1)),
    ] {
        assert_eq!(left_for(&server, client).await, expected, "{client}");
    }
    for _ in 0..10 {
        let reply = server.get_with(PATH, &[("x-forwarded-for", "192.0.2.7")]).await;
        assert_eq!((reply.status, reply.header("ratelimit")), (404, None), "no limit at all");
    }
}
