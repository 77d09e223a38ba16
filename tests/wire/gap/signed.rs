//! Signatures by the real tool and by `export --sign`: only trusted keys are believed.

use std::fs;
use std::path::Path;
use std::process::Command;

use sample_origin::Switches;

use super::{Desk, LIST, edit, everything, is_one_of, mirrored};
use crate::harness::Setup;
use crate::harness::minisign::{key, minisign};

/// `name` with a fault in it or beside it; the expected message.
fn prepare(desk: &Desk, case: &str) -> &'static str {
    let (good, name) = (desk.path("new.gsb"), desk.path("case.gsb"));
    let beside = desk.path("case.gsb.minisig");
    fs::copy(&good, &name).unwrap();
    fs::copy(desk.path("new.gsb.minisig"), &beside).unwrap();
    match case {
        "unsigned" => {
            fs::remove_file(beside).unwrap();
            "not signed"
        }
        "other key" => {
            assert!(minisign(desk.0.path(), &["-S", "-s", "other.key", "-m", "case.gsb"]));
            "not trusted"
        }
        "altered" => {
            let mut bytes = fs::read(&name).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            fs::write(name, bytes).unwrap();
            "does not match"
        }
        "of another file" => {
            fs::copy(desk.path("old.gsb.minisig"), beside).unwrap();
            "does not match"
        }
        "another file" => {
            fs::copy(desk.path("old.gsb"), name).unwrap();
            "does not match"
        }
        "no signature" => {
            fs::write(beside, "nonsense").unwrap();
            "signature"
        }
        "comment" => {
            let text = fs::read_to_string(&beside).unwrap().replace("trusted comment: ", "trusted comment: x");
            fs::write(beside, text).unwrap();
            "altered"
        }
        "old form" => {
            assert!(minisign(desk.0.path(), &["-S", "-l", "-s", "ours.key", "-m", "case.gsb"]));
            "old form"
        }
        other => panic!("{other}"),
    }
}

const REFUSED: [&str; 8] =
    ["unsigned", "other key", "altered", "of another file", "another file", "no signature", "comment", "old form"];

#[tokio::test]
async fn only_what_a_trusted_key_signed_is_imported_by_command_and_by_server() {
    let (origin, mirror) = mirrored(60, Switches::default()).await;
    let desk = Desk::new();
    let (ours, _other) = (key(desk.0.path(), "ours"), key(desk.0.path(), "other"));
    let (data, secret) = (mirror.data_dir(), desk.path("ours.key"));
    let sign = ["export", "--sign", secret.to_str().unwrap()];
    desk.does(&mirror.setup, &data, &sign, "old.gsb").await;
    let old = everything(&mirror).await;
    edit(&origin, &mirror, |world| assert!(world.touch(world.ids()[7]))).await;
    let said = desk.does(&mirror.setup, &data, &sign, "new.gsb").await;
    assert!(said.contains("signed by the key"), "{said}");
    let new = everything(&mirror).await;
    for name in ["old.gsb", "new.gsb"] {
        assert!(minisign(desk.0.path(), &["-V", "-p", "ours.pub", "-m", name]), "the tool verifies {name}");
        assert!(!minisign(desk.0.path(), &["-V", "-p", "other.pub", "-m", name]), "and not for another key");
    }

    let (strict, lax) = (Setup::offline().set("bundle.trusted_keys", &format!("[{ours:?}]")), Setup::offline());
    let into = format!(" into {}", desk.data().display());
    let said = desk.does(&strict, &desk.data(), &["import"], "old.gsb").await;
    assert!(said.contains(&format!("{into}, which had no data: snapshot ")), "{said}");
    let server = desk.serve_copy(strict.clone()).await;
    let snapshots = server.admin(http::Method::GET, "/snapshots").await.text().to_owned();
    for case in REFUSED {
        let named = prepare(&desk, case);
        eprintln!("{case}");
        for action in ["verify", "import"] {
            desk.refuses(&strict, &desk.data(), &[action], "case.gsb", &[named]).await;
        }
        desk.refuses(&strict, &server.data_dir(), &["import"], "case.gsb", &[named]).await;
        // A command that trusts every key does not make the server do so.
        let damaged = case == "altered";
        let named = if damaged {
            "altered"
        } else if case == "no signature" {
            "signature"
        } else {
            named
        };
        desk.refuses(&lax, &server.data_dir(), &["import"], "case.gsb", &[named]).await;
    }
    is_one_of(&everything(&server).await, &[&old]);
    assert_eq!(server.admin(http::Method::GET, "/snapshots").await.text(), snapshots);
    let untouched = desk.serve_copy(Setup::offline()).await;
    is_one_of(&everything(&untouched).await, &[&old]);

    for setup in [&strict, &lax] {
        let said = desk.does(setup, &server.data_dir(), &["import"], "new.gsb").await;
        assert!(said.contains("signed") || said.contains("signature"), "{said}");
    }
    is_one_of(&everything(&server).await, &[&new]);
    assert_eq!(server.ok(LIST).await.the("mirror-confirmed"), mirror.ok(LIST).await.the("mirror-confirmed"));
    let said = desk.does(&strict, &desk.data(), &["import"], "new.gsb").await;
    assert!(said.contains(&format!("{into}: snapshot ")), "{said}");
    is_one_of(&everything(&desk.serve_copy(strict).await).await, &[&new]);
}

