//! `/venues/{id}`: a venue for people, from a summary and a detail whose shape nobody documented.

use std::fmt::Write as _;

use http::Method;
use serde_json::Value;

use super::{HTML, PAGE_POLICY, mirrored, page, resolved, values};
use crate::dumps::contents::{mirror_of, origin_of};
use crate::harness::{Setup, edit, origin, wait_until};

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// What the page says in the words of schema.org.
fn linked_data(page: &str) -> Value {
    let text = page.split("<script type=\"application/ld+json\">").nth(1).unwrap();
    serde_json::from_str(text.split("</script>").next().unwrap()).unwrap()
}

/// Every text and number in a value.
fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| leaves(value, found)),
        Value::Array(values) => values.iter().for_each(|value| leaves(value, found)),
        Value::String(text) => found.push(text.clone()),
        Value::Null => {}
        other => found.push(other.to_string()),
    }
}

#[tokio::test]
async fn a_venue_has_a_page_with_all_that_the_origin_says_of_it() {
    let (origin, server) = mirrored(60).await;
    origin.clear_log();
    let list = server.ok("/api/listings.json").await;
    let explored = page(&server, "/explore").await;
    for id in list.ids().into_iter().take(20) {
        assert!(values(explored.text(), "href").contains(&format!("venues/{id}")), "titles lead to the pages");
        let target = format!("/venues/{id}");
        let reply = page(&server, &target).await;
        let text = reply.text();
        let (summary, detail) = origin.texts_of(id).unwrap();
        let (summary, detail): (Value, Value) =
            (serde_json::from_str(&summary).unwrap(), serde_json::from_str(&detail).unwrap());
        let mut said = Vec::new();
        for key in ["name", "address", "hours", "images", "website", "phone", "reviews", "place_id"] {
            leaves(&detail[key], &mut said);
        }
        for words in said {
            let shown = text.contains(&escaped(words.trim())) || words.parse::<f64>().is_ok();
            assert!(shown, "{words:?} is not on the page of {id}: {text}");
        }
        let links = values(text, "href");
        for image in detail["images"].as_array().unwrap() {
            assert!(links.contains(&image["url"].as_str().unwrap().to_owned()), "an image is a link");
        }
        assert!(links.contains(&summary["url"].as_str().unwrap().to_owned()), "the provider's page");
        assert!(links.contains(&list.json()["docs"].as_str().unwrap().to_owned()), "the credit line");
        let alternate =
            format!("<link rel=\"alternate\" type=\"application/json\" href=\"../api/listings/{id}.json\">");
        assert!(text.contains(&alternate), "{text}");
        let canonical = format!("<link rel=\"canonical\" href=\"{}\">", escaped(summary["url"].as_str().unwrap()));
        assert!(text.contains(&canonical), "{text}");
        let title = escaped(summary["name"].as_str().unwrap_or_default().trim());
        assert!(text.contains(&format!("<meta property=\"og:title\" content=\"{title}\">")), "{text}");
        assert!(
            text.contains(&format!("<meta property=\"og:url\" content=\"http://mirror.test/venues/{id}\">")),
            "{text}"
        );
        assert_eq!(text.matches("name=\"description\"").count(), 1, "{text}");
        let sport = format!("../explore?sport={}", summary["sport"].as_str().unwrap());
        assert!(links.contains(&sport), "{sport} is not in {links:?}");
        for kind in ["state", "city"] {
            assert!(links.iter().any(|link| link.starts_with(&format!("../explore?{kind}="))), "{kind}: {links:?}");
        }
        let data = linked_data(text);
        assert_eq!((&data["@type"], &data["name"]), (&"SportsActivityLocation".into(), &summary["name"]));
        assert_eq!(data["address"]["addressLocality"], summary["city"]);
        assert_eq!(data["address"]["streetAddress"], detail["address"]["street"], "and not the whole address");
        assert!(!text.contains("<dt>@type</dt>") && !text.contains("<dt>monday</dt>"), "{text}");
        assert_eq!(reply.the("content-security-policy"), PAGE_POLICY);
        assert_eq!(reply.the("mirror-snapshot"), server.snapshot().await);
        assert!(reply.etag().starts_with('"'), "{reply:?}");
        let unchanged = server.get_with(&target, &[HTML, ("if-none-match", &reply.etag())]).await;
        assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
        for link in links.iter().filter(|link| !link.contains("://") && !link.starts_with(['#', 't'])) {
            let to = resolved(&server, &target, link);
            assert_eq!(server.get_with(&to, &[HTML]).await.status, 200, "{target}: {link} leads to {to}");
        }
    }
    assert_eq!(origin.count(), 0, "the origin has no part in it");
}

