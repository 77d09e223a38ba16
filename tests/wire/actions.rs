//! `grandstand reload`, `refresh` and `purge`; the admin token of commands; a configuration with mistakes elsewhere.

use http::Method;
use tempfile::TempDir;

use crate::harness::{PUBLIC, Process, Server, Setup, edit, origin, run, wait_until};

const TOKEN: &str = "0123456789abcdef0123";

/// Runs a command about a running server, found by its data directory.
async fn command(server: &Server, words: &[&str]) -> (i32, String) {
    run(&Setup::offline().arguments(words, &server.data_dir())).await
}

/// The same, which has to succeed.
async fn does(server: &Server, words: &[&str]) -> String {
    let (code, said) = command(server, words).await;
    assert_eq!(code, 0, "{words:?}: {said}");
    said
}

#[tokio::test]
async fn refresh_and_purge_are_commands() {
    let origin = origin(60).await;
    let server = Setup::mirror_of(&origin).start().await;
    server.settled(&origin).await;
    let before = server.snapshot().await;
    origin.edit(|world| assert!(world.touch(world.ids()[3])));
    assert!(does(&server, &["refresh"]).await.contains("asks as soon as it may"));
    wait_until("the change shows", || async { server.snapshot().await != before }).await;

    let keep = async |target: &str| {
        wait_until("it is kept", || async { server.ok(target).await.the("cache-status").contains("hit") }).await;
    };
    for (words, told) in [
        (&["purge", "/api/regions.json"][..], "purged: 2 resources\n"),
        (&["purge", "/api/nothing.json"], "purged: 0 resources\n"),
        (&["purge", "/api/regions.json", "--json"], "{\"purged\":2}\n"),
    ] {
        keep("/api/regions.json").await;
        keep("/api/regions.json?b=2&a=1").await;
        assert_eq!(does(&server, words).await, told, "{words:?}");
    }
    let admin = server.admin.to_string();
    assert!(does(&server, &["purge", "--all", "--admin", &admin]).await.starts_with("purged: "));
    for (words, told) in [
        (&["purge"][..], "<PATH|--all>"),
        (&["purge", ""], "PATH"),
        (&["purge", "api/regions.json"], "a path begins with a slash; write /api/regions.json"),
        (&["purge", "http://a/api/regions.json?b=2"], "write /api/regions.json\n"),
        (&["purge", "--all", "/api/regions.json"], "'--all'"),
    ] {
        let (code, said) = command(&server, words).await;
        assert!(code == 64 && said.contains(told), "{words:?}: {said}");
    }
    let (code, said) = command(&server, &["purge", "/api/regions.json?b=2&a=1"]).await;
    assert!(code == 1 && said.contains("grandstand: path: "), "{said}");

    let shield = Setup::shield_of(&origin).start().await;
    let (code, said) = command(&shield, &["refresh"]).await;
    assert!(code == 1 && said.contains("this action needs a mirror"), "{said}");
    let (code, said) = run(&["refresh", "--admin", "127.0.0.1:1"].map(str::to_owned)).await;
    assert!(code == 1 && said.contains("http://127.0.0.1:1/"), "{said}");
}

