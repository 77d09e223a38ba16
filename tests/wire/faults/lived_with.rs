//! Oddities that are no faults: the answer's meaning is clear, so it is stored to the byte.

use sample_origin::{FaultRule, Origin, Switches, World};

use super::table::{LIST, complete, everything_is_the_origins, restless};
use crate::compare::list_is_the_origins;
use crate::harness::{Server, Setup, each, origin, origin_with, wait_until};
use crate::origin_faults::{Fault, Raw, Tamper};

/// An origin with this oddity, and a mirror that has all of it.
async fn mirrored(rule: FaultRule) -> (Origin, Server) {
    let origin = origin(130).await;
    origin.set(|switches| (switches.gzip, switches.faults) = (false, vec![rule]));
    // Nothing is withheld: a busy machine may take its time.
    let server = restless(&origin).set("origin.timeout", "20s").start().await;
    complete(&server).await;
    (origin, server)
}

/// Mirrors an origin with this oddity, changes it and lets the mirror follow.
async fn is_lived_with(fault: Fault) {
    let (origin, server) = mirrored(FaultRule::always("", fault)).await;
    everything_is_the_origins(&server, &origin).await;
    let (id, before) = (origin.world(World::ids)[3], server.snapshot().await);
    origin.edit(|world| assert!(world.touch(id)));
    wait_until("the change shows", || async { server.snapshot().await != before }).await;
    complete(&server).await;
    everything_is_the_origins(&server, &origin).await;
    let longest = origin.log().iter().filter_map(|seen| seen.headers.values().map(http::HeaderValue::len).max()).max();
    assert!(longest.unwrap() <= 1024, "nothing of that length is sent back");
}

#[tokio::test]
async fn headers_that_say_nothing_of_the_content_are_lived_with() {
    let fields = [
        ("content-type", b"text/html; charset=utf-8".to_vec()),
        ("date", b"Fri, 31 Dec 9999 23:59:59 GMT".to_vec()),
        ("date", b"yesterday".to_vec()),
        ("age", b"-17".to_vec()),
        ("age", b"soon".to_vec()),
        ("etag", format!("\"{}\"", "x".repeat(64 * 1024)).into_bytes()),
        ("etag", b"\"caf\xe9\"".to_vec()),
        ("etag", b"no quotes at all".to_vec()),
    ];
    each(fields, async |field| is_lived_with(Fault::Falsified(vec![field])).await).await;
}

#[tokio::test]
async fn redirects_to_the_same_host_are_followed_and_each_takes_a_slot_of_the_budget() {
    is_lived_with(Fault::Detour(3)).await;

    let origin = origin(130).await;
    origin.set(|switches| switches.faults = vec![FaultRule::always("", Fault::Detour(2))]);
    let setup = Setup::mirror_of(&origin).set("origin.requests_per_minute", "200").set("mirror.details", "on-demand");
    let server = setup.start().await;
    server.ready().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    crate::harness::quiet(&origin).await;
    let free = server.status().await["origin"]["budget"]["free"].as_u64().unwrap();
    assert_eq!(free + origin.count(), 200, "every request on the wire takes a slot");
    assert!(origin.count() >= 3 * 5, "{}", origin.count());
}

