//! The content of a dump: the origin's listings in its order and spelling.

use serde_json::{Value, json};

use super::{CSV, DETAILS, GEOJSON, NDJSON, mirrored};
use crate::client::Reply;
use crate::harness::{Script, Seen, Server, Setup, Upstream, shared_mirror, wait_until};

/// The lines of a dump, each with an end.
pub fn lines(dump: &Reply) -> Vec<&str> {
    let text = dump.text();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line ends, too");
    // Not `lines`, which would take `\r` away.
    text.split_terminator('\n').collect()
}

/// The id of a listing, and a JSON text.
pub type Texts = (u64, String);

/// An origin with these listings and details.
pub async fn origin_of(listings: Vec<Texts>, details: Vec<Texts>) -> Upstream {
    let answer = answers(listings, details);
    Upstream::start(answer).await
}

/// What such an origin answers.
pub(super) fn answers(listings: Vec<Texts>, details: Vec<Texts>) -> impl Fn(&Seen) -> Script + Send + Sync + 'static {
    let items: Vec<String> = listings.into_iter().map(|(_, text)| text).collect();
    let (total, items) = (items.len(), items.join(",\n"));
    move |seen: &Seen| {
        let path = seen.target.split('?').next().unwrap_or_default();
        let json = |body: String| Script::new(200, body).with("content-type", "application/json");
        if path == "/api/listings.json" {
            return json(format!(
                "{{\"license\":\"https://license.test/by\",\"attribution\":\"Data \\\"by\\\"\\n<Süd>\",\
                 \"page\":1,\"per_page\":100,\"total\":{total},\"total_pages\":1,\"filters\":{{}},\"items\":[\n{items}\n]}}"
            ));
        }
        let id = path.strip_prefix("/api/listings/").and_then(|rest| rest.strip_suffix(".json"));
        let Some(id) = id.and_then(|id| id.parse::<u64>().ok()) else { return json("[]".to_owned()) };
        match details.iter().find(|(known, _)| *known == id) {
            Some((_, text)) => json(text.clone()),
            None => Script::new(404, "{}"),
        }
    }
}

/// A mirror of it, once it knows every detail.
pub async fn mirror_of(origin: &Upstream) -> Server {
    let setup = Setup::offline().set("origin.url", &origin.url()).set("origin.requests_per_minute", "0");
    let server = setup.set("origin.cache_ttl", "1s").set("mirror.examine_per_hour", "0").start().await;
    wait_until("every detail was asked for", || async {
        let details = server.status().await["details"].clone();
        details["of"].as_u64().is_some_and(|of| of > 0) && details["mirrored"] == details["of"]
    })
    .await;
    server
}

#[tokio::test]
async fn each_format_has_every_listing_in_the_origins_order() {
    let (origin, server) = shared_mirror(230).await;
    let mut ids = Vec::new();
    for page in 1..=3 {
        ids.extend(server.ok(&format!("/api/listings.json?per_page=100&page={page}")).await.ids());
    }
    let texts: Vec<(String, String)> = ids.iter().map(|id| origin.texts_of(*id).unwrap()).collect();
    let summaries: Vec<&str> = texts.iter().map(|(summary, _)| summary.as_str()).collect();
    let ndjson = server.ok(NDJSON).await;
    assert_eq!(lines(&ndjson), summaries);

    let details = server.ok(DETAILS).await;
    for ((line, id), (_, detail)) in lines(&details).into_iter().zip(&ids).zip(&texts) {
        assert_eq!(line, format!("{{\"id\":{id},\"detail\":{detail}}}"));
    }
    assert_eq!(lines(&details).len(), ids.len());

    let csv = server.ok(CSV).await;
    let mut reader = csv::Reader::from_reader(&csv.body[..]);
    let columns: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let values: Vec<Value> = summaries.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(columns[0], "id");
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), ids.len());
    let (columns, slugs) = columns.split_at(columns.len() - 2);
    assert_eq!(slugs, ["state_slug", "city_slug"]);
    for (row, value) in rows.iter().zip(&values) {
        for (column, cell) in columns.iter().zip(row) {
            match &value[column] {
                Value::Null => assert_eq!(cell, ""),
                Value::String(text) => assert_eq!(cell, text),
                other => assert_eq!(&serde_json::from_str::<Value>(cell).unwrap(), other, "{column}"),
            }
        }
        assert!(value.as_object().unwrap().keys().all(|key| columns.contains(key)));
    }

    let map = server.ok(GEOJSON).await.json();
    assert_eq!(map["type"], "FeatureCollection");
    let list = server.ok("/api/listings.json").await.json();
    assert_eq!((&map["license"], &map["attribution"]), (&list["license"], &list["attribution"]));
    let features = map["features"].as_array().unwrap();
    assert_eq!(features.len(), ids.len());
    for ((feature, id), value) in features.iter().zip(&ids).zip(&values) {
        assert_eq!((&feature["type"], &feature["id"], &feature["properties"]), (&json!("Feature"), &json!(id), value));
        let place = json!({ "type": "Point", "coordinates": [value["lng"], value["lat"]] });
        assert_eq!(feature["geometry"], place);
    }
}

