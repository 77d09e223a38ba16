//! The pages and documents for people and programs, on the public listener.

use http::Method;

use crate::client::Reply;
use crate::harness::{Server, Setup, mirrored, mirrored_by, origin, shared_mirror, until, wait_until};

mod described;
mod venue;

const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                           base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

async fn page(server: &Server, target: &str) -> Reply {
    let reply = server.get_with(target, &[HTML]).await;
    assert_eq!(reply.status, 200, "{target}: {}", reply.text());
    reply
}

/// The values of an attribute in a page, character references decoded.
fn values(page: &str, attribute: &str) -> Vec<String> {
    let start = format!(" {attribute}=\"");
    let starts = page.split(&start).skip(1);
    starts.map(|rest| rest.split('"').next().unwrap().replace("&amp;", "&").replace("&quot;", "\"")).collect()
}

#[tokio::test]
async fn the_front_page_is_for_who_names_html_and_the_index_for_all_others() {
    let (_origin, server) = shared_mirror(120).await;
    for (accept, is_html) in [
        (Some("text/html"), true),
        (Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), true),
        (Some("*/*"), false),
        (Some("application/json"), false),
        (Some("text/html;q=0, */*"), false),
        (None, false),
    ] {
        let fields: Vec<_> = accept.map(|accept| ("accept", accept)).into_iter().collect();
        let reply = server.get_with("/", &fields).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.the("vary"), "Accept, Accept-Encoding", "{accept:?}");
        let kind = if is_html { "text/html; charset=utf-8" } else { "application/json" };
        assert_eq!(reply.the("content-type"), kind, "{accept:?}");
    }
    let index = server.get("/").await.json();
    let links = index["links"].as_object().unwrap();
    for (name, link) in links {
        let link = link.as_str().unwrap();
        assert!(!link.starts_with('/') && !link.contains("://"), "{name} is not relative");
        let id = server.get("/api/listings.json").await.ids()[0].to_string();
        let link = link
            .replace("{id}", &id)
            .replace("{words}", "park")
            .replace("{snapshot}", index["data"]["snapshot"].as_str().unwrap());
        assert_eq!(server.get(&format!("/{link}")).await.status, 200, "{name}");
    }
    assert_eq!(index["data"]["listings"], 120);
    assert_eq!(index["data"]["license"], "https://creativecommons.org/licenses/by/4.0/");
}

