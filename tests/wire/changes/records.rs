//! `/changes.ndjson`: a copy elsewhere that follows it has what the dumps have; and its HTTP answers.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use sample_origin::World;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::Reply;
use crate::dumps::contents::{lines, mirror_of, origin_of};
use crate::fleet::store::{Store, publishing};
use crate::harness::{PUBLIC, Server, Setup, edit, mirrored, mirrored_by, origin, quiet, soon, until, wait_until};

const RECORDS: &str = "/changes.ndjson";

/// A line, in the bytes in which it came.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    op: String,
    id: u64,
    listing: Option<Box<RawValue>>,
    detail: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    snapshot: String,
    next: String,
}

/// The records of an answer, and its last line.
fn records(reply: &Reply) -> (Vec<Record>, End) {
    let mut lines = lines(reply);
    let end: End = serde_json::from_str(lines.pop().unwrap()).unwrap();
    assert_eq!(end.snapshot, reply.the("mirror-snapshot"));
    let records: Vec<Record> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in &records {
        assert_eq!(record.op == "removed", record.listing.is_none(), "{record:?}");
        assert!(record.listing.is_some() || record.detail.is_none(), "{record:?}");
    }
    let ids: std::collections::BTreeSet<u64> = records.iter().map(|record| record.id).collect();
    assert_eq!(ids.len(), records.len(), "each id is there once");
    (records, end)
}

/// The ids of an operation, sorted.
fn ids(records: &[Record], op: &str) -> Vec<u64> {
    let mut ids: Vec<u64> = records.iter().filter(|record| record.op == op).map(|record| record.id).collect();
    ids.sort_unstable();
    ids
}

/// A copy elsewhere, as its owner keeps it.
#[derive(Clone, Debug)]
struct Mirrored {
    listings: BTreeMap<u64, String>,
    details: BTreeMap<u64, String>,
    since: String,
}

/// Listings and details by id, as a server exports them now.
async fn exported(server: &Server) -> [BTreeMap<u64, String>; 2] {
    #[derive(Deserialize)]
    struct Line {
        id: u64,
        detail: Option<Box<RawValue>>,
    }
    let mut all = [BTreeMap::new(), BTreeMap::new()];
    for (all, format) in all.iter_mut().zip(["ndjson", "details-ndjson"]) {
        let dump = server.admin(Method::GET, &format!("/bundle?format={format}")).await;
        assert_eq!(dump.status, 200, "{dump:?}");
        for line in lines(&dump) {
            let read: Line = serde_json::from_str(line).unwrap();
            all.insert(read.id, read.detail.map_or_else(|| line.to_owned(), |detail| detail.get().to_owned()));
        }
    }
    all
}

impl Mirrored {
    /// The dumps, the listings first.
    async fn of(server: &Server) -> Self {
        let since = server.ok("/dumps/listings.ndjson").await.the("mirror-snapshot");
        let [listings, details] = exported(server).await;
        Self { listings, details, since }
    }

    /// Asks what has changed, and does it.
    async fn follow(&mut self, server: &Server) -> Vec<Record> {
        let reply = server.ok(&format!("{RECORDS}?since={}", self.since)).await;
        let (records, end) = records(&reply);
        for record in &records {
            self.listings.remove(&record.id);
            self.details.remove(&record.id);
            if let Some(listing) = &record.listing {
                self.listings.insert(record.id, listing.get().to_owned());
            }
            if let Some(detail) = &record.detail {
                self.details.insert(record.id, detail.get().to_owned());
            }
        }
        self.since = end.next;
        records
    }

    /// Follows until it has everything: a detail counts once it is durable.
    async fn catches_up(&mut self, server: &Server, what: &str) {
        self.follows_until(server, what, async |copy: &Self| {
            let [listings, details] = exported(server).await;
            copy.listings == listings && copy.details == details
        })
        .await;
    }

    /// Follows, each time from where it stood before, until `holds`.
    async fn follows_until(&mut self, server: &Server, what: &str, holds: impl AsyncFn(&Self) -> bool) {
        let (before, holds) = (self.clone(), &holds);
        *self = until(what, || {
            let mut copy = before.clone();
            async move {
                copy.follow(server).await;
                holds(&copy).await.then_some(copy)
            }
        })
        .await;
    }
}

