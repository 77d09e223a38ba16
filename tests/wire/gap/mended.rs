//! A replica with a damaged store: its advice works.

use std::fs;

use sample_origin::{Origin, Switches, World};

use super::{Desk, Everything, LIST, edit, everything, is_one_of, mirrored};
use crate::harness::{Server, Setup, run};

/// Of the store's file.
const PAGE: usize = 4096;
/// Bytes at once.
const DAMAGED: usize = 100;
/// Rounds with damage anywhere in the file.
const SPREAD: usize = 16;
/// Tries with other data. In about two of five, no page has data of one snapshot alone.
const TRIALS: usize = 24;

fn lists(all: &Everything) -> Everything {
    all.iter()
        .filter(|(target, _)| target.starts_with(LIST))
        .map(|(target, answer)| (target.clone(), answer.clone()))
        .collect()
}

#[tokio::test]
async fn a_damaged_replica_goes_back_to_a_whole_snapshot_or_is_mended_by_a_bundle() {
    let (origin, mirror) = mirrored(120, Switches::default()).await;
    let (mut one, others) = damaged(&origin, &mirror, SPREAD).await;
    // redb decides which data shares a page, so other data is tried until a page has data of one snapshot alone.
    for _ in 1..TRIALS {
        if one > 0 {
            break;
        }
        one += damaged(&origin, &mirror, 0).await.0;
    }
    println!("one snapshot was damaged {one} times, more {others} times");
    assert!(one > 0 && others > 0, "{one} {others}");
}

/// Damages a replica of two snapshots, and mends it. How often the newer one was damaged alone, and how often more was;
/// the latter only in the `spread` rounds with damage anywhere in the file.
async fn damaged(origin: &Origin, mirror: &Server, spread: usize) -> (u32, u32) {
    let (desk, offline) = (Desk::new(), Setup::offline());
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "old.gsb").await;
    let (old_id, old) = (mirror.snapshot().await, lists(&everything(mirror).await));
    let ids = origin.world(World::ids);
    edit(origin, mirror, |world| assert!(ids.iter().all(|id| world.touch(*id)))).await;
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "new.gsb").await;
    let (new_id, new) = (mirror.snapshot().await, everything(mirror).await);
    let store = desk.data().join("grandstand.redb");
    desk.does(&offline, &desk.data(), &["import"], "old.gsb").await;
    let before = fs::read(&store).unwrap();
    desk.does(&offline, &desk.data(), &["import"], "new.gsb").await;
    let whole = fs::read(&store).unwrap();
    let pages = (PAGE..whole.len() - PAGE).step_by(PAGE);
    let written = pages.filter(|&at| before.get(at..at + PAGE) != Some(&whole[at..at + PAGE])).map(|at| at + PAGE / 8);
    let command = async |words: &[&str]| run(&offline.arguments(words, &desk.data())).await;
    let (mut one, mut others) = (0, 0);
    // Spread over the file; then what the second import wrote, until exactly one snapshot was damaged.
    let places = whole.len() - PAGE - DAMAGED;
    let anywhere = (0..spread).map(|round| PAGE + round * 618_033_989 % 1_000_000_000 * places / 1_000_000_000);
    for (round, at) in anywhere.chain(written).enumerate() {
        if round >= spread && one > 0 {
            break;
        }
        let mut damaged = whole.clone();
        damaged[at..at + DAMAGED].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(&store, &damaged).unwrap();
        let (code, verified) = command(&["snapshot", "verify"]).await;
        let told = |id: &str, what: &str| verified.contains(&format!("{id}  {what}"));
        let what = format!("byte {at}: {code}, {verified}");
        assert!(
            code == 1 && verified.contains("damaged") || told(&new_id, "intact") && told(&old_id, "intact"),
            "{what}"
        );
        let goes_back = told(&new_id, "damaged") && told(&old_id, "intact");
        if round >= spread && !goes_back {
            continue;
        }
        if goes_back {
            one += 1;
            let (code, said) = offline.spawn(&desk.data()).end().await;
            assert_eq!(code, 1, "{what}: {said}");
            for named in ["grandstand.redb", "bundle import", "snapshot rollback"] {
                assert!(said.contains(named), "{what}: {said}");
            }
            let (code, said) = command(&["snapshot", "rollback", &old_id]).await;
            assert_eq!(code, 0, "{what}: {said}");
            let server = desk.serve_copy(offline.clone()).await;
            is_one_of(&lists(&everything(&server).await), &[&old]);
            fs::write(&store, &damaged).unwrap();
        } else {
            others += u32::from(code == 1);
        }
        // Any damage: also of data that only the import reads.
        let said = desk.does(&offline, &desk.data(), &["import"], "new.gsb").await;
        is_one_of(&everything(&desk.serve_copy(offline.clone()).await).await, &[&new]);
        let (code, verified) = command(&["snapshot", "verify"]).await;
        assert!(code == 0 || told(&old_id, "damaged"), "{what}: {said}: {verified}");
        if code != 0 {
            desk.does(&offline, &desk.data(), &["import", "--allow-older"], "old.gsb").await;
            is_one_of(&lists(&everything(&desk.serve_copy(offline.clone()).await).await), &[&old]);
        }
    }
    (one, others)
}