#[tokio::test]
async fn the_front_page_says_whom_the_data_is_from_what_there_is_and_since_when_it_is_confirmed() {
    let (_origin, server) = mirrored(300).await;
    let reply = page(&server, "/").await;
    let text = reply.text();
    let list = server.get("/api/listings.json").await.json();
    for words in [
        list["attribution"].as_str().unwrap(),
        &format!("href=\"{}\"", list["docs"].as_str().unwrap()),
        "href=\"https://creativecommons.org/licenses/by/4.0/\" rel=\"license\"",
        &format!("datetime=\"{}\"", list["generated_at"].as_str().unwrap()),
        "300 venues",
        "http://mirror.test/api/listings.json?state=",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let taxonomies = [("sport", "sports"), ("state", "states")];
    for (parameter, plural) in taxonomies {
        let terms = server.get(&format!("/api/{plural}.json")).await.json();
        for term in terms["items"].as_array().unwrap() {
            let link = format!("explore?{parameter}={}", term["slug"].as_str().unwrap());
            assert!(values(text, "href").contains(&link), "{link}");
            // Behind the name of the term, the number of its venues.
            let shown = text.rsplit(&format!("href=\"{link}\"")).next().unwrap().split("</li>").next().unwrap();
            let total = server.get(&format!("/api/listings.json?{}", &link["explore?".len()..])).await.total();
            assert!(shown.contains(&total.to_string()), "{link}: {shown}");
        }
    }
    for dump in super::dumps::ALL {
        assert!(values(text, "href").contains(&dump.trim_start_matches('/').to_owned()), "{dump}");
    }
    for (dump, name) in [("/dumps/listings.csv", "listings.csv"), ("/dumps/details.ndjson", "details.ndjson")] {
        let length = server.get(dump).await.body.len() as u64;
        let shown = text.split(&format!("{name}</a>")).nth(1).unwrap().split("</tr>").next().unwrap();
        let size = format!("<td class=\"number\">300</td><td class=\"number\">{:.1} KiB</td>", length as f64 / 1024.0);
        assert!(shown.contains(&size), "{name} has 300 rows and {length} bytes: {shown}");
    }
    let limited = Setup::offline().set("rate_limit.requests_per_minute", "77").start().await;
    assert!(page(&limited, "/").await.text().contains("77 requests"), "the limit is told");
    assert_eq!(reply.the("mirror-snapshot"), server.snapshot().await);
}

#[tokio::test]
async fn the_examples_on_the_front_page_work_as_they_stand() {
    let origin = origin(300).await;
    let server = Setup::mirror_of(&origin).without("public_url").start().await;
    server.settled(&origin).await;
    let front = page(&server, "/").await;
    let example = |title: &str| {
        let start = format!("<code id=\"{}\">", title.to_lowercase());
        let code = front.text().split(&start).nth(1).unwrap().split("</code>").next().unwrap();
        code.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    };
    let target = example("Shell").split('\'').nth(1).unwrap().to_owned();
    assert!(target.starts_with(&format!("http://{}/api/listings.json?state=", server.public)), "{target}");
    let list = server.ok(&target[format!("http://{}", server.public).len()..]).await.json();
    let (total, name) = (list["total"].to_string(), list["items"][0]["name"].as_str().unwrap());
    for (title, program) in [
        ("Shell", &["sh", "-c"][..]),
        ("Python", &["python3", "-c"]),
        ("JavaScript", &["node", "--input-type=module", "-e"]),
    ] {
        let mut command = std::process::Command::new(program[0]);
        command.args(&program[1..]).arg(example(title)).env_remove("http_proxy").env_remove("HTTP_PROXY");
        let output = match command.output() {
            // Only tests of scripts need node.
            Err(error) if program[0] == "node" && error.kind() == std::io::ErrorKind::NotFound => continue,
            output => output.unwrap(),
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(name) && said.contains(&total), "{title}: {output:?}");
    }
}

#[tokio::test]
async fn every_link_of_a_page_leads_somewhere_and_everything_it_loads_is_small_and_ours() {
    let (_origin, server) = shared_mirror(300).await;
    let mut front = 0;
    for target in ["/", "/docs", "/explore", "/explore?state=texas"] {
        let reply = server.get_with(target, &[HTML, ("accept-encoding", "gzip, deflate, br, zstd")]).await;
        let text = String::from_utf8(reply.decoded()).unwrap();
        let loaded: Vec<String> = values(&text, "src")
            .into_iter()
            .chain(
                text.split("<link ").skip(1).filter_map(|link| values(&format!(" {link}"), "href").into_iter().next()),
            )
            .collect();
        assert!(loaded.len() >= 4, "{loaded:?}");
        let mut bytes = reply.body.len();
        for link in &loaded {
            let part = server.get_with(&format!("/{link}"), &[("accept-encoding", "gzip, deflate, br, zstd")]).await;
            assert_eq!(part.status, 200, "{target} loads {link}");
            bytes += part.body.len();
            if link.starts_with("assets/") {
                assert_eq!(part.the("cache-control"), "public, max-age=31536000, immutable");
            }
        }
        if target == "/" {
            front = bytes;
        }
        for link in values(&text, "href").into_iter().filter(|link| !link.contains("://") && !link.starts_with('#')) {
            assert!(!link.starts_with('/'), "{link} does not work behind a path");
            if !link.starts_with("explore?") {
                let link = link.trim_start_matches("./");
                assert_eq!(server.get_with(&format!("/{link}"), &[HTML]).await.status, 200, "{target} links to {link}");
            }
        }
    }
    assert!(front < 50_000, "the front page takes {front} bytes");
}

#[tokio::test]
async fn pages_are_confined_and_documents_typed() {
    let (_origin, server) = shared_mirror(60).await;
    for (target, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/explore", "text/html; charset=utf-8"),
        ("/embed", "text/html; charset=utf-8"),
        ("/explore/points.json", "application/json"),
        ("/openapi.json", "application/json"),
        ("/schema/listing.json", "application/schema+json"),
        ("/schema/detail.json", "application/schema+json"),
        ("/llms.txt", "text/plain; charset=utf-8"),
        ("/robots.txt", "text/plain; charset=utf-8"),
        ("/favicon.svg", "image/svg+xml"),
        ("/favicon.ico", "image/vnd.microsoft.icon"),
    ] {
        let reply = page(&server, target).await;
        assert_eq!(reply.the("content-type"), kind, "{target}");
        assert_eq!(reply.the("x-content-type-options"), "nosniff", "{target}");
        assert_eq!(reply.the("referrer-policy"), "same-origin", "{target}");
        assert_eq!(reply.the("access-control-allow-origin"), "*", "{target}");
        let policy = match target {
            "/docs" => {
                let own = PAGE_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'");
                Some(own.replace("img-src 'self'", "img-src 'self' data:"))
            }
            "/" | "/explore" => Some(PAGE_POLICY.to_owned()),
            "/embed" => Some(PAGE_POLICY.replace("frame-ancestors 'none'", "frame-ancestors *")),
            _ => None,
        };
        assert_eq!(reply.header("content-security-policy"), policy, "{target}");
        let refused = server.send(Method::POST, target, &[]).await;
        refused.assert_problem(405, &["POST"]);
        assert_eq!(refused.the("allow"), "GET, HEAD, OPTIONS", "{target}");
        assert_eq!(server.send(Method::OPTIONS, target, &[]).await.status, 204, "{target}");
    }
    // Where the widget is framed, so are its errors.
    let refused = server.send(http::Method::DELETE, "/embed", &[("accept", "text/html")]).await;
    let policy = refused.the("content-security-policy");
    assert!(refused.status == 405 && policy.ends_with("frame-ancestors *"), "{refused:?}");
}

#[tokio::test]
async fn tiles_come_from_the_server_that_is_configured_on_pages_with_a_map_only() {
    let tiles = "https://tile.example.org/{z}/{x}/{y}.png";
    let set = |setup: Setup| setup.set("pages.tiles", tiles).set("pages.tiles_credit", "\u{a9} <Streets>");
    let server = mirrored_by(20, set).await.1;
    let id = server.get("/api/listings.json").await.ids()[0];
    let own = PAGE_POLICY.replace("img-src 'self'", "img-src 'self' data: https://tile.example.org");
    for (target, policy) in [
        ("/", PAGE_POLICY.to_owned()),
        ("/explore", own.clone()),
        (&format!("/venues/{id}"), own.clone()),
        ("/embed", own.replace("frame-ancestors 'none'", "frame-ancestors *")),
    ] {
        let reply = page(&server, target).await;
        assert_eq!(reply.the("content-security-policy"), policy, "{target}");
        let has_map = target != "/";
        assert_eq!(values(reply.text(), "data-tiles"), if has_map { vec![tiles] } else { vec![] }, "{target}");
        assert_eq!(reply.text().contains("Map: \u{a9} &lt;Streets&gt;"), has_map, "{target}");
        assert_eq!(reply.text().contains("assets/leaflet"), has_map, "{target}");
    }
}

#[tokio::test]
async fn the_map_gets_points_of_a_view_and_counts_where_there_are_too_many() {
    let (_origin, server) = mirrored(1_300).await;
    let points = async |query: &str| server.ok(&format!("/explore/points.json?{query}")).await.json();
    let all = points("view=").await;
    let counted: u64 = all["cells"].as_array().unwrap().iter().map(|cell| cell[2].as_u64().unwrap()).sum();
    assert!((1_001..=1_300).contains(&counted), "{counted}");
    assert!(all.get("points").is_none() && all.get("whole").is_none());
    let texas = points("view=-107,26,-94,37").await;
    let found = texas["points"].as_array().unwrap();
    assert!(!found.is_empty() && texas["whole"] == false, "{texas}");
    for point in found {
        let (id, lat, lng) = (point[0].as_str().unwrap(), point[1].as_f64().unwrap(), point[2].as_f64().unwrap());
        assert!((26.0..=37.0).contains(&lat) && (-107.0..=-94.0).contains(&lng), "{point}");
        let detail = server.ok(&format!("/api/listings/{id}.json")).await.json();
        assert!((detail["lat"].as_f64().unwrap() - lat).abs() < 0.0001, "{point}");
        assert_eq!(detail["name"].as_str().unwrap_or_default().trim(), point[3], "{point}");
    }
    let near = points("near=30.27,-97.74&radius=50&page=7&sort=name&view=-180,-90,180,90").await;
    let total = server.get("/search.json?near=30.27,-97.74&radius=50").await.json()["total"].as_u64().unwrap();
    assert_eq!((near["points"].as_array().unwrap().len() as u64, &near["whole"]), (total, &true.into()));
}

#[tokio::test]
async fn the_choices_of_the_finder_say_how_many_of_the_found_venues_they_leave() {
    let (_origin, server) = shared_mirror(300).await;
    for (query, counted) in
        [("q=golf", "state"), ("q=golf", "sport"), ("state=texas", "sport"), ("sport=golf", "state")]
    {
        let found = server.ok(&format!("/search.json?{query}&facets=1")).await.json();
        let shown = page(&server, &format!("/explore?{query}")).await.text().replace("&amp;", "&");
        let choices =
            shown.split(&format!("<select name=\"{counted}\"")).nth(1).unwrap().split("</select>").next().unwrap();
        let facets = found["facets"][counted].as_array().unwrap();
        assert!(!facets.is_empty(), "{query}");
        for term in facets {
            let choice = format!(
                "value=\"{}\">{} ({})</option>",
                term["slug"].as_str().unwrap(),
                term["name"].as_str().unwrap(),
                term["count"]
            );
            assert!(choices.contains(&choice), "{query}: {choice} in {choices}");
        }
        let sum: u64 = facets.iter().map(|term| term["count"].as_u64().unwrap()).sum();
        assert_eq!(sum, found["total"], "{query}");
    }
    for query in ["q=golf&city=atlantis", "q=golf&sport=atlantis&near=1,2", "state=atlantis"] {
        let shown = page(&server, &format!("/explore?{query}")).await;
        assert!(shown.text().contains("atlantis") && shown.text().contains("0 venues"), "{query}: {}", shown.text());
        server.ok(&format!("/explore/points.json?{query}")).await;
    }
    let chosen = page(&server, "/explore?state=texas").await.text().to_owned();
    assert!(chosen.contains("<option value=\"texas\" selected>Texas</option>"), "without the others it says nothing");
}

#[tokio::test]
async fn a_document_has_a_strong_tag_for_each_coding_that_names_its_bytes() {
    let (_origin, server) = shared_mirror(60).await;
    for target in ["/", "/openapi.json", "/explore?sport=golf", "/docs"] {
        let mut tags = Vec::new();
        for coding in ["identity", "gzip", "br", "zstd"] {
            let fields = [HTML, ("accept-encoding", coding)];
            let first = server.get_with(target, &fields).await;
            assert_eq!(first.header("content-encoding").as_deref().unwrap_or("identity"), coding, "{target}");
            let tag = first.etag();
            assert!(tag.starts_with('"'), "{target}: {tag} is weak");
            // If its tag were weak, frequent requests would compress it again.
            for _ in 0..5 {
                let again = server.get_with(target, &fields).await;
                assert_eq!((again.etag(), again.body), (tag.clone(), first.body.clone()), "{target} {coding}");
            }
            let not_modified = server.get_with(target, &[HTML, fields[1], ("if-none-match", &tag)]).await;
            assert_eq!((not_modified.status, not_modified.body.len()), (304, 0), "{target} {coding}");
            assert_eq!(not_modified.etag(), tag);
            assert_eq!(not_modified.header("content-type"), None);
            let matched = server.get_with(target, &[HTML, fields[1], ("if-match", &tag)]).await;
            assert_eq!(matched.status, 200, "{target} {coding}");
            let other = server.get_with(target, &[HTML, fields[1], ("if-match", "\"other\"")]).await;
            assert_eq!(other.status, 412);
            let head = server.send(Method::HEAD, target, &fields).await;
            assert_eq!((head.status, head.etag(), head.body.len()), (200, tag.clone(), 0));
            assert_eq!(head.the("content-length"), first.body.len().to_string());
            tags.push(tag);
        }
        tags.sort();
        tags.dedup();
        assert_eq!(tags.len(), 4, "{target}: {tags:?}");
    }
}

#[tokio::test]
async fn the_viewer_is_sent_as_it_is_stored_or_decoded_and_is_the_same_thing() {
    let server = Setup::offline().start().await;
    let docs = server.get_with("/docs", &[HTML]).await;
    let bundle = values(docs.text(), "data-js").into_iter().find(|link| link.contains("swagger-ui-bundle")).unwrap();
    let target = format!("/{bundle}");
    let plain = server.get(&target).await;
    assert!(plain.body.len() > 1_000_000 && plain.header("content-encoding").is_none());
    for coding in ["br", "gzip", "zstd"] {
        let coded = server.get_with(&target, &[("accept-encoding", coding)]).await;
        assert_eq!(coded.the("content-encoding"), coding);
        assert_eq!(coded.decoded(), plain.body, "{coding}");
    }
    let packed = server.get_with(&target, &[("accept-encoding", "br")]).await;
    assert!(packed.body.len() < 400_000, "{} bytes", packed.body.len());
    server.get("/assets/swagger-ui-bundle.js").await.assert_problem(404, &["swagger-ui-bundle.js"]);
    server.get("/assets/other.0123456789.js").await.assert_problem(404, &["other.0123456789.js"]);
}

#[tokio::test]
async fn the_schemas_and_the_description_have_the_fields_of_the_data() {
    let (_origin, server) = shared_mirror(60).await;
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let described = read(page(&server, "/openapi.json").await.text());
    let listing = read(server.get("/api/listings.json").await.text())["items"][0].clone();
    let detail = read(page(&server, &format!("/api/listings/{}.json", listing["id"])).await.text());
    for (target, sent, schema) in
        [("/schema/listing.json", &listing, "Listing"), ("/schema/detail.json", &detail, "Venue")]
    {
        let found = read(page(&server, target).await.text());
        assert_eq!((&found["type"], &found["x-values"]), (&"object".into(), &60.into()), "{target}");
        for (name, value) in sent.as_object().unwrap() {
            let field = &found["properties"][name];
            assert!(field["x-share"].as_f64().is_some_and(|share| share > 0.0), "{target}: {name} in {found}");
            assert!(value.is_null() || field.get("type").or(field.get("anyOf")).is_some(), "{target}: {name}");
            let typed = &described["components"]["schemas"][schema]["properties"][name];
            assert!(typed.is_object(), "{schema}.{name} is not described");
        }
        let described = &described["components"]["schemas"][schema];
        assert!(found.get("required").is_none() && described.get("required").is_none(), "{schema}");
        assert_eq!(described["properties"]["id"], serde_json::json!({"type": "integer"}), "{schema}");
    }
    // Generated clients get one type for each body, not one for forms that this origin does not send.
    let body =
        |path: &str| &described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
    assert_eq!(body("/api/listings/{id}.json")["$ref"], "#/components/schemas/Venue");
    assert_eq!(body("/api/cities.json")["$ref"], "#/components/schemas/TermSet");
    let llms = page(&server, "/llms.txt").await;
    for expected in
        ["`review_count`", "/changes.json?since=", "If-None-Match", "display names", listing["name"].as_str().unwrap()]
    {
        assert!(llms.text().contains(expected), "{expected} is missing: {}", llms.text());
    }
}

#[tokio::test]
async fn the_reference_has_fields_values_and_examples_of_the_data() {
    let (_origin, server) = shared_mirror(700).await;
    let docs = page(&server, "/docs").await;
    for shown in
        ["Fields of a listing", "<code>review_count</code>", "Values: <code>best</code>", "Without it: <code>50</code>"]
    {
        assert!(docs.text().contains(shown), "{shown}");
    }
    let at = |path: &str| docs.text().find(&format!("GET {path}<")).unwrap();
    assert!(at("/api/listings.json") < at("/api/cities.json"), "in the order of the description");
    // Every operation is one click from the top.
    for anchor in values(docs.text(), "href").iter().filter_map(|link| link.strip_prefix('#')) {
        assert!(values(docs.text(), "id").iter().any(|id| id == anchor), "#{anchor} leads nowhere");
    }
    let links = docs.text().split("aria-label=\"Operations\"").nth(1).unwrap().split("</nav>").next().unwrap();
    assert_eq!(links.matches("<a ").count(), docs.text().matches("<section class=\"operation\"").count());
    assert!(docs.text().contains("each empty while in doubt"), "the columns of slugs are explained");
    let id = docs
        .text()
        .split("Example: <code>")
        .find_map(|rest| rest.split('<').next()?.parse::<u64>().ok().filter(|id| *id > 100));
    server.ok(&format!("/api/listings/{}.json", id.unwrap())).await;
}

#[tokio::test]
async fn pages_have_a_window_of_their_own_and_documents_count_in_that_of_the_api() {
    let server = Setup::offline().set("rate_limit.requests_per_minute", "3").start().await;
    let docs = server.get_with("/docs", &[HTML]).await;
    let asset = values(docs.text(), "src").into_iter().find(|link| link.starts_with("assets/")).unwrap();
    for left in (0..29).rev() {
        let target = if left % 2 == 0 { "/docs".to_owned() } else { format!("/{asset}") };
        let reply = server.get_with(&target, &[HTML]).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.the("ratelimit-policy"), "\"default\";q=30;w=60");
        assert!(reply.the("ratelimit").starts_with(&format!("\"default\";r={left};")), "{}", reply.the("ratelimit"));
    }
    let refused = server.get_with("/", &[HTML]).await;
    assert!(refused.status == 429 && refused.text().contains("Limit of 30 requests"), "{}", refused.text());
    assert!(refused.the("retry-after").parse::<u32>().unwrap() > 0);
    server.get("/favicon.svg").await.assert_problem(429, &["30"]);
    server.get(&format!("/{asset}")).await.assert_problem(429, &["30"]);
    server.get("/openapi.json").await.assert_problem(429, &["30"]);
    // What the page that says to wait needs is not refused.
    let style = values(refused.text(), "href").into_iter().find(|link| link.starts_with("assets/style.")).unwrap();
    assert_eq!(server.get(&format!("/{style}")).await.status, 200);
    for left in (0..3).rev() {
        let reply = server.get("/robots.txt").await;
        assert_eq!(reply.status, 200);
        assert!(reply.the("ratelimit").starts_with(&format!("\"default\";r={left};")), "{}", reply.the("ratelimit"));
    }
    server.get("/robots.txt").await.assert_problem(429, &["3"]);
    server.get("/api/listings.json").await.assert_problem(429, &["3"]);
}

