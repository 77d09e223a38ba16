//! The data directory is private to its owner, and others' files in it are no trap.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::harness::{Setup, origin, run, wait_until};

const LIST: &str = "/api/listings.json";
const OURS: [&str; 3] = ["LOCK", "budget", "grandstand.redb"];

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_data_directory_is_private_and_one_of_an_older_version_becomes_it() {
    let origin = origin(60).await;
    let mut server = Setup::mirror_of(&origin).alone().start().await;
    server.settled(&origin).await;
    let (data, snapshot) = (server.data_dir(), server.snapshot().await);
    let modes = || OURS.map(|name| mode(&data.join(name)));
    assert_eq!((mode(&data), modes()), (0o700, [0o600; 3]));
    server.process.kill();
    set_mode(&data, 0o755);
    for name in OURS {
        set_mode(&data.join(name), 0o644);
    }
    server.restart().await;
    server.ready().await;
    assert_eq!(server.snapshot().await, snapshot);
    assert_eq!((mode(&data), modes()), (0o700, [0o600; 3]));
    let said = server.process.said();
    assert!(said.contains("other users could enter the data directory") && said.contains("0755"), "{said}");
    server.restart().await;
    assert!(!server.process.said().contains("other users"), "once");
}

#[tokio::test]
async fn a_ledger_that_is_a_fifo_or_a_link_holds_up_nothing_and_is_not_written_through() {
    let origin = origin(20).await;
    let target = tempfile::NamedTempFile::new().unwrap();
    fs::write(target.path(), "mine").unwrap();
    for (is_fifo, what) in [(true, "a FIFO"), (false, "a symbolic link")] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        if is_fifo {
            assert!(Command::new("mkfifo").arg(data.join("budget")).status().unwrap().success());
        } else {
            symlink(target.path(), data.join("budget")).unwrap();
        }
        let server = Setup::mirror_of(&origin).start_in(dir).await;
        server.ready().await;
        server.ok(LIST).await;
        let said = server.process.said();
        assert!(said.contains(&format!("this is {what}")) && said.contains("data/budget"), "{said}");
    }
    assert_eq!(fs::read(target.path()).unwrap(), b"mine");
}

#[tokio::test]
async fn a_lock_or_a_store_that_is_a_link_or_a_fifo_is_named_and_not_written_through() {
    let target = tempfile::NamedTempFile::new().unwrap();
    fs::write(target.path(), "mine").unwrap();
    for name in ["LOCK", "grandstand.redb"] {
        for is_fifo in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let trap = dir.path().join(name);
            if is_fifo {
                assert!(Command::new("mkfifo").arg(&trap).status().unwrap().success());
            } else {
                symlink(target.path(), &trap).unwrap();
            }
            let (code, said) = Setup::offline().spawn(dir.path()).end().await;
            let what = if is_fifo { "a FIFO" } else { "a symbolic link" };
            let named = format!("{}: this is {what}", trap.display());
            assert!(code == 1 && said.contains(&named), "{code}: {said}");
            assert_eq!(fs::read(target.path()).unwrap(), b"mine");
        }
    }
}

#[tokio::test]
async fn a_data_directory_may_be_a_link_itself() {
    let origin = origin(20).await;
    let (dir, real) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(real.path(), dir.path().join("data")).unwrap();
    let server = Setup::mirror_of(&origin).start_in(dir).await;
    server.ready().await;
    assert!(real.path().join("grandstand.redb").is_file());
}

/// A server's files, and the socket on which commands reach it, in a directory of another user.
#[tokio::test]
async fn commands_reach_a_server_over_its_socket_if_they_may_enter_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    if fs::metadata(dir.path()).unwrap().uid() != 0 {
        // Only root can become somebody else.
        return;
    }
    set_mode(dir.path(), 0o711);
    let setup = Setup::offline().set("admin.token", "\"very-secret-indeed\"");
    let server = setup.alone().start_in(dir).await;
    let (data, admin) = (server.data_dir(), server.admin.to_string());
    assert_eq!(mode(&data.join("admin.sock")), 0o600);
    // Somebody who tidies up takes nothing away for long.
    fs::remove_file(data.join("admin.sock")).unwrap();
    wait_until("it is there again", || async { data.join("admin.sock").exists() }).await;
    // Its permissions are the trust: no token, whatever `admin.listen` is.
    let without_token = Setup::offline();
    for words in [&["snapshot", "list"][..], &["reload"], &["purge", "--all"]] {
        let (code, said) = run(&without_token.arguments(words, &data)).await;
        assert_eq!(code, 0, "{words:?}: {said}");
    }
    let stranger = without_token.under(&["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]);
    for words in [&["status"][..], &["snapshot", "list"], &["purge", "--all"], &["bundle", "export", "x.gsb"]] {
        let (code, said) = stranger.command(words, &data).end().await;
        assert!(code == 1 && said.contains("cannot be read") && said.contains("--admin"), "{words:?}: {said}");
    }
    let listening = stranger.set("admin.listen", &admin);
    let (code, said) = listening.command(&["status", "--ready"], &data).end().await;
    assert!(code == 1 && said.contains(&format!("trying admin.listen, {admin}")), "{said}");
    let (code, said) = listening.command(&["purge", "--all"], &data).end().await;
    assert!(code == 1 && said.contains("only with its admin token"), "{said}");
}

/// Each case has a clear end: no socket can be made, the server hangs, it is gone without a word.
#[tokio::test]
async fn a_server_without_a_socket_is_found_at_its_address_and_one_that_hangs_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("d".repeat(100));
    fs::create_dir(&deep).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup = Setup::offline().set("admin.listen", &free.to_string()).alone();
    let mut process = setup.spawn(&deep);
    let status = async |words: &[&str]| run(&setup.arguments(words, &deep)).await;
    wait_until("it answers at its address", || async { status(&["status", "--json"]).await.1.contains("\"use\"") })
        .await;
    let (_, said) = status(&["status"]).await;
    assert!(
        said.contains("admin.sock could not be made: its path has ") && said.contains("another data_dir"),
        "{said}"
    );
    assert!(status(&["status", "--json"]).await.1.contains(&format!("{:?}", "no-admin-socket")));
    let (code, said) = status(&["snapshot", "list", "--json"]).await;
    assert!(code == 0 && said.contains("\"served\": null"), "{said}");
    process.kill();

    let server = Setup::offline().alone().start().await;
    server.process.signal("STOP");
    let (code, said) = run(&server.setup.arguments(&["snapshot", "list"], &server.data_dir())).await;
    server.process.signal("CONT");
    assert!(code == 1 && said.contains("admin.sock/status: no answer within 10 s"), "{said}");
    let mut server = server;
    server.process.kill();
    assert!(server.data_dir().join("admin.sock").exists());
    let (code, said) = run(&server.setup.arguments(&["snapshot", "list"], &server.data_dir())).await;
    assert_eq!(code, 0, "{said}");
}
