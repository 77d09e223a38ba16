//! Sources of values: precedence, the environment, `--set`, and that nothing panics.

use std::path::Path;

use proptest::prelude::*;

use super::super::{Config, Loaded};
use super::lines;

fn env(pairs: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    let owned: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    owned.into_iter()
}

fn sets(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|argument| (*argument).to_owned()).collect()
}

fn load_failing(file: Option<&Path>, pairs: &[(&str, &str)], arguments: &[&str]) -> Vec<String> {
    lines(&Config::load(file, env(pairs), &sets(arguments)).unwrap_err())
}

#[test]
fn nothing_at_all_gives_the_defaults() {
    let Loaded { config, warnings } = Config::load(None, env(&[]), &[]).unwrap();
    assert_eq!(config, Config::default());
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn set_beats_environment_beats_file_beats_default() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("grandstand.toml");
    std::fs::write(&file, "ttl = \"1m\"\ndrain = \"1s\"\n[cache]\nmax_bytes = 4096\n").unwrap();
    let pairs = [("GRANDSTAND__TTL", "2m"), ("GRANDSTAND__DRAIN", "2s"), ("PATH", "/bin")];
    let Loaded { config, .. } = Config::load(Some(&file), env(&pairs), &sets(&["ttl=3m"])).unwrap();
    assert_eq!(config.ttl.as_secs(), 180);
    assert_eq!(config.drain.as_secs(), 2);
    assert_eq!(config.cache.max_bytes, 4096);
    assert_eq!(config.data_dir, Config::default().data_dir);
}

#[test]
fn values_are_toml_or_else_strings() {
    let arguments = sets(&[
        "listen=[\"127.0.0.1:0\", \"[::1]:0\"]",
        "rate_limit.requests_per_minute=0",
        "origin.url=http://127.0.0.1:1/a=b",
        "origin.user_agent = 42",
        "log.level = \"debug\"",
        "mirror.max_shrink=1",
        "rate_limit.override=[{network=\"::1\", requests_per_minute=5}]",
        "ttl=1s",
        "ttl=2s",
    ]);
    let Loaded { config, .. } = Config::load(None, env(&[]), &arguments).unwrap();
    assert_eq!(config.listen.len(), 2);
    assert_eq!(config.rate_limit.requests_per_minute, None);
    assert_eq!(config.origin.url.unwrap().as_str(), "http://127.0.0.1:1/a=b");
    assert_eq!(config.origin.user_agent, "42");
    assert_eq!(config.log.level.as_str(), "debug");
    assert_eq!(config.rate_limit.overrides.len(), 1);
    assert_eq!(config.ttl.as_secs(), 2, "the last of equals wins");
}

#[test]
fn tables_are_merged_and_lists_are_replaced() {
    let pairs = [
        ("grandstand__Origin", "{timeout = \"1s\", aliases = [\"http://a\"]}"),
        ("GRANDSTAND__ORIGIN__ALIASES", "[\"http://b\"]"),
    ];
    let Loaded { config, .. } = Config::load(None, env(&pairs), &sets(&["origin.wait=3s"])).unwrap();
    assert_eq!(config.origin.timeout.as_secs(), 1);
    assert_eq!(config.origin.wait.as_secs(), 3);
    assert_eq!(config.origin.aliases.len(), 1);
    assert_eq!(config.origin.aliases[0].as_str(), "http://b");
}

#[test]
fn every_error_names_its_source() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("g.toml");
    std::fs::write(&file, "\n[mirror]\nkeep = 0\n\n[[rate_limit.override]]\nnetwork = \"x\"\n").unwrap();
    let got = load_failing(
        Some(&file),
        &[("GRANDSTAND__ORIGIN__URL", "nowhere")],
        &["ttl=soon", "origin.requests_per_minute=many"],
    );
    let path = file.display();
    let want = [
        format!("{path}:3: mirror.keep: 0 is not a whole number of snapshots from 1 to 1000"),
        format!("{path}:5: rate_limit.override[0].requests_per_minute: is missing"),
        format!(
            "{path}:6: rate_limit.override[0].network: \"x\" is not a network or an address, such as \"10.0.0.0/8\" \
             or \"2001:db8::1\""
        ),
        "GRANDSTAND__ORIGIN__URL: origin.url: \"nowhere\" is not an absolute URL that begins with http:// or https://"
            .to_owned(),
        "--set: ttl: \"soon\" is not a duration from 100ms to 1d, such as \"10s\" or \"1h30m\" (units: d, h, m, s, ms)"
            .to_owned(),
        "--set: origin.requests_per_minute: \"many\" is not a whole number of requests (0: unlimited)".to_owned(),
    ];
    assert_eq!(got, want);
}