#[tokio::test]
async fn records_are_the_listings_and_details_as_the_origin_sent_them() {
    let (origin, server) = mirrored(150).await;
    let first = server.snapshot().await;
    let ids_before = origin.world(World::ids);
    let (touched, removed) = (ids_before[3], ids_before[40]);
    let mut added = None;
    edit(&origin, &server, |world| {
        assert!(world.touch(touched) && world.change_detail(touched) && world.remove(removed));
        added = world.insert_like(touched, "Somewhere New");
    })
    .await;
    let mut copy = Mirrored { listings: BTreeMap::new(), details: BTreeMap::new(), since: first };
    copy.follow(&server).await;
    let (touched_texts, added_texts) = (origin.texts_of(touched).unwrap(), origin.texts_of(added.unwrap()).unwrap());
    for (id, texts) in [(touched, &touched_texts), (added.unwrap(), &added_texts)] {
        assert_eq!((&copy.listings[&id], &copy.details[&id]), (&texts.0, &texts.1), "{id}");
    }
    // Details that arrived after the first snapshot came along, as changes of listings that it had.
    let mut copy = Mirrored { since: copy.since, ..Mirrored::of(&server).await };
    edit(&origin, &server, |world| assert!(world.remove(added.unwrap()) && world.touch(touched))).await;
    let told = copy.follow(&server).await;
    assert_eq!(ids(&told, "removed"), [added.unwrap()]);
    assert!(ids(&told, "changed").contains(&touched) && ids(&told, "added").is_empty(), "{told:?}");
}

#[tokio::test]
async fn a_record_is_one_line_with_what_the_origin_has() {
    let listing = |id: u64| (id, format!("{{\r\n \"id\": {id},\n \"name\":\"a\\nb \u{2028}\", \"n\": 4.50}}"));
    let detail = "\n{\"id\" :\r\n1, \"x\":\"\\ud83c\", \"x\": 1e2}\n".to_owned();
    let origin = origin_of(vec![listing(1), listing(2)], vec![(1, detail)]).await;
    let server = mirror_of(&origin).await;
    let first = server.snapshot().await;
    let line = |id: u64| format!("{{   \"id\": {id},  \"name\":\"a\\nb \u{2028}\", \"n\": 4.50}}");
    let expected = [
        format!(
            "{{\"op\":\"changed\",\"id\":1,\"listing\":{},\"detail\":{{\"id\" :  1, \"x\":\"\\ud83c\", \"x\": 1e2}}}}",
            line(1)
        ),
        format!("{{\"op\":\"changed\",\"id\":2,\"listing\":{}}}", line(2)),
    ];
    wait_until("the details are durable", || async {
        let reply = server.ok(&format!("{RECORDS}?since={first}")).await;
        let lines = lines(&reply);
        lines[..lines.len() - 1] == expected
    })
    .await;
}

#[tokio::test]
async fn a_copy_that_follows_ten_publications_equals_the_dumps() {
    let (origin, server) = mirrored(150).await;
    let mut each = Mirrored::of(&server).await;
    let (mut seldom, mut late) = (each.clone(), each.clone());
    let ids = origin.world(World::ids);
    let mut inserted = None;
    for round in 0..10 {
        edit(&origin, &server, |world| {
            for at in 0..4 {
                let id = ids[20 + 7 * round + at];
                assert!(world.touch(id) && (at < 2 || world.change_detail(id)));
            }
            assert!(world.remove(inserted.take().filter(|_| round % 2 == 0).unwrap_or(ids[round])));
            inserted = world.insert_like(ids[100 + round], &format!("Number {round}"));
        })
        .await;
        each.catches_up(&server, "the copy is current").await;
        if round % 4 == 2 {
            seldom.catches_up(&server, "the copy that asks seldom is current").await;
        }
    }
    seldom.catches_up(&server, "the copy that asks seldom is current").await;
    late.catches_up(&server, "the copy that asks once is current").await;
    let [listings, details] = exported(&server).await;
    assert_eq!((listings.len(), details.len()), (150, 150));
}

#[tokio::test]
async fn details_that_arrive_later_are_changes() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    quiet(&origin).await;
    let mut copy = Mirrored::of(&server).await;
    assert!(copy.details.is_empty() && copy.follow(&server).await.is_empty());
    let mut arrived = Vec::new();
    for at in [20, 7] {
        let id = *copy.listings.keys().nth(at).unwrap();
        arrived.push(id);
        server.ok(&format!("/api/listings/{id}.json")).await;
        // The one before may be told again: it is once more where it was read while it became durable.
        while !copy.details.contains_key(&id) {
            let told = copy.follow(&server).await;
            assert_eq!(ids(&told, "changed").len(), told.len(), "{told:?}");
            assert!(told.iter().all(|record| arrived.contains(&record.id)), "{told:?}");
        }
    }
    copy.catches_up(&server, "the copy has the details").await;
    assert_eq!(copy.details.len(), 2);
}