#[tokio::test]
async fn a_data_directory_remembers_whether_bundles_must_be_signed() {
    let (_origin, mirror) = mirrored(20, Switches::default()).await;
    let desk = Desk::new();
    let ours = key(desk.0.path(), "ours");
    let secret = desk.path("ours.key");
    desk.does(&mirror.setup, &mirror.data_dir(), &["export", "--sign", secret.to_str().unwrap()], "b.gsb").await;
    let (strict, lax) = (Setup::offline().set("bundle.trusted_keys", &format!("[{ours:?}]")), Setup::offline());
    let needs_keys = ["only signed bundles are imported into ", "--config", "start the server once without keys"];
    desk.does(&strict, &desk.data(), &["import"], "b.gsb").await;
    desk.refuses(&lax, &desk.data(), &["import"], "b.gsb", &needs_keys).await;
    // The last server decides.
    let mut server = desk.serve_copy(lax.clone()).await;
    let data = server.data_dir();
    server.down().await;
    desk.does(&lax, &data, &["import"], "b.gsb").await;
    server.setup = strict.clone();
    server.restart().await;
    let said = desk.does(&lax, &data, &["import"], "b.gsb").await;
    assert!(said.contains("which the server trusts"), "{said}");
    let said = desk.does(&lax, &data, &["import", "--json"], "b.gsb").await;
    assert!(said.contains("\"verified\""), "{said}");
    server.down().await;
    desk.refuses(&lax, &data, &["import"], "b.gsb", &needs_keys).await;
    desk.does(&strict, &data, &["import"], "b.gsb").await;
    // An export without a signature takes the old one away.
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "b.gsb").await;
    assert!(!desk.path("b.gsb.minisig").exists());
    desk.refuses(&strict, &data, &["verify"], "b.gsb", &["not signed"]).await;
    server.setup = lax;
    server.restart().await;
    assert!(server.process.said().contains("unsigned bundles are imported"), "{}", server.process.said());
    server.down().await;
    desk.does(&Setup::offline(), &data, &["import"], "b.gsb").await;
}

