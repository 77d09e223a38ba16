//! Who counts as one client: the peer, or whom a trusted proxy names.

use crate::harness::{Server, Setup, origin};

const LIST: &str = "/api/listings.json?per_page=1";

/// A server that admits two requests of each client and has settled.
async fn limited(extra: &[(&str, &str)]) -> (sample_origin::Origin, Server) {
    let origin = origin(20).await;
    let mut setup = Setup::mirror_of(&origin).set("rate_limit.requests_per_minute", "2");
    for (key, value) in extra {
        setup = setup.set(key, value);
    }
    let server = setup.start().await;
    server.settled(&origin).await;
    (origin, server)
}

async fn trusting(extra: &[(&str, &str)]) -> (sample_origin::Origin, Server) {
    let trusted = [("client_ip.trusted_proxies", r#"["127.0.0.0/8", "10.0.0.0/8"]"#)];
    limited(&[&trusted[..], extra].concat()).await
}

/// What is left to the client that these headers tell of, after this request; `None` when it was refused.
async fn left(server: &Server, headers: &[(&str, &str)]) -> Option<u32> {
    let reply = server.get_with(LIST, headers).await;
    if reply.status == 429 {
        return None;
    }
    assert_eq!(reply.status, 200, "{reply:?}");
    let text = reply.the("ratelimit");
    let left = text.strip_prefix("\"default\";r=").and_then(|rest| rest.split_once(';'));
    Some(left.unwrap_or_else(|| panic!("RateLimit: {text}")).0.parse().unwrap())
}

async fn left_for(server: &Server, forwarded_for: &str) -> Option<u32> {
    left(server, &[("x-forwarded-for", forwarded_for)]).await
}

#[tokio::test]
async fn nobody_is_believed_by_default() {
    let (_origin, server) = limited(&[]).await;
    assert_eq!(left_for(&server, "192.0.2.1").await, Some(1));
    assert_eq!(left(&server, &[("forwarded", "for=192.0.2.2"), ("x-real-ip", "192.0.2.3")]).await, Some(0));
    for nth in 0..20 {
        assert_eq!(left_for(&server, &format!("198.51.100.{nth}")).await, None, "one client, whatever it says");
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_in_the_list_is_not_believed() {
    let (_origin, server) = limited(&[("client_ip.trusted_proxies", r#"["192.0.2.0/24"]"#)]).await;
    assert_eq!(left_for(&server, "198.51.100.1").await, Some(1));
    assert_eq!(left_for(&server, "198.51.100.2").await, Some(0));
    assert_eq!(left_for(&server, "192.0.2.7").await, None);
}

#[tokio::test]
async fn of_a_trusted_proxys_list_the_right_most_untrusted_address_counts() {
    let (_origin, server) = trusting(&[]).await;
    assert_eq!(left_for(&server, "192.0.2.1").await, Some(1));
    assert_eq!(left_for(&server, "192.0.2.2").await, Some(1), "another client");
    assert_eq!(left_for(&server, "203.0.113.9, 192.0.2.1").await, Some(0), "what the client invents is left of it");
    assert_eq!(left_for(&server, "203.0.113.8,192.0.2.1").await, None);
    assert_eq!(left_for(&server, "192.0.2.1, 10.1.2.3").await, None, "trusted hops are passed over");
    assert_eq!(left_for(&server, "garbage, 192.0.2.1 ,\t10.1.2.3, 127.0.0.1").await, None);
    assert_eq!(left_for(&server, "::ffff:192.0.2.1").await, None, "an IPv4-mapped address is the IPv4 address");
    assert_eq!(left_for(&server, "192.0.2.2, ::ffff:10.9.9.9").await, Some(0), "a mapped proxy is trusted, too");
}

#[tokio::test]
async fn several_header_lines_are_one_list() {
    let (_origin, server) = trusting(&[]).await;
    let lines = [("x-forwarded-for", "203.0.113.1"), ("x-forwarded-for", "192.0.2.5")];
    assert_eq!(left(&server, &lines).await, Some(1));
    assert_eq!(left_for(&server, "192.0.2.5").await, Some(0));
    let lines = [("x-forwarded-for", "192.0.2.5, 10.0.0.1"), ("x-forwarded-for", "10.0.0.2")];
    assert_eq!(left(&server, &lines).await, None);
    assert_eq!(left_for(&server, "203.0.113.1").await, Some(1), "the first line alone was never believed");
}

#[tokio::test]
async fn an_entry_that_is_no_address_ends_the_walk_at_the_last_trusted_hop() {
    let (_origin, server) = trusting(&[]).await;
    // The peer itself, by all of them.
    assert_eq!(left_for(&server, "192.0.2.1, garbage").await, Some(1));
    assert_eq!(left_for(&server, "unknown").await, Some(0));
    assert_eq!(left_for(&server, "192.0.2.77, _hidden").await, None);
    assert_eq!(left(&server, &[]).await, None, "without the header it is the peer");
    // The last trusted hop before the garbage.
    assert_eq!(left_for(&server, "192.0.2.1, garbage, 10.7.7.7").await, Some(1));
    assert_eq!(left_for(&server, "192.0.2.2, 999.1.1.1, 10.7.7.7").await, Some(0));
    assert_eq!(left_for(&server, "10.7.7.7").await, None);
}

#[tokio::test]
async fn ipv6_clients_are_told_apart_by_their_network() {
    let (_origin, server) = trusting(&[]).await;
    assert_eq!(left_for(&server, "2001:db8:1:2::1").await, Some(1));
    assert_eq!(left_for(&server, "2001:db8:1:2:ffff::99").await, Some(0));
    assert_eq!(left_for(&server, "2001:0DB8:0001:0002:0:0:0:3").await, None);
    assert_eq!(left_for(&server, "2001:db8:1:3::1").await, Some(1));
}

#[tokio::test]
async fn the_header_forwarded_is_read_where_configured() {
    let (_origin, server) = trusting(&[("client_ip.header", "forwarded")]).await;
    let forwarded = |value: &'static str| [("forwarded", value), ("x-forwarded-for", "203.0.113.50")];
    assert_eq!(left(&server, &forwarded("for=192.0.2.1;proto=https")).await, Some(1));
    assert_eq!(left(&server, &forwarded("for=203.0.113.1, For=\"192.0.2.1:4711\"")).await, Some(0));
    assert_eq!(left(&server, &forwarded("for=192.0.2.1, for=10.0.0.1;by=x")).await, None);
    assert_eq!(left(&server, &forwarded("for=\"[2001:db8::1]:80\"")).await, Some(1));
    assert_eq!(left(&server, &forwarded("for=\"[2001:db8::2]\"")).await, Some(0));
}

#[tokio::test]
async fn a_header_with_a_single_address_is_read_where_configured() {
    let (_origin, server) = trusting(&[("client_ip.header", "cf-connecting-ip")]).await;
    assert_eq!(left(&server, &[("cf-connecting-ip", "192.0.2.1"), ("x-forwarded-for", "192.0.2.9")]).await, Some(1));
    assert_eq!(left(&server, &[("cf-connecting-ip", "192.0.2.1")]).await, Some(0));
    assert_eq!(left(&server, &[("cf-connecting-ip", "192.0.2.2")]).await, Some(1));
}

#[tokio::test]
async fn overrides_apply_per_address_and_the_longest_prefix_wins() {
    let overrides = r#"[{ network = "192.0.0.0/16", requests_per_minute = 4 },
        { network = "192.0.2.0/24", requests_per_minute = 1 }, { network = "192.0.2.7", requests_per_minute = 0 },
        { network = "2001:db8::/32", requests_per_minute = 3 }]"#;
    let (_origin, server) = trusting(&[("rate_limit.override", overrides)]).await;
    assert_eq!(left_for(&server, "192.0.9.1").await, Some(3));
    assert_eq!(left_for(&server, "192.0.9.2").await, Some(3), "each address has its own");
    assert_eq!(left_for(&server, "192.0.2.1").await, Some(0));
    assert_eq!(left_for(&server, "192.0.2.1").await, None);
    assert_eq!(left_for(&server, "2001:db8::1").await, Some(2));
    assert_eq!(left_for(&server, "203.0.113.1").await, Some(1), "the others have the common limit");
    for _ in 0..10 {
        let reply = server.get_with(LIST, &[("x-forwarded-for", "192.0.2.7")]).await;
        assert_eq!((reply.status, reply.header("ratelimit")), (200, None), "no limit at all");
    }
}