#[tokio::test]
async fn a_page_lies_below_the_path_of_the_public_url_and_without_its_slash_leads_there() {
    let server = Setup::offline().set("public_url", "http://mirror.test/venues").start().await;
    let front = page(&server, "/venues/").await;
    for link in values(front.text(), "src") {
        page(&server, &format!("/venues/{link}")).await;
    }
    page(&server, "/venues/docs").await;
    // Relative links would lead to the parent.
    for (target, to) in [("/venues", "./venues/"), ("/venues?x=1", "./venues/?x=1")] {
        let moved = server.get_with(target, &[HTML]).await;
        assert_eq!((moved.status, moved.the("location")), (301, to.to_owned()), "{target}");
    }
}

#[tokio::test]
async fn the_explorer_lists_what_the_api_lists() {
    let (_origin, server) = mirrored(700).await;
    for query in ["", "?state=texas", "?sport=baseball&page=2", "?sport=golf&state=california", "?city=nowhere"] {
        let text = page(&server, &format!("/explore{query}")).await.text().to_owned();
        let list = server.get(&format!("/api/listings.json{query}")).await;
        let ids: Vec<String> = list.ids().iter().map(|id| format!("venues/{id}")).collect();
        let shown: Vec<String> = values(&text, "href").into_iter().filter(|link| link.starts_with("venues/")).collect();
        assert_eq!(shown, ids, "{query}");
        let api = format!("http://mirror.test/api/listings.json{query}").replace('&', "&amp;");
        assert!(text.contains(&api), "{api} is not shown");
        let link = values(&text, "data-points").into_iter().next();
        assert_eq!(link.is_some(), list.total() > 50, "{query}: the list has all points, or a link leads to them");
        if let Some(link) = link {
            let points = server.ok(&format!("/{link}")).await.json();
            let (count, is_whole) = (points["points"].as_array().unwrap().len() as u64, points["whole"] == true);
            assert!((1..=list.total()).contains(&count) && is_whole, "{query}: {count} of {}", list.total());
        }
    }
    for (query, said) in [("page=0", "page \u{201c}0\u{201d}"), ("state=a&state=b", "state \u{201c}b\u{201d}")] {
        let shown = page(&server, &format!("/explore?{query}")).await;
        assert!(shown.text().contains(&format!("Left out: {said}")), "{query}: {}", shown.text());
    }
    let beyond = page(&server, "/explore?page=9999").await;
    assert!(beyond.text().contains("Page 14 of 14"), "{}", beyond.text());
    // Foreign parameters make no other page.
    let one = page(&server, "/explore?state=texas").await;
    let other = page(&server, "/explore?utm=1&per_page=7&city=&state=texas&page=1&modified_since=2024-01-01").await;
    assert_eq!(one.etag(), other.etag());
}

