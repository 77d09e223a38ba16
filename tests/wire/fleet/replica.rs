//! A replica of a store: what it takes, what it refuses, and what its clients see meanwhile.
//!
//! The stores here are written by hand, from bundles of a real mirror, so that each can be right, late or wrong.

mod following;
mod hostile;
mod kills;
mod pinning;
mod real;
mod seeding;
mod shelf;
mod web;

use http::Method;
use serde_json::Value;

use crate::client::Reply;
use crate::fleet::store::{self, timeless};
use crate::gap::{Everything, everything};
use crate::harness::{Server, Setup, soon};

use shelf::Shelf;

/// A replica of this store that looks often.
fn replica_of(shelf: &Shelf) -> Setup {
    store::replica_of(&shelf.url())
}

/// Everything that a server has. Lists name the instant for which they are confirmed, which the heads here choose freely.
async fn all_of(server: &Server) -> Everything {
    timeless(everything(server).await)
}

/// Waits until `replica.why` names something; the whole text.
async fn says(server: &Server, named: &str) -> String {
    store::says(server, "replica", named).await
}

/// Waits until a replica serves this snapshot and has taken this head.
async fn follows(server: &Server, snapshot: &str, sequence: u64) {
    soon("the replica has taken the head", || async {
        let status = server.status().await;
        status["snapshot"]["id"] == snapshot && status["replica"]["sequence"] == sequence
    })
    .await;
}

/// A counter of the metrics.
async fn counted(server: &Server, name: &str) -> u64 {
    let metrics = server.admin(Method::GET, "/metrics").await;
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
    line.parse().unwrap()
}

/// The polls that ended this way.
async fn polls(server: &Server, outcome: &str) -> u64 {
    counted(server, &format!("grandstand_replica_polls_total{{outcome=\"{outcome}\"}}")).await
}

/// Waits for another poll of this kind.
async fn polled(server: &Server, outcome: &str) {
    let before = polls(server, outcome).await;
    soon(&format!("a poll ends {outcome}"), || async { polls(server, outcome).await > before }).await;
}

/// `/status`, with its code.
async fn health(server: &Server) -> (u16, Value) {
    let reply: Reply = server.admin(Method::GET, "/status").await;
    (reply.status, reply.json())
}
