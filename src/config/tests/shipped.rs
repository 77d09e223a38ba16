//! Shipped configurations: defaults are those of the manual, files load, and what `check` prints loads again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::values::Written;
use super::super::{Config, Loaded, Use};
use super::{declarations, needed, set, with_another};

/// Every key with a default, as the manual gives it.
const DEFAULTS: &str = r#"
listen     = ["127.0.0.1:8080"]
data_dir   = "grandstand-data"
ttl        = "5m"
drain      = "5s"

[origin]
aliases = []
requests_per_minute = 60
cache_ttl = "5m"
timeout  = "10s"
wait     = "10s"
max_body = "32MiB"

[mirror]
enabled      = true
details      = "all"
sweep_every  = "6h"
examine_per_hour = 6
max_shrink   = 0.2
keep         = 5

[rate_limit]
requests_per_minute = 60
ipv6_prefix = 64
store_timeout = "50ms"

[client_ip]
trusted_proxies = []
header = "x-forwarded-for"
proxy_protocol = false

[cache]
max_bytes = "256MiB"
stale_while_revalidate = "1m"
stale_if_error = "24h"

[bundle]
trusted_keys = []

[passthrough]
paths   = ["/api/"]
methods = ["GET", "HEAD"]
request_headers = ["Accept", "Accept-Language", "Authorization", "Cookie"]

[admin]
listen = "127.0.0.1:9090"
hosts = []

[log]
format = "text"
level  = "info"
access = false

[pages]
enabled = true

[limits]
connections = 20000
connections_per_client = 512

[publish]
keep = "7d"

[replica]
poll = "10s"
"#;

/// Values in all ways to write them.
const OTHERS: &str = r#"
listen = ["[::1]:0", "127.0.0.1:8081"]
public_url = "https://mirror.example/listings/"
data_dir = "elsewhere"
ttl = "1s"
drain = "0s"
origin = { url = "http://origin.example/v1", aliases = ["http://b"], requests_per_minute = 0, cache_ttl = "1ms",
  timeout = "1m1s", wait = 0, max_body = "10MB", ca_file = "ca.pem", user_agent = "me \"too\"",
  proxy = "http://proxy.example:3128" }
mirror = { enabled = false, details = "on-demand", sweep_every = "1h30m",
  examine_per_hour = 0, max_shrink = 1.0, keep = 1 }