#[tokio::test]
async fn an_export_says_what_it_wrote_or_what_is_missing() {
    let (_origin, mirror) = mirrored(20, Switches::default()).await;
    let (desk, data) = (Desk::new(), mirror.data_dir());
    let said = desk.does(&mirror.setup, &data, &["export"], "venues").await;
    assert!(said.contains(" with 20 listings as a bundle, "), "{said}");
    let key = desk.path("nokey");
    let absent = format!("there is no {}: correct the path", key.display());
    desk.refuses(&mirror.setup, &data, &["export", "--sign", key.to_str().unwrap()], "a.gsb", &[&absent]).await;
    for words in [&["export"][..], &["export", "--format", "csv"]] {
        let directory = format!("{} does not exist: create it", desk.path("none").display());
        desk.refuses(&mirror.setup, &data, words, "none/a", &[&directory]).await;
    }
    fs::create_dir(desk.path("dir")).unwrap();
    desk.refuses(&mirror.setup, &data, &["export"], "dir", &["dir"]).await;
    desk.refuses(&mirror.setup, &data, &["export", "--since", "0000"], "b.gsb", &["0000"]).await;
    desk.refuses(&Setup::offline(), &desk.path("nothing"), &["export"], "b.gsb", &["nothing"]).await;
    fs::write(desk.path("mirror.toml"), "[origin]\nurl = \"http://origin.test\"\n").unwrap();
    let before = desk.bytes("mirror.toml");
    let (code, said) = desk.bundle(&mirror.setup, &data, &["export"], "mirror.toml").await;
    assert!(code == 64 && said.contains("exists and is no bundle"), "{code}: {said}");
    assert_eq!(desk.names(), ["dir", "mirror.toml", "venues"]);
    assert_eq!(desk.bytes("mirror.toml"), before);
}

/// Replaces a file by something that cannot be read as a file.
fn put_odd(path: &Path, odd: &str) {
    let _ = fs::remove_file(path);
    match odd {
        "FIFO" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        "device" => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        "directory" => fs::create_dir(path).unwrap(),
        // A tebibyte that takes no room.
        "huge" => fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_bundle_or_a_signature_that_is_no_file_to_be_read_is_refused_at_once() {
    let (_origin, mirror) = mirrored(20, Switches::default()).await;
    let desk = Desk::new();
    let ours = key(desk.0.path(), "ours");
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "good.gsb").await;
    let (strict, lax) = (Setup::offline().set("bundle.trusted_keys", &format!("[{ours:?}]")), Setup::offline());
    let server = lax.clone().start().await;
    for (odd, of_bundle, of_signature) in [
        ("FIFO", "a FIFO", "a FIFO"),
        ("device", "a device", "a device"),
        ("directory", "a directory", "a directory"),
        ("huge", "a bundle may have", "too long"),
    ] {
        let (bundle, copy) = (format!("{odd}.gsb"), format!("{odd}-signed.gsb"));
        put_odd(&desk.path(&bundle), odd);
        fs::copy(desk.path("good.gsb"), desk.path(&copy)).unwrap();
        put_odd(&desk.path(&format!("{copy}.minisig")), odd);
        let inspected = if odd == "huge" { "" } else { of_bundle };
        desk.refuses(&lax, &desk.data(), &["inspect"], &bundle, &[inspected]).await;
        for action in ["verify", "import"] {
            desk.refuses(&lax, &desk.data(), &[action], &bundle, &[of_bundle]).await;
            desk.refuses(&strict, &desk.data(), &[action], &copy, &[of_signature]).await;
        }
        desk.refuses(&lax, &server.data_dir(), &["import"], &bundle, &[of_bundle]).await;
        // No signature is required here, but the server that judges must not be told that there is none.
        let said = desk.does(&lax, &desk.data(), &["verify"], &copy).await;
        assert!(said.contains(of_signature), "{said}");
        desk.refuses(&lax, &server.data_dir(), &["import"], &copy, &[of_signature]).await;
    }
    assert!(!desk.data().exists(), "nothing was imported");
}

#[tokio::test]
async fn a_large_upload_that_is_refused_is_told_why() {
    let desk = Desk::new();
    let ours = key(desk.0.path(), "ours");
    let server = Setup::offline().set("bundle.trusted_keys", &format!("[{ours:?}]")).start().await;
    let client = crate::client::plain_client();
    for _ in 0..8 {
        let request = client.post(format!("http://{}/bundle", server.admin)).body(vec![7; 24 << 20]);
        let reply = request.send().await.expect("an answer, not a reset");
        assert_eq!(reply.status(), 403);
        assert!(reply.text().await.unwrap().contains("not signed"));
    }
}