/// JSON that is odd but clear: an item is stored as it came, and unreadable values imply nothing.
#[tokio::test]
async fn odd_items_are_served_as_they_came() {
    for (tamper, shows) in [
        (Tamper::OddTypes, r#""name":4.50,"#),
        (Tamper::RepeatedKey, r#""name":"once","name":"#),
        (Tamper::LoneSurrogate, r#""name":"\ud800"#),
        (Tamper::LoneSurrogateKey, r#""\ud800":{"\udc00":[]},"name":"#),
    ] {
        let (origin, server) = mirrored(FaultRule::always(LIST, Fault::Tampered(tamper))).await;
        let first = server.ok(LIST).await;
        assert!(first.text().contains(shows), "{tamper:?}: {}", first.text());
        assert!(first.text().contains(r#""total":130,"#), "{tamper:?}");
        list_is_the_origins(&server, &origin, &format!("{LIST}?page=2")).await;
    }
}

/// One listing is left out with a finding, until it can be read; the others are served.
#[tokio::test]
async fn a_listing_that_cannot_be_read_stops_no_other() {
    let tampers = [
        Tamper::NotANumber,
        Tamper::BadUtf8,
        Tamper::Nul,
        Tamper::NoId,
        Tamper::FirstId("\"10\""),
        Tamper::FirstId("18446744073709551616"),
        Tamper::TwoIds,
    ];
    each(tampers, async |tamper| {
        let origin = origin(130).await;
        let rules = vec![FaultRule::always("/api/listings.json?per_page=100", Fault::Tampered(tamper))];
        origin.set(|switches| switches.faults = rules);
        let server = restless(&origin).start().await;
        server.ready().await;
        let finding = async || {
            let findings = server.status().await["findings"].as_array().unwrap().clone();
            findings.into_iter().find(|finding| finding["name"] == "listings-broken")
        };
        let text = finding().await.unwrap_or_else(|| panic!("{tamper:?}"))["text"].to_string();
        assert!(text.contains("1 listing that cannot be read (page 1,"), "{tamper:?}: {text}");
        let page = server.ok(&format!("{LIST}?per_page=100")).await.json();
        // Perhaps another list has shown it in full.
        assert!(page["items"].as_array().unwrap().len() >= 99 && page["total"] == 130, "{tamper:?}: {page}");
        assert!(server.status().await["listings"].as_u64() >= Some(129), "{tamper:?}");
        let before = origin.count();
        wait_until("some refreshes are over", || async { origin.count() > before + 30 }).await;
        assert_eq!(server.finding("answers-unsteady").await, None, "{tamper:?}");
        let id = origin.expected(LIST).1["items"][0]["id"].clone();
        server.ok(&format!("/api/listings/{id}.json")).await;
        origin.set(|switches| switches.faults.clear());
        complete(&server).await;
        everything_is_the_origins(&server, &origin).await;
        let is_over =
            |finding: Option<serde_json::Value>| finding.is_none_or(|it| it["text"].to_string().contains("no longer"));
        wait_until("the finding is over", || async { is_over(finding().await) }).await;
    })
    .await;
}

/// A list that is forwarded is what the origin sent, but for a listing that is no JSON.
#[tokio::test]
async fn a_forwarded_list_with_a_listing_that_cannot_be_read_has_the_others() {
    let origin = origin(130).await;
    let shield = Setup::shield_of(&origin).start().await;
    for (tamper, sport, left_out) in
        [(Tamper::NotANumber, "golf", 1), (Tamper::BadUtf8, "tennis", 1), (Tamper::NoId, "baseball", 0)]
    {
        let target = format!("{LIST}?sport={sport}&per_page=100");
        let whole = origin.expected(&target).1["items"].as_array().unwrap().len();
        assert!(whole > 1, "{sport}");
        origin.set(|switches| switches.faults = vec![FaultRule::always(LIST, Fault::Tampered(tamper))]);
        let page = shield.ok(&target).await.json();
        origin.set(|switches| switches.faults.clear());
        assert_eq!(page["items"].as_array().unwrap().len(), whole - left_out, "{tamper:?}: {page}");
        assert_eq!(page["total"], whole, "{tamper:?}");
    }
}

#[tokio::test]
async fn a_word_that_is_no_content_coding_means_none() {
    for word in ["UTF-8", "none"] {
        let named = Fault::Falsified(vec![("content-encoding", word.into())]);
        let (origin, server) = mirrored(FaultRule::always("", named)).await;
        everything_is_the_origins(&server, &origin).await;
        let shield = Setup::shield_of(&origin).start().await;
        assert_eq!(shield.ok(LIST).await.total(), 130, "{word}");
    }
}

/// The pages themselves count.
#[tokio::test]
async fn a_total_that_is_too_low_and_a_page_size_that_is_not_true_hide_nothing() {
    for tamper in [Tamper::Total("129"), Tamper::PerPage("50")] {
        let (origin, server) = mirrored(FaultRule::always(LIST, Fault::Tampered(tamper))).await;
        let shown = [1, 2].map(|page| format!("{LIST}?per_page=100&page={page}"));
        for target in shown {
            let ids = server.ok(&target).await.ids();
            let items = origin.expected(&target).1["items"].clone();
            assert_eq!(
                ids,
                items.as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect::<Vec<_>>()
            );
        }
    }
}

#[tokio::test]
async fn an_origin_without_listings_is_mirrored_and_fills_up() {
    let origin = origin_with(0, Switches::default()).await;
    let server = restless(&origin).start().await;
    complete(&server).await;
    assert_eq!(server.ok(LIST).await.total(), 0);
    list_is_the_origins(&server, &origin, LIST).await;
    let before = server.snapshot().await;
    origin.edit(|world| *world = World::generate(130, 5));
    wait_until("the listings show", || async { server.snapshot().await != before }).await;
    complete(&server).await;
    everything_is_the_origins(&server, &origin).await;
}

#[tokio::test]
async fn an_entity_tag_that_cannot_be_sent_back_is_not() {
    // A control character makes an answer unusable, and another one follows.
    let (origin, server) = mirrored(FaultRule::times("/api/cities.json", 2, Fault::Raw(Raw::ControlTag))).await;
    everything_is_the_origins(&server, &origin).await;
}
