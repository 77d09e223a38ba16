//! Bundles of a few kilobytes that would take a multiple of their length in memory: refused, at little cost.

use std::path::PathBuf;

use crate::harness::{Server, Setup, run};

const MEBIBYTE: u64 = 1 << 20;
/// What any of them may cost beside what the server needs: the bound for a file of two megabytes, and one part.
const MOST: u64 = 160 * MEBIBYTE;
/// The length of each file: a file's memory bound depends on it.
const LENGTH: usize = 1_800_000;

/// The most memory that the server had in use at any time, in bytes.
fn most_resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// A bundle in the making, with every hash right.
struct Bundle {
    bytes: Vec<u8>,
    chain: blake3::Hash,
}

impl Bundle {
    fn new() -> Self {
        let start = b"\x89GSB\r\n\x1a\n\x01\0";
        Self { bytes: start.to_vec(), chain: blake3::hash(start) }
    }

    fn part(mut self, kind: u8, raw: &[u8]) -> Self {
        let packed = zstd::bulk::compress(raw, 19).unwrap();
        let mut head = vec![kind, 0, 0, 0];
        head.extend((raw.len() as u32).to_le_bytes());
        head.extend((packed.len() as u32).to_le_bytes());
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.chain.as_bytes()).update(&head).update(&packed);
        self.chain = hasher.finalize();
        self.bytes.extend([&head[..], self.chain.as_bytes(), &packed].concat());
        self
    }

    /// The file, filled up to its length.
    fn file(mut self) -> Vec<u8> {
        assert!(self.bytes.len() < LENGTH, "{}", self.bytes.len());
        self.bytes.resize(LENGTH, 0);
        self.bytes
    }
}

/// The manifest of an intact bundle that claims many listings.
fn manifest() -> String {
    let fixture: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", "bundle-v1.gsb"].iter().collect();
    let bytes = std::fs::read(fixture).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (raw, packed) = (number(14), number(18));
    let text = zstd::bulk::decompress(&bytes[54..54 + packed], raw).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\"listings\":12,") && text.contains("\"open_points\":["), "{text}");
    text.replace("\"listings\":12,", "\"listings\":4000000000,")
}

const ENVELOPE: &[u8] = br#"{"fields":["items"],"empty_filters":"{}"}"#;

/// Files by their content.
fn heavy() -> Vec<(&'static str, Vec<u8>)> {
    let with_manifest = || Bundle::new().part(1, manifest().as_bytes());
    let points = format!("\"open_points\":[{}", "\"\",".repeat(15 << 20));
    let fields = format!("{{\"fields\":[{}\"items\"],\"empty_filters\":\"{{}}\"}}", "\"page\",".repeat(6 << 20));
    let summary = b"\x08\0\0\0{\"id\":1}".repeat(3 << 20);
    let terms = format!("[{}{{}}]", "{\"slug\":\"a\",\"b\":\"\",\"c\":\"\"},".repeat(900_000));
    let taxonomies = || with_manifest().part(2, ENVELOPE).part(3, b"[]").part(3, b"[]").part(3, b"[]");
    vec![
        ("manifest", Bundle::new().part(1, manifest().replace("\"open_points\":[", &points).as_bytes()).file()),
        ("envelope", with_manifest().part(2, fields.as_bytes()).file()),
        ("summaries", taxonomies().part(5, &summary).part(5, &summary).part(5, &summary).file()),
        ("taxonomies", with_manifest().part(2, ENVELOPE).part(3, terms.as_bytes()).part(3, terms.as_bytes()).file()),
    ]
}

#[tokio::test]
async fn a_small_file_does_not_take_much_memory_whatever_is_in_it() {
    let server = Setup::offline().alone().start().await;
    let before = most_resident(&server);
    let dir = tempfile::tempdir().unwrap();
    for (name, file) in heavy() {
        let path = dir.path().join(format!("{name}.gsb"));
        std::fs::write(&path, &file).unwrap();
        let command = ["bundle", "verify", path.to_str().unwrap()];
        let (code, said) = run(&Setup::offline().alone().arguments(&command, dir.path())).await;
        assert_eq!(code, 1, "{name}: {said}");
        let request = crate::client::plain_client().post(format!("http://{}/bundle", server.admin)).body(file);
        let reply = request.send().await.expect("an answer");
        let status = reply.status().as_u16();
        let told = reply.text().await.unwrap();
        let cost = most_resident(&server).saturating_sub(before) / MEBIBYTE;
        println!("{name}: {cost} MiB, {status}, {}", told.lines().nth(1).unwrap_or_default());
        assert!(cost < MOST / MEBIBYTE, "{name} took {cost} MiB: {told}");
        assert_eq!(status, 422, "{name}: {told}");
    }
}
