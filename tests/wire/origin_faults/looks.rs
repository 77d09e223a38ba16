//! The faults look as they should: else a test that survives them shows nothing.

use std::time::Duration;

use http::header::LOCATION;
use reqwest::redirect::Policy;
use sample_origin::FaultRule;
use serde_json::Value;

use super::{Fault, answers};
use crate::client::plain_client;
use crate::harness::origin;

#[tokio::test]
async fn faults_look_as_they_should() {
    let origin = origin(200).await;
    let url = format!("{}/api/listings.json?per_page=100", origin.url());
    let client = plain_client();
    let arm = |fault| origin.set(|switches| switches.faults = vec![FaultRule::times("/api/listings.json", 1, fault)]);
    let send = || client.get(&url).send();
    let header = |response: &reqwest::Response, name: &str| {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned())
    };

    arm(Fault::Status(503));
    assert_eq!(client.get(format!("{}/api/sports.json", origin.url())).send().await.unwrap().status(), 200);
    assert_eq!(send().await.unwrap().status(), 503);
    assert_eq!(send().await.unwrap().status(), 200, "only once");
    arm(Fault::TooManyRequests(Some(7)));
    assert_eq!(header(&send().await.unwrap(), "retry-after").unwrap(), "7");
    arm(Fault::Reset);
    assert!(plain_client().get(&url).send().await.is_err());
    assert_eq!(origin.log().last().unwrap().status, 0);
    arm(Fault::Hang);
    assert!(tokio::time::timeout(Duration::from_millis(200), send()).await.is_err());
    arm(Fault::HtmlWith200);
    assert!(send().await.unwrap().text().await.unwrap().starts_with("<!doctype html>"));
    arm(Fault::Body("{\"items\":7}".to_owned()));
    assert_eq!(send().await.unwrap().json::<Value>().await.unwrap()["items"], 7);
    arm(Fault::Truncated);
    let cut = send().await.unwrap();
    assert!(header(&cut, "content-length").is_some());
    assert!(cut.bytes().await.is_err());
    arm(Fault::SlowDrip(Duration::from_millis(50)));
    let mut slow = send().await.unwrap();
    assert_eq!(slow.chunk().await.unwrap().unwrap().len(), 64);
    arm(Fault::EndlessBody);
    let mut endless = send().await.unwrap();
    let mut bytes = 0;
    while bytes < 5_000_000 {
        bytes += endless.chunk().await.unwrap().unwrap().len();
    }
    arm(Fault::Redirect("https://elsewhere.example/".to_owned()));
    let staying = crate::client::client_builder().no_proxy().redirect(Policy::none()).build().unwrap();
    let moved = staying.get(&url).send().await.unwrap();
    assert_eq!(moved.status(), 302);
    assert_eq!(header(&moved, "location").unwrap(), "https://elsewhere.example/");
    assert_eq!(origin.switches().faults[0].times, Some(0));
}

#[test]
fn a_detour_counts_down_and_keeps_the_query() {
    let location = |target| {
        let response = answers::detour(target, 2)?;
        Some(response.headers()[LOCATION].to_str().unwrap().to_owned())
    };
    assert_eq!(location("/v1/a.json?x=1").as_deref(), Some("a.json?x=1&hops=1"));
    assert_eq!(location("/v1/a.json?x=1&hops=1").as_deref(), Some("a.json?x=1&hops=0"));
    assert_eq!(location("/v1/a.json?x=1&hops=0"), None);
}