#[tokio::test]
async fn a_venue_without_a_mirrored_detail_shows_its_summary_and_asks_nobody() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    wait_until("the certificate", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    crate::harness::quiet(&origin).await;
    let id = server.ok("/api/listings.json").await.ids()[0];
    let target = format!("/venues/{id}");
    origin.clear_log();
    for _ in 0..3 {
        let reply = page(&server, &target).await;
        let (summary, _) = origin.texts_of(id).unwrap();
        let summary: Value = serde_json::from_str(&summary).unwrap();
        assert!(reply.text().contains("not mirrored yet"), "{}", reply.text());
        assert!(reply.text().contains(&escaped(summary["city"].as_str().unwrap())));
    }
    assert_eq!(origin.count(), 0);
    let before = page(&server, &target).await.etag();
    server.ok(&format!("/api/listings/{id}.json")).await;
    wait_until("the detail is on the page", || async {
        let reply = page(&server, &target).await;
        reply.etag() != before && !reply.text().contains("not mirrored yet") && reply.text().contains("Phone")
    })
    .await;
}

#[tokio::test]
async fn a_changed_detail_changes_the_page_and_a_removed_venue_has_none() {
    let (origin, server) = mirrored(20).await;
    let ids = server.ok("/api/listings.json").await.ids();
    let (changed, removed, same) = (ids[0], ids[1], ids[2]);
    let target = |id: u64| format!("/venues/{id}");
    let mut before = Vec::new();
    for id in [changed, removed, same, changed, removed, same] {
        before.push(page(&server, &target(id)).await.etag());
    }
    edit(&origin, &server, |world| {
        assert!(world.touch(changed) && world.remove(removed));
    })
    .await;
    let after = page(&server, &target(changed)).await;
    assert_ne!(after.etag(), before[0]);
    let (_, detail) = origin.texts_of(changed).unwrap();
    let detail: Value = serde_json::from_str(&detail).unwrap();
    assert!(after.text().contains(detail["phone"].as_str().unwrap()), "{}", after.text());
    server.get(&target(removed)).await.assert_problem(404, &[&removed.to_string()]);
}

