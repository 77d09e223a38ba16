//! `grandstand snapshot` without a server, beside one, twice at once, and on damaged data.

use std::fs;

use grandstand::data::store::DataDir;
use sample_origin::World;
use serde_json::Value;

use super::{LIST, command, done, edit, grow, ids_of, kept, mirrored};
use crate::harness::{Process, Setup, run, wait_until};

fn json(outcome: (i32, String)) -> Value {
    let said = done(outcome);
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The shortest beginning of an id that no other has.
fn shortened<'a>(id: &'a str, others: &[String]) -> &'a str {
    let is_alone = |len: &usize| others.iter().all(|other| other == id || !other.starts_with(&id[..*len]));
    &id[..(1..id.len()).find(is_alone).unwrap()]
}

/// The commands, as used beside a server, without one, and with an address.
async fn goes_through_all(does: impl AsyncFn(&[&str]) -> (i32, String), ids: &[String]) {
    let (new, old) = (&ids[0], ids.last().unwrap());
    let list = json(does(&["list", "--json"]).await);
    assert_eq!(ids_of(&list), ids);
    assert_eq!(
        (&list["served"], &list["newest"], &list["rolled_back"]),
        (&new[..].into(), &new[..].into(), &false.into())
    );
    for one in list["snapshots"].as_array().unwrap() {
        assert_eq!(one["certificate"].as_str().map(str::is_empty), Some(false), "{one}");
        assert!(one["confirmed_at"].as_str().unwrap().ends_with('Z'), "{one}");
    }
    let table = done(does(&["list"]).await);
    assert!(ids.iter().all(|id| table.contains(id.as_str())) && table.contains("current, newest"), "{table}");
    let verified = done(does(&["verify"]).await);
    assert!(ids.iter().all(|id| verified.contains(&format!("{id}  intact"))), "{verified}");

    let (code, said) = does(&["release"]).await;
    assert!(code == 1 && said.contains("no rollback is in effect"), "{said}");
    for action in ["rollback", "pin", "unpin"] {
        let (code, said) = does(&[action, "xyz"]).await;
        assert!(code == 1 && said.contains("xyz") && said.contains("snapshot list"), "{said}");
        let (code, said) = does(&[action, ""]).await;
        assert!(code == 64 && said.contains("a value is required"), "{said}");
    }
    let short = shortened(old, ids);
    let said = done(does(&["rollback", short]).await);
    assert!(said.contains(old.as_str()) && said.contains(&format!("{new} waits")), "{said}");
    let table = done(does(&["list"]).await);
    assert!(table.contains("rollback in effect") && table.contains("snapshot release"), "{table}");
    let list = json(does(&["list", "--json"]).await);
    assert_eq!(
        (&list["served"], &list["newest"], &list["rolled_back"]),
        (&old[..].into(), &new[..].into(), &true.into())
    );
    done(does(&["pin", short]).await);
    let list = json(does(&["list", "--json"]).await);
    assert_eq!(list["snapshots"].as_array().unwrap().last().unwrap()["pinned"], true);
    done(does(&["unpin", short]).await);
    done(does(&["unpin", short]).await);
    let list = json(does(&["list", "--json"]).await);
    assert_eq!(list["snapshots"].as_array().unwrap().last().unwrap()["pinned"], false);
    let said = done(does(&["release"]).await);
    assert!(said.contains(new.as_str()), "{said}");
}

#[tokio::test]
async fn the_commands_do_the_same_beside_a_server_and_without_one() {
    let (origin, mut server) = mirrored(40, |setup| setup).await;
    for name in ["Second", "Third"] {
        grow(&origin, &server, name).await;
    }
    server.settled(&origin).await;
    let ids = kept(&server).await;
    assert_eq!(ids.len(), 3);
    goes_through_all(async |words| command(&server, words).await, &ids).await;
    // An address needs neither directory nor configuration.
    let (admin, elsewhere) = (server.admin.to_string(), tempfile::tempdir().unwrap());
    let by_address = async |words: &[&str]| {
        let words = [&["snapshot"], words, &["--admin", &admin]].concat();
        Process::spawn_in(&words.into_iter().map(str::to_owned).collect::<Vec<_>>(), elsewhere.path()).end().await
    };
    goes_through_all(by_address, &ids).await;
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    server.down().await;
    goes_through_all(async |words| command(&server, words).await, &ids).await;
    done(command(&server, &["rollback", &ids[1]]).await);
    server.restart().await;
    assert_eq!(server.ok(LIST).await.the("mirror-snapshot"), ids[1]);
    let next = grow(&origin, &server, "Fourth").await;
    assert_eq!(server.ok(LIST).await.the("mirror-snapshot"), ids[1]);
    server.down().await;
    done(command(&server, &["release"]).await);
    server.restart().await;
    let list = server.ok(LIST).await;
    assert_eq!((list.the("mirror-snapshot"), list.total()), (next, 43));
    // Changes by a command are reported, too.
    let changes = server.ok(&format!("/changes.json?since={}", ids[1])).await;
    assert_eq!(changes.json()["added"].as_array().unwrap().len(), 2, "{changes:?}");
}

