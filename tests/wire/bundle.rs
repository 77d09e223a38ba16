//! Bundles on the command line: accepted ones, refused ones, and nothing else touched.

mod heavy;
mod uploads;

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::minisign::{key, minisign};
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

    fn key(&self, name: &str) -> String {
        key(self.0.path(), name)
    }

    fn tool(&self, arguments: &[&str]) {
        assert!(minisign(self.0.path(), arguments), "{arguments:?}");
    }

    async fn bundle(&self, action: &[&str], name: &str, keys: &[&str]) -> (i32, String) {
        let path = self.path(name);
        let command = [&["bundle"], action, &[path.to_str().unwrap()]].concat();
        let setup = Setup::offline().set("bundle.trusted_keys", &format!("{keys:?}"));
        let outcome = run(&setup.arguments(&command, &self.path("data"))).await;
        assert!(!Path::new(&self.path("data")).exists(), "no data directory is needed");
        outcome
    }

    /// The same, which has to end with this code and say all of these.
    async fn says(&self, action: &[&str], name: &str, keys: &[&str], code: i32, named: &[&str]) -> String {
        let (ended, said) = self.bundle(action, name, keys).await;
        assert_eq!(ended, code, "{action:?} {name}: {said}");
        for named in named {
            assert!(said.contains(named), "{action:?} {name} says nothing of {named:?}: {said}");
        }
        said
    }
}

#[tokio::test]
async fn an_intact_bundle_is_verified_and_a_damaged_one_refused() {
    let desk = Desk::new();
    for name in ["bundle-v1.gsb", "bundle-v1-delta.gsb"] {
        desk.says(&["verify"], name, &[], 0, &["intact", "not signed"]).await;
    }
    let mut bytes = fs::read(desk.path("bundle-v1.gsb")).unwrap();
    bytes[400] ^= 1;
    fs::write(desk.path("altered.gsb"), &bytes).unwrap();
    fs::write(desk.path("short.gsb"), &bytes[..300]).unwrap();
    for (name, told) in
        [("altered.gsb", "altered: part"), ("short.gsb", "truncated at byte 300"), ("none.gsb", "none.gsb")]
    {
        for action in ["verify", "inspect"] {
            desk.says(&[action], name, &[], 1, &[told]).await;
        }
    }
    desk.says(&["verify", "--unknown"], "bundle-v1.gsb", &[], 64, &[]).await;
    for key in ["RWQ", &format!("RW{}", "A".repeat(54))] {
        desk.says(&["verify"], "bundle-v1.gsb", &[key], 64, &["trusted_keys"]).await;
    }
}

#[tokio::test]
async fn only_a_bundle_that_a_trusted_key_signed_is_verified_once_keys_are_configured() {
    let desk = Desk::new();
    let (trusted, other) = (desk.key("trusted"), desk.key("other"));
    let (verify, name) = (&["verify"], "bundle-v1.gsb");
    desk.says(verify, name, &[&trusted], 1, &["is not signed"]).await;
    desk.tool(&["-S", "-s", "trusted.key", "-m", name, "-t", "of today"]);
    let shown = fs::read_to_string(desk.path("trusted.pub")).unwrap();
    let id = shown.lines().next().unwrap().rsplit(' ').next().unwrap();
    desk.says(verify, name, &[&other, &trusted], 0, &[id, "of today"]).await;
    let said = desk.says(verify, name, &[&other], 1, &["not trusted", id]).await;
    assert!(!said.contains("restart"), "{said}");
    desk.says(verify, name, &[], 0, &["not verified"]).await;
    // Intact in itself, but another one.
    fs::copy(desk.path("bundle-v1-delta.gsb"), desk.path(name)).unwrap();
    desk.says(verify, name, &[&trusted], 1, &["does not match"]).await;
    desk.says(&["inspect"], name, &[&trusted], 0, &["does not match"]).await;
    fs::write(desk.path("bundle-v1.gsb.minisig"), "nonsense").unwrap();
    desk.says(verify, name, &[&trusted], 1, &["not a minisign signature"]).await;
    // None is required.
    desk.says(verify, name, &[], 0, &["the signature file cannot be read"]).await;
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
            let said = desk.says(&[action], name, &[&trusted], 1, &[told]).await;
            assert!(!said.contains("standard input"), "{said}");
        }
    }
    desk.says(&["inspect"], "bundle-v1.gsb.minisig", &[], 1, &["this is a signature"]).await;
    fs::File::create(desk.path("large.gsb")).unwrap().set_len((4 << 30) + 1).unwrap();
    for action in ["verify", "import"] {
        desk.says(&[action], "large.gsb", &[], 1, &["may have 4294967296", "large.gsb"]).await;
    }
}

#[tokio::test]
async fn inspect_shows_what_is_in_a_bundle() {
    let desk = Desk::new();
    let content = ["12 listings", "2026-11-18", "CC BY 4.0", "Venues", "incremental", "not signed"];
    desk.says(&["inspect"], "bundle-v1.gsb", &[], 0, &[&content[..], &["https://venues.example"]].concat()).await;
    let said = desk.says(&["inspect", "--json"], "bundle-v1-delta.gsb", &[], 0, &[]).await;
    let json: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!((&json["kind"], &json["manifest"]["base"]["removed"]), (&"delta".into(), &1.into()), "{said}");
    assert_eq!(json["signature"]["state"], "none");
}
