//! The operator's page: its content, whom it obeys, and that nothing from outside becomes markup.
//!
//! Its parts are tested where they are made. Here the requests are those that a browser and the page's script send.

use std::collections::BTreeMap;

use http::Method;
use sample_origin::FaultRule;
use serde_json::Value;

use crate::client::{Reply, header_map, plain_client};
use crate::harness::{Server, Setup, edit, origin, soon, wait_until};
use crate::origin_faults::Fault;

const TOKEN: &str = "0123456789abcdef0123";
/// The most bytes of the page, with any content.
const MOST: usize = 256 << 10;

async fn page(server: &Server) -> Reply {
    let reply = server.admin(Method::GET, "/").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert!(reply.body.len() < MOST, "{} bytes", reply.body.len());
    reply
}

/// Text with its tags taken out and its entities decoded, spaces put together.
fn words(html: &str) -> String {
    let mut text = String::new();
    for piece in html.split('<') {
        text.push(' ');
        text.push_str(piece.split_once('>').map_or(piece, |(_, after)| after));
    }
    for (entity, character) in [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")] {
        text = text.replace(entity, character);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the page says on top.
fn health(html: &str) -> String {
    let from = html.find("id=\"health\"").unwrap_or_else(|| panic!("no health in {html}"));
    words(&html[from..][..html[from..].find("</section>").unwrap()])
}

/// The tag of the element with this id, from there on.
#[track_caller]
fn tag<'a>(html: &'a str, id: &str) -> &'a str {
    let from = html.find(&format!("id=\"{id}\"")).unwrap_or_else(|| panic!("no #{id} in {html}"));
    &html[from..][..html[from..].find('>').unwrap()]
}

/// The value of an attribute of the element with this id.
#[track_caller]
fn attribute(html: &str, id: &str, name: &str) -> String {
    let tag = tag(html, id);
    let value = tag.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("no {name} in {tag}")).1;
    value.split('"').next().unwrap().to_owned()
}

/// Sends the request of the page's script for a pressed button.
async fn press(server: &Server, html: &str, id: &str, fields: &[(&str, &str)]) -> Reply {
    let method: Method = attribute(html, id, "data-method").parse().unwrap();
    let url = format!("http://{}/{}", server.admin, attribute(html, id, "data-path"));
    let own = format!("http://{}", server.admin);
    let request = plain_client().request(method, url).headers(header_map(&[("sec-fetch-site", "same-origin")]));
    let mut headers = header_map(fields);
    if !headers.contains_key("origin") {
        headers.insert("origin", own.parse().unwrap());
    }
    Reply::of(request.headers(headers).send().await.unwrap()).await
}

#[tokio::test]
async fn a_server_that_is_well_says_so_and_one_whose_origin_stopped_says_why_and_what_to_do() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("ttl", "1s").start().await;
    server.ready().await;
    wait_until("the page says that all is well", || async { page(&server).await.text().contains("All is well") }).await;

    origin.shutdown().await;
    wait_until("the page says why", || async {
        let told = health(page(&server).await.text());
        told.contains("Not well") && told.contains("fails. The last error")
    })
    .await;
    let html = page(&server).await;
    let told = health(html.text());
    assert!(told.contains("Data not confirmed for") && told.contains(&origin.url()), "{told}");
    assert!(told.contains("Check that the origin works"), "{told}");
    assert!(html.text().contains("<title>Not well"), "{html:?}");
    soon("what went wrong is listed", || async {
        let html = page(&server).await;
        let notes = words(html.text().split("id=\"notes\"").nth(1).unwrap());
        notes.contains("A step of the mirror failed") && notes.contains("The server keeps trying")
    })
    .await;

    origin.restart().await.unwrap();
    wait_until("all is well again", || async { page(&server).await.text().contains("All is well") }).await;
}

#[tokio::test]
async fn each_use_has_a_page_of_its_own() {
    let origin = origin(20).await;
    let shield = Setup::shield_of(&origin).start().await;
    shield.get("/api/sports.json").await;
    let html = page(&shield).await;
    let told = words(html.text());
    assert!(told.contains("grandstand shield") && told.contains("All is well"), "{told}");
    assert!(!html.text().contains("id=\"bundles\"") && !html.text().contains("id=\"do-refresh\""), "{told}");

    let offline = Setup::offline().start().await;
    let told = words(page(&offline).await.text());
    assert!(told.contains("Not well No snapshot has been imported yet. Import a bundle"), "{told}");
    assert!(!told.contains("Origin and budget") && told.contains("Import a bundle"), "{told}");
}