#[tokio::test]
async fn the_finder_shows_what_the_search_finds_in_any_order() {
    let (_origin, server) = shared_mirror(200).await;
    let hits = |text: &str| -> Vec<(String, f64)> {
        let found: serde_json::Value = serde_json::from_str(text).unwrap();
        let name = |hit: &serde_json::Value| hit["listing"]["name"].as_str().unwrap_or("(no name)").to_owned();
        let all = found["items"].as_array().unwrap().iter();
        all.map(|hit| (name(hit), hit["listing"]["rating"].as_f64().unwrap_or(-1.0))).collect()
    };
    let near = "near=39,-98&radius=20000";
    let all = hits(server.get(&format!("/search.json?{near}&per_page=100")).await.text());
    assert_eq!(all.len(), 100);
    let escaped =
        |name: &str| name.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
    let is_shown = |text: &str, (name, _): &(String, f64)| text.contains(&format!(">{}</a>", escaped(name)));
    let usual = page(&server, &format!("/explore?{near}")).await;
    for hit in &all[..50] {
        assert!(is_shown(usual.text(), hit), "{hit:?} is not on the first page");
    }
    assert!(usual.text().contains(" mi<"), "with their distances");
    assert!(usual.text().contains(">Nearest</option>") && !usual.text().contains("Best match"), "the order is named");
    assert!(page(&server, "/explore?q=golf").await.text().contains(">Best match</option>"));
    let best = page(&server, &format!("/explore?{near}&sort=rating&q=")).await;
    let first = values(best.text(), "href").into_iter().find(|link| link.starts_with("venues/")).unwrap();
    let id = first.trim_start_matches("venues/");
    let detail: serde_json::Value =
        serde_json::from_str(page(&server, &format!("/api/listings/{id}.json")).await.text()).unwrap();
    let most = all.iter().map(|(_, rating)| *rating).fold(-1.0, f64::max);
    assert!(detail["rating"].as_f64().unwrap_or(-1.0) >= most, "{first} is not the best");
    // What is found is offered as a file.
    let file = values(usual.text(), "href").into_iter().find(|link| link.starts_with("dumps/listings.csv?")).unwrap();
    assert!(file.contains("near=39") && file.contains("radius=20000"), "{file}");
    assert_eq!(server.ok(&format!("/{}", file.replace("&amp;", "&"))).await.text().lines().count(), 201);
    for file in ["radius=20000\">", "radius=20000&amp;bom=1\">"] {
        assert!(usual.text().contains(&format!("dumps/listings.csv?near=39%2C-98&amp;{file}")), "{file}");
    }
    let full = values(usual.text(), "href").into_iter().find(|link| link.starts_with("dumps/details.csv?")).unwrap();
    assert_eq!(full.trim_start_matches("dumps/details"), file.trim_start_matches("dumps/listings"));
    for (query, why) in [("q=golf+qzvxk", "Left out"), ("state=Atlantis", "There is no state")] {
        let without = page(&server, &format!("/explore?{query}")).await;
        assert!(without.text().contains(why) && !without.text().contains("dumps/listings.csv"), "{query}");
    }
    let widget = page(&server, &format!("/embed?{near}")).await;
    assert!(
        widget.text().contains("CC BY") && values(widget.text(), "data-near")[0].starts_with("39,-98,"),
        "{}",
        widget.text()
    );
    assert!(!widget.text().contains("No venue matches."), "{}", widget.text());
    // A name in the place of a slug is understood; else whoever made the frame sees why it is empty.
    assert!(page(&server, "/embed?state=Texas").await.text().contains("venues, Texas"));
    for (query, link) in [
        ("state=New", "<a href=\"explore?state=new-york\" target=\"_blank\" rel=\"noopener\">New York</a>"),
        ("state=Atlantis", "There is no state with the slug \u{201c}Atlantis\u{201d}. No venue matches."),
    ] {
        let empty = page(&server, &format!("/embed?{query}")).await;
        assert!(empty.text().contains(link) && empty.text().contains("No venue matches."), "{}", empty.text());
    }
    for query in ["near=Atlantis", "near=91,0", "bbox=1", "q=%21", "sort=price", "radius=5", "page=0"] {
        let said = format!("Left out: {} ", query.split('=').next().unwrap());
        for target in ["explore", "embed"] {
            let shown = page(&server, &format!("/{target}?{query}")).await;
            assert!(target == "embed" || shown.text().contains(&said), "{query}: {}", shown.text());
        }
        server.ok(&format!("/explore/points.json?{query}&view=x")).await;
    }
    let many = page(&server, "/explore?q=a+b+c+d+e+f+g+h+i+j+k+l").await;
    assert!(many.text().contains("Left out"), "{}", many.text());
}

