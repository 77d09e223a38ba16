//! Answers that vary: who shares one, how many are kept, and what the origin sees.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use super::{PATH, asked, kept, shield};

#[tokio::test]
async fn clients_of_the_same_variant_share_one_fetch_even_before_it_is_known_what_matters() {
    let gate = Arc::new(Semaphore::new(0));
    let (origin, server) = shield({
        let gate = gate.clone();
        move |seen| {
            let kind = seen.header("user-agent").filter(|agent| agent.len() == 1).unwrap_or("nobody");
            kept(format!("for {kind}")).with("Vary", "User-Agent").held_by(&gate)
        }
    })
    .await;
    let release = async {
        asked(&origin, 1).await;
        gate.add_permits(1000);
    };
    let agents = ["a", "b", "c"].repeat(20);
    let server = &server;
    let get = |agent| async move { server.get_with(PATH, &[("user-agent", agent)]).await };
    let (replies, ()) = tokio::join!(join_all(agents.iter().map(|agent| get(agent))), release);
    let wrong = replies.iter().zip(&agents).filter(|(reply, agent)| reply.text() != format!("for {agent}")).count();
    assert!(wrong <= 1, "only the first one is asked for without its field");
    assert!(origin.count() <= 6, "{} requests for three variants", origin.count());
}

#[tokio::test]
async fn variants_are_kept_by_what_vary_names_and_bounded() {
    let (origin, server) = shield(|seen| {
        let body = format!("for {}", seen.header("x-kind").unwrap_or("nobody"));
        kept(body).with("Vary", "X-Kind")
    })
    .await;
    for _ in 0..2 {
        for kind in ["one", "two", "three"] {
            assert_eq!(server.get_with(PATH, &[("x-kind", kind)]).await.text(), format!("for {kind}"));
        }
        assert_eq!(server.ok(PATH).await.text(), "for nobody");
    }
    assert_eq!(origin.count(), 4);
    for number in 0..40 {
        let kind = format!("kind {number}");
        assert_eq!(server.get_with(PATH, &[("x-kind", &kind)]).await.text(), format!("for {kind}"));
    }
    origin.forget();
    for number in (0..40).rev() {
        server.get_with(PATH, &[("x-kind", &format!("kind {number}"))]).await;
    }
    for kind in ["one", "two", "three"] {
        server.get_with(PATH, &[("x-kind", kind)]).await;
    }
    server.ok(PATH).await;
    assert_eq!(origin.count(), 28, "16 are cached: the 4 that were used, and the newest");
}

#[tokio::test]
async fn a_variant_is_what_the_origin_answered_to_just_these_fields() {
    for name in ["user-agent", "origin", "x-requested-with", "referer", "x-kind"] {
        let (origin, server) = shield(move |seen| {
            let value = seen.header(name).filter(|value| !value.starts_with("grandstand")).unwrap_or("nobody");
            kept(format!("for {value}")).with("Vary", name)
        })
        .await;
        // The first asks before anybody knows what matters here.
        server.get_with(PATH, &[(name, "one")]).await;
        for _ in 0..2 {
            for value in ["one", "two"] {
                let reply = server.get_with(PATH, &[(name, value)]).await;
                assert_eq!(reply.text(), format!("for {value}"), "{name}");
            }
            assert_eq!(server.ok(PATH).await.text(), "for nobody", "{name}");
        }
        assert!(origin.count() <= 4, "{name}: {}", origin.count());
    }
}

#[tokio::test]
async fn fields_that_never_reach_the_origin_make_no_variants() {
    let (origin, server) = shield(|_| kept("x").with("Vary", "X-Forwarded-For, Forwarded, Accept-Encoding")).await;
    for number in 0..5 {
        let (address, coding) = (format!("192.0.2.{number}"), ["gzip", "br", "zstd", "identity", "deflate"][number]);
        let headers = [("x-forwarded-for", address.as_str()), ("forwarded", "for=x"), ("accept-encoding", coding)];
        assert_eq!(server.get_with(PATH, &headers).await.text(), "x");
    }
    assert_eq!(origin.count(), 1);
}

#[tokio::test]
async fn vary_star_is_shared_with_nobody() {
    let (origin, server) = shield(|seen| kept(format!("{}", seen.number)).with("Vary", "*")).await;
    let mut bodies: Vec<_> =
        join_all((0..20).map(|_| server.get(PATH))).await.iter().map(|reply| reply.text().to_owned()).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!((bodies.len(), origin.count()), (20, 20));
}
