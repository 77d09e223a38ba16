//! Tests of places on a directory, and of any real object store.

mod real;

use std::fs;
use std::io::{Seek as _, Write as _};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::api::hash::Digest;
use crate::config::Config;
use crate::fleet::publisher::tests::liar::{L, Liar};

impl BundleStore {
    /// The place that all of an object store is.
    pub(crate) fn over(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, below: Path::default(), directory: None, proxy: None, period: PACE }
    }
}

fn store(directory: &std::path::Path) -> BundleStore {
    let text = format!("[publish]\nurl = \"file://{}/a/store\"", directory.display());
    let config = Config::from_text(&text).unwrap().config.publish;
    BundleStore::open(&config.url.unwrap(), &config.options, &config.proxy).unwrap()
}

fn journal(n: u8) -> ObjectKey {
    ObjectKey::parse(&format!("journal/{n:016x}")).unwrap()
}

async fn text(store: &BundleStore, key: &ObjectKey) -> String {
    let (bytes, _) = store.read(key, 100, None).await.unwrap().expect("there was no condition");
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn an_object_is_written_read_listed_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    assert_eq!(store.list().await.unwrap(), []);
    assert!(
        matches!(store.read(&ObjectKey::Head, 100, None).await, Err(BundleStoreError::Missing(key)) if key == "head.json")
    );
    store.write(&journal(1), Bytes::from_static(b"one"), PutMode::Overwrite).await.unwrap();
    let before = SystemTime::now();
    assert_eq!(text(&store, &journal(1)).await, "one");
    fs::write(dir.path().join("a/store/journal/foreign"), "x").unwrap();
    fs::write(dir.path().join("a/store/notes.txt"), "x").unwrap();
    let listed = store.list().await.unwrap();
    assert_eq!((listed.len(), &listed[0].key, listed[0].bytes), (1, &journal(1), 3));
    let now = before.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    assert!(listed[0].modified_ms.unsigned_abs().abs_diff(now as u64) < 60_000);
    store.delete(&journal(1)).await.unwrap();
    store.delete(&journal(1)).await.unwrap();
    assert_eq!(store.list().await.unwrap(), []);
    assert!(dir.path().join("a/store/notes.txt").exists());
}

#[tokio::test]
async fn a_new_object_takes_no_other_s_name_and_leaves_nothing_unfinished() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    store.write(&journal(1), Bytes::from_static(b"one"), PutMode::Create).await.unwrap();
    let again = store.write(&journal(1), Bytes::from_static(b"two"), PutMode::Create).await;
    assert!(matches!(again, Err(BundleStoreError::Changed(_))), "{again:?}");
    assert!(matches!(
        store.write(&ObjectKey::Head, Bytes::new(), impossible()).await,
        Err(BundleStoreError::Unsupported(_))
    ));
    let names = fs::read_dir(dir.path().join("a/store/journal")).unwrap().count();
    assert_eq!((text(&store, &journal(1)).await.as_str(), names), ("one", 1));
}

fn web_place(url: &str) -> BundleStore {
    let text = format!("[replica]\nurl = {url:?}\n[bundle]\ntrusted_keys = [\"RW{}\"]", "A".repeat(54));
    let config = Config::from_text(&text).unwrap().config.replica;
    BundleStore::open(&config.url.unwrap(), &config.options, &config.proxy).unwrap()
}

/// A place on a web server that gives this answer to everything.
async fn answering(answer: Vec<u8>) -> BundleStore {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(&answer).await;
        }
    });
    web_place(&url)
}

#[tokio::test]
async fn an_object_is_the_same_without_a_length_in_chunks_and_compressed_unasked() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(b"object").unwrap();
    let gzip = gzip.finish().unwrap();
    let of_gzip = format!("Content-Encoding: GZIP\r\nContent-Length: {}\r\n", gzip.len());
    let answer = |status: &str, fields: &str, body: &[u8]| {
        [format!("HTTP/1.1 {status}\r\n{fields}Connection: close\r\n\r\n").as_bytes(), body].concat()
    };
    for (fields, body) in [
        ("", &b"object"[..]),
        ("Transfer-Encoding: chunked\r\n", &b"6\r\nobject\r\n0\r\n\r\n"[..]),
        (&of_gzip[..], &gzip[..]),
        ("Content-Encoding: gzip\r\n", &gzip[..]),
        ("Content-Encoding: aws-chunked\r\nContent-Length: 6\r\n", &b"object"[..]),
    ] {
        let store = answering(answer("200 OK", fields, body)).await;
        assert_eq!(text(&store, &ObjectKey::Head).await, "object", "{fields}");
        assert!(
            matches!(store.read(&ObjectKey::Head, 5, None).await, Err(BundleStoreError::TooLarge { most: 5, .. })),
            "{fields}"
        );
        let mut download = store.download(&journal(1), 0, 6).await.unwrap();
        assert_eq!(
            (download.bytes, download.next().await.unwrap()),
            (6, Some(Bytes::from_static(b"object"))),
            "{fields}"
        );
        assert!(
            store.matches::<BundleStoreError>(&journal(1), FileHash::of(b"object"), None).await.unwrap(),
            "{fields}"
        );
    }
    let part = "Content-Range: bytes 3-5/6\r\n";
    let store = answering(answer("206 Partial Content", &format!("{part}Content-Length: 3\r\n"), b"ect")).await;
    assert_eq!(store.download(&journal(1), 3, 6).await.unwrap().next().await.unwrap().unwrap(), "ect");
    let store = answering(answer("206 Partial Content", &format!("{part}Content-Encoding: gzip\r\n"), &gzip)).await;
    let begins_again = store.download(&journal(1), 3, 6).await.err();
    assert!(matches!(begins_again, Some(BundleStoreError::Unsupported(_))), "{begins_again:?}");
}

