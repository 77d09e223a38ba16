//! A store in a directory, as an outsider reads it: heads, bundles, journals. Nothing of our own code reads them here.

use std::fs;
use std::path::{Path, PathBuf};

use sample_origin::Origin;
use serde_json::Value;
use tempfile::TempDir;

use crate::gap::{Desk, Everything, everything, is_one_of, names};
use crate::harness::{Server, Setup, until, wait_until};

/// Removes a directory into which a publisher may be writing.
pub async fn lost(dir: &Path) {
    wait_until("the directory is gone", || async { fs::remove_dir_all(dir).is_ok() || !dir.exists() }).await;
}

/// A head, taken apart.
#[derive(Clone, Debug)]
pub struct Head {
    /// The file, parsed.
    pub outer: Value,
    /// The text in it, parsed.
    pub inner: Value,
}

impl Head {
    pub fn parse(file: &[u8]) -> Self {
        let outer: Value = serde_json::from_slice(file).unwrap();
        let fields: Vec<&String> = outer.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["head", "signature"]);
        let inner: Value = serde_json::from_str(outer["head"].as_str().unwrap()).unwrap();
        assert_eq!(inner["format"], 1);
        Self { outer, inner }
    }

    pub fn sequence(&self) -> u64 {
        self.inner["sequence"].as_u64().unwrap()
    }

    pub fn snapshot(&self) -> &str {
        self.inner["snapshot"].as_str().unwrap()
    }

    pub fn full(&self) -> &str {
        self.inner["full"]["key"].as_str().unwrap()
    }

    pub fn deltas(&self) -> &[Value] {
        self.inner["deltas"].as_array().unwrap()
    }

    /// The entries of the chain, the full bundle first.
    pub fn chain(&self) -> Vec<&Value> {
        std::iter::once(&self.inner["full"]).chain(self.deltas()).collect()
    }

    /// The keys of all objects that it names.
    pub fn keys(&self) -> Vec<String> {
        let entries = self.chain().into_iter().chain([&self.inner["journal"]]);
        entries.map(|entry| entry["key"].as_str().unwrap().to_owned()).collect()
    }

    /// Asserts that it is in order, with objects that `read` gives.
    pub fn check(&self, read: impl Fn(&str) -> Vec<u8>) {
        let mut before: Option<&Value> = None;
        let mut of_deltas = 0;
        for entry in self.chain() {
            let text = |name: &str| entry[name].as_str().unwrap();
            let key = match before {
                None => format!("full/{}-{}.gsb", text("snapshot"), &text("digest")[..16]),
                Some(before) => {
                    of_deltas += entry["bytes"].as_u64().unwrap();
                    assert_eq!(before["digest"], entry["base_digest"]);
                    format!("delta/{}-{}.gsb", &text("base_digest")[..16], &text("digest")[..16])
                }
            };
            assert_eq!(text("key"), key);
            same(&read(&key), entry);
            before = Some(entry);
        }
        assert_eq!(before.unwrap()["snapshot"], self.snapshot());
        assert!(self.deltas().len() <= 64);
        assert!(of_deltas <= self.inner["full"]["bytes"].as_u64().unwrap() / 2, "{:#}", self.inner);
        let journal = &self.inner["journal"];
        assert_eq!(journal["key"], format!("journal/{}", &journal["blake3"].as_str().unwrap()[..16]));
        same(&read(journal["key"].as_str().unwrap()), journal);
    }
}

/// Asserts that a file is the one that an entry means.
fn same(file: &[u8], entry: &Value) {
    assert_eq!(entry["bytes"], file.len(), "{entry}");
    assert_eq!(entry["blake3"], blake3::hash(file).to_hex().as_str(), "{entry}");
}

/// A store in a directory.
pub struct Store(pub TempDir);