#[tokio::test]
async fn a_detail_that_alone_has_changed_is_a_change_and_a_confirmed_one_is_none() {
    let origin = origin(40).await;
    let server = Setup::mirror_of(&origin)
        .adjusted(|config| config.mirror.verify_details_every = Duration::from_secs(1))
        .start()
        .await;
    server.ready().await;
    // Of nothing, so that it has the details once they are durable.
    let (listings, details) = (BTreeMap::new(), BTreeMap::new());
    let mut copy = Mirrored { listings, details, since: server.snapshot().await };
    wait_until("all details are here", || async { server.status().await["details"]["current"] == 40 }).await;
    copy.catches_up(&server, "the copy is current").await;
    let (id, before) = (origin.world(World::ids)[20], server.snapshot().await);
    let asked = origin.count();
    wait_until("each detail was confirmed twice", || async { origin.count() > asked + 100 }).await;
    let told = copy.follow(&server).await;
    assert!(told.is_empty(), "{told:?}");
    origin.edit(|world| assert!(world.change_detail(id)));
    let told = until("the change is told", || {
        let mut next = copy.clone();
        let server = &server;
        async move {
            let told = next.follow(server).await;
            (!told.is_empty()).then_some((next, told))
        }
    });
    let (copy, told) = told.await;
    assert_eq!((told.len(), ids(&told, "changed")), (1, vec![id]), "{told:?}");
    assert_eq!(copy.details[&id], origin.texts_of(id).unwrap().1);
    assert_eq!(server.ok(&format!("/api/listings/{id}.json")).await.text(), copy.details[&id]);
    assert_eq!(server.snapshot().await, before, "a detail publishes nothing");
}

#[tokio::test]
async fn a_token_of_a_lone_mirror_outlives_restarts_and_rollbacks() {
    let (origin, mut server) = mirrored(80).await;
    let (mut copy, first) = (Mirrored::of(&server).await, server.snapshot().await);
    let ids = origin.world(World::ids);
    edit(&origin, &server, |world| assert!(world.touch(ids[3]) && world.change_detail(ids[3]))).await;
    copy.catches_up(&server, "the copy is current").await;
    let second = copy.clone();
    for kills in [false, true] {
        if kills {
            server.down().await;
        }
        server.restart().await;
        server.ready().await;
        copy.catches_up(&server, "the copy is current after a restart").await;
    }
    edit(&origin, &server, |world| assert!(world.remove(ids[9]) && world.touch(ids[4]))).await;
    copy.catches_up(&server, "the copy is current").await;
    let rolled_back = server.admin(Method::POST, &format!("/snapshots/{first}/rollback")).await;
    assert_eq!((rolled_back.status, server.snapshot().await), (200, first));
    let told = copy.follow(&server).await;
    assert!(told.iter().any(|record| (record.op.as_str(), record.id) == ("added", ids[9])), "{told:?}");
    copy.catches_up(&server, "the copy is as of the rollback").await;
    for mut old in [second, copy.clone()] {
        old.catches_up(&server, "an old copy is as of the rollback").await;
    }
    assert_eq!(server.admin(Method::POST, "/snapshots/release").await.status, 200);
    copy.catches_up(&server, "the copy is current again").await;
    assert!(!copy.listings.contains_key(&ids[9]));
}

/// What clients of a fleet do: they ask one server, and then another one.
#[tokio::test]
async fn a_token_of_the_chain_is_valid_at_the_publisher_and_at_its_replicas() {
    let store = Store::new();
    let (origin, publisher) = publishing(120, &store.url(), |setup| setup).await;
    store.has(&publisher).await;
    let replica = Setup::offline().set("replica.url", &store.url()).set("replica.poll", "200ms").start().await;
    replica.ready().await;
    let ids = origin.world(World::ids);
    let mut copy = Mirrored::of(&publisher).await;
    for round in 0..5 {
        edit(&origin, &publisher, |world| {
            let id = ids[10 + round];
            assert!(world.remove(ids[40 + round]));
            // The last bundle brings all details: one that changes alone is published within a minute.
            assert!(round == 4 || world.touch(id) && world.change_detail(id));
        })
        .await;
        let snapshot = publisher.snapshot().await;
        store.has(&publisher).await;
        soon("the replica has it", || async { replica.snapshot().await == snapshot }).await;
        for server in if round % 2 == 0 { [&publisher, &replica] } else { [&replica, &publisher] } {
            in_the_chain(&mut copy, server).await;
            assert_eq!(copy.listings, exported(server).await[0], "round {round}");
        }
    }
    copy.catches_up(&replica, "the copy is current at the replica").await;
    copy.catches_up(&publisher, "the copy is current at the publisher").await;
}