#[tokio::test]
async fn what_is_no_venue_is_not_found() {
    let (_origin, server) = mirrored(20).await;
    server.get("/venues/999999999").await.assert_problem(404, &["999999999"]);
    let for_people = server.get_with("/venues/999999999", &[HTML]).await;
    assert_eq!((for_people.status, for_people.the("content-type").as_str()), (404, "text/html; charset=utf-8"));
    for path in ["/venues/007", "/venues/x", "/venues/", "/venues/-1", "/venues/1/2"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    let id = server.ok("/api/listings.json").await.ids()[0];
    let moved = server.get(&format!("/venues/{id}/")).await;
    assert_eq!((moved.status, moved.the("location")), (301, format!("../{id}")));
    server.send(Method::POST, &format!("/venues/{id}"), &[]).await.assert_problem(405, &[]);
}

#[tokio::test]
async fn no_markup_and_no_address_of_the_data_does_anything_on_a_page() {
    const EVIL: &str = "</script><script>alert(1)</script><!--<img src=x onerror=alert(2)>\u{2028}\"'&";
    let quoted = |text: &str| serde_json::to_string(text).unwrap();
    let mut detail = format!("{{{}:{}", quoted(EVIL), quoted(EVIL));
    for (key, value) in [
        ("name", quoted(EVIL)),
        ("address", format!("[{0},{{{0}:{0}}}]", quoted(EVIL))),
        ("openingHours", format!("{{{0}:[{0},{{\"a\":{0}}}]}}", quoted(EVIL))),
        ("phone", quoted("javascript:alert(3)")),
        ("telephone", quoted("+1 (555) 010-9999")),
        ("website", quoted("javascript:alert(4)")),
        ("homepage", quoted("https://good.example/?a=1&b=\"><script>")),
        (
            "images",
            format!("[\"data:text/html,<script>\",{{\"url\":\"https://pictures.example/1.jpg\"}},{}]", quoted(EVIL)),
        ),
        ("logo", quoted("//evil.example/x.png")),
        ("rating", format!("{{\"ratingValue\":{0},\"reviewCount\":{0}}}", quoted(EVIL))),
        ("reviews", format!("[{0},{{\"author\":{0},\"text\":{0}}},null,7]", quoted(EVIL))),
        ("nested", format!("{}{}{}", "[".repeat(40), quoted(EVIL), "]".repeat(40))),
        ("odd", "\"\\ud800\"".to_owned()),
        ("number", "1e3".to_owned()),
        ("nothing", "null".to_owned()),
        ("many", format!("[{}]", vec!["0"; 5000].join(","))),
    ] {
        write!(detail, ",{}:{value}", quoted(key)).unwrap();
    }
    detail.push('}');
    let listing = |id: u64, lat: &str| {
        let (evil, url) = (quoted(EVIL), quoted("javascript:alert(5)"));
        format!(
            "{{\"id\":{id},\"name\":{evil},\"url\":{url},\"city\":{evil},\"state\":{evil},\"sport\":{evil},\"lat\":{lat},\"lng\":\"-97.5\",\"rating\":\"<b>\"}}"
        )
    };
    let texts = |ids: [(u64, &str); 4]| ids.map(|(id, lat)| (id, listing(id, lat))).to_vec();
    let listings = texts([(1, "30.5"), (2, "null"), (3, "\"80\""), (4, "[1]")]);
    let details =
        vec![(1, detail), (2, "[1,[2,\"<b>\"]]".to_owned()), (3, "{\"a\":{}}".to_owned()), (4, "{}".to_owned())];
    let origin = origin_of(listings, details).await;
    let server = mirror_of(&origin).await;
    let asked = "?q=%3C/script%3E%3Cscript%3Ealert(1)%22%3E%3Cimg+src=x%3E";
    let pages = ["/venues/1", "/venues/2", "/venues/3", "/venues/4", "/explore", "/embed"].map(str::to_owned);
    for target in pages.into_iter().chain(["/explore", "/embed"].map(|path| format!("{path}{asked}"))) {
        let (target, is_embedded) = (&*target, target.starts_with("/embed"));
        let reply = page(&server, target).await;
        let text = reply.text();
        // Scripts of ours, on pages of venues the words of schema.org, and two scripts for a map.
        let scripts = [("/embed", 0), ("/explore", 3), ("/venues/", 2)];
        let (_, scripts) = scripts.into_iter().find(|(path, _)| target.starts_with(path)).unwrap();
        let of_map = 2 * text.matches("id=\"map\"").count();
        assert_eq!(text.matches("<script").count(), scripts + of_map, "{target}: {text}");
        assert!(!text.contains("<!--"), "{target}: {text}");
        assert_eq!(text.matches("<img").count(), usize::from(!is_embedded), "{target}: only the mark");
        for link in values(text, "href").iter().chain(&values(text, "src")) {
            let scheme = link.split_once(':').map(|(scheme, _)| scheme.to_lowercase());
            let is_known = scheme.as_deref().is_none_or(|scheme| ["http", "https", "tel"].contains(&scheme));
            assert!(is_known && !link.starts_with("//"), "{target} leads to {link}");
        }
        for link in values(text, "src") {
            assert!(!link.contains(':'), "{target} loads {link}");
        }
        if target.starts_with("/venues/") {
            assert_eq!(linked_data(text)["name"], EVIL.trim());
        }
    }
    let text = page(&server, "/venues/1").await.text().to_owned();
    for words in ["tel:+15550109999", "https://pictures.example/1.jpg", "https://good.example/", "1e3"] {
        assert!(text.contains(words), "{words} is not in {text}");
    }
    assert!(
        !text.contains(">none<") && !text.contains("<dt>nothing</dt>"),
        "fields that say nothing are left out: {text}"
    );
    assert!(text.contains("the JSON has all of it"), "5000 values are not shown");
    assert!(text.len() < 400_000, "{} bytes", text.len());
}
