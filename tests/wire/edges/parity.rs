//! Mirror and origin, odd request by odd request: status, media type and body are the same.

use std::panic::AssertUnwindSafe;

use sample_origin::{
    BadNumber, BeyondLast, Commas, Edges, Elsewhere, OddSince, Origin, Repeated, Switches, TooMany, UnknownSlug,
};

use super::{LIST, edges, has_learned, learned, learning, of_the_origin};
use crate::compare::same_list;
use crate::harness::{Server, origin_with, quiet};

/// Odd values of each parameter, and ordinary ones beside them.
fn odd_queries(total: usize) -> Vec<String> {
    let beyond = [total.div_ceil(50) + 1, 1234, 70_000].map(|page| page.to_string());
    let numbers = ["0", "-1", "-77", "x", "abc", "Page"].map(str::to_owned);
    let mut odd: Vec<String> = beyond.iter().chain(&numbers).map(|page| format!("page={page}")).collect();
    odd.push("page=18446744073709551616".to_owned());
    odd.push("page=99999999999999999999999".to_owned());
    odd.extend(["0", "x", "many", "101", "150", "249", "250", "251", "1000"].map(|size| format!("per_page={size}")));
    for parameter in ["sport", "state", "city"] {
        odd.extend(["quidditch", "no-such.slug_1", "X"].map(|slug| format!("{parameter}={slug}")));
        odd.push(format!("{parameter}="));
    }
    odd.extend(["yesterday", "2024-13-01", "12", "2025"].map(|since| format!("modified_since={since}")));
    odd.extend(["2999-12-31", "2345-06-07"].map(|since| format!("modified_since={since}")));
    odd.extend(["page=", "per_page=", "modified_since="].map(str::to_owned));
    odd.extend(["page=1&page=2", "page=3&page=1", "per_page=10&per_page=20"].map(str::to_owned));
    odd.extend(["sport=baseball&sport=golf", "state=texas&state=ohio", "state=ohio&state=texas"].map(str::to_owned));
    odd.push("sport=golf&sport=baseball&sport=soccer".to_owned());
    odd.extend(["sport=baseball,golf", "state=texas%2Cohio", "sport=golf,quidditch"].map(str::to_owned));
    odd
}

/// Every odd request, alone and with ordinary parameters; two odd ones at once; ids; paths with a slash at the end.
fn targets(total: usize) -> Vec<String> {
    let odd = odd_queries(total);
    let mut targets: Vec<String> = odd.iter().map(|query| format!("{LIST}?{query}")).collect();
    for query in &odd {
        for beside in ["per_page=3", "sport=baseball", "modified_since=2024-05-06", "page=2&per_page=5", "utm=1"] {
            let names =
                |text: &str| text.split('&').map(|pair| pair.split('=').next().unwrap().to_owned()).collect::<Vec<_>>();
            if names(beside).iter().all(|name| !names(query).contains(name)) {
                targets.push(format!("{LIST}?{query}&{beside}"));
            }
        }
    }
    for (one, other) in [(0, 12), (3, 20), (5, 14), (6, 22), (10, 30), (16, 34), (4, 26)] {
        targets.push(format!("{LIST}?{}&{}", odd[one], odd[other]));
    }
    targets.extend(["999999", "88888888", "x", "abc", "no-such-id"].map(|id| format!("/api/listings/{id}.json")));
    targets.extend(["/api/listings.json/?page=2", "/api/sports.json/", "/api/listings/1.json/"].map(str::to_owned));
    targets
}

/// A state, and a city without a listing there.
pub(super) fn apart(origin: &Origin) -> (String, String) {
    let places: Vec<(String, String)> = origin.world(|world| {
        let slugs = world.ids().into_iter().filter_map(|id| world.slugs_of(id));
        slugs.map(|(_, state, city)| (state, city.to_owned())).collect()
    });
    let (state, _) = places[0].clone();
    let is_apart = |city: &String| !places.contains(&(state.clone(), city.clone()));
    let (_, city) = places.iter().find(|(_, city)| is_apart(city)).unwrap().clone();
    (state, city)
}

/// Valid filters that exclude each other, alone and with others.
fn elsewhere(origin: &Origin) -> Vec<String> {
    let (state, city) = apart(origin);
    let besides = ["", "&per_page=3", "&sport=baseball", "&modified_since=2024-05-06", "&page=2", "&page=0", "&utm=1"];
    besides.map(|beside| format!("{LIST}?state={state}&city={city}{beside}")).into()
}

