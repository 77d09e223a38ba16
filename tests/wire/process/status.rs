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
    let out = tempfile::tempdir().unwrap();
    let [export, export_csv] = ["x.gsb", "x.csv"].map(|name| out.path().join(name).to_str().unwrap().to_owned());
    // Every command says the same, and finds its server at `admin.listen` if that is set.
    let commands = [
        &["status"][..],
        &["refresh"],
        &["purge", "--all"],
        &["snapshot", "list"],
        &["snapshot", "verify"],
        &["bundle", "export", &export],
        &["bundle", "export", &export_csv, "--format", "csv"],
        &["bundle", "import", &export],
        &["audit", "--samples", "1"],
        &["sync"],
    ];
    let close = |mode| std::fs::set_permissions(server.data_dir(), std::fs::Permissions::from_mode(mode)).unwrap();
    close(0o000);
    for words in commands {
        let setup = bound(Setup::mirror_of(&origin).set("admin.listen", &server.admin.to_string()));
        let (code, said) = setup.command(words, &server.data_dir()).end().await;
        assert!(code == 0 && said.contains("trying admin.listen, "), "{words:?}: {code} {said}");
    }
    close(0o700);
    for words in commands {
        for data in [locked.path(), file.path()] {
            let setup = bound(Setup::mirror_of(&origin).without("admin.listen"));
            let (code, said) = setup.command(words, data).end().await;
            let told = format!("data_dir {} cannot be read", data.display());
            assert!(code == 1 && said.contains(&told) && said.contains("--admin"), "{words:?}: {code} {said}");
        }
    }
    // An address that is given wins over a configuration of this machine.
    let (elsewhere, admin) = (tempfile::tempdir().unwrap(), format!("http://{}", server.admin));
    let config = elsewhere.path().join("grandstand.toml");
    std::fs::write(&config, format!("data_dir = {:?}\n", elsewhere.path())).unwrap();
    let words = ["status", "--admin", &admin, "--config", config.to_str().unwrap()].map(str::to_owned);
    let (code, said) = Process::spawn(&words).end().await;
    assert!(code == 0 && said.contains("healthy (mirror)"), "{code} {said}");
    // It is asked, and says that it has another directory than is named beside it.
    let admin = format!("http://{}", server.admin);
    let words: Vec<String> = Setup::offline().arguments(&["status", "--admin", &admin], locked.path());
    let (code, said) = Process::spawn(&words).end().await;
    assert!(code == 1 && said.contains("has the data directory"), "{code} {said}");
    std::fs::set_permissions(locked.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
}
