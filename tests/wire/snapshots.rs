//! An operator's work with kept snapshots: rollback, release, pins, retention, and what clients see meanwhile.
//!
//! Shared by the modules below, one for each group of promises. `kept` and `changes` test the answers of `snapshot=`
//! and `/changes.json`; here it is their fate when snapshots are switched.

mod commands;
mod journal;
mod kills;
mod load;
mod paging;
mod retention;
mod rollback;

use std::collections::BTreeMap;

use http::Method;
use sample_origin::{Origin, World};
use serde_json::Value;

use crate::client::Reply;
use crate::harness::{Server, mirrored_by as mirrored, run, until};

const LIST: &str = "/api/listings.json";

/// `GET /snapshots`.
async fn listed(server: &Server) -> Value {
    let reply = server.admin(Method::GET, "/snapshots").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

/// The ids of the kept snapshots, the newest first.
async fn kept(server: &Server) -> Vec<String> {
    ids_of(&listed(server).await)
}

fn ids_of(list: &Value) -> Vec<String> {
    list["snapshots"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

async fn newest(server: &Server) -> String {
    listed(server).await["newest"].as_str().unwrap_or_default().to_owned()
}

/// Changes the origin and waits until the mirror's newest version is another one; its id.
async fn edit(origin: &Origin, server: &Server, change: impl FnOnce(&mut World)) -> String {
    let before = newest(server).await;
    origin.edit(change);
    server.refresh().await;
    until("the change is published", || async { Some(newest(server).await).filter(|now| *now != before) }).await
}

/// One more listing at the origin, published.
async fn grow(origin: &Origin, server: &Server, name: &str) -> String {
    let like = origin.world(World::ids)[1];
    edit(origin, server, |world| assert!(world.insert_like(like, name).is_some())).await
}

/// `POST /snapshots/...`
async fn post(server: &Server, action: &str) -> Reply {
    server.admin(Method::POST, &format!("/snapshots/{action}")).await
}

async fn roll_back(server: &Server, id: &str) -> Value {
    let reply = post(server, &format!("{id}/rollback")).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

async fn release(server: &Server) -> Value {
    let reply = post(server, "release").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.json()
}

/// `grandstand snapshot ...` with the configuration of a server, running or not.
async fn command(server: &Server, words: &[&str]) -> (i32, String) {
    run(&server.setup.arguments(&[&["snapshot"], words].concat(), &server.data_dir())).await
}

/// A command that must succeed; its output.
#[track_caller]
fn done(outcome: (i32, String)) -> String {
    assert_eq!(outcome.0, 0, "{}", outcome.1);
    outcome.1
}

/// All listings of the current or an earlier snapshot, by id, as text.
async fn content(server: &Server, snapshot: &str) -> BTreeMap<u64, String> {
    let mut items = BTreeMap::new();
    let target = format!("{LIST}?per_page=100&snapshot={snapshot}");
    for page in 1.. {
        let reply = server.ok(&format!("{target}&page={page}")).await;
        assert_eq!(reply.the("mirror-snapshot"), snapshot);
        let body = reply.json();
        let all = body["items"].as_array().unwrap().iter();
        items.extend(all.map(|item| (item["id"].as_u64().unwrap(), item.to_string())));
        if page >= body["total_pages"].as_u64().unwrap() {
            assert_eq!(items.len() as u64, reply.total(), "{snapshot}");
            return items;
        }
    }
    unreachable!()
}

/// Asserts that `/changes.json?since=` tells the difference of two contents: exactly what came and went, and all that
/// changed; what changed and changed back may be included.
#[track_caller]
fn tells_the_difference(changes: &Reply, from: &BTreeMap<u64, String>, to: &BTreeMap<u64, String>) {
    let body = changes.json();
    let told = |key: &str| body[key].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect::<Vec<_>>();
    let lacking = |all: &BTreeMap<u64, String>, of: &BTreeMap<u64, String>| {
        of.keys().filter(|id| !all.contains_key(id)).copied().collect::<Vec<u64>>()
    };
    assert_eq!(told("added"), lacking(from, to), "added: {body}");
    assert_eq!(told("removed"), lacking(to, from), "removed: {body}");
    let changed = told("changed");
    let differ = from.iter().filter(|(id, text)| to.get(id).is_some_and(|other| other != *text));
    for (id, _) in differ {
        assert!(changed.contains(id), "{id} has changed: {body}");
    }
    assert!(changed.iter().all(|id| from.contains_key(id) && to.contains_key(id)), "changed: {body}");
}