#[tokio::test]
async fn during_a_crawl_the_page_has_every_chart_the_progress_and_the_estimated_end() {
    let origin = origin(1000).await;
    let server = Setup::mirror_of(&origin).set("origin.requests_per_minute", "60").start().await;
    wait_until("the end of the crawl is estimated", || async {
        let told = words(page(&server).await.text());
        told.contains("The copy is complete in about ") && told.contains("Details")
    })
    .await;
    let html = page(&server).await;
    let charts = ["requests", "latency", "not-modified", "refused", "spent", "age", "progress", "parity-chart"];
    for chart in charts {
        tag(html.text(), chart);
    }
    let buttons: Vec<&str> = html.text().split("<button").filter(|tag| tag.contains(" data-path=\"")).collect();
    assert!(buttons.len() > 3, "{buttons:?}");
    for button in buttons {
        let asked = button.split_once(" data-ask=\"").map(|(_, rest)| rest.split('"').next().unwrap());
        assert!(asked.is_some_and(|asked| asked.len() > 20), "a button asks before it acts: {button}");
    }
}

/// The rows of the table of all facts.
fn facts(html: &str) -> BTreeMap<String, String> {
    let table = html.split("id=\"all-facts\"").nth(1).unwrap();
    let rows = table.split("<tr>").skip(2).map(|row| {
        let (name, value) = row.split_once("</th>").unwrap();
        (words(&format!("<{name}")), words(&format!("<{}", value.split("</td>").next().unwrap())))
    });
    rows.collect()
}

fn leaves(name: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let under = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
            fields.iter().for_each(|(key, value)| leaves(&under(key), value, found));
        }
        Value::Null | Value::Object(_) => drop(found.insert(name.to_owned(), "–".to_owned())),
        Value::Array(items) if items.is_empty() => drop(found.insert(name.to_owned(), "–".to_owned())),
        Value::Array(items) => {
            let texts: Vec<_> = items.iter().map(|item| item.as_str().unwrap().to_owned()).collect();
            found.insert(name.to_owned(), texts.join("; "));
        }
        Value::String(text) => drop(found.insert(name.to_owned(), text.clone())),
        other => drop(found.insert(name.to_owned(), other.to_string())),
    }
}

#[tokio::test]
async fn every_fact_of_status_is_on_the_page() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    wait_until("page and /status, asked one after the other, say the same", || async {
        let mut want = BTreeMap::new();
        leaves("", &server.status().await, &mut want);
        assert!(want.len() > 30, "{want:?}");
        let html = page(&server).await;
        let have = facts(html.text());
        assert_eq!(have.keys().collect::<Vec<_>>(), want.keys().collect::<Vec<_>>());
        have == want
    })
    .await;
}

#[tokio::test]
async fn a_rollback_by_its_button_shows_and_is_released_by_another() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let first = server.snapshot().await;
    let second = edit(&origin, &server, |world| {
        let id = world.ids()[3];
        world.remove(id);
    })
    .await;
    let html = page(&server).await;
    assert!(!html.text().contains(&format!("id=\"do-roll-back-{second}\"")), "the current one has no such button");
    let asked = attribute(html.text(), &format!("do-roll-back-{first}"), "data-ask");
    assert!(asked.contains("until you release it"), "{asked}");

    let done = press(&server, html.text(), &format!("do-roll-back-{first}"), &[]).await;
    assert_eq!((done.status, server.snapshot().await), (200, first.clone()), "{done:?}");
    let html = page(&server).await;
    let told = health(html.text());
    assert!(told.contains("Needs a look") && told.contains("A rollback is in effect"), "{told}");
    for button in ["do-release-top", "do-release"] {
        assert_eq!(attribute(html.text(), button, "data-path"), "snapshots/release");
    }
    let done = press(&server, html.text(), "do-release", &[]).await;
    assert_eq!((done.status, server.snapshot().await), (200, second.clone()), "{done:?}");

    for (button, word) in [("do-pin", "pinned"), ("do-verify", "verified"), ("do-unpin", "unpinned")] {
        let html = page(&server).await;
        let done = press(&server, html.text(), &format!("{button}-{first}"), &[]).await;
        assert_eq!((done.status, done.json()[word].as_str()), (200, Some(&first[..])), "{button}: {done:?}");
    }
    let html = page(&server).await;
    for (button, status) in [("do-refresh", 202), ("do-sync", 202), ("do-audit", 202), ("do-purge", 200)] {
        assert_eq!(press(&server, html.text(), button, &[]).await.status, status, "{button}");
    }
    soon("what was compared shows", || async { words(page(&server).await.text()).contains("unanswered") }).await;
}

#[tokio::test]
async fn what_is_held_back_is_accepted_by_its_button() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    origin.edit(|world| world.retain(|venue| venue.id.is_multiple_of(2)));
    let left = origin.world(sample_origin::World::len);
    server.refresh().await;
    wait_until("something is held back", || async { !server.status().await["held"].is_null() }).await;
    let html = page(&server).await;
    let told = health(html.text());
    assert!(told.contains("Not well A snapshot is held back") && told.contains("accept the snapshot"), "{told}");
    assert!(words(html.text()).contains(&format!("with {left} listings instead of 60 waits")), "{told}");
    assert_eq!(press(&server, html.text(), "do-accept-top", &[]).await.status, 202);
    wait_until("it is published", || async { server.status().await["listings"] == left as u64 }).await;
}

