//! Calls to a real store: `tests/stores/run.py` starts one and runs this.
//!
//! `GRANDSTAND_STORE_URL` is the address of a bucket, `GRANDSTAND_STORE_OPTIONS` has one option a line, and
//! `GRANDSTAND_STORE_CONDITIONS` says which conditional writes the store is known to have: `create`, `replace`.

use std::io::{Seek as _, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use bytes::Bytes;

use super::super::*;
use super::{journal, text};
use crate::config::Config;

fn given(name: &str) -> String {
    std::env::var(format!("GRANDSTAND_STORE_{name}")).unwrap_or_default()
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// A place that nobody else uses, also when tests begin at the same tick of the clock.
fn place() -> BundleStore {
    static PLACES: AtomicUsize = AtomicUsize::new(0);
    let options = given("OPTIONS");
    let options = options.lines().filter_map(|line| line.split_once('='));
    let options: Vec<String> = options.map(|(key, value)| format!("{key} = \"{value}\"")).collect();
    let nth = PLACES.fetch_add(1, Ordering::Relaxed);
    let url = format!("{}/place/{}-{nth}", given("URL"), now().as_nanos());
    let text = format!("[publish]\nurl = \"{url}\"\n[publish.options]\n{}\n", options.join("\n"));
    let config = Config::from_text(&text).unwrap().config.publish;
    BundleStore::open(&config.url.expect("GRANDSTAND_STORE_URL"), &config.options, &config.proxy).unwrap()
}

async fn tag(place: &BundleStore, key: &ObjectKey) -> Option<String> {
    let listed = place.list().await.unwrap();
    listed.into_iter().find(|object| object.key == *key).unwrap().tag
}

#[tokio::test]
#[ignore = "tests/stores/run.py starts a store for it"]
async fn a_real_store_writes_reads_lists_and_removes() {
    let place = place();
    assert_eq!(place.list().await.unwrap(), []);
    assert!(
        matches!(place.read(&ObjectKey::Head, 100, None).await, Err(BundleStoreError::Missing(key)) if key == "head.json")
    );
    assert!(matches!(place.download(&journal(1), 0, 1).await, Err(BundleStoreError::Missing(_))));
    let written = place.write(&ObjectKey::Head, Bytes::from_static(b"one"), PutMode::Overwrite).await.unwrap();
    assert_eq!(text(&place, &ObjectKey::Head).await, "one");
    let (_, read) = place.read(&ObjectKey::Head, 100, None).await.unwrap().unwrap();
    assert_eq!(place.read(&ObjectKey::Head, 100, Some(&read)).await.unwrap(), None);
    let first = tag(&place, &ObjectKey::Head).await;
    place.write(&ObjectKey::Head, Bytes::from_static(b"another"), PutMode::Overwrite).await.unwrap();
    for known in [&read, &written] {
        let found = place.read(&ObjectKey::Head, 100, Some(known)).await.unwrap();
        assert!(matches!(found, Some((bytes, _)) if bytes == "another"));
    }
    assert!(matches!(place.read(&ObjectKey::Head, 6, None).await, Err(BundleStoreError::TooLarge { most: 6, .. })));
    let second = tag(&place, &ObjectKey::Head).await;
    assert!(first.is_some() && first != second, "lists tell versions apart: {first:?} {second:?}");
    let listed = place.list().await.unwrap();
    assert_eq!((listed.len(), &listed[0].key, listed[0].bytes), (1, &ObjectKey::Head, 7));
    assert!(now().as_millis().abs_diff(u128::from(listed[0].modified_ms.unsigned_abs())) < 60_000, "{listed:?}");
    place.delete(&ObjectKey::Head).await.unwrap();
    place.delete(&ObjectKey::Head).await.unwrap();
    assert_eq!(place.list().await.unwrap(), []);
}

#[tokio::test]
#[ignore = "tests/stores/run.py starts a store for it"]
async fn a_real_store_takes_a_file_in_parts_and_gives_it_from_anywhere() {
    let place = place();
    let content: Vec<u8> = (0..9_000_000_u32).flat_map(|n| [(n % 251) as u8, (n >> 16) as u8]).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    for (bytes, from) in [(content.len(), 0), (content.len(), 12_345_678), (1000, 999), (1, 0)] {
        file.rewind().unwrap();
        place.write_file(&journal(2), file.try_clone().unwrap(), bytes as u64).await.unwrap();
        let mut download = place.download(&journal(2), from, bytes as u64).await.unwrap();
        assert_eq!(download.bytes, bytes as u64);
        let mut read = Vec::new();
        while let Some(piece) = download.next().await.unwrap() {
            read.extend_from_slice(&piece);
        }
        assert!(read == content[from as usize..bytes], "{bytes} {from}");
    }
    assert_eq!(place.list().await.unwrap().len(), 1);
    place.delete(&journal(2)).await.unwrap();
}

#[tokio::test]
#[ignore = "tests/stores/run.py starts a store for it"]
async fn a_real_store_has_the_conditions_that_it_is_known_for() {
    let (place, known) = (place(), given("CONDITIONS"));
    let one = || Bytes::from_static(b"one");
    let first = place.write(&ObjectKey::Head, one(), PutMode::Overwrite).await.unwrap();
    let refused = |written: Result<UpdateVersion, BundleStoreError>| match written {
        Err(BundleStoreError::Changed(_) | BundleStoreError::Missing(_)) => true,
        Ok(_) | Err(BundleStoreError::Unsupported(_) | BundleStoreError::Failed(_)) => false,
        Err(error) => panic!("{error}"),
    };
    let creates = refused(place.write(&ObjectKey::Head, one(), PutMode::Create).await);
    // This is how a publisher finds out.
    let replaces = refused(place.write(&ObjectKey::Head, one(), impossible()).await);
    let found = [("create", creates), ("replace", replaces)].into_iter().filter(|(_, has)| *has);
    assert_eq!(found.map(|(name, _)| name).collect::<Vec<_>>().join(" "), known);
    if replaces {
        let second =
            place.write(&ObjectKey::Head, Bytes::from_static(b"two"), PutMode::Update(first.clone())).await.unwrap();
        assert!(matches!(
            place.write(&ObjectKey::Head, one(), PutMode::Update(first)).await,
            Err(BundleStoreError::Changed(_))
        ));
        assert_eq!(text(&place, &ObjectKey::Head).await, "two");
        place.write(&ObjectKey::Head, one(), PutMode::Update(second)).await.unwrap();
    }
    place.delete(&ObjectKey::Head).await.unwrap();
    place.write(&ObjectKey::Head, one(), PutMode::Create).await.unwrap();
    place.delete(&ObjectKey::Head).await.unwrap();
}
