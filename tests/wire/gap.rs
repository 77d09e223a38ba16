//! Across the air gap: from a mirror through a file to replicas that have never seen the origin.
//!
//! `bundle` and the program's own tests cover the content of a file, and which files are refused; here it is the whole
//! way, with the real commands, beside running servers and without.

mod beside;
mod carried;
mod damage;
mod deltas;
mod future;
mod kills;
mod mended;
mod offline;
mod same;
mod seeded;
mod signed;
mod terms;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sample_origin::{Origin, Switches, World};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::client::{Reply, plain_client};
use crate::harness::{Server, Setup, breath, edit, origin_with, run};

pub const LIST: &str = "/api/listings.json";

/// An origin and a mirror that has all of it.
pub async fn mirrored(listings: usize, switches: Switches) -> (Origin, Server) {
    let origin = origin_with(listings, switches).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    (origin, server)
}

/// A place for bundles, and a data directory `data` without a server.
pub struct Desk(pub TempDir);

impl Desk {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    /// The names of the files here.
    pub fn names(&self) -> Vec<String> {
        names(self.0.path())
    }

    /// `bundle` with these words and a file of this place: exit code and output.
    pub async fn bundle(&self, setup: &Setup, data: &Path, words: &[&str], file: &str) -> (i32, String) {
        let file = self.path(file);
        let words = [&["bundle"], words, &[file.to_str().unwrap()]].concat();
        run(&setup.arguments(&words, data)).await
    }

    /// The same, which has to succeed.
    pub async fn does(&self, setup: &Setup, data: &Path, words: &[&str], file: &str) -> String {
        let (code, said) = self.bundle(setup, data, words, file).await;
        assert_eq!(code, 0, "bundle {words:?} {file}: {said}");
        said
    }

    /// The same, which has to fail with 1 and name all of these.
    pub async fn refuses(&self, setup: &Setup, data: &Path, words: &[&str], file: &str, named: &[&str]) {
        let (code, said) = self.bundle(setup, data, words, file).await;
        assert_eq!(code, 1, "bundle {words:?} {file}: {said}");
        for name in named {
            assert!(said.contains(name), "bundle {words:?} {file} says nothing of {name:?}: {said}");
        }
    }

    pub async fn inspect(&self, file: &str) -> Value {
        let said = self.does(&Setup::offline(), &self.path("none"), &["inspect", "--json"], file).await;
        serde_json::from_str(&said).unwrap()
    }

    /// A server on the data of a bundle alone.
    pub async fn serve_bundle(&self, setup: Setup, file: &str) -> Server {
        let dir = tempfile::tempdir().unwrap();
        self.does(&setup, &dir.path().join("data"), &["import"], file).await;
        setup.start_in(dir).await
    }

    /// A server on a copy of the data directory.
    pub async fn serve_copy(&self, setup: Setup) -> Server {
        let dir = tempfile::tempdir().unwrap();
        copy_all(&self.data(), &dir.path().join("data"));
        setup.start_in(dir).await
    }
}

pub fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    // A command that was killed leaves its socket, which is no file.
    for name in names(from).iter().filter(|name| from.join(name).is_file()) {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// The bundles `old.gsb` and `new.gsb`, between which everything of `change` happened, and the mirror's snapshots and answers
/// when it wrote them.
pub struct Two {
    pub desk: Desk,
    pub ids: Vec<u64>,
    pub old: (String, Everything),
    pub new: (String, Everything),
}

pub async fn two(listings: usize, change: impl FnOnce(&mut World, &[u64])) -> Two {
    let (origin, mirror) = mirrored(listings, Switches::default()).await;
    let (desk, ids) = (Desk::new(), origin.world(World::ids));
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "old.gsb").await;
    let old = (mirror.snapshot().await, everything(&mirror).await);
    edit(&origin, &mirror, |world| change(world, &ids)).await;
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "new.gsb").await;
    let new = (mirror.snapshot().await, everything(&mirror).await);
    Two { desk, ids, old, new }
}

/// Target, entity tag and body of everything that a server has: lists, taxonomies, details.
pub type Everything = BTreeMap<String, (u16, Option<String>, String)>;

pub async fn everything(server: &Server) -> Everything {
    let mut targets: Vec<String> = ["sports", "states", "cities"].map(|name| format!("/api/{name}.json")).into();
    let first = server.ok(&format!("{LIST}?per_page=100")).await;
    for page in 1..=first.json()["total_pages"].as_u64().unwrap() {
        let target = format!("{LIST}?per_page=100&page={page}");
        targets.extend(server.ok(&target).await.ids().iter().map(|id| format!("/api/listings/{id}.json")));
        targets.push(target);
    }
    let mut all = Everything::new();
    for target in targets {
        let reply = server.get(&target).await;
        all.insert(target, (reply.status, reply.header("etag"), reply.text().to_owned()));
    }
    all
}

/// Asserts that a server has everything of one of these states, and tells which.
#[track_caller]
pub fn is_one_of(found: &Everything, states: &[&Everything]) -> usize {
    let differences = |state: &Everything| -> Vec<String> {
        let keys = found.keys().chain(state.keys());
        keys.filter(|key| found.get(*key) != state.get(*key)).cloned().collect()
    };
    let all: Vec<Vec<String>> = states.iter().map(|state| differences(state)).collect();
    if let Some(same) = all.iter().position(Vec::is_empty) {
        return same;
    }
    let (place, few) = all.iter().enumerate().min_by_key(|(_, few)| few.len()).unwrap();
    let first = &few[0];
    panic!("{} differ, first {first}: {:#?} {:#?}", few.len(), found.get(first), states[place].get(first));
}

/// Clients that request these targets again and again.
pub struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<(String, Reply)>>>,
}

impl Load {
    pub fn on(server: &Server, clients: usize, targets: &[String]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let run = |first: usize| {
            let (stop, targets, public, client) = (stop.clone(), targets.to_vec(), server.public, plain_client());
            tokio::spawn(async move {
                let mut replies = Vec::new();
                for target in targets.iter().cycle().skip(first) {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let response = client.get(format!("http://{public}{target}")).send().await;
                    let reply = Reply::of(response.unwrap_or_else(|error| panic!("{target}: {error:?}"))).await;
                    replies.push((target.clone(), reply));
                    breath().await;
                }
                replies
            })
        };
        let clients = (0..clients).map(run).collect();
        Self { stop, clients }
    }

    /// Stops the clients; returns their answers in order.
    pub async fn stop(self) -> Vec<Vec<(String, Reply)>> {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Vec::new();
        for client in self.clients {
            all.push(client.await.unwrap());
        }
        all
    }
}

/// Asserts that every answer was 200, and that no client went back from one of these snapshots to another.
pub fn none_failed(replies: &[Vec<(String, Reply)>], snapshots: &[&str]) {
    for replies in replies {
        let mut last = 0;
        for (target, reply) in replies {
            assert_eq!(reply.status, 200, "{target}: {reply:?}");
            let id = reply.the("mirror-snapshot");
            let place = snapshots.iter().position(|snapshot| *snapshot == id);
            let place = place.unwrap_or_else(|| panic!("{target} is answered from {id}"));
            assert!(place >= last, "{target} goes back to {id}");
            last = place;
        }
    }
}

/// The targets of a first page of everything, and of these details.
pub fn targets(ids: &[u64]) -> Vec<String> {
    let lists =
        [LIST, "/api/cities.json", "/api/listings.json?per_page=100&page=2", "/api/listings.json?sport=baseball"];
    let details = ids.iter().map(|id| format!("/api/listings/{id}.json"));
    lists.into_iter().map(str::to_owned).chain(details).collect()
}
