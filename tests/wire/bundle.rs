//! Bundles on the command line: accepted ones, refused ones, and nothing else touched.

mod heavy;
mod uploads;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Setup, run};

/// A directory with a bundle in it, and `data`, which stays away.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Self(tempfile::tempdir().unwrap());
        for name in ["bundle-v1.gsb", "bundle-v1-delta.gsb"] {
            let fixture: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect();
            fs::copy(fixture, desk.path(name)).unwrap();
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a key with the tool; its public line.
    fn key(&self, name: &str) -> String {
        let (public, secret) = (format!("{name}.pub"), format!("{name}.key"));
        self.tool(&["-G", "-W", "-p", &public, "-s", &secret]);
        fs::read_to_string(self.path(&public)).unwrap().lines().nth(1).unwrap().to_owned()
    }

    fn tool(&self, arguments: &[&str]) {
        let output = Command::new("minisign").args(arguments).current_dir(self.0.path()).output();
        let output = output.expect("the tool `minisign` is there: setup.sh installs it");
        assert!(output.status.success(), "{output:?}");
    }

    async fn bundle(&self, action: &[&str], name: &str, keys: &[&str]) -> (i32, String) {
        let path = self.path(name);
        let command = [&["bundle"], action, &[path.to_str().unwrap()]].concat();
        let setup = Setup::offline().set("bundle.trusted_keys", &format!("{keys:?}"));
        let outcome = run(&setup.arguments(&command, &self.path("data"))).await;
        assert!(!Path::new(&self.path("data")).exists(), "no data directory is needed");
        outcome
    }
}

#[tokio::test]
async fn an_intact_bundle_is_verified_and_a_damaged_one_refused() {
    let desk = Desk::new();
    for name in ["bundle-v1.gsb", "bundle-v1-delta.gsb"] {
        let (code, said) = desk.bundle(&["verify"], name, &[]).await;
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("intact") && said.contains("not signed"), "{said}");
    }
    let mut bytes = fs::read(desk.path("bundle-v1.gsb")).unwrap();
    bytes[400] ^= 1;
    fs::write(desk.path("altered.gsb"), &bytes).unwrap();
    fs::write(desk.path("short.gsb"), &bytes[..300]).unwrap();
    for (name, told) in
        [("altered.gsb", "altered: part"), ("short.gsb", "truncated at byte 300"), ("none.gsb", "none.gsb")]
    {
        for action in ["verify", "inspect"] {
            let (code, said) = desk.bundle(&[action], name, &[]).await;
            assert_eq!(code, 1, "{said}");
            assert!(said.contains(told), "{said}");
        }
    }
}

#[tokio::test]
async fn only_a_bundle_that_a_trusted_key_signed_is_verified_once_keys_are_configured() {
    let desk = Desk::new();
    let (trusted, other) = (desk.key("trusted"), desk.key("other"));
    let name = "bundle-v1.gsb";
    let (code, said) = desk.bundle(&["verify"], name, &[&trusted]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("is not signed"), "{said}");

    desk.tool(&["-S", "-s", "trusted.key", "-m", name, "-t", "of today"]);
    let (code, said) = desk.bundle(&["verify"], name, &[&other, &trusted]).await;
    assert_eq!(code, 0, "{said}");
    let shown = fs::read_to_string(desk.path("trusted.pub")).unwrap();
    let id = shown.lines().next().unwrap().rsplit(' ').next().unwrap();
    assert!(said.contains(id) && said.contains("of today"), "{said}");
    let (code, said) = desk.bundle(&["verify"], name, &[&other]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("not trusted") && said.contains(id) && !said.contains("restart"), "{said}");
    let (code, said) = desk.bundle(&["verify"], name, &[]).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("not verified"), "{said}");

    // Intact in itself, but another one.
    fs::copy(desk.path("bundle-v1-delta.gsb"), desk.path(name)).unwrap();
    let (code, said) = desk.bundle(&["verify"], name, &[&trusted]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("does not match"), "{said}");
    let (code, said) = desk.bundle(&["inspect"], name, &[&trusted]).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("does not match"), "{said}");
    fs::write(desk.path("bundle-v1.gsb.minisig"), "nonsense").unwrap();
    let (code, said) = desk.bundle(&["verify"], name, &[&trusted]).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("not a minisign signature"), "{said}");
    // None is required.
    let (code, said) = desk.bundle(&["verify"], name, &[]).await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the signature file cannot be read"), "{said}");
}

#[tokio::test]
async fn what_is_missing_and_what_is_no_bundle_is_said_before_signatures() {
    let desk = Desk::new();
    let trusted = desk.key("trusted");
    desk.tool(&["-S", "-s", "trusted.key", "-m", "bundle-v1.gsb"]);
    fs::write(desk.path("some.json"), "{\"total\": 12, \"items\": []}").unwrap();
    for action in ["verify", "import"] {
        for (name, told) in [
            ("bundle-v1.gsb.minisig", "this is a signature or a key of minisign; name the bundle beside it"),
            ("some.json", "not a bundle"),
            ("bundle-v1-delta.gsb", "bundle-v1-delta.gsb.minisig is missing; copy it beside the bundle"),
            ("absent.gsb", "absent.gsb: correct the path"),
            ("none/absent.gsb", "none does not exist: create it, or correct the path"),
        ] {
            let (code, said) = desk.bundle(&[action], name, &[&trusted]).await;
            assert_eq!(code, 1, "{said}");
            assert!(said.contains(told) && !said.contains("standard input"), "{said}");
        }
    }
    let (code, said) = desk.bundle(&["inspect"], "bundle-v1.gsb.minisig", &[]).await;
    assert!(code == 1 && said.contains("this is a signature"), "{said}");
}

#[tokio::test]
async fn inspect_shows_what_is_in_a_bundle() {
    let desk = Desk::new();
    let (code, said) = desk.bundle(&["inspect"], "bundle-v1.gsb", &[]).await;
    assert_eq!(code, 0, "{said}");
    for told in
        ["12 listings", "2026-11-18", "CC BY 4.0", "Venues", "incremental", "not signed", "https://venues.example"]
    {
        assert!(said.contains(told), "{said} says nothing of {told}");
    }
    let (code, said) = desk.bundle(&["inspect", "--json"], "bundle-v1-delta.gsb", &[]).await;
    assert_eq!(code, 0, "{said}");
    let json: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!((&json["kind"], &json["manifest"]["base"]["removed"]), (&"delta".into(), &1.into()), "{said}");
    assert_eq!(json["signature"]["state"], "none");
}

#[tokio::test]
async fn a_wrong_command_line_or_configuration_ends_it_with_64() {
    let desk = Desk::new();
    let (code, said) = desk.bundle(&["verify", "--unknown"], "bundle-v1.gsb", &[]).await;
    assert_eq!(code, 64, "{said}");
    for key in ["RWQ", &format!("RW{}", "A".repeat(54))] {
        let (code, said) = desk.bundle(&["verify"], "bundle-v1.gsb", &[key]).await;
        assert_eq!(code, 64, "{said}");
        assert!(said.contains("trusted_keys"), "{said}");
    }
}
