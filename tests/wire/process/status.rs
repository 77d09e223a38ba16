//! Which server `grandstand status` shows: never another one than was meant.

use std::os::unix::fs::PermissionsExt as _;

use crate::disk::bound;
use crate::harness::{Process, Setup, origin, run};

#[tokio::test]
async fn status_shows_the_server_of_the_data_directory_or_none() {
    let origin = origin(20).await;
    let (meant, other) = (Setup::mirror_of(&origin).start().await, Setup::mirror_of(&origin).start().await);
    for server in [&meant, &other] {
        server.settled(&origin).await;
    }
    let (admin, elsewhere) = (meant.admin.to_string(), tempfile::tempdir().unwrap());
    let status = async |data: &std::path::Path, more: &[&str]| {
        let words: Vec<&str> = ["status"].iter().chain(more).copied().collect();
        run(&Setup::offline().without("admin.listen").arguments(&words, data)).await
    };
    let (code, said) = status(&meant.data_dir(), &[]).await;
    assert!(code == 0 && said.contains("grandstand healthy (mirror)"), "{code} {said}");
    // The same directory by another name.
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(meant.data_dir(), &link).unwrap();
    for data in [&meant.data_dir(), &link] {
        let (code, said) = status(data, &["--admin", &admin]).await;
        assert!(code == 0 && said.contains("grandstand healthy (mirror)"), "{code} {said}");
    }
    let at_its_address = format!("admin.listen={admin}");
    for (data, more) in [
        (other.data_dir(), ["--admin", &admin]),
        (elsewhere.path().to_owned(), ["--admin", &admin]),
        (elsewhere.path().join("none"), ["--set", &at_its_address]),
    ] {
        for more in [&more[..], &[more[0], more[1], "--json"], &[more[0], more[1], "--watch"]] {
            let (code, said) = status(&data, more).await;
            let names_both = [meant.data_dir(), data.clone()].iter().all(|path| said.contains(path.to_str().unwrap()));
            assert!(code == 1 && names_both && said.lines().count() == 1, "{more:?}: {code} {said}");
        }
    }
    // Without a directory the address alone decides.
    let (code, said) = run(&["status", "--admin", &admin].map(str::to_owned)).await;
    assert!(code == 0 && said.contains("grandstand healthy (mirror)"), "{code} {said}");
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_read_is_told_of() {
    let origin = origin(20).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let locked = tempfile::tempdir().unwrap();
    std::fs::set_permissions(locked.path(), std::fs::Permissions::from_mode(0o000)).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    for data in [locked.path(), file.path()] {
        let setup = bound(Setup::offline().without("admin.listen"));
        let (code, said) = setup.command(&["status"], data).end().await;
        let told = format!("grandstand: data_dir {} cannot be read", data.display());
        assert!(code == 1 && said.starts_with(&told) && said.contains("--admin"), "{code} {said}");
    }
    // Other commands say what `serve` says.
    let out = tempfile::tempdir().unwrap();
    let export = out.path().join("x.gsb");
    for data in [locked.path(), file.path()] {
        let commands = [
            &["serve"][..],
            &["snapshot", "list"],
            &["snapshot", "accept"],
            &["bundle", "export", export.to_str().unwrap()],
            &["bundle", "export", "-", "--format", "csv"],
        ];
        let mut sentences = Vec::new();
        for words in commands {
            let (code, said) = bound(Setup::offline()).command(words, data).end().await;
            let last = said.lines().last().unwrap_or_default().to_owned();
            assert!(code == 1 && last.contains(data.to_str().unwrap()), "{words:?}: {code} {said}");
            sentences.push(last.trim_start_matches("grandstand: ").to_owned());
        }
        assert!(sentences.iter().all(|told| told.ends_with(&sentences[0])), "{sentences:#?}");
    }
    // An address that is given is asked, and says that it is another one.
    let admin = format!("http://{}", server.admin);
    let words: Vec<String> = Setup::offline().arguments(&["status", "--admin", &admin], locked.path());
    let (code, said) = Process::spawn(&words).end().await;
    assert!(code == 1 && said.contains("has the data directory"), "{code} {said}");
    std::fs::set_permissions(locked.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
}