#[test]
fn a_file_that_is_missing_or_not_toml_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("g.toml");
    let got = load_failing(Some(&file), &[], &[]);
    assert!(got.len() == 1 && got[0].contains("g.toml: cannot be read: "), "{got:?}");
    std::fs::write(&file, "ttl = \"5m\"\n[admin]\ntoken = \"hunter2\n").unwrap();
    let got = load_failing(Some(&file), &[], &["novalue"]);
    assert!(got[0].contains("g.toml:3: not TOML: "), "{got:?}");
    assert!(got.iter().any(|line| line.contains("\"novalue\" is not KEY=VALUE, such as ttl=5m")), "{got:?}");
    assert!(!got.concat().contains("hunter"), "{got:?}");
}

#[test]
fn mistakes_of_every_kind_are_reported_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("g.toml");
    // What the broken line and the one that sets the certificate's key would say is not guessed.
    std::fs::write(
        &file,
        "ttl = \"soon\"\ndrain = \n[origin]\nurll = \"x\"\n[tls]\ncert = \"c.pem\"\n[log]\nlevel = \"loud\n",
    )
    .unwrap();
    let pairs = [("GRANDSTAND__MIRROR__KEEP", "0"), ("GRANDSTAND____X", "1")];
    let sets = sets(&["novalue", "a..b=1", "rate_limit.store=http://h", "cache.max_bytes=none"]);
    let examined = Config::examine(Some(&file), env(&pairs), &sets);
    let got = lines(&examined.finish().unwrap_err());
    let wanted = [
        ":1: ttl: ",
        ":2: not TOML: ",
        ":4: origin.urll: ",
        ":8: not TOML: ",
        "GRANDSTAND__MIRROR__KEEP: mirror.keep: ",
        "GRANDSTAND____X: ",
        "--set: \"novalue\" is not KEY=VALUE, such as ttl=5m",
        "--set: \"a..b\" is not a dotted key",
        "--set: rate_limit.store: ",
        "--set: cache.max_bytes: ",
    ];
    for want in wanted {
        assert_eq!(got.iter().filter(|line| line.contains(want)).count(), 1, "{want}: {got:#?}");
    }
    assert_eq!(got.len(), wanted.len(), "{got:#?}");
    // A file that cannot be read may hold what is missing.
    let got =
        load_failing(Some(&dir.path().join("none")), &[], &["tls.cert=c.pem", "listen=[\"127.0.0.1:9090\"]", "ttl=x"]);
    assert_eq!(got.len(), 2, "{got:#?}");
}

#[test]
fn malformed_overrides_are_errors() {
    for argument in ["", "=", "=5", "a..b=1", ".ttl=1", "ttl.=1", "t tl=1", "admin.token:hunter2"] {
        let got = load_failing(None, &[], &[argument]);
        assert!(got.len() == 1 && got[0].starts_with("--set: "), "{argument}: {got:?}");
        assert!(!got[0].contains("hunter"), "{got:?}");
    }
    for name in ["GRANDSTAND__", "GRANDSTAND____TTL", "grandstand__origin__"] {
        let got = load_failing(None, &[(name, "1")], &[]);
        assert!(got.len() == 1 && got[0].contains("names no key"), "{name}: {got:?}");
    }
    let got = load_failing(None, &[("GRANDSTAND__TTL", "1m"), ("grandstand__ttl", "2m")], &[]);
    assert_eq!(got, ["grandstand__ttl: ttl: is set twice: GRANDSTAND__TTL differs only in case"]);
}

#[test]
fn deep_nesting_is_refused_without_harm() {
    let deep = "a.".repeat(50_000) + "a=1";
    assert_eq!(load_failing(None, &[], &[&deep]).len(), 1);
    let brackets = format!("listen={}{}", "[".repeat(50_000), "]".repeat(50_000));
    assert_eq!(load_failing(None, &[], &[&brackets]).len(), 1);
    assert_eq!(super::problems(&format!("{}a = 1", "a.".repeat(2_000))).len(), 1);
    assert_eq!(super::problems("[a.b.c.d.e.f.g.h.i.j.k.l]\nm = 1").len(), 1);
}