#[tokio::test]
async fn a_shield_and_a_place_without_data_are_told_apart() {
    let origin = crate::harness::origin(20).await;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("none");
    for words in
        [vec!["list"], vec!["verify"], vec!["rollback", "a"], vec!["release"], vec!["pin", "a"], vec!["accept"]]
    {
        let words = [vec!["snapshot"], words].concat();
        let (code, said) = run(&Setup::offline().arguments(&words, &data)).await;
        assert!(code == 1 && said.contains(&format!("{} does not exist; set ", data.display())), "{said}");
        assert!(!data.exists(), "none is made");
        let (code, said) = run(&Setup::shield_of(&origin).arguments(&words, &data)).await;
        assert!(code == 64 && said.contains("mirror.enabled: is false, and a shield"), "{said}");
    }
    // A relative directory is looked for where the command runs.
    let words = ["snapshot", "list"].map(str::to_owned);
    let (code, said) = Process::spawn_in(&words, dir.path()).end().await;
    let there = dir.path().canonicalize().unwrap().join("grandstand-data");
    assert!(code == 1 && said.contains(&format!("{} does not exist", there.display())), "{said}");
    let audit = ["audit", "--set", &format!("origin.url={}", origin.url())].map(str::to_owned);
    let (code, said) = Process::spawn_in(&audit, dir.path()).end().await;
    assert!(code == 1 && said.contains("does not exist") && !there.exists(), "{said}");
    let shield = Setup::shield_of(&origin).start().await;
    shield.ready().await;
    let (code, said) = command(&shield, &["list"]).await;
    assert!(code == 64 && said.contains("shield"), "{said}");
    for words in [&["snapshot", "accept"][..], &["bundle", "export", "x.gsb"], &["bundle", "import", "x.gsb"]] {
        let (code, said) = run(&shield.setup.arguments(words, &shield.data_dir())).await;
        assert!(code == 64 && said.contains("mirror.enabled: is false, and a shield"), "{words:?}: {said}");
    }
    // What no configuration makes possible.
    for words in [
        &["bundle", "export", "-"][..],
        &["bundle", "export", "x.gsb", "--since", ""],
        &["bundle", "export", "x.csv", "--format", "csv", "--since", "ab"],
    ] {
        let (code, said) = run(&Setup::offline().arguments(words, shield.data_dir().parent().unwrap())).await;
        assert_eq!(code, 64, "{words:?}: {said}");
    }
    assert_eq!(shield.admin(http::Method::GET, "/snapshots").await.status, 409);
    // A directory that is somebody's gets nothing either.
    fs::create_dir(&data).unwrap();
    let (code, said) = run(&Setup::offline().arguments(&["snapshot", "list"], &data)).await;
    assert!(code == 1 && said.contains("no data in"), "{said}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    // A server without data is no failure.
    let server = Setup::offline().start_in(dir).await;
    let list = json(command(&server, &["list", "--json"]).await);
    assert!(list["snapshots"].as_array().unwrap().is_empty() && list["served"].is_null(), "{list}");
    assert!(done(command(&server, &["verify"]).await).contains("no snapshot is kept"));
}

#[tokio::test]
async fn commands_at_once_take_turns_with_and_without_a_server() {
    let (origin, mut server) = mirrored(40, |setup| setup).await;
    let old = server.snapshot().await;
    let new = grow(&origin, &server, "Second").await;
    server.settled(&origin).await;
    for running in [true, false] {
        if !running {
            server.down().await;
        }
        for _ in 0..3 {
            let arguments = [&["pin", &old][..], &["pin", &new], &["rollback", &old], &["list"], &["verify"]];
            let outcomes = futures_util::future::join_all(arguments.iter().map(|words| command(&server, words))).await;
            for outcome in outcomes {
                done(outcome);
            }
            let list = json(command(&server, &["list", "--json"]).await);
            assert_eq!((&list["served"], &list["rolled_back"]), (&old[..].into(), &true.into()), "{list}");
            assert!(list["snapshots"].as_array().unwrap().iter().all(|one| one["pinned"] == true), "{list}");
            let words = [&["unpin", &old][..], &["unpin", &new], &["release"]];
            for outcome in futures_util::future::join_all(words.iter().map(|words| command(&server, words))).await {
                done(outcome);
            }
            let list = json(command(&server, &["list", "--json"]).await);
            assert_eq!((&list["served"], &list["rolled_back"]), (&new[..].into(), &false.into()), "{list}");
            assert!(list["snapshots"].as_array().unwrap().iter().all(|one| one["pinned"] == false), "{list}");
        }
    }
}

#[tokio::test]
async fn a_command_waits_for_another_one_that_takes_its_time() {
    let (_origin, mut server) = mirrored(20, |setup| setup).await;
    let id = server.snapshot().await;
    server.down().await;
    let busy = DataDir::open(server.data_dir()).unwrap();
    let (setup, dir) = (server.setup.clone(), server.data_dir());
    let waiting = tokio::spawn(async move { run(&setup.arguments(&["snapshot", "list"], &dir)).await });
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    drop(busy);
    assert!(done(waiting.await.unwrap()).contains(&id));
}

#[tokio::test]
async fn a_holder_that_is_killed_leaves_commands_and_a_successor_their_way() {
    let (origin, mut server) = mirrored(40, Setup::alone).await;
    let old = server.snapshot().await;
    let new = grow(&origin, &server, "Second").await;
    server.settled(&origin).await;
    for round in 0..3 {
        // A command that comes while its server dies is done, or fails and says why.
        let (setup, dir, id) = (server.setup.clone(), server.data_dir(), old.clone());
        let asked = tokio::spawn(async move { run(&setup.arguments(&["snapshot", "rollback", &id], &dir)).await });
        tokio::time::sleep(std::time::Duration::from_millis(15 * round)).await;
        server.process.kill();
        let (code, said) = asked.await.unwrap();
        assert!(code == 0 || code == 1 && said.contains("no server answers at"), "{code}: {said}");
        let list = json(command(&server, &["list", "--json"]).await);
        if code == 0 {
            assert_eq!((&list["served"], &list["rolled_back"]), (&old[..].into(), &true.into()), "{said}: {list}");
        }
        done(command(&server, &["rollback", &old]).await);
        server.restart().await;
        assert_eq!(server.snapshot().await, old);
        let (code, said) = run(&server.setup.arguments(&["serve"], &server.data_dir())).await;
        assert!(code == 1 && said.contains(&server.process.pid().to_string()), "{said}");
        done(command(&server, &["release"]).await);
        assert_eq!(server.snapshot().await, new);
    }
}

#[tokio::test]
async fn verify_tells_a_damaged_snapshot_from_whole_ones() {
    let origin = crate::harness::origin(400).await;
    let mut server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    wait_until("it is certified", || async { server.status().await["snapshot"]["certificate"] == "full" }).await;
    let old = server.snapshot().await;
    let ids = origin.world(World::ids);
    let new = edit(&origin, &server, |world| ids[..300].iter().for_each(|id| assert!(world.touch(*id)))).await;
    server.down().await;
    let said = done(command(&server, &["verify"]).await);
    assert!([&old, &new].iter().all(|id| said.contains(&format!("{id}  intact, 400 listings"))), "{said}");
    let whole = fs::read(server.store_file()).unwrap();
    let (mut one, mut refused) = (0, 0);
    for at in (4096..whole.len() - 200).step_by((whole.len() / 90).max(1)) {
        let mut bytes = whole.clone();
        bytes[at..at + 100].iter_mut().for_each(|byte| *byte ^= 0x55);
        fs::write(server.store_file(), &bytes).unwrap();
        let (code, said) = command(&server, &["verify"]).await;
        let told = |id: &str, what: &str| said.contains(&format!("{id}  {what}"));
        match code {
            0 => assert!(told(&old, "intact") && told(&new, "intact"), "byte {at}: {said}"),
            1 if told(&old, "damaged") || told(&new, "damaged") => {
                one += u32::from(told(&old, "intact") || told(&new, "intact"));
                for id in [&old, &new] {
                    assert!(told(id, "intact") || told(id, "damaged"), "byte {at}: {said}");
                }
            }
            // The current snapshot, or the file, cannot be read.
            1 => {
                assert!(said.contains("damaged"), "byte {at}: {said}");
                refused += 1;
            }
            _ => panic!("byte {at}: {code}, {said}"),
        }
    }
    println!("of {} bytes: one snapshot damaged {one} times, refused {refused} times", whole.len());
    assert!(one > 0, "no damage was told of one snapshot alone");
    fs::write(server.store_file(), &whole).unwrap();
    done(command(&server, &["verify"]).await);
}
