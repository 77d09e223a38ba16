//! Addresses of the origin in `Location` and `Content-Location`: clients are led back to us, as by nginx's
//! `proxy_redirect default`.

use http::Method;

use crate::harness::{PUBLIC, Script, Seen, Server, Setup, Upstream};

const ALIAS: &str = "https://www.alias.example:8443/data";

/// An origin whose `Location` and `Content-Location` come from the query, percent-encoded; `ORIGIN` stands for its own
/// address.
fn redirecting(seen: &Seen) -> Script {
    let (_, wanted) = seen.target.split_once("to=").unwrap_or_default();
    let wanted = percent_encoding::percent_decode_str(wanted).decode_utf8().unwrap();
    let wanted = wanted.replace("ORIGIN", &format!("http://{}", seen.header("host").unwrap()));
    let status = if seen.target.contains("moved") { 301 } else { 200 };
    Script::new(status, format!("see {wanted}"))
        .with("Location", &wanted)
        .with("Content-Location", &wanted)
        .with("Cache-Control", "max-age=3600")
}

async fn shield(origin: &Upstream, path: &str, public: &str) -> Server {
    let setup = Setup::shield_of_url(&format!("{}{path}", origin.url())).set("public_url", public);
    let setup = setup.set("passthrough.methods", r#"["GET", "HEAD", "POST"]"#);
    setup.set("origin.aliases", &format!("[{ALIAS:?}]")).start().await
}

/// Asks for `Location` and `Content-Location` of this text, new and kept, and by `HEAD` and `POST`; what clients see.
async fn seen_as(server: &Server, wanted: &str) -> String {
    let encoded = percent_encoding::utf8_percent_encode(wanted, percent_encoding::NON_ALPHANUMERIC);
    let target = format!("/api/moved?to={encoded}");
    let first = server.get(&target).await;
    assert_eq!(first.status, 301, "{first:?}");
    let location = first.the("location");
    for method in [Method::GET, Method::HEAD, Method::POST] {
        let reply = server.send(method.clone(), &target, &[]).await;
        let both = (reply.the("location"), reply.the("content-location"));
        assert_eq!(both, (location.clone(), location.clone()), "{method}");
    }
    assert!(!first.text().contains(PUBLIC), "bodies stay as they are: {}", first.text());
    location
}

#[tokio::test]
async fn what_leads_to_the_origin_or_an_alias_leads_to_us() {
    let origin = Upstream::start(redirecting).await;
    let server = shield(&origin, "", PUBLIC).await;
    for (wanted, expected) in [
        ("ORIGIN/api/there?x=1#part", format!("{PUBLIC}/api/there?x=1#part")),
        ("ORIGIN", format!("{PUBLIC}/")),
        ("https://www.alias.example:8443/data/api/x", format!("{PUBLIC}/api/x")),
        ("//www.alias.example:8443/data", PUBLIC.to_owned()),
        // Not below an alias, another port, another host, another scheme.
        ("https://www.alias.example:8443/database", "https://www.alias.example:8443/database".to_owned()),
        ("https://www.alias.example/data/x", "https://www.alias.example/data/x".to_owned()),
        ("https://elsewhere.example/api/x", "https://elsewhere.example/api/x".to_owned()),
        ("ftp://www.alias.example:8443/data/x", "ftp://www.alias.example:8443/data/x".to_owned()),
        // Relative ones mean the same here.
        ("/api/there", "/api/there".to_owned()),
        ("there.json?x=1", "there.json?x=1".to_owned()),
        ("?page=2", "?page=2".to_owned()),
    ] {
        assert_eq!(seen_as(&server, wanted).await, expected, "{wanted}");
    }
}

#[tokio::test]
async fn the_path_of_the_origin_becomes_the_path_of_public_url() {
    let origin = Upstream::start(redirecting).await;
    let server = shield(&origin, "/v1", "https://mirror.test/listings").await;
    for (wanted, expected) in [
        ("ORIGIN/v1/api/there", "https://mirror.test/listings/api/there"),
        ("/v1/api/there?x=1", "/listings/api/there?x=1"),
        ("/v1", "/listings"),
        ("/v12/api/there", "/v12/api/there"),
        ("/elsewhere", "/elsewhere"),
        ("there", "there"),
    ] {
        assert_eq!(seen_as(&server, wanted).await, expected, "{wanted}");
    }
}

#[tokio::test]
async fn what_a_post_makes_void_is_found_by_the_addresses_of_the_origin() {
    let origin = Upstream::start(redirecting).await;
    let server = shield(&origin, "/v1", "https://mirror.test/listings").await;
    let first = server.ok("/api/there").await;
    assert!(first.the("cache-status").contains("fwd=uri-miss"), "{first:?}");
    assert!(server.ok("/api/there").await.the("cache-status").contains("hit"));
    let reply = server.send(Method::POST, "/api/other?to=%2Fv1%2Fapi%2Fthere", &[]).await;
    assert_eq!(reply.the("location"), "/listings/api/there");
    assert!(server.ok("/api/there").await.the("cache-status").contains("fwd"), "it was voided");
}