/// Each piece comes in time, and the object would take minutes.
#[tokio::test]
async fn an_object_that_comes_in_drops_is_given_up() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Length: 60000\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n";
                let _ = stream.write_all(head.as_bytes()).await;
                while stream.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
    });
    let store = BundleStore { period: Duration::from_secs(2), ..web_place(&url) };
    let drips = |error| matches!(error, BundleStoreError::Drips { seconds: 2, bytes: 1.., .. });
    let read = store.matches(&journal(1), FileHash { bytes: 60_000, blake3: Digest([0; 32]) }, None).await;
    assert!(drips(read.unwrap_err()));
    assert!(drips(store.read(&ObjectKey::Head, 60_000, None).await.unwrap_err()), "small objects, too");
}

/// Whatever a web server answers, nothing is taken for an object that is not one, and every call ends.
#[tokio::test]
async fn answers_with_odd_framing_are_errors_or_other_objects() {
    const FIELDS: &str = "ETag: \"odd\"\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\n";
    let object = FileHash { bytes: 5000, blake3: blake3::hash(&[7; 5000]).into() };
    let long = "longer than all that is read ".repeat(300);
    let cases = [
        ("200 OK", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"),
        ("200 OK", "Content-Length: 5000\r\n", "short"),
        ("200 OK", "Content-Length: 3\r\n", "longer than it says"),
        ("200 OK", "Content-Length: 0\r\n", ""),
        ("206 Partial Content", "Content-Range: bytes 7-9/5000\r\nContent-Length: 3\r\n", "xyz"),
        ("200 OK", "Content-Length: 18446744073709551616\r\n", "x"),
        ("200 OK", "Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
        ("304 Not Modified", "", ""),
        ("200 OK", "", "until the connection ends"),
        ("204 No Content", "", ""),
        ("200 OK", "Last-Modified: yesterday\r\nContent-Length: 2\r\n", "{}"),
        ("302 Found", "Location: http://127.0.0.1:9/elsewhere\r\nContent-Length: 0\r\n", ""),
        ("302 Found", "Location: /fleet/head.json\r\nContent-Length: 0\r\n", ""),
        ("403 Forbidden", "Content-Length: 0\r\n", ""),
        ("200 OK", "", &long[..]),
    ];
    let said = futures_util::future::join_all(cases.map(|(status, fields, body)| async move {
        let usual = if fields.contains("yesterday") { "" } else { FIELDS };
        let answer = format!("HTTP/1.1 {status}\r\n{usual}{fields}Connection: close\r\n\r\n{body}");
        let store = answering(answer.into_bytes()).await;
        let is_it = store.matches::<BundleStoreError>(&journal(1), object, None).await;
        assert!(!is_it.is_ok_and(|is_it| is_it), "{status} {fields}");
        match store.read(&ObjectKey::Head, 5000, None).await {
            Ok(read) => format!("{:?}", read.map(|(bytes, _)| bytes)),
            Err(error) => error.to_string(),
        }
    }));
    let expected = [
        "hello",
        "Range request not supported",
        "lon",
        "\"\"",
        "xyz",
        "invalid content-length",
        "invalid content-length",
        "304 to an unconditional request",
        "until the connection ends",
        "\"\"",
        "Invalid last modified 'yesterday'",
        "only redirects to the same scheme, host and port are followed",
        "redirects more than 10 times",
        "refuses access",
        "has more than 5000 bytes",
    ];
    for (said, expected) in said.await.iter().zip(expected) {
        assert!(said.contains(expected), "{said} is not {expected}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_call_to_a_store_that_does_not_answer_ends() {
    let liar = Arc::new(Liar::default());
    let store = BundleStore { period: Duration::from_secs(90), ..BundleStore::over(liar.clone()) };
    let one = || Bytes::from_static(b"one");
    store.write(&journal(1), one(), PutMode::Overwrite).await.unwrap();
    let file = || {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one").unwrap();
        file.rewind().unwrap();
        file
    };
    let hash = FileHash::of(b"one");
    for (lie, expected) in [(L::Hangs, [20, 20, 20, 20, 30, 120]), (L::Stops, [30, 30, 0, 0, 0, 0])] {
        *liar.lie.lock() = Some(lie);
        let calls: [futures_util::future::BoxFuture<'_, Option<BundleStoreError>>; 6] = [
            Box::pin(async { store.read(&journal(1), 100, None).await.err() }),
            Box::pin(async { store.matches::<BundleStoreError>(&journal(1), hash, None).await.err() }),
            Box::pin(async { store.write(&journal(2), one(), PutMode::Overwrite).await.err() }),
            Box::pin(async { store.delete(&journal(2)).await.err() }),
            Box::pin(async { store.list().await.err() }),
            Box::pin(async { store.write_file(&journal(2), file(), 3).await.err() }),
        ];
        for (nth, (call, expected)) in calls.into_iter().zip(expected).enumerate() {
            let begin = tokio::time::Instant::now();
            let error = call.await;
            assert_eq!(begin.elapsed().as_secs(), expected, "{lie:?} {nth}: {error:?}");
            assert_eq!(
                matches!(error, Some(BundleStoreError::Slow { limit, .. }) if limit == expected),
                expected > 0,
                "{nth}"
            );
        }
    }
}

#[tokio::test]
async fn foreign_objects_below_the_prefix_do_not_hide_ours() {
    let store = object_store::memory::InMemory::new();
    for n in 0..=MOST_LISTED {
        store.put(&Path::from(format!("a/foreign/{n}")), "x".into()).await.unwrap();
    }
    let store =
        BundleStore { store: Arc::new(store), below: Path::from("a"), directory: None, proxy: None, period: PACE };
    store.write(&journal(1), Bytes::from_static(b"one"), PutMode::Overwrite).await.unwrap();
    let listed = store.list().await.unwrap();
    assert_eq!((listed.len(), &listed[0].key), (1, &journal(1)));
}

#[tokio::test]
async fn a_known_version_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let written = store.write(&ObjectKey::Head, Bytes::from_static(b"one"), PutMode::Overwrite).await.unwrap();
    let (_, read) = store.read(&ObjectKey::Head, 100, None).await.unwrap().unwrap();
    assert_eq!(read, written);
    assert_eq!(store.read(&ObjectKey::Head, 100, Some(&read)).await.unwrap(), None);
    store.write(&ObjectKey::Head, Bytes::from_static(b"another"), PutMode::Overwrite).await.unwrap();
    assert!(
        matches!(store.read(&ObjectKey::Head, 100, Some(&read)).await.unwrap(), Some((bytes, _)) if bytes == "another")
    );
    assert!(matches!(store.read(&ObjectKey::Head, 6, None).await, Err(BundleStoreError::TooLarge { most: 6, .. })));
}

#[tokio::test]
async fn a_directory_creates_conditionally_and_does_not_replace_conditionally() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let one = || Bytes::from_static(b"one");
    let version = store.write(&ObjectKey::Head, one(), PutMode::Create).await.unwrap();
    assert!(matches!(store.write(&ObjectKey::Head, one(), PutMode::Create).await, Err(BundleStoreError::Changed(_))));
    for condition in [PutMode::Update(version), impossible()] {
        assert!(matches!(store.write(&ObjectKey::Head, one(), condition).await, Err(BundleStoreError::Unsupported(_))));
    }
}

#[tokio::test]
async fn a_file_is_written_in_parts_and_read_from_anywhere() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let content: Vec<u8> = (0..9_000_000_u32).flat_map(|n| [(n % 251) as u8, (n >> 16) as u8]).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    for (bytes, from) in [(content.len(), 0), (content.len(), 12_345_678), (1000, 999), (1, 0)] {
        file.rewind().unwrap();
        store.write_file(&journal(2), file.try_clone().unwrap(), bytes as u64).await.unwrap();
        let mut download = store.download(&journal(2), from, bytes as u64).await.unwrap();
        assert_eq!(download.bytes, bytes as u64);
        let mut read = Vec::new();
        while let Some(piece) = download.next().await.unwrap() {
            read.extend_from_slice(&piece);
        }
        assert!(read == content[from as usize..bytes], "{bytes} {from}");
    }
    let names: Vec<_> = fs::read_dir(dir.path().join("a/store/journal")).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing is left of the parts");
}

#[tokio::test]
async fn a_directory_that_must_not_be_written_is_forbidden() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "a file where a directory must be").unwrap();
    let error = store(dir.path()).write(&ObjectKey::Head, Bytes::new(), PutMode::Overwrite).await.unwrap_err();
    assert!(!error.to_string().is_empty() && !matches!(error, BundleStoreError::Missing(_)), "{error:?}");
}

#[test]
fn each_period_must_bring_its_share() {
    let (period, share) = (Duration::from_secs(60), 60 * FLOOR);
    let of = |seconds, bytes| Pace { waited: Duration::from_secs(seconds), bytes };
    for (pace, seconds, bytes, expected) in [
        (of(0, 0), 59, 1, Some(of(59, 1))),
        (of(59, 1), 1, 1, None),
        (of(59, share - 2), 1, 1, None),
        (of(59, share - 1), 1, 1, Some(of(0, 0))),
        (of(59, share), 1, 0, Some(of(0, 0))),
        (of(0, 0), 60, 0, None),
    ] {
        assert_eq!(pace.after(Duration::from_secs(seconds), bytes, period), expected, "{pace:?} {seconds} {bytes}");
    }
}
