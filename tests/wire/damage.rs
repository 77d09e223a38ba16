//! A damaged store, ledger or lock: detected, reported, repaired from the origin if there is one, and never served.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sample_origin::World;

use crate::compare::{detail_is_the_origins, list_is_the_origins};
use crate::harness::{Server, Setup, origin, status_in, until, wait_until};

const LIST: &str = "/api/listings.json";

/// One way to damage a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// Only so many bytes are left.
    Truncated(u64),
    /// Only this share, in percent, is left.
    Cut(u64),
    /// A bit of this byte.
    Flipped(u64),
    /// Bits all over the file, from this seed.
    Strewn(u64),
    /// Other bytes altogether.
    Garbage,
    /// More bytes at the end.
    Appended,
}

impl Damage {
    fn of(self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        match self {
            Self::Truncated(len) => bytes.truncate(len as usize),
            Self::Cut(percent) => bytes.truncate(bytes.len() * percent as usize / 100),
            Self::Flipped(at) => bytes[at as usize] ^= 0x10,
            Self::Strewn(seed) => {
                let mut at = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                for _ in 0..60 {
                    at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let place = (at >> 20) as usize % bytes.len();
                    bytes[place] ^= 1 << (at & 7);
                }
            }
            Self::Garbage => bytes = (0..70_000_u32).map(|n| (n * 31 % 251) as u8).collect(),
            Self::Appended => bytes.extend_from_slice(&[0xa5; 10_000]),
        }
        bytes
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn everything_is_the_origins(server: &Server, origin: &sample_origin::Origin) {
    list_is_the_origins(server, origin, LIST).await;
    for id in origin.world(World::ids) {
        detail_is_the_origins(server, origin, id).await;
    }
}

#[tokio::test]
async fn a_damaged_store_is_told_of_and_rebuilt_from_the_origin() {
    let origin = origin(60).await;
    let mut server = Setup::mirror_of(&origin).alone().start().await;
    server.settled(&origin).await;
    for damage in [
        Damage::Truncated(0),
        Damage::Cut(40),
        Damage::Flipped(1),
        Damage::Garbage,
        Damage::Appended,
        Damage::Strewn(1),
        Damage::Strewn(2),
    ] {
        server.process.kill();
        let whole = fs::read(server.store_file()).unwrap();
        fs::write(server.store_file(), damage.of(&whole)).unwrap();
        server.restart().await;
        server.ready().await;
        list_is_the_origins(&server, &origin, LIST).await;
        server.settled(&origin).await;
        everything_is_the_origins(&server, &origin).await;
        wait_until("it is healthy", || async {
            let status = server.admin(http::Method::GET, "/status").await;
            status.status == 200 || matches!(damage, Damage::Strewn(_)) && !status.text().contains("store-damaged")
        })
        .await;
        let told = server.finding("store-repaired").await.unwrap_or_default();
        if matches!(damage, Damage::Truncated(_) | Damage::Cut(_) | Damage::Garbage) {
            assert!(told.contains("grandstand.redb") && told.contains("damaged"), "{damage:?}: {told:?}");
            assert!(server.process.said().contains("damaged"), "{damage:?}");
        }
        let names = names(&server.data_dir());
        assert!(names.len() <= 5, "{damage:?} leaves {names:?}");
    }
}

#[tokio::test]
async fn offline_a_damaged_store_ends_it_with_what_to_do_or_changes_no_answer() {
    let origin = origin(60).await;
    let mut server = Setup::mirror_of(&origin).alone().start().await;
    server.settled(&origin).await;
    let ids = origin.world(World::ids);
    server.process.kill();
    let whole = fs::read(server.store_file()).unwrap();
    let flips = [9, 64, 130, 320, 4096, 4110, whole.len() as u64 / 2, whole.len() as u64 - 100].map(Damage::Flipped);
    let cuts = [0, 1, 319, 4096, 8192].map(Damage::Truncated);
    let strewn = [3, 4, 5].map(Damage::Strewn);
    let (mut refused, mut served) = (0, 0);
    for damage in [Damage::Garbage, Damage::Cut(50), Damage::Cut(99)].into_iter().chain(flips).chain(cuts).chain(strewn)
    {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("grandstand.redb");
        fs::write(&file, damage.of(&whole)).unwrap();
        let mut process = Setup::offline().alone().spawn(dir.path());
        let ended = |process: &mut crate::harness::Process| process.ended();
        let status = until("it ends or serves", || {
            let has_ended = ended(&mut process).is_some();
            let status = status_in(dir.path());
            async move { if has_ended { Some(None) } else { status.await.map(Some) } }
        })
        .await;
        if let Some(status) = status {
            let client = crate::client::plain_client();
            let public = status["listen"][0].as_str().unwrap().to_owned();
            let list = client.get(format!("http://{public}{LIST}?per_page=100")).send().await.unwrap();
            assert_eq!(list.status(), 200, "{damage:?}");
            let (_, expected) = origin.expected_text(&format!("{LIST}?per_page=100"));
            crate::compare::same_list(&list.text().await.unwrap(), &expected, &format!("{damage:?}"));
            for id in &ids {
                let detail = client.get(format!("http://{public}/api/listings/{id}.json")).send().await.unwrap();
                assert!(matches!(detail.status().as_u16(), 200 | 503), "{damage:?}: {}", detail.status());
            }
            served += 1;
        } else {
            let (code, said) = process.end().await;
            assert_eq!(code, 1, "{damage:?}: {said}");
            let file = file.display().to_string();
            assert!(
                said.contains(&file) && said.contains("damaged") && said.contains("origin.url"),
                "{damage:?}: {said}"
            );
            assert!(dir.path().join("grandstand.redb").is_file(), "{damage:?}: it stays where it is");
            refused += 1;
        }
    }
    assert!(refused >= 6 && served >= 1, "{refused} refused, {served} served");
}

#[tokio::test]
async fn a_directory_in_the_place_of_the_store_is_named() {
    let origin = origin(20).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("grandstand.redb");
    fs::create_dir(&file).unwrap();
    for setup in [Setup::offline(), Setup::mirror_of(&origin)] {
        let (code, said) = setup.spawn(dir.path()).end().await;
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&file.display().to_string()), "{said}");
    }
    assert!(file.is_dir(), "it is somebody's");
}