#[tokio::test]
async fn the_explorer_offers_the_cities_of_the_state_that_is_chosen() {
    let (_origin, server) = shared_mirror(700).await;
    let text = page(&server, "/explore?state=texas").await.text().to_owned();
    let cities = text.split("<datalist").nth(1).unwrap().split("</datalist>").next().unwrap();
    let listed = server.get("/api/listings.json?state=texas&per_page=100").await.json();
    for venue in listed["items"].as_array().unwrap() {
        let name = venue["city"].as_str().unwrap();
        assert!(values(cities, "value").iter().any(|label| label == name), "{name} is not offered");
    }
    assert!(!values(cities, "value").iter().any(|label| label == "Los Angeles"));
}

#[tokio::test]
async fn a_city_and_a_place_are_chosen_by_their_names() {
    let (_origin, server) = shared_mirror(700).await;
    let term = server.get("/api/cities.json").await.json();
    let (slug, total) = ("austin", server.get("/api/listings.json?city=austin").await.total());
    assert!(total > 0, "{term}");
    for name in ["Austin", "austin", "AUSTIN", "Austin,%20Texas", "Austin&state=texas"] {
        let shown = page(&server, &format!("/explore?city={name}")).await;
        assert!(
            shown.text().contains(&format!(
                "api/listings.json?{}city={slug}",
                if name.contains('&') { "state=texas&amp;" } else { "" }
            )),
            "{name}: {}",
            shown.text()
        );
        assert!(shown.text().contains(&format!(">{total} venue")), "{name}");
    }
    let shown = page(&server, "/explore?near=Austin&radius=40.234").await;
    assert!(shown.text().contains("within 25\u{a0}mi of Austin"), "{}", shown.text());
    let [lat, lng, metres] =
        values(shown.text(), "data-near")[0].split(',').map(|part| part.parse().unwrap()).collect::<Vec<f64>>()[..]
    else {
        panic!("three numbers")
    };
    assert!(
        (lat - 30.27).abs() < 0.3 && (lng + 97.74).abs() < 0.3 && (metres - 40_234.0).abs() < 1.0,
        "{lat}, {lng}, {metres}"
    );
    let api = values(shown.text(), "href").into_iter().find(|link| link.starts_with("search.json")).unwrap();
    server.ok(&format!("/{api}")).await;
    assert!(values(shown.text(), "value").contains(&"Austin".to_owned()), "the field keeps the name");
    let miles: Vec<u32> =
        shown.text().split(" miles</option>").filter_map(|before| before.rsplit('>').next()?.parse().ok()).collect();
    assert_eq!(miles, [5, 10, 20, 25, 31, 50, 100, 250], "in order");
    for (query, usual) in [("near=Austin", "31 miles"), ("near=Austin&radius=32.187", "20 miles")] {
        let shown = page(&server, &format!("/explore?{query}")).await;
        assert!(shown.text().contains(&format!(" selected>{usual}</option>")), "{query}: {}", shown.text());
    }
    let other = page(&server, "/explore?near=Austin&radius=20").await;
    assert!(other.text().contains("selected>12\u{a0}mi</option>") && !other.text().contains("selected>31 miles"));
    assert!(values(page(&server, "/").await.text(), "name").contains(&"near".to_owned()), "the front page asks where");
}