#[tokio::test]
async fn whatever_json_allows_comes_out_as_it_came_in() {
    let listings = [
        (
            7,
            r#"{"id":7,"name":"=HYPERLINK(\"http://x\")","lat":31.500,"lng":-97.12300000000000000000001,"n":123456789012345678901234567890}"#,
        ),
        (3, "{\n  \"id\": 3,\r\n  \"name\": \"two\\r\\nlines, \\\"quoted\\\"\",\n  \"tags\": [\n 1e3,\n {\"a\": null}\n ]\n}"),
        (9, r#"{"id":9,"name":"S\u00e3o 🏟 \u2028 nul\u0000 tab\t half \ud83c","lat":"31.5","lng":"-97"}"#),
        (1, r#"{"id":1,"name":null,"lat":null,"lng":5,"é\n\"x\"":"","name":"last"}"#),
        (5, r#"{"id":5,"name":"","lat":91,"lng":0,"n":-0.0}"#),
        (4, r#"{"id":4,"lat":1,"lng":2,"lat":3}"#),
        (8, r#"{"id":8,"lat":{"deg":1},"lng":true,"__proto__":"+1"}"#),
    ]
    .map(|(id, text)| (id, text.to_owned()));
    let details = [
        (7, " {\n\"hours\" : {\r\n} }\n"),
        (3, r#"{"id":3,"name":"\u0000"}"#),
        (1, "{\"a\":[1]}"),
        (9, "{}"),
        (5, "{}"),
    ]
    .map(|(id, text)| (id, text.to_owned()));
    let origin = origin_of(listings.to_vec(), details.to_vec()).await;
    let server = mirror_of(&origin).await;

    let ndjson = server.ok(NDJSON).await;
    let expected: Vec<String> = listings.iter().map(|(_, text)| text.replace(['\n', '\r'], " ")).collect();
    assert_eq!(lines(&ndjson), expected);

    // The cells of the table are rows in `src/edge/dumps/table/tests.rs`.
    let table = server.ok(CSV).await;
    assert_eq!(csv::Reader::from_reader(&table.body[..]).records().map(Result::unwrap).count(), listings.len());

    let geojson = server.ok(GEOJSON).await;
    let text = lines(&geojson);
    assert_eq!(
        text[0],
        "{\"type\":\"FeatureCollection\",\"name\":\"listings\",\"license\":\"https://license.test/by\",\
         \"attribution\":\"Data \\\"by\\\"\\n<Süd>\",\"features\":["
    );
    assert_eq!((text.len(), text[text.len() - 1]), (listings.len() + 2, "]}"));
    let places = [
        r#"{"type":"Point","coordinates":[-97.12300000000000000000001,31.500]}"#,
        "null",
        r#"{"type":"Point","coordinates":[-97,31.5]}"#,
        "null",
        "null",
        "null",
        "null",
    ];
    for (((line, place), (id, _)), properties) in text[1..].iter().zip(places).zip(&listings).zip(&expected) {
        let feature = format!("{{\"type\":\"Feature\",\"id\":{id},\"geometry\":{place},\"properties\":{properties}}}");
        assert_eq!(line.trim_end_matches(','), feature);
    }

    // The listings 4 and 8 have no detail.
    let expected = [
        r#"{"id":7,"detail":{ "hours" : {  } }}"#,
        r#"{"id":3,"detail":{"id":3,"name":"\u0000"}}"#,
        r#"{"id":9,"detail":{}}"#,
        r#"{"id":1,"detail":{"a":[1]}}"#,
        r#"{"id":5,"detail":{}}"#,
    ];
    assert_eq!(lines(&server.ok(DETAILS).await), expected);
}

#[tokio::test]
async fn a_table_of_absurd_width_is_refused_and_the_other_formats_are_not() {
    let keys = |n: u64| (0..600).map(|k| format!("\"k{n}-{k}\":0")).collect::<Vec<_>>().join(",");
    let listings = (1..=2).map(|n| (n, format!("{{\"id\":{n},{}}}", keys(n)))).collect();
    let origin = origin_of(listings, vec![(1, "{}".to_owned()), (2, "{}".to_owned())]).await;
    let server = mirror_of(&origin).await;
    server.get(CSV).await.assert_problem(503, &["1000", "listings.ndjson"]);
    assert_eq!(lines(&server.ok(NDJSON).await).len(), 2);
    assert_eq!(lines(&server.ok(GEOJSON).await).len(), 4);
}

#[tokio::test]
async fn a_snapshot_without_listings_has_dumps_without_any() {
    let (origin, server) = mirrored(30).await;
    drop(server);
    origin.edit(|world| world.retain(|_| false));
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let columns = "id,name,url,city,state,sport,lat,lng,rating,review_count,modified,state_slug,city_slug\r\n";
    for (path, text) in [(NDJSON, ""), (CSV, columns), (DETAILS, "")] {
        let dump = server.ok(path).await;
        assert_eq!(dump.text(), text, "{path}");
    }
    assert_eq!(server.ok(GEOJSON).await.json()["features"], json!([]));
}