client_ip = { trusted_proxies = ["10.0.0.0/8", "::1"], header = "forwarded", proxy_protocol = true }
cache = { max_bytes = 1025, stale_while_revalidate = "0s", stale_if_error = "1m" }
bundle = { trusted_keys = ["RWAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],
  max_age = "30d" }
passthrough = { paths = [], methods = ["POST"], request_headers = ["*"] }
admin = { listen = "127.0.0.1:0", hosts = ["Mirror.Internal.", "::ffff:10.0.0.1"] }
tls = { listen = ["0.0.0.0:8443"], cert = "c.pem", key = "k.pem" }
log = { format = "json", level = "trace", access = true, access_file = "access.log" }
pages = { enabled = false, tiles = "https://tile.example.org/{z}/{x}/{y}.png", tiles_credit = "(c) x" }
limits = { connections = 1, connections_per_client = 2 }
publish = { url = "s3://bucket/fleet", sign_key = "minisign.key", sign_password_file = "password",
  keep = "2h", proxy = "" }
replica = { url = "https://store.example/fleet", poll = "1s", proxy = "https://proxy.example" }
[rate_limit]
requests_per_minute = 0
ipv6_prefix = 128
store = "redis://127.0.0.1:6379"
store_password_file = "pw"
store_timeout = "1s"
[[rate_limit.override]]
network = "10.0.0.0/8"
requests_per_minute = 600
[[rate_limit.override]]
network = "192.0.2.1"
requests_per_minute = 0
"#;

/// The values of a document by dotted key.
fn flat(text: &str) -> BTreeMap<String, toml::Value> {
    fn walk(prefix: &str, table: toml::Table, out: &mut BTreeMap<String, toml::Value>) {
        for (key, value) in table {
            let path = format!("{prefix}{key}");
            match value {
                toml::Value::Table(table) => walk(&format!("{path}."), table, out),
                value => drop(out.insert(path, value)),
            }
        }
    }
    let mut out = BTreeMap::new();
    walk("", text.parse().unwrap(), &mut out);
    out
}

/// The files of `config/`, each for a use, as one would write them by hand.
const FILES: [(&str, Use); 4] = [
    ("mirror.toml", Use::Mirror),
    ("shield.toml", Use::Shield),
    ("offline.toml", Use::Offline),
    ("replica.toml", Use::Replica),
];

fn shipped(name: &str) -> (PathBuf, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

#[test]
fn the_defaults_are_those_of_the_manual() {
    let loaded = Config::from_text(DEFAULTS).unwrap();
    assert_eq!(loaded.config, Config::default());
    let described = flat(&Config::default().describe());
    for (key, value) in flat(DEFAULTS) {
        let got = described.get(&key);
        // 24 hours are written as a day; that they are equal is checked above.
        assert!(key == "cache.stale_if_error" || got == Some(&value), "{key}: {got:?}");
    }
}

#[test]
fn the_effective_configuration_loads_again() {
    for text in ["", DEFAULTS, OTHERS] {
        let config = Config::from_text(text).unwrap().config;
        let again = Config::from_text(&config.describe()).unwrap().config;
        // What was derived is named in what is written.
        assert_eq!(Config { public_url_is_set: true, ..config }, again, "{text}");
    }
}

#[test]
fn every_key_is_written_and_loads_again_but_secrets() {
    let (mut sets, mut all) = (needed(), set(&needed()).unwrap());
    let mut names = Vec::new();
    for key in declarations() {
        let (with, config) = with_another(&key, &Config::default(), &sets);
        if !matches!((key.write)(&config), Written::Comment(_)) {
            (sets, all) = (with, config);
            names.push(key.about.path());
        }
    }
    names.sort();
    let described = all.describe();
    assert_eq!(flat(&described).into_keys().collect::<Vec<_>>(), names);
    assert_eq!(Config::from_text(&described).unwrap().config, all);
}

#[test]
fn a_public_url_that_nobody_names_is_the_first_listener() {
    for (text, want, written) in [
        ("", "http://127.0.0.1:8080", true),
        ("listen = [\"127.0.0.1:20010\", \"127.0.0.1:8080\"]", "http://127.0.0.1:20010", true),
        ("listen = [\"0.0.0.0:20010\"]", "http://localhost:20010", true),
        (
            "listen = [\"192.0.2.1:80\"]\n[tls]\nlisten = \"192.0.2.1:443\"\ncert = \"c\"\nkey = \"k\"",
            "http://192.0.2.1",
            true,
        ),
        ("listen = [\"[::]:0\"]", "http://localhost:0", false),
    ] {
        let config = Config::from_text(text).unwrap().config;
        assert_eq!(config.public_url.as_str(), want, "{text}");
        let line = format!("public_url = \"{want}\"");
        assert_eq!(config.describe().lines().any(|written| written == line), written, "{}", config.describe());
        assert!(Config::from_text(&config.describe()).is_ok(), "{text}");
    }
    let bound = |config: Config| {
        config.listening_on(vec!["127.0.0.1:33333".parse().unwrap()], Vec::new(), "[::1]:4".parse().unwrap())
    };
    let any = bound(Config::from_text("listen = [\"127.0.0.1:0\"]\nadmin.listen = \"[::1]:0\"").unwrap().config);
    assert_eq!(any.public_url.as_str(), "http://127.0.0.1:33333");
    assert_eq!((any.listen[0].port(), any.admin.listen.port()), (33333, 4));
    let named = bound(Config::from_text("public_url = \"http://m.example/x\"").unwrap().config);
    assert_eq!(named.public_url.as_str(), "http://m.example/x");
}

#[test]
fn each_shipped_file_loads_and_has_its_use() {
    for (name, want) in FILES {
        let (path, text) = shipped(name);
        assert!(text.lines().count() < 40, "{name} is long");
        let loaded = Config::load(Some(&path), std::iter::empty(), &[]);
        let Loaded { config, warnings } = loaded.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.usage(), want, "{name}");
        assert_eq!(want.as_str(), name.strip_suffix(".toml").unwrap());
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn every_file_that_names_a_version_names_this_one() {
    let version = env!("CARGO_PKG_VERSION");
    let read = |name| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let changes = read("CHANGELOG.md");
    let newest = changes.lines().find(|line| line.starts_with("## [")).unwrap();
    assert!(newest.starts_with(&format!("## [{version}] - ")), "{newest}");
    for (name, text) in [
        ("config/kubernetes/mirror/mirror.yaml", format!("/grandstand:{version}\n")),
        ("config/kubernetes/replicas/replicas.yaml", format!("/grandstand:{version}\n")),
        ("config/kubernetes/fleet/kustomization.yaml", format!("newTag: {version} }}")),
        ("docs/images/demo.svg", format!("{version},&#160;up&#160;for")),
    ] {
        assert!(read(name).contains(&text), "{name}: {text}");
    }
}

#[test]
fn the_configuration_of_the_package_loads() {
    let (path, text) = shipped("debian/grandstand.toml");
    let Loaded { config, warnings } = Config::load(Some(&path), std::iter::empty(), &[]).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(config.data_dir, Path::new("/var/lib/grandstand"), "StateDirectory= of the unit");
    assert_eq!(Config { data_dir: Config::default().data_dir, file_has_keys: false, ..config }, Config::default());
    let url = text.replace("# url = ", "url = ").replace("# public_url = ", "public_url = ");
    assert_eq!(Config::from_text(&url).unwrap().config.usage(), Use::Mirror);
}

#[test]
fn the_shipped_files_differ_from_the_defaults_only_in_what_makes_their_use() {
    let of = |name| Config::from_text(&shipped(name).1).unwrap().config;
    let (mut mirror, mut shield, mut replica) = (of("mirror.toml"), of("shield.toml"), of("replica.toml"));
    replica.replica.url = None;
    assert_eq!(replica, Config::default());
    mirror.origin.url = None;
    shield.origin.url = None;
    shield.mirror.enabled = true;
    assert_eq!(mirror, Config::default());
    assert_eq!(shield, Config::default());
    assert_eq!(of("offline.toml"), Config::default());
}

#[test]
fn files_that_cannot_be_opened_are_found_by_check() {
    let files = |ca_file: &Path| {
        let sets = [format!("origin.ca_file={}", ca_file.display())];
        let mut examined = Config::examine(None, std::iter::empty(), &sets);
        examined.check_files();
        examined.finish()
    };
    let errors = files(Path::new("/nonexistent/ca.pem")).unwrap_err();
    let named = errors.to_string().starts_with("--set: origin.ca_file: \"/nonexistent/ca.pem\" cannot be opened: ");
    assert!(named, "{errors}");
    assert!(files(&shipped("mirror.toml").0).is_ok());
}
