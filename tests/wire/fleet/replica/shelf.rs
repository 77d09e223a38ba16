//! A store in a directory, written by a test: bundles of a real mirror, and a head of the test's own making.

use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::gap::Desk;
use crate::harness::Server;
use crate::harness::minisign::{key, minisign};

/// The store.
pub struct Shelf {
    desk: Desk,
    /// What the head names: the full bundle, then deltas.
    pub chain: Vec<Value>,
    /// The number of the last head.
    pub sequence: u64,
    /// When the publisher wrote and confirmed, beside the present; milliseconds.
    pub shift_ms: i64,
    /// Whether heads are signed, with the key of this name.
    pub key: Option<&'static str>,
    exports: usize,
}

pub fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

impl Shelf {
    pub fn new() -> Self {
        let desk = Desk::new();
        fs::create_dir(desk.path("store")).unwrap();
        Self { desk, chain: Vec::new(), sequence: 1000, shift_ms: 0, key: None, exports: 0 }
    }

    pub fn root(&self) -> PathBuf {
        self.desk.path("store")
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.root().display())
    }

    /// The file of an object.
    pub fn file(&self, key: &str) -> PathBuf {
        self.root().join(key)
    }

    /// The key of a bundle of the chain.
    pub fn key_of(&self, at: usize) -> &str {
        self.chain[at]["key"].as_str().unwrap()
    }

    pub fn put(&self, key: &str, bytes: &[u8]) {
        let path = self.file(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let unfinished = self.desk.path("unfinished");
        fs::write(&unfinished, bytes).unwrap();
        fs::rename(unfinished, path).unwrap();
    }

    /// The snapshot at the end of the chain.
    pub fn snapshot(&self) -> String {
        self.chain.last().unwrap()["snapshot"].as_str().unwrap().to_owned()
    }

    /// Begins the chain anew with all that a mirror has.
    pub async fn full(&mut self, mirror: &Server) {
        let entry = self.export(mirror, None).await;
        self.chain = vec![entry];
    }

    /// Adds what changed since the end of the chain.
    pub async fn delta(&mut self, mirror: &Server) {
        let since = self.snapshot();
        let entry = self.export(mirror, Some(&since)).await;
        self.chain.push(entry);
    }

    async fn export(&mut self, mirror: &Server, since: Option<&str>) -> Value {
        self.exports += 1;
        let name = format!("{}.gsb", self.exports);
        let words: Vec<&str> = ["export"].into_iter().chain(since.iter().flat_map(|id| ["--since", *id])).collect();
        self.desk.does(&mirror.setup, &mirror.data_dir(), &words, &name).await;
        let (inspected, bytes) = (self.desk.inspect(&name).await, self.desk.bytes(&name));
        let (digest, snapshot) = (inspected["digest"].as_str().unwrap(), &inspected["manifest"]["snapshot"]);
        let base = since.map(|_| self.chain.last().unwrap()["digest"].as_str().unwrap().to_owned());
        let key = match &base {
            None => format!("full/{}-{}.gsb", snapshot.as_str().unwrap(), &digest[..16]),
            Some(base) => format!("delta/{}-{}.gsb", &base[..16], &digest[..16]),
        };
        self.put(&key, &bytes);
        let hash = blake3::hash(&bytes).to_hex().to_string();
        let mut entry =
            json!({ "key": key, "bytes": bytes.len(), "blake3": hash, "digest": digest, "snapshot": snapshot });
        if let Some(base) = base {
            entry["base_digest"] = base.into();
        }
        entry
    }

    /// The text of a head for the present chain, not written.
    pub fn head(&self) -> Value {
        let journal = journal();
        let hash = blake3::hash(&journal).to_hex().to_string();
        let at = now_ms() + self.shift_ms;
        json!({
            "format": 1,
            "sequence": self.sequence,
            "written_ms": at,
            "confirmed_ms": at,
            "certificate": "full",
            "snapshot": self.snapshot(),
            "full": self.chain[0],
            "deltas": &self.chain[1..],
            "journal": { "key": format!("journal/{}", &hash[..16]), "bytes": journal.len(), "blake3": hash },
        })
    }

    /// Writes the next head for the present chain; its number.
    pub fn publish(&mut self) -> u64 {
        self.sequence += 1;
        self.write(&self.head());
        self.sequence
    }

    /// Writes a head with this text.
    pub fn write(&self, head: &Value) {
        let journal = journal();
        let hash = blake3::hash(&journal).to_hex().to_string();
        self.put(&format!("journal/{}", &hash[..16]), &journal);
        let text = head.to_string();
        let signature = self.key.map(|key| self.sign(key, &text));
        self.put("head.json", json!({ "head": text, "signature": signature }).to_string().as_bytes());
    }

    /// Makes a key with the real tool; its public line.
    pub fn make_key(&self, name: &str) -> String {
        key(self.desk.0.path(), name)
    }

    /// The signature of a text.
    fn sign(&self, key: &str, text: &str) -> String {
        fs::write(self.desk.path("text"), text).unwrap();
        assert!(minisign(self.desk.0.path(), &["-S", "-s", &format!("{key}.key"), "-m", "text"]));
        fs::read_to_string(self.desk.path("text.minisig")).unwrap()
    }
}

/// A journal without entries.
fn journal() -> Vec<u8> {
    let frame = zstd::bulk::compress(&[], 3).unwrap();
    [&b"\x89GSJ\r\n\x1a\n"[..], &2_u16.to_le_bytes(), &0_u32.to_le_bytes(), &frame].concat()
}