#[tokio::test]
async fn a_file_that_is_damaged_under_a_running_server_changes_no_answer_and_is_healed() {
    let origin = origin(150).await;
    let mut server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    // So that only what the start reads is in memory.
    server.restart().await;
    server.ready().await;
    let file = fs::File::options().write(true).open(server.store_file()).unwrap();
    let len = file.metadata().unwrap().len();
    // Nearly all of it, so that every request meets damage.
    file.write_all_at(&vec![0xa5; (len / 8 * 7) as usize], len / 8).unwrap();
    everything_is_the_origins(&server, &origin).await;
    // A later error may be the last one by now.
    wait_until("it says so", || async { server.process.said().contains("grandstand.redb was damaged") }).await;
    server.settled(&origin).await;
    wait_until("it is healthy", || async { server.admin(http::Method::GET, "/status").await.status == 200 }).await;
    everything_is_the_origins(&server, &origin).await;
    server.process.signal("TERM");
    server.process.exit().await;
    // Everything is durable again.
    origin.shutdown().await;
    server.restart().await;
    everything_is_the_origins(&server, &origin).await;
    assert!(names(&server.data_dir()).contains(&"grandstand.redb.damaged".to_owned()));
}

#[tokio::test]
async fn a_damaged_ledger_counts_in_full_and_a_damaged_lock_holds_nobody_up() {
    let origin = origin(20).await;
    let mut server = Setup::mirror_of(&origin).alone().set("origin.requests_per_minute", "60").start().await;
    server.settled(&origin).await;
    server.process.kill();
    for name in ["LOCK", "budget"] {
        fs::write(server.data_dir().join(name), [0xff; 3000]).unwrap();
    }
    origin.clear_log();
    server.restart().await;
    server.ready().await;
    list_is_the_origins(&server, &origin, LIST).await;
    let budget = server.status().await["origin"]["budget"].clone();
    assert_eq!(budget["free"], 0, "what was sent is not known: {budget}");
    server.refresh().await;
    crate::harness::quiet(&origin).await;
    assert_eq!(origin.count(), 0);
}