/// Compares all of them; what differs.
async fn differences(server: &Server, origin: &Origin) -> Vec<String> {
    let total = origin.world(|world| world.ids().len());
    let mut differing = Vec::new();
    for target in targets(total).into_iter().chain(elsewhere(origin)) {
        let (ours, theirs) = (server.get(&target).await, of_the_origin(origin, &target).await);
        let is_list = theirs.status == 200 && target.starts_with(&format!("{LIST}?"));
        let same_head = (ours.status, ours.header("content-type")) == (theirs.status, theirs.header("content-type"));
        let same_place = ours.header("location") == theirs.header("location");
        let same_body = || {
            if is_list {
                let compared =
                    std::panic::catch_unwind(AssertUnwindSafe(|| same_list(ours.text(), theirs.text(), &target)));
                compared.is_ok()
            } else {
                ours.body == theirs.body
            }
        };
        if !same_head || !same_place || !same_body() {
            let told = |reply: &crate::client::Reply| {
                let text: String = reply.text().chars().take(300).collect();
                format!("{} {:?} {text}", reply.status, reply.header("content-type"))
            };
            differing.push(format!("{target}\n  ours   {}\n  theirs {}", told(&ours), told(&theirs)));
        }
        let head = server.head(&target).await;
        assert_eq!(head.status, ours.status, "HEAD {target}");
    }
    differing
}

async fn is_the_same(personality: &str) {
    let (origin, server) = learned(personality, 230).await;
    let differing = differences(&server, &origin).await;
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[tokio::test]
async fn odd_requests_are_answered_as_a_documented_origin_does() {
    is_the_same("documented").await;
}

#[tokio::test]
async fn odd_requests_are_answered_as_a_strict_origin_does() {
    is_the_same("strict").await;
}

#[tokio::test]
async fn odd_requests_are_answered_as_a_lenient_origin_does() {
    is_the_same("lenient").await;
}

#[tokio::test]
async fn odd_requests_are_answered_as_an_origin_with_html_pages_does() {
    is_the_same("html").await;
}

#[tokio::test]
async fn odd_requests_are_answered_as_an_origin_of_mixed_manners_does() {
    let edges = Edges {
        unknown_slug: UnknownSlug::NotFound,
        bad_number: BadNumber::Default,
        largest_page: 120,
        too_many: TooMany::Clamped,
        odd_since: OddSince::Ignored,
        beyond: BeyondLast::NotFound,
        repeated: Repeated::Either,
        elsewhere: Elsewhere::CityCounts,
        commas: Commas::Either,
        empty_counts: false,
        html: true,
        slash_redirects: true,
    };
    let origin = origin_with(90, Switches { edges, ..Switches::default() }).await;
    let server = learning(&origin).start().await;
    has_learned(&server).await;
    let differing = differences(&server, &origin).await;
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
}

#[tokio::test]
async fn a_city_outside_its_state_is_asked_for_once_and_twice_only_where_the_origin_differs() {
    for (personality, asked) in [("documented", 1), ("lenient", 2), ("strict", 2)] {
        let (origin, server) = learned(personality, 130).await;
        let is_pair = |target: &str| target.contains("state=") && target.contains("&city=");
        let pairs = |log: Vec<sample_origin::Seen>| log.iter().filter(|seen| is_pair(&seen.path_and_query)).count();
        assert_eq!(pairs(origin.log()), asked, "{personality}");
        let told = edges(&server).await["cases"]["city-outside-state"].clone();
        assert_eq!(told == "read through", asked == 2, "{personality}: {told}");
        quiet(&origin).await;
        origin.clear_log();
        let (state, city) = apart(&origin);
        let target = format!("{LIST}?state={state}&city={city}");
        let ours = server.get(&target).await;
        // A pair that has listings is never asked for, and neither is this one where an empty list is the answer.
        let (state, city) = origin.world(|world| {
            let (_, state, city) = world.slugs_of(world.ids()[0]).unwrap();
            (state, city.to_owned())
        });
        assert!(server.ok(&format!("{LIST}?state={state}&city={city}")).await.total() > 0);
        assert_eq!(pairs(origin.log()), asked - 1, "{personality}");
        assert_eq!(ours.status, if personality == "strict" { 404 } else { 200 });
        origin.shutdown().await;
        server.get("/api/sports.json").await;
        let (state, city) = apart(&origin);
        let unseen = server.get(&format!("{LIST}?state={state}&city={city}&per_page=9")).await;
        assert_eq!((unseen.status, unseen.total()), (200, 0), "{personality}: without the origin the answer is ours");
    }
}

#[tokio::test]
async fn a_list_with_commas_is_forwarded_only_where_the_origin_takes_it_for_several_terms() {
    for (personality, told, golf) in [("documented", "as ours", false), ("lenient", "read through", true)] {
        let (origin, server) = learned(personality, 130).await;
        assert_eq!(edges(&server).await["cases"]["comma-list"], told, "{personality}");
        let target = format!("{LIST}?sport=golf,baseball");
        let both = server.ok(&target).await;
        assert_eq!(both.total() > 0, golf, "{personality}");
        assert_eq!(both.total(), of_the_origin(&origin, &target).await.total(), "{personality}");
        // Not harmless: ours.
        assert_eq!(server.ok(&format!("{LIST}?sport=golf,%3Cb%3E")).await.total(), 0);
        origin.shutdown().await;
        assert_eq!(server.ok(&format!("{LIST}?sport=golf,tennis")).await.total(), 0, "{personality}: ours");
    }
}
