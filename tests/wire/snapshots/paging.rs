//! Consecutive pages, pinned by `snapshot=`, while snapshots are switched under the reader.

use std::collections::BTreeMap;

use sample_origin::{Origin, World};
use serde_json::Value;

use super::{LIST, edit, grow, mirrored, release, roll_back};
use crate::client::Reply;
use crate::harness::{PUBLIC, Server};

fn next_of(reply: &Reply) -> Option<String> {
    reply.links().get("next").map(|link| link.strip_prefix(PUBLIC).unwrap().to_owned())
}

/// The items of a page, without the envelope.
fn items(reply: &Reply) -> Vec<Value> {
    reply.json()["items"].as_array().unwrap().clone()
}

/// Every page from a target on; `between` happens after each.
async fn read_on(server: &Server, target: &str, snapshot: &str, between: impl AsyncFn(usize)) -> Vec<Value> {
    let (mut all, mut at) = (Vec::new(), Some(target.to_owned()));
    let (mut total, mut pages) = (None, 0);
    while let Some(target) = at {
        let page = server.ok(&target).await;
        assert_eq!((page.the("mirror-snapshot").as_str(), page.age()), (snapshot, None), "{target}");
        assert_eq!(*total.get_or_insert(page.total()), page.total(), "{target}");
        for (rel, link) in page.links() {
            assert!(rel == "license" || link.contains(&format!("snapshot={snapshot}")), "{rel}: {link}");
        }
        all.extend(items(&page));
        at = next_of(&page);
        between(pages).await;
        pages += 1;
    }
    assert_eq!(Some(all.len() as u64), total);
    all
}

async fn disturb(origin: &Origin, server: &Server, old: &str, step: usize) {
    let ids = origin.world(World::ids);
    match step % 4 {
        0 => drop(edit(origin, server, |world| assert!(world.remove(ids[0]) && world.touch(ids[40]))).await),
        1 => drop(roll_back(server, old).await),
        2 => drop(grow(origin, server, &format!("Step {step}")).await),
        _ => drop(release(server).await),
    }
}

#[tokio::test]
async fn pages_that_are_read_while_snapshots_are_switched_are_of_the_one_that_was_asked_for() {
    let (origin, server) = mirrored(230, |setup| setup.set("mirror.keep", "20")).await;
    let old = server.snapshot().await;
    let whole: Vec<Value> = {
        let mut all = Vec::new();
        for page in 1..=3 {
            all.extend(items(&server.ok(&format!("{LIST}?per_page=100&page={page}")).await));
        }
        all
    };
    assert_eq!(whole.len(), 230);
    // The terms with the most listings; terms in doubt are the origin's business.
    let (sport, state) = origin.world(|world| {
        let mut counts = BTreeMap::new();
        for id in world.ids() {
            let (sport, state, _) = world.slugs_of(id).unwrap();
            *counts.entry((sport, state)).or_insert(0) += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).unwrap().0
    });
    let filtered = [format!("sport={sport}"), format!("state={state}"), format!("sport={sport}&state={state}")];
    let mut expected = Vec::new();
    for filter in &filtered {
        let reply = server.ok(&format!("{LIST}?{filter}&per_page=100")).await;
        assert_eq!(reply.the("mirror-snapshot"), old, "{filter}");
        assert!(reply.total() > 3, "{filter}");
        expected.push(reply);
    }
    let taxonomies = ["sports", "states", "cities"].map(|name| format!("/api/{name}.json"));
    let mut terms = Vec::new();
    for target in &taxonomies {
        terms.push(server.ok(target).await);
    }

    let first = format!("{LIST}?per_page=30&snapshot={old}");
    let read = read_on(&server, &first, &old, async |step| disturb(&origin, &server, &old, step).await).await;
    assert_eq!(read, whole);
    assert_ne!(server.snapshot().await, old);
    assert_eq!(read_on(&server, &first, &old, async |_| ()).await, whole);
    for (filter, reply) in filtered.iter().zip(&expected) {
        let pinned = server.ok(&format!("{LIST}?{filter}&per_page=100&snapshot={old}")).await;
        assert_eq!((pinned.text(), pinned.etag()), (reply.text(), reply.etag()), "{filter}");
        let some = format!("{LIST}?{filter}&per_page=2&snapshot={old}");
        let read = read_on(&server, &some, &old, async |_| ()).await;
        assert_eq!(read[..], items(&pinned)[..read.len().min(100)], "{filter}");
    }
    for (target, reply) in taxonomies.iter().zip(&terms) {
        let pinned = server.ok(&format!("{target}?snapshot={old}")).await;
        assert_eq!((pinned.text(), pinned.etag()), (reply.text(), reply.etag()), "{target}");
    }
}