/// Asks until the next token is a place in the chain: the publisher may still be writing the bundle.
async fn in_the_chain(copy: &mut Mirrored, server: &Server) {
    let is_there = |copy: &Mirrored| copy.since.rsplit('-').next().is_some_and(|digest| digest.len() == 64);
    copy.follows_until(server, "the token is of the chain", async |copy: &Mirrored| is_there(copy)).await;
}

#[tokio::test]
async fn records_obey_http_like_parts_of_dumps() {
    let (origin, server) = mirrored_by(60, |setup| setup.set("public_url", &format!("{PUBLIC}/base"))).await;
    let first = server.snapshot().await;
    let target = format!("{RECORDS}?since={first}");
    edit(&origin, &server, |world| assert!(world.touch(world.ids()[7]))).await;
    // Details may still become durable.
    let mut copy = Mirrored { since: first.clone(), ..Mirrored::of(&server).await };
    copy.catches_up(&server, "all is durable").await;
    let reply = server.ok(&target).await;
    assert_eq!(reply.the("content-type"), "application/x-ndjson");
    assert_eq!(reply.the("content-disposition"), "attachment; filename=\"changes.ndjson\"");
    assert_eq!((reply.header("content-length"), reply.the("accept-ranges").as_str()), (None, "none"));
    assert!(reply.etag().starts_with('"') && reply.age().is_some() && reply.links().contains_key("license"));
    assert!(reply.the("cache-status").starts_with("grandstand; hit"), "{reply:?}");
    let list = server.ok("/api/listings.json").await;
    for name in ["cache-control", "mirror-snapshot", "mirror-confirmed", "access-control-allow-origin"] {
        assert_eq!(reply.the(name), list.the(name), "{name}");
    }
    for same in [format!("/base{target}"), format!("/change%73.ndjson?x=1&since={first}&since={first}")] {
        let again = server.ok(&same).await;
        assert_eq!((again.etag(), again.body), (reply.etag(), reply.body.clone()), "{same}");
    }
    let coded = server.get_with(&target, &[("accept-encoding", "zstd, gzip"), ("range", "bytes=0-9")]).await;
    assert_eq!((coded.status, coded.header("content-encoding"), coded.body), (200, None, reply.body.clone()));
    let head = server.head(&target).await;
    assert_eq!((head.status, head.body.len(), head.etag()), (200, 0, reply.etag()));
    let same = server.get_with(&target, &[("if-none-match", &reply.etag())]).await;
    assert_eq!((same.status, same.body.len(), same.header("content-type")), (304, 0, None));
    server.get_with(&target, &[("if-match", "\"other\"")]).await.assert_problem(412, &["If-Match"]);
    edit(&origin, &server, |world| assert!(world.touch(world.ids()[7]))).await;
    assert_eq!(server.get_with(&target, &[("if-none-match", &reply.etag())]).await.status, 200);
    let asked = [("origin", "https://page.example"), ("access-control-request-method", "GET")];
    assert_eq!(server.send(Method::OPTIONS, &target, &asked).await.status, 204);
    let post = server.send(Method::POST, &target, &[("content-length", "0")]).await;
    post.assert_problem(405, &[]);
    for (query, named) in [
        ("", ["since", "missing"]),
        ("?since=", ["since", "missing"]),
        ("?since=a&since=b", ["since", "twice"]),
        ("?since=%FF", ["since", "UTF-8"]),
    ] {
        server.get(&format!("{RECORDS}{query}")).await.assert_problem(400, &named);
    }
    let moved = server.get("/changes.ndjson/").await;
    assert_eq!((moved.status, moved.the("location").as_str()), (301, "../changes.ndjson"));
    let metrics = server.admin(Method::GET, "/metrics").await;
    assert!(metrics.text().contains("route=\"change_records\""), "{}", metrics.text());
}

#[tokio::test]
async fn what_is_not_known_any_more_is_gone_and_the_client_is_told_what_to_do() {
    let (_origin, server) = mirrored(40).await;
    let mut copy = Mirrored::of(&server).await;
    copy.follow(&server).await;
    let id = server.snapshot().await;
    let token = copy.since.clone();
    let unknown = [
        "nonsense".to_owned(),
        "0".repeat(32),
        "0".repeat(64),
        id.to_uppercase(),
        format!("{id}-0123456789abcdef-3"),
        format!("{token}0000"),
        token[..token.len() - 1].replace(&id, &"0".repeat(32)),
        format!("{id}-"),
        format!("{id}-{}", "9".repeat(400)),
    ];
    for unknown in unknown {
        let gone = server.get(&format!("{RECORDS}?since={unknown}")).await;
        gone.assert_problem(410, &["since", &unknown[..unknown.len().min(150)], &id, "dumps"]);
    }
}
