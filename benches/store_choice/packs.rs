//! The alternative to redb: each publication appends one immutable pack of compressed blocks and a record of all the
//! version's blocks, then replaces a pointer file; details go to an append-only log with an index in memory.
//!
//! Only what the measurement needs: no copies, no state, no recovery from damage. Callers: `store_choice`.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;

use bytes::Bytes;
use grandstand::api::hash::ContentHash;
use grandstand::api::listing::{ListingId, Summary};
use grandstand::data::snapshot::content::Content;
use grandstand::data::store::DetailRecord;
use xxhash_rust::xxh3::xxh3_64;

type Key = [u8; 16];

/// Where a block lies.
#[derive(Clone, Copy)]
struct Place {
    pack: u32,
    offset: u64,
    len: u32,
    raw: u32,
}

pub struct Packs {
    dir: PathBuf,
    next: u32,
    places: HashMap<Key, Place>,
    /// The current version: the number of blocks with summaries, then all blocks.
    current: (usize, Vec<Key>),
    log: File,
    log_len: u64,
    index: HashMap<ListingId, (u64, u32)>,
}

fn pack_path(dir: &Path, pack: u32) -> PathBuf {
    dir.join(format!("pack-{pack}"))
}

fn key(raw: &[u8]) -> Key {
    blake3::hash(raw).as_bytes()[..16].try_into().unwrap()
}

fn cut<T>(items: &[T], mean: u64, most: usize, id: impl Fn(&T) -> u64) -> Vec<&[T]> {
    let (mut blocks, mut start) = (Vec::new(), 0);
    for (at, item) in items.iter().enumerate() {
        if xxh3_64(&id(item).to_le_bytes()).is_multiple_of(mean) || at + 1 - start >= most || at + 1 == items.len() {
            blocks.push(&items[start..=at]);
            start = at + 1;
        }
    }
    blocks
}

fn summary_block(block: &[&Summary]) -> Vec<u8> {
    let mut raw = (block.len() as u32).to_le_bytes().to_vec();
    for summary in block {
        raw.extend_from_slice(&summary.id.0.to_le_bytes());
        raw.extend_from_slice(&(summary.raw.len() as u32).to_le_bytes());
        raw.extend_from_slice(&summary.hash.to_bytes());
    }
    for summary in block {
        raw.extend_from_slice(&summary.raw);
    }
    raw
}

fn read_summaries(block: &Bytes) -> Vec<Summary> {
    let number = |at: usize, len: usize| {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&block[at..at + len]);
        u64::from_le_bytes(bytes)
    };
    let count = number(0, 4) as usize;
    let mut text = 4 + count * 28;
    let read = |n: usize| {
        let at = 4 + n * 28;
        let len = number(at + 8, 4) as usize;
        let hash = ContentHash::from_bytes(block[at + 12..at + 28].try_into().unwrap());
        text += len;
        Summary { id: ListingId(number(at, 8)), hash, raw: block.slice(text - len..text) }
    };
    (0..count).map(read).collect()
}

/// Runs a job on each item on two threads and keeps the order.
fn parallel<T: Sync, R: Send>(items: &[T], job: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let halves = items.split_at(items.len() / 2);
    thread::scope(|scope| {
        let second = scope.spawn(|| halves.1.iter().map(&job).collect::<Vec<_>>());
        let mut results: Vec<R> = halves.0.iter().map(&job).collect();
        results.extend(second.join().unwrap());
        results
    })
}

impl Packs {
    pub fn open(dir: &Path) -> Self {
        let log = OpenOptions::new().read(true).append(true).create(true).open(dir.join("details.log")).unwrap();
        let mut packs = Self {
            dir: dir.to_owned(),
            next: 0,
            places: HashMap::new(),
            current: (0, Vec::new()),
            log,
            log_len: 0,
            index: HashMap::new(),
        };
        if let Ok(pointer) = fs::read(dir.join("CURRENT")) {
            let text = String::from_utf8(pointer).unwrap();
            packs.next = text.trim().parse::<u32>().unwrap() + 1;
            packs.read_record(packs.next - 1);
        }
        packs.scan_log();
        packs
    }