#[tokio::test]
async fn a_page_and_a_dump_follow_the_snapshot_and_their_tags_change_with_it() {
    let (origin, server) = mirrored(60).await;
    let before = page(&server, "/").await;
    let dumps = ["/dumps/listings.ndjson", "/dumps/listings.csv?sport=baseball"];
    let before_of = [server.ok(dumps[0]).await, server.ok(dumps[1]).await];
    server.refreshed(&origin).await;
    for (dump, before) in dumps.iter().zip(&before_of) {
        assert_eq!(server.ok(dump).await.etag(), before.etag(), "a confirmed snapshot keeps {dump}");
    }
    let robots = page(&server, "/robots.txt").await.etag();
    crate::harness::edit(&origin, &server, |world| assert!(world.remove(world.ids()[0]))).await;
    let after = page(&server, "/").await;
    assert!(after.text().contains("59 venues"), "{}", after.text());
    assert_ne!(before.etag(), after.etag());
    assert_eq!(after.the("mirror-snapshot"), server.snapshot().await);
    assert_eq!(page(&server, "/robots.txt").await.etag(), robots);
    for (dump, before) in dumps.iter().zip(&before_of) {
        let after = server.ok(dump).await;
        assert_eq!(after.the("mirror-snapshot"), server.snapshot().await, "{dump}");
        assert_ne!(after.etag(), before.etag(), "{dump}");
    }
    assert_ne!(server.ok(dumps[0]).await.body, before_of[0].body);
    wait_until("the index follows, too", || async { server.get("/").await.json()["data"]["listings"] == 59 }).await;
}