impl Store {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn root(&self) -> PathBuf {
        self.0.path().join("fleet/one")
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.root().display())
    }

    pub fn read(&self, key: &str) -> Vec<u8> {
        fs::read(self.root().join(key)).unwrap_or_else(|error| panic!("{key}: {error}"))
    }

    /// The head, if there is one. It and what it names must be in order.
    pub fn head(&self) -> Option<Head> {
        let head = Head::parse(&fs::read(self.root().join("head.json")).ok()?);
        head.check(|key| self.read(key));
        Some(head)
    }

    /// All files below the prefix, but for the head.
    pub fn keys(&self) -> Vec<String> {
        let below = |dir: &str| -> Vec<String> {
            let path = self.root().join(dir);
            let names = if path.exists() { names(&path) } else { Vec::new() };
            names.into_iter().map(|name| format!("{dir}/{name}")).collect()
        };
        ["delta", "full", "journal"].map(below).concat()
    }

    /// Waits for a head for which this holds.
    pub async fn until(&self, what: &str, holds: impl Fn(&Head) -> bool) -> Head {
        until(what, || async { self.head().filter(&holds) }).await
    }

    /// Waits until the store has what the server serves.
    pub async fn has(&self, server: &Server) -> Head {
        let snapshot = server.snapshot().await;
        self.until("the store has what is served", |head| head.snapshot() == snapshot).await
    }

    /// What an offline server has that has imported the whole chain, bundle by bundle.
    pub async fn imported(&self, head: &Head) -> Everything {
        let desk = Desk::new();
        for (number, entry) in head.chain().into_iter().enumerate() {
            let name = format!("{number}.gsb");
            fs::copy(self.root().join(entry["key"].as_str().unwrap()), desk.path(&name)).unwrap();
            desk.does(&Setup::offline(), &desk.data(), &["import", "--allow-older"], &name).await;
        }
        everything(&desk.serve_copy(Setup::offline()).await).await
    }
}

/// A mirror with everything, that begins to publish when it has it.
pub async fn publishing(listings: usize, url: &str, change: impl FnOnce(Setup) -> Setup) -> (Origin, Server) {
    let origin = crate::harness::origin(listings).await;
    let mut server = change(Setup::mirror_of(&origin)).start().await;
    server.settled(&origin).await;
    // What has arrived is durable then.
    server.process.signal("TERM");
    wait_until("it has stopped", || {
        let has_stopped = server.process.ended().is_some();
        async move { has_stopped }
    })
    .await;
    server.restart_with("publish.url", url).await;
    server.settled(&origin).await;
    (origin, server)
}

/// Asserts that the chain leads to what the server serves, details included.
pub async fn leads_to_all(store: &Store, head: &Head, server: &Server) {
    is_one_of(&timeless(store.imported(head).await), &[&timeless(everything(server).await)]);
}

/// The same without details, which may follow later.
pub async fn leads_to(store: &Store, head: &Head, server: &Server) {
    is_one_of(&lists(store.imported(head).await), &[&lists(everything(server).await)]);
}

/// All but details.
pub fn lists(mut all: Everything) -> Everything {
    all.retain(|target, _| !target.starts_with("/api/listings/"));
    timeless(all)
}

/// Without the instant for which it is confirmed: the head brings that, and no bundle follows it.
pub fn timeless(mut all: Everything) -> Everything {
    for (_, _, body) in all.values_mut() {
        if let Some((before, rest)) = body.split_once("\"generated_at\":\"") {
            *body = format!("{before}{}", rest.split_once('"').unwrap().1);
        }
    }
    all
}

/// A replica of this store that looks often.
pub fn replica_of(url: &str) -> Setup {
    Setup::offline().set("replica.url", url).set("replica.poll", "200ms")
}

/// Waits until a replica serves what its publisher serves.
pub async fn follows(replica: &Server, publisher: &Server) {
    let snapshot = publisher.snapshot().await;
    wait_until("the replica has the publisher's snapshot", || async { replica.snapshot().await == snapshot }).await;
    is_one_of(&lists(everything(replica).await), &[&lists(everything(publisher).await)]);
}

/// Waits until `replica.why` or `publish.why` names something; the whole text.
pub async fn says(server: &Server, section: &str, named: &str) -> String {
    until(&format!("{section}.why names {named:?}"), || async {
        let status = server.status().await;
        status[section]["why"].as_str().filter(|why| why.contains(named)).map(str::to_owned)
    })
    .await
}

/// What `/status` says of the publisher.
pub async fn told(server: &Server) -> Value {
    server.status().await["publish"].clone()
}

/// Sets the age of a file.
pub fn age(path: &Path, seconds: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(seconds)).unwrap();
}