    fn read_record(&mut self, pack: u32) {
        let file = File::open(pack_path(&self.dir, pack)).unwrap();
        let end = file.metadata().unwrap().len();
        let mut footer = [0; 24];
        file.read_exact_at(&mut footer, end - 24).unwrap();
        let len = u64::from_le_bytes(footer[..8].try_into().unwrap()) as usize;
        let mut record = vec![0; len];
        file.read_exact_at(&mut record, end - 24 - len as u64).unwrap();
        assert!(key(&record) == footer[8..], "the record is whole");
        self.current.0 = u64::from_le_bytes(record[..8].try_into().unwrap()) as usize;
        for entry in record[8..].chunks_exact(36) {
            let key = entry[..16].try_into().unwrap();
            let number = |at: usize| u32::from_le_bytes(entry[at..at + 4].try_into().unwrap());
            let offset = u64::from_le_bytes(entry[20..28].try_into().unwrap());
            self.places.insert(key, Place { pack: number(16), offset, len: number(28), raw: number(32) });
            self.current.1.push(key);
        }
    }

    pub fn publish(&mut self, content: &Content) {
        let _ = content.id();
        let mut sorted: Vec<&Summary> = content.summaries.iter().collect();
        sorted.sort_by_key(|summary| summary.id);
        let by_id = cut(&sorted, 256, 1024, |summary| summary.id.0);
        let in_order = cut(&content.summaries, 512, 4096, |summary| summary.id.0);
        let places = &self.places;
        let encode = |raw: Vec<u8>| {
            let key = key(&raw);
            let packed = (!places.contains_key(&key)).then(|| zstd::bulk::compress(&raw, 3).unwrap());
            (key, raw.len() as u32, packed)
        };
        let mut encoded = parallel(&by_id, |block| encode(summary_block(block)));
        encoded.extend(parallel(&in_order, |block| {
            encode(block.iter().flat_map(|summary| summary.id.0.to_le_bytes()).collect())
        }));
        let pack = self.next;
        let mut bytes = Vec::new();
        let mut record = (by_id.len() as u64).to_le_bytes().to_vec();
        let mut current = Vec::new();
        for (key, raw, packed) in encoded {
            if let Some(packed) = packed {
                let place = Place { pack, offset: bytes.len() as u64, len: packed.len() as u32, raw };
                self.places.insert(key, place);
                bytes.extend_from_slice(&packed);
            }
            let place = self.places[&key];
            record.extend_from_slice(&key);
            record.extend_from_slice(&place.pack.to_le_bytes());
            record.extend_from_slice(&place.offset.to_le_bytes());
            record.extend_from_slice(&place.len.to_le_bytes());
            record.extend_from_slice(&place.raw.to_le_bytes());
            current.push(key);
        }
        bytes.extend_from_slice(&record);
        bytes.extend_from_slice(&(record.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&key(&record));
        let mut file = File::create(pack_path(&self.dir, pack)).unwrap();
        file.write_all(&bytes).unwrap();
        file.sync_all().unwrap();
        self.point_to(pack);
        self.current = (by_id.len(), current);
        self.next += 1;
    }

    fn point_to(&self, pack: u32) {
        let unfinished = self.dir.join("CURRENT.new");
        let mut pointer = File::create(&unfinished).unwrap();
        pointer.write_all(pack.to_string().as_bytes()).unwrap();
        pointer.sync_all().unwrap();
        fs::rename(unfinished, self.dir.join("CURRENT")).unwrap();
        File::open(&self.dir).unwrap().sync_all().unwrap();
    }

    pub fn load(&self) -> Content {
        let needed: BTreeSet<u32> = self.current.1.iter().map(|key| self.places[key].pack).collect();
        let files: HashMap<u32, File> =
            needed.into_iter().map(|pack| (pack, File::open(pack_path(&self.dir, pack)).unwrap())).collect();
        let read = |wanted: &Key| {
            let place = self.places[wanted];
            let mut packed = vec![0; place.len as usize];
            files[&place.pack].read_exact_at(&mut packed, place.offset).unwrap();
            let raw = zstd::bulk::decompress(&packed, place.raw as usize).unwrap();
            assert!(key(&raw) == *wanted, "the block is whole");
            Bytes::from(raw)
        };
        let (by_id, in_order) = self.current.1.split_at(self.current.0);
        let mut summaries: Vec<Option<Summary>> =
            parallel(by_id, |key| read_summaries(&read(key))).into_iter().flatten().map(Some).collect();
        let order = parallel(in_order, read);
        let ids = order.iter().flat_map(|block| block.chunks_exact(8));
        let mut places: Vec<(u64, u32)> = ids.map(|id| u64::from_le_bytes(id.try_into().unwrap())).zip(0..).collect();
        places.sort_unstable();
        let mut from = vec![0_u32; places.len()];
        for ((_, place), index) in places.into_iter().zip(0..) {
            from[place as usize] = index;
        }
        let summaries = from.into_iter().map(|index| summaries[index as usize].take().unwrap()).collect();
        let content = Content { summaries, ..super::content(0) };
        let _ = content.id();
        content
    }

    /// Only packs that the current version does not use at all can go: a pack is never rewritten.
    pub fn collect(&mut self) {
        let live: BTreeSet<u32> = self.current.1.iter().map(|key| self.places[key].pack).collect();
        for pack in (0..self.next - 1).filter(|pack| !live.contains(pack)) {
            let _ = fs::remove_file(pack_path(&self.dir, pack));
        }
        let live: BTreeSet<Key> = self.current.1.iter().copied().collect();
        self.places.retain(|key, _| live.contains(key));
    }

    pub fn put_details(&mut self, details: &[(ListingId, DetailRecord)]) {
        let mut bytes = Vec::new();
        for (id, detail) in details {
            let start = bytes.len();
            bytes.extend_from_slice(&[0; 12]);
            bytes.extend_from_slice(&id.0.to_le_bytes());
            bytes.extend_from_slice(&detail.meta.hash.to_bytes());
            bytes.extend_from_slice(&detail.meta.summary_hash.to_bytes());
            bytes.extend_from_slice(detail.meta.etag.as_deref().unwrap_or_default().as_bytes());
            bytes.extend_from_slice(&zstd::bulk::compress(&detail.body, 3).unwrap());
            let len = (bytes.len() - start - 12) as u32;
            let sum = xxh3_64(&bytes[start + 12..]);
            bytes[start..start + 4].copy_from_slice(&len.to_le_bytes());
            bytes[start + 4..start + 12].copy_from_slice(&sum.to_le_bytes());
            self.index.insert(*id, (self.log_len + start as u64, len));
        }
        self.log.write_all(&bytes).unwrap();
        self.log.sync_data().unwrap();
        self.log_len += bytes.len() as u64;
    }

    /// Builds the index; a torn record at the end is cut off.
    fn scan_log(&mut self) {
        let bytes = fs::read(self.dir.join("details.log")).unwrap();
        let mut at = 0;
        while let Some((head, rest)) = bytes[at..].split_at_checked(12) {
            let len = u32::from_le_bytes(head[..4].try_into().unwrap());
            let Some(record) = rest.get(..len as usize) else { break };
            if xxh3_64(record).to_le_bytes() != head[4..] {
                break;
            }
            let id = ListingId(u64::from_le_bytes(record[..8].try_into().unwrap()));
            self.index.insert(id, (at as u64, len));
            at += 12 + len as usize;
        }
        self.log.set_len(at as u64).unwrap();
        self.log_len = at as u64;
    }

    pub fn details(&self) -> usize {
        self.index.len()
    }
}