#[tokio::test]
async fn whatever_a_server_can_carry_out_takes_its_address_and_token() {
    let origin = origin(40).await;
    let (mirror, token) = (Setup::mirror_of(&origin).set("admin.token", TOKEN), format!("admin.token={TOKEN}"));
    let (mirror, offline) = (mirror.start().await, Setup::offline().set("admin.token", TOKEN).start().await);
    mirror.settled(&origin).await;
    let dir = TempDir::new().unwrap();
    let at = async |server: &Server, words: &[&str], more: &[&str]| {
        let admin = server.admin.to_string();
        let words = [words, &["--admin", &admin], more].concat();
        Process::spawn_in(&words.into_iter().map(str::to_owned).collect::<Vec<_>>(), dir.path()).end().await
    };
    for (server, words, told) in [
        (&mirror, &["bundle", "export", "v.gsb"][..], "details: 40 of 40 listings mirrored"),
        (&mirror, &["bundle", "export", "v.csv", "--format", "csv"], "v.csv: snapshot "),
        (&offline, &["bundle", "import", "v.gsb"], "imported v.gsb into the server at http://"),
        (&mirror, &["sync"], "complete: 40 listings with details"),
        (&mirror, &["audit", "--samples", "3"], "RESULT"),
        (&mirror, &["snapshot", "list"], "current, newest"),
    ] {
        let (code, said) = at(server, words, &["--set", &token]).await;
        assert!(code == 0 && said.contains(told), "{words:?}: {code} {said}");
        if !words.contains(&"list") {
            let (code, said) = at(server, words, &[]).await;
            assert!(code == 1 && said.contains("only with its admin token"), "{words:?}: {code} {said}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "only the exports");
    // A data directory that is named must be that server's.
    let (code, said) = at(&mirror, &["snapshot", "release"], &["--set", &token, "--set", "data_dir=here"]).await;
    assert!(code == 1 && said.contains("has the data directory") && said.contains("here"), "{code} {said}");
}

#[tokio::test]
async fn reload_is_a_command_and_a_mistake_elsewhere_stops_no_command_about_a_server() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("grandstand.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write("ttl = \"1m\"\n");
    let config = ["--config", file.to_str().unwrap()];
    let server =
        Setup::offline().without("ttl").without("rate_limit.requests_per_minute").serving(&config).start().await;
    let data = format!("data_dir = {:?}\n", server.data_dir());
    let run = |word: &str| {
        let arguments: Vec<String> = [word].into_iter().chain(config).map(str::to_owned).collect();
        async move { run(&arguments).await }
    };
    for (text, told) in [
        (
            "ttl = \"1m\"\n",
            "reloaded: the configuration has not changed (variables of a unit or a container, and --set, change with a restart)\n",
        ),
        ("ttl = \"2m\"\n", "reloaded: ttl\n"),
        ("ttl = \"2m\"\ncache.max_bytes = \"1MiB\"\n", "needs a restart: cache.max_bytes\n"),
    ] {
        write(&(data.clone() + text));
        assert_eq!(run("reload").await, (0, told.to_owned()), "{text}");
    }

    for (mistakes, named) in [
        ("[origin]\nurll = \"https://api.example.org\"\n", "origin.urll"),
        ("ttl = \"soon\"\n[log]\nlevel = \"loud\"\n", "ttl: "),
        ("ttl = \n", "not TOML"),
        ("[tls]\nlisten = \"127.0.0.1:0\"\n", "tls.cert"),
    ] {
        write(&(data.clone() + mistakes));
        let (_, said) = run("status").await;
        let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("warning: ")).collect();
        assert!(warnings.len() == 1 && warnings[0].contains(named), "{mistakes}: {said}");
        assert!(said.contains(PUBLIC), "{mistakes}: {said}");
        let (code, said) = run("reload").await;
        assert!(code == 64 && said.contains("so nothing has changed") && said.contains(named), "{mistakes}: {said}");
        assert!(!said.contains("does not matter"), "{said}");
    }
    for needed in ["data_dir = 5\n".to_owned(), data.clone() + "admin.listen = \"here\"\n", "ttl = \n".to_owned()] {
        write(&needed);
        let (code, said) = run("status").await;
        assert_eq!(code, 64, "{needed}: {said}");
    }
}

#[tokio::test]
async fn a_command_without_the_token_is_told_of_the_keys_for_it() {
    let server = Setup::offline().set("admin.token", TOKEN).start().await;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "another-token-of-this-length").unwrap();
    let (wrong, admin) = (format!("admin.token_file={}", file.display()), server.admin.to_string());
    let bundle = dir.path().join("venues.gsb");
    for (words, told) in [
        (&["reload"][..], "does this only with its admin token"),
        (&["purge", "--all"], "does this only with its admin token"),
        (&["reload", "--set", &wrong], "refuses the admin token of this command"),
        (&["bundle", "export", bundle.to_str().unwrap()], "does this only with its admin token"),
        (&["snapshot", "verify"], "does this only with its admin token"),
    ] {
        let (code, said) = command(&server, &[words, &["--admin", &admin]].concat()).await;
        assert!(code == 1 && said.contains(told), "{words:?}: {said}");
        for name in ["admin.token ", "GRANDSTAND__ADMIN__TOKEN", "admin.token_file", &server.admin.to_string()] {
            assert!(said.contains(name), "{words:?} does not name {name}: {said}");
        }
        assert!(!said.contains("Authorization") && !said.contains("Bearer"), "{words:?}: {said}");
    }
    std::fs::write(&file, TOKEN).unwrap();
    does(&server, &["reload", "--set", &wrong, "--admin", &admin]).await;
    let refused = server.admin(Method::POST, "/reload").await;
    assert!(refused.status == 403 && refused.text().contains("Authorization"), "programs get the field: {refused:?}");
}

#[tokio::test]
async fn an_export_that_must_be_complete_writes_nothing_before_it_is() {
    let origin = origin(60).await;
    let mut server = Setup::mirror_of(&origin).set("mirror.details", "on-demand").start().await;
    server.ready().await;
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("venues.gsb");
    let words = ["bundle", "export", "--require-complete", file.to_str().unwrap()];
    for stopped in [false, true] {
        if stopped {
            server.down().await;
        }
        let (code, said) = command(&server, &words).await;
        assert!(code == 1 && said.contains("0 of 60 details are mirrored"), "{said}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{said}");
    }
    server.restart_with("mirror.details", "all").await;
    server.settled(&origin).await;
    does(&server, &words).await;
    edit(&origin, &server, |world| assert!(world.touch(world.ids()[3]))).await;
    server.down().await;
    does(&server, &[&words[..], &["--since", file.to_str().unwrap()]].concat()).await;
    let (code, said) = command(&server, &[&words[..], &["--format", "csv"]].concat()).await;
    assert!(code == 64 && said.contains("--require-complete are for bundles"), "{said}");
}