/// Where a relative link of a page leads.
fn resolved(server: &Server, page: &str, link: &str) -> String {
    let url = url::Url::parse(&format!("http://{}{page}", server.public)).unwrap().join(link).unwrap();
    url[url::Position::BeforePath..url::Position::AfterQuery].to_owned()
}

#[tokio::test]
async fn people_get_pages_of_errors_and_programs_get_documents() {
    let (_origin, server) = mirrored(20).await;
    for (target, status, said) in [
        ("/nothing", 404, "There is nothing at &quot;/nothing&quot;"),
        ("/a/b/c?d=/e", 404, "There is nothing at"),
        ("/a//b", 400, "empty segment"),
        ("/changes.json?since=x", 410, "Read everything again"),
        ("/dumps/listings.json", 404, "details.ndjson"),
        ("/listings.json", 404, "/api/listings.json"),
        ("/venues/999999999", 404, "href=\"../explore\""),
        ("/<script>alert(1)</script>", 404, "script"),
    ] {
        let for_people = server.get_with(target, &[HTML]).await;
        let text = for_people.text();
        assert_eq!(for_people.status, status, "{target}");
        assert_eq!(for_people.the("content-type"), "text/html; charset=utf-8");
        assert_eq!(for_people.the("content-security-policy"), PAGE_POLICY);
        assert!(text.contains(said) && !text.contains("<script"), "{target}: {text}");
        for link in values(text, "href")
            .iter()
            .chain(&values(text, "src"))
            .filter(|link| !link.contains("://") && !link.starts_with('#'))
        {
            let to = resolved(&server, target, link);
            assert_eq!(server.get_with(&to, &[HTML]).await.status, 200, "{target}: {link} leads to {to}");
        }
        let for_programs = server.get(target).await;
        for_programs.assert_problem(status, &[]);
        for reply in [&for_people, &for_programs] {
            assert_eq!(reply.the("vary"), "accept", "{target}");
            assert_eq!(reply.header("refresh"), None, "{target}");
        }
        assert_eq!(server.send(Method::HEAD, target, &[HTML]).await.the("content-length"), text.len().to_string());
    }
    for target in ["/api/listings/none.json", "/api/listings.json?page=0"] {
        let reply = server.get_with(target, &[HTML]).await;
        assert_eq!(reply.the("content-type"), "application/problem+json", "{target}");
    }
}