fn toml_like() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "origin",
        "url",
        ".",
        " = ",
        "\n",
        "[",
        "]",
        "[[",
        "]]",
        "rate_limit",
        "override",
        "\"",
        "'",
        "5m",
        "1e999",
        "-1",
        "nan",
        "0x7f",
        "true",
        "{",
        "}",
        ",",
        "listen",
        "ttl",
        "1979-05-27",
        "\"\\u0000\"",
        "#",
        "é",
        "\r\n",
        "tls",
        "cert",
        "admin",
        "token",
        "\"http://a/\"",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

#[test]
fn a_variable_that_looks_like_ours_and_is_not_read_is_a_warning() {
    let told = |name: &str| {
        let env = [(name.to_owned(), "http://origin.test".to_owned())];
        let examined = Config::examine(None, env.into_iter(), &[]);
        assert_eq!(examined.errors, []);
        examined.warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    for (name, text) in [
        ("GRANDSTAND_ORIGIN_URL", "is not read, did you mean GRANDSTAND__ORIGIN__URL?"),
        ("grandstand_Rate_Limit_Store", "is not read, did you mean GRANDSTAND__RATE_LIMIT__STORE?"),
        ("GRANDSTAND_URL", "is not read: variables of keys are GRANDSTAND__SECTION__KEY"),
        ("GRANDSTAND_", "is not read: variables of keys are GRANDSTAND__SECTION__KEY"),
    ] {
        assert_eq!(told(name), [format!("{name}: {text}")]);
    }
    for name in ["GRANDSTAND", "GRANDSTANDS_URL", "GRANDSTAND__ORIGIN__URL", "MY_GRANDSTAND_URL"] {
        assert_eq!(told(name), [""; 0], "{name}");
    }
    let (of_a_service, of_nobody) = (
        [
            ("GRANDSTAND_SERVICE_HOST", "10.96.0.17"),
            ("GRANDSTAND_SERVICE_PORT", "8080"),
            ("GRANDSTAND_SERVICE_PORT_HTTP", "8080"),
            ("GRANDSTAND_PORT", "tcp://10.96.0.17:8080"),
            ("GRANDSTAND_PORT_8080_TCP", "tcp://10.96.0.17:8080"),
            ("GRANDSTAND_PORT_8080_TCP_PROTO", "tcp"),
            ("GRANDSTAND_PORT_8080_TCP_PORT", "8080"),
            ("GRANDSTAND_PORT_8080_TCP_ADDR", "10.96.0.17"),
            ("GRANDSTAND_REPLICAS_PORT_53_UDP_ADDR", "10.96.0.17"),
            ("GRANDSTAND_REPLICAS_PORT", "udp://10.96.0.17:53"),
            ("GRANDSTAND_REPLICAS_SERVICE_HOST", "10.96.0.17"),
        ],
        [("GRANDSTAND_PORT", "8080"), ("GRANDSTAND_PORT_HTTP", "8080"), ("GRANDSTAND_HOST", "10.96.0.17")],
    );
    let warnings = |variables: &[(&str, &str)]| Config::load(None, env(variables), &[]).unwrap().warnings.len();
    assert_eq!((warnings(&of_a_service), warnings(&of_nobody)), (0, 3));
}

proptest! {
    #[test]
    fn any_file_loads_or_is_refused_in_whole_lines(text in prop_oneof![toml_like(), ".*"]) {
        if let Err(errors) = Config::from_text(&text) {
            prop_assert_eq!(errors.to_string().lines().count(), errors.iter().count());
        }
    }

    #[test]
    fn any_override_loads_or_is_refused_in_whole_lines(
        key in prop_oneof![Just("listen".to_owned()), Just("origin.url".to_owned()), Just("admin.token".to_owned()),
            Just("rate_limit.override".to_owned()), toml_like(), ".*"],
        value in prop_oneof![toml_like(), ".*"],
    ) {
        let set = [format!("{key}={value}")];
        if let Err(errors) = Config::load(None, std::iter::empty(), &set) {
            prop_assert_eq!(errors.to_string().lines().count(), errors.iter().count());
        }
        let pair = (format!("GRANDSTAND__{}", key.replace('.', "__")), value);
        if let Err(errors) = Config::load(None, std::iter::once(pair), &[]) {
            prop_assert_eq!(errors.to_string().lines().count(), errors.iter().count());
        }
    }
}