#[tokio::test]
async fn buttons_want_the_token_where_there_is_one_and_other_sites_press_none() {
    let server = Setup::offline().set("admin.token", TOKEN).start().await;
    let html = page(&server).await;
    assert!(html.text().contains("data-writes=\"token\"") && html.text().contains("type=\"password\""));
    assert!(!html.text().contains(TOKEN));
    let refused = press(&server, html.text(), "do-purge", &[]).await;
    assert!(refused.status == 403 && refused.text().contains("admin.token"), "{refused:?}");
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(press(&server, html.text(), "do-purge", &[("authorization", &bearer)]).await.status, 200);
    for foreign in ["https://evil.test", "null", "http://localhost:1"] {
        let fields = [("authorization", &bearer[..]), ("origin", foreign)];
        assert_eq!(press(&server, html.text(), "do-purge", &fields).await.status, 403, "{foreign}");
    }
    for target in ["/", "/?fragment", "/operator.js", "/operator.css", "/favicon.svg"] {
        let url = format!("http://{}{target}", server.admin);
        let foreign = plain_client().get(url).header("host", "evil.test").send().await.unwrap();
        assert_eq!(foreign.status(), 403, "{target}");
    }
}

#[tokio::test]
async fn where_nobody_may_act_the_page_says_so() {
    let server = Setup::offline().set("admin.listen", "0.0.0.0:0").start().await;
    let html = page(&server).await;
    assert!(words(html.text()).contains("Actions are off"), "{html:?}");
    assert!(tag(html.text(), "do-purge").contains(" disabled"), "{html:?}");
    assert!(!html.text().contains("href=\"bundle\""), "{html:?}");
    assert!(html.text().contains("<fieldset disabled>"), "{html:?}");
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere_and_has_no_code_or_style_of_its_own() {
    let server = Setup::offline().start().await;
    for target in ["/", "/?span=hours", "/?fragment", "/operator.css", "/operator.js", "/favicon.svg"] {
        let reply = server.admin(Method::GET, target).await;
        assert_eq!(reply.status, 200, "{target}");
        let policy = reply.the("content-security-policy");
        for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.split("; ").any(|own| own == rule), "{target}: {policy}");
        }
        assert_eq!(reply.the("x-content-type-options"), "nosniff");
        let text = reply.text().replace("http://www.w3.org/2000/svg", "");
        let html = text.replace(&server.public.to_string(), "");
        assert!(!html.contains("//127.") && !html.contains("https://"), "{target}: {html}");
        if target.starts_with("/?") || target == "/" {
            for forbidden in [" style=", "<style", " onclick=", "javascript:"] {
                assert!(!html.contains(forbidden), "{target}: {forbidden}");
            }
            assert_eq!(html.matches("<script").count(), usize::from(!target.contains("fragment")), "{target}");
        }
    }
    let head = server.admin(Method::HEAD, "/").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn what_comes_from_outside_is_text_on_the_page() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("ttl", "1s").start().await;
    server.ready().await;
    let markup = "<script>alert('x')</script><img src=x onerror=alert(1)>\"'&";
    let to = format!("http://elsewhere.test/{markup}/{}", "x".repeat(3000));
    origin.set(|switches| switches.faults = vec![FaultRule::always("", Fault::Redirect(to.clone()))]);
    wait_until("the page tells it", || async { page(&server).await.text().contains("elsewhere.test") }).await;
    let html = page(&server).await;
    assert_eq!(html.text().matches("<script").count(), 1, "only the page's own");
    assert!(html.text().contains("&lt;script&gt;alert") && !html.text().contains("<img"), "{html:?}");
    assert!(!words(html.text()).contains(&"x".repeat(500)), "it is cut");
}

#[tokio::test]
async fn what_clients_asked_is_drawn_within_seconds() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let etag = server.ok("/api/sports.json").await.etag();
    for _ in 0..30 {
        server.get_with("/api/sports.json", &[("if-none-match", &etag)]).await;
    }
    wait_until("a sample is drawn", || async { page(&server).await.text().contains("area hue1") }).await;
    for target in ["/", "/?fragment&span=minutes"] {
        let html = server.admin(Method::GET, target).await;
        for (chart, told) in
            [("requests", "from the copy: last"), ("latency", "half within: last"), ("spent", "details: last")]
        {
            let figure =
                html.text().split(&format!("id=\"{chart}\"")).nth(1).unwrap().split("</figure>").next().unwrap();
            assert!(figure.contains("<path") && figure.contains(told), "{target} {chart}: {figure}");
        }
    }
    let hours = server.admin(Method::GET, "/?span=hours").await;
    assert!(hours.text().contains("aria-current=\"true\">12 hours"), "{hours:?}");
}