#[tokio::test]
async fn a_page_before_the_first_copy_shows_its_progress_and_tries_again() {
    let origin = origin(500).await;
    // It waits for the budget after a few pages.
    let server = Setup::mirror_of(&origin).set("origin.requests_per_minute", "3").start().await;
    let reply = until("the copy has begun", || async {
        let reply = server.get_with("/explore", &[HTML]).await;
        reply.text().contains("<progress ").then_some(reply)
    })
    .await;
    assert_eq!((reply.status, reply.the("retry-after"), reply.the("refresh")), (503, "30".into(), "30".into()));
    for said in [
        "Temporarily unavailable",
        "There is no snapshot yet",
        "<progress ",
        "tries again in <span data-seconds=\"30\">30</span> s",
    ] {
        assert!(reply.text().contains(said), "{said}: {}", reply.text());
    }
    server.get("/explore").await.assert_problem(503, &["no snapshot"]);
    let front = page(&server, "/").await;
    assert_eq!((front.the("cache-control"), front.the("refresh")), ("no-store".into(), "10".into()));
    for said in ["no copy of the data yet", "<progress ", " pages</strong> are here", "data-seconds=\"10\">10</span> s"]
    {
        assert!(front.text().contains(said), "{said}: {}", front.text());
    }
    assert_eq!(server.get("/").await.header("refresh"), None, "programs ask when they like");
    let offline = Setup::offline().start().await;
    let reply = offline.get_with("/explore", &[HTML]).await;
    assert!(reply.status == 503 && !reply.text().contains("<progress "), "{}", reply.text());
}

#[tokio::test]
async fn a_slash_after_a_name_leads_to_the_name() {
    let (_origin, server) = mirrored(20).await;
    for (target, to, page) in [
        ("/explore/", "../explore", "/explore"),
        ("/explore/?state=texas", "../explore?state=texas", "/explore?state=texas"),
        ("/docs/", "../docs", "/docs"),
        ("/openapi.json/", "../openapi.json", "/openapi.json"),
        ("/dumps/listings.csv/", "../listings.csv", "/dumps/listings.csv"),
        ("/dumps/", "../#files", "/"),
        ("/dumps", "./#files", "/"),
    ] {
        let reply = server.raw_get(target).await;
        assert_eq!((reply.status, reply.the("location")), (301, to.to_owned()), "{target}");
        let resolved = resolved(&server, target, to);
        assert_eq!(resolved, page);
        assert_eq!(server.get_with(&resolved, &[HTML]).await.status, 200, "{target}");
    }
    let front = page(&server, "/").await;
    assert!(front.text().contains("id=\"files\"") && front.header("refresh").is_none());
    for target in ["//", "/nothing/", "/assets/x.js/", "/api/sports.json/"] {
        assert!(matches!(server.raw_get(target).await.status, 400 | 404), "{target}");
    }
    assert_eq!(server.send(Method::POST, "/docs/", &[]).await.status, 405);
}

#[tokio::test]
async fn a_shield_links_only_to_what_it_has() {
    let origin = origin(20).await;
    let server = Setup::shield_of(&origin).start().await;
    for target in ["/", "/docs", "/nothing"] {
        let reply = server.get_with(target, &[HTML]).await;
        for link in values(reply.text(), "href").iter().filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let to = resolved(&server, target, link);
            assert_eq!(server.get_with(&to, &[HTML]).await.status, 200, "{target}: {link}");
        }
    }
    let index = server.get("/").await.json();
    for link in index["links"].as_object().unwrap().values().filter_map(|link| link.as_str()) {
        assert!(link.contains('{') || server.get(&format!("/{link}")).await.status == 200, "{link}");
    }
}
