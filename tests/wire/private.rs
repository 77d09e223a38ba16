//! The data directory is private to its owner, and others' files in it are no trap.

use std::fs::{self, File};
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::{Setup, origin, run};

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

#[tokio::test]
async fn another_process_that_locks_the_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = Command::new("flock");
    let other = other.args(["--shared".as_ref(), dir.path().as_os_str()]).args(["sh", "-c", "echo; read _"]);
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    other.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let (code, said) = Setup::offline().spawn(dir.path()).end().await;
    drop(other.stdin.take());
    other.wait().unwrap();
    let named = format!("is in use by process {}", other.id());
    assert!(code == 1 && said.contains(&named), "{code}: {said}");
}

/// A directory's owner controls its `LOCK`, and commands would send `admin.token` there.
#[tokio::test]
async fn no_command_asks_the_server_that_a_directory_of_another_user_names() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    if fs::metadata(dir.path()).unwrap().uid() != 0 {
        // Only root can give a directory away.
        return;
    }
    fs::create_dir(&data).unwrap();
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let admin = trap.local_addr().unwrap();
    let holder = serde_json::json!({ "pid": std::process::id(), "admin": admin });
    fs::write(data.join("LOCK"), holder.to_string()).unwrap();
    let locked = [&data, &data.join("LOCK")].map(|path| {
        chown(path, Some(12_345), None).unwrap();
        let file = File::open(path).unwrap();
        file.lock().unwrap();
        file
    });
    let setup = Setup::offline().set("origin.url", "http://127.0.0.1:1").set("admin.token", "\"very-secret\"");
    let out = dir.path().join("out");
    for command in [
        &["status"][..],
        &["sync"],
        &["audit"],
        &["snapshot", "list"],
        &["snapshot", "release"],
        &["snapshot", "accept"],
        &["bundle", "export", out.to_str().unwrap()],
    ] {
        let (code, said) = run(&setup.arguments(command, &data)).await;
        assert!(code == 1 && said.contains("belongs to user 12345"), "{command:?}: {code} {said}");
        assert!(trap.accept().is_err(), "{command:?} asked it");
    }
    // The operator's address is used, whoever owns the directory; and its server has another one.
    let server = Setup::offline().start().await;
    let named = ["status", "--json", "--admin", &server.admin.to_string()];
    let (code, said) = run(&setup.arguments(&named, &data)).await;
    let own = server.data_dir();
    assert!(code == 1 && [&data, &own].iter().all(|named| said.contains(named.to_str().unwrap())), "{code} {said}");
    let (_, said) = run(&named.map(str::to_owned)).await;
    assert!(said.contains("\"use\""), "{said}");
    drop(locked);
}
