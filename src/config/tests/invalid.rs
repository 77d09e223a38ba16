//! Invalid values: every key refuses them by its name, and all errors come at once.

use super::super::{Config, ConfigIssue};
use super::problems;

/// A key, a value as TOML, and a part of the message.
const REFUSED: &[(&str, &str, &str)] = &[
    ("listen", "[]", "is empty"),
    ("listen", "8080", "8080 is not a list such as [\"127.0.0.1:8080\"]"),
    ("listen", "\"localhost\"", "\"localhost\" is not an IP address and a port"),
    ("listen[0]", "[\"localhost:80\"]", "an IP address and a port"),
    ("listen", "[\"127.0.0.1:80\", \"127.0.0.1:80\"]", "collides with"),
    ("listen", "[\"[::]:80\", \"[::1]:80\"]", "collides with"),
    ("public_url", "\"/relative\"", "absolute URL"),
    ("public_url", "\"http://a/?q=1\"", "without query"),
    ("data_dir", "\"\"", "is not a path"),
    ("ttl", "\"10ms\"", "from 100ms to 1d"),
    ("ttl", "300", "300 is not a duration"),
    ("ttl", "\"25h\"", "is not a duration"),
    ("drain", "\"2h\"", "from 0s to 1h"),
    ("origin.url", "\"ftp://a\"", "http or https"),
    ("origin.url", "\"http://u:p@a\"", "\"http://***@a\" is not a URL without user name"),
    ("origin.url", "5", "5 is not a URL"),
    ("origin.aliases[1]", "[\"http://a\", \"b\"]", "\"b\" is not an absolute URL"),
    ("origin.requests_per_minute", "\"many\"", "\"many\" is not a whole number of requests (0: unlimited)"),
    ("origin.requests_per_minute", "-1", "-1 is not a whole number of requests from 0 to 1000000"),
    ("origin.requests_per_minute", "99999999999999999999", "99999999999999999999 is not"),
    ("origin.cache_ttl", "\"2d\"", "from 0s to 1d"),
    ("origin.timeout", "\"0s\"", "from 10ms to 10m"),
    ("origin.wait", "\"11m\"", "from 0s to 10m"),
    ("origin.max_body", "\"32 megs\"", "from 1KiB to 4GiB"),
    ("origin.max_body", "5", "from 1KiB to 4GiB"),
    ("origin.ca_file", "false", "false is not a path"),
    ("origin.user_agent", "\"a\\nb\"", "\"a\\nb\" is not 1 to 200 visible"),
    ("mirror.enabled", "\"yes\"", "true or false"),
    ("mirror.details", "\"some\"", "one of \"all\", \"on-demand\""),
    ("mirror.sweep_every", "0", "from 100ms to 365d"),
    ("mirror.sweep_every", "1979-05-27", "1979-05-27 is not a duration"),
    ("mirror.examine_per_hour", "1.5", "1.5 is not a whole number of examples"),
    ("mirror.max_shrink", "1.01", "a share from 0 to 1"),
    ("mirror.max_shrink", "nan", "nan is not a share"),
    ("mirror.keep", "0", "from 1 to 1000"),
    ("rate_limit.requests_per_minute", "6.0", "(0: off)"),
    ("rate_limit.ipv6_prefix", "0", "from 1 to 128"),
    ("rate_limit.ipv6_prefix", "129", "from 1 to 128"),
    ("rate_limit.store", "\"http://a\"", "redis://127.0.0.1:6379"),
    ("rate_limit.store", "\"redis://u:p@a/x\"", "\"redis://***@a/x\" is not the address of a store"),
    ("rate_limit.store_password_file", "\"pw\"", "needs `rate_limit.store`"),
    ("rate_limit.store_timeout", "\"0s\"", "from 1ms to 10s"),
    ("rate_limit.override", "5", "[[rate_limit.override]]"),
    ("rate_limit.override[0]", "[5]", "an array is not a table"),
    ("rate_limit.override[0].network", "[{requests_per_minute = 1}]", "is missing"),
    ("client_ip.trusted_proxies[0]", "[\"10.0.0.0/33\"]", "a network or an address"),
    ("client_ip.header", "\"x y\"", "the name of a header"),
    ("client_ip.proxy_protocol", "1", "true or false"),
    ("client_ip.proxy_protocol", "true", "is true, but client_ip.trusted_proxies is empty"),
    ("cache.max_bytes", "-1", "from 1KiB to 1024GiB"),
    ("cache.stale_while_revalidate", "\"31d\"", "from 0s to 30d"),
    ("cache.stale_if_error", "[]", "an array is not a duration"),
    ("bundle.max_age", "\"0s\"", "from 1s to 3650d"),
    ("bundle.trusted_keys[0]", "[\"RWshort\"]", "a minisign public key"),
    ("passthrough.paths[0]", "[\"api/\"]", "begins with \"/\""),
    ("passthrough.paths[0]", "[\"/a/../b\"]", "begins with \"/\""),
    ("passthrough.methods[0]", "[\"G T\"]", "a request method"),
    ("passthrough.methods[0]", "[\"get\"]", "write \"GET\""),
    ("passthrough.methods[0]", "[\"CONNECT\"]", "never are"),
    ("passthrough.request_headers", "{}", "a list such as [\"Accept\"]"),
    ("passthrough.request_headers[0]", "[\"x y\"]", "the name of a header"),
    ("passthrough.request_headers[1]", "[\"*\", \"X-Forwarded-For\"]", "may be forwarded"),
    ("admin.listen", "\"127.0.0.1:8080\"", "collides with \"127.0.0.1:8080\" of listen"),
    ("admin.listen", "\"0.0.0.0:8080\"", "collides with"),
    ("admin.listen", "\"[::]:8080\"", "collides with"),
    ("admin.listen", "9090", "an IP address and a port"),
    ("admin.hosts", "1", "a list such as [\"mirror.internal\"]"),
    ("admin.hosts[0]", "[\"mirror:9090\"]", "without a port"),
    ("admin.hosts[1]", "[\"mirror\", \"http://mirror\"]", "a host name or an IP address"),
    ("admin.token", "\"two words\"", "the value (not shown) is not a token"),
    ("tls.cert", "\"c.pem\"", "tls.listen: is missing"),
    ("tls.listen", "[]", "is empty"),
    ("publish.options", "\"{aws_secret_access_key=hunter2}\"", "a text (not shown) is not a table"),
    ("tls", "5", "5 is not a table"),
    ("limits.connections", "0", "0 is not a whole number of connections from 1 to 1000000"),
    ("limits.connections_per_client", "\"many\"", "a whole number of connections"),
    ("log.format", "\"xml\"", "one of \"text\", \"json\""),
    ("log.access", "\"yes\"", "true or false"),
    ("log.access_file", "\"\"", "is not a path"),
    ("log.level", "\"loud\"", "one of \"error\""),
];

#[test]
fn every_wrong_value_is_reported_under_its_key() {
    for (key, value, part) in REFUSED {
        let name = key.split('[').next().unwrap();
        let value = if *key == "rate_limit.override[0]" { "[[5]]" } else { value };
        let got = problems(&format!("{name} = {value}"));
        let found = got
            .iter()
            .any(|line| line.contains(part) && (line.contains(&format!(": {key}: ")) || key.starts_with("tls")));
        assert!(found, "{key} = {value}: {got:?}");
        if !key.starts_with("tls") {
            assert_eq!(got.len(), 1, "{key} = {value}: {got:?}");
        }
    }
}

#[test]
fn all_errors_are_reported_at_once_in_the_order_of_the_file() {
    let got = problems("ttl = 5\nnonsense = 1\n[origin]\nurl = \"x\"\nurk = 2\n[log]\nlevel = \"loud\"\n");
    let keys: Vec<&str> = got.iter().map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(keys, ["ttl", "nonsense", "origin.url", "origin.urk", "log.level"]);
}

#[test]
fn what_was_a_key_is_a_warning_that_names_the_constant() {
    let text = "[mirror]\nchanges_for = \"1d\"\n[limits]\nhead = 5\n";
    let sets = ["rate_limit.max_clients=1".to_owned(), "publish.full_every=1d".to_owned()];
    let text = Some((std::path::Path::new("c.toml"), Ok(text.to_owned())));
    let examined = super::super::checks::resolve(super::super::sources::merge(text, std::iter::empty(), &sets));
    let warnings: Vec<String> = examined.finish().unwrap().warnings.iter().map(ToString::to_string).collect();
    for told in [
        "c.toml:2: mirror.changes_for: has no effect any more; remove it: /changes.json and /changes.ndjson go back 30 days",
        "c.toml:4: limits.head: has no effect any more; remove it: ",
        "--set: rate_limit.max_clients: has no effect any more; remove it: 200,000 clients are remembered",
        "--set: publish.full_every: ",
    ] {
        assert!(warnings.iter().any(|warning| warning.starts_with(told)), "{told}: {warnings:?}");
    }
}

#[test]
fn a_ttl_that_will_make_the_server_unhealthy_is_a_warning_that_says_why() {
    for (ttl, cache_ttl, told) in [
        ("1m", "5m", "unhealthy again and again: ttl is 1m, so the data is too old after 3m, but caches before"),
        (
            "5s",
            "0s",
            "unhealthy again and again: ttl is 5s, so the data is too old after 15s, but a refresh takes 5 requests",
        ),
        ("4m", "5m", "4m is shorter than origin.cache_ttl (5m)"),
    ] {
        let text = format!("ttl = \"{ttl}\"\norigin = {{ url = \"http://a\", cache_ttl = \"{cache_ttl}\" }}");
        let warnings = Config::from_text(&text).unwrap().warnings;
        assert!(warnings.len() == 1 && warnings[0].to_string().contains(told), "{warnings:?}");
    }
}

#[test]
fn unknown_keys_come_with_a_suggestion() {
    let cases = [
        ("tttl = 1", "tttl: is not a known key, did you mean `ttl`?"),
        ("[orgin]\nurl = \"x\"", "orgin: is not a known key, did you mean `origin`?"),
        (
            "[rate_limit]\nrequest_per_minute = 1",
            "rate_limit.request_per_minute: is not a known key, did you mean `rate_limit.requests_per_minute`?",
        ),
        ("url = \"x\"", "url: is not a known key, did you mean `origin.url`?"),
        ("origin.ulr = \"x\"", "origin.ulr: is not a known key, did you mean `origin.url`?"),
        ("[origin]\nmax_shrink = 1", "did you mean `mirror.max_shrink`?"),
        ("[tls]\ncrt = 1", "tls.crt: is not a known key, did you mean `tls.cert`?"),
        ("[log]\ncolour = 1", "log.colour: is not a known key; known here: access, access_file, format, level"),
        (
            "[[rate_limit.override]]\nnetwork = \"::1\"\nrequests_per_minute = 1\nnet = 1",
            "rate_limit.override[0].net: is not a known key; known here: network, requests_per_minute",
        ),
        ("\"a\\nb\" = 1", "\"a\\nb\": is not a known key"),
        ("ttl.x = 1", "ttl: a table is not a duration"),
    ];
    for (text, want) in cases {
        let got = problems(text);
        assert!(got.iter().any(|line| line.contains(want)), "{text}: {got:?}");
    }
}

#[test]
fn secrets_are_not_shown_by_errors_or_debug() {
    let text = "[admin]\ntoken = \"hunter2\"\n[rate_limit]\nstore = \"redis://me:hunter2@h\"\n";
    let loaded = Config::from_text(text).unwrap();
    assert!(!format!("{loaded:?}").contains("hunter2"));
    assert!(!loaded.config.describe().contains("hunter2"));
    assert_eq!(loaded.config.admin.token.unwrap().expose(), "hunter2");
    let got = problems("[admin]\ntoken = \"hunter 2\"\n[rate_limit]\nstore = \"redi://me:hunter2@h\"\n");
    assert!(got.len() == 2 && !got.concat().contains("hunter"), "{got:?}");
}

#[test]
fn a_token_may_be_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    let text = format!("[admin]\ntoken_file = {path:?}\n");
    let refused = |text: &str| {
        let got = problems(text);
        assert!(got.len() == 1 && got[0].contains("admin.token_file") && !got[0].contains("hunter"), "{got:?}");
        got[0].clone()
    };
    assert!(refused(&text).contains("correct the path"));
    for bad in ["", "\n", "hunter 2", "hunter\u{e9}", &"hunter".repeat(1000)] {
        std::fs::write(&path, bad).unwrap();
        assert!(refused(&text).contains("(not shown) is not a token"), "{bad}");
    }
    std::fs::write(&path, " 0123456789abcdef\r\n").unwrap();
    let config = Config::from_text(&text).unwrap().config;
    assert_eq!(config.admin.secret().unwrap().expose(), "0123456789abcdef");
    assert!(refused(&format!("{text}token = \"hunter2\"")).contains("admin.token is set, too"));
}

#[test]
fn an_origin_that_is_public_url_is_refused() {
    for (text, refused) in [
        ("origin.url = \"http://127.0.0.1:8080/\"", true),
        ("public_url = \"https://m.example/api\"\norigin.url = \"https://M.example:443/api/\"", true),
        ("public_url = \"https://m.example/api\"\norigin.url = \"https://m.example\"", false),
        ("public_url = \"https://m.example\"\norigin.url = \"http://m.example\"", false),
    ] {
        let got = Config::from_text(text).err().map(|errors| errors.to_string());
        assert_eq!(got.is_some_and(|got| got.contains("is also public_url")), refused, "{text}");
    }
}

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let cases = [
        ("admin.listen = \"0.0.0.0:9090\"", vec!["admin.token"]),
        ("admin = {listen = \"0.0.0.0:9090\", token = \"0123456789abcdef\"}", vec![]),
        ("admin.token = \"short\"", vec!["admin.token"]),
        ("listen = [\"0.0.0.0:8080\"]", vec!["public_url"]),
        ("listen = [\"0.0.0.0:8080\"]\npublic_url = \"http://m.internal\"", vec![]),
        ("listen = [\"10.9.8.7:8080\"]", vec![]),
        ("listen = [\"127.0.0.1:20010\"]\npublic_url = \"http://127.0.0.1:8080\"", vec!["public_url"]),
        ("listen = [\"127.0.0.1:20010\"]\npublic_url = \"http://localhost\"", vec!["public_url"]),
        ("listen = [\"10.9.8.7:8080\"]\npublic_url = \"http://[::1]:8080\"", vec!["public_url"]),
        ("listen = [\"127.0.0.1:0\"]\npublic_url = \"http://127.0.0.1:8080\"", vec!["public_url"]),
        ("listen = [\"127.0.0.1:20010\"]\npublic_url = \"http://localhost:20010/x\"", vec![]),
        ("listen = [\"[::]:20010\"]\npublic_url = \"http://127.0.0.1:20010\"", vec![]),
        (
            "public_url = \"https://localhost:8443\"\n[tls]\nlisten = \"127.0.0.1:8443\"\ncert = \"c\"\nkey = \"k\"",
            vec![],
        ),
        (
            "public_url = \"http://localhost:8443\"\n[tls]\nlisten = \"127.0.0.1:8443\"\ncert = \"c\"\nkey = \"k\"",
            vec!["public_url"],
        ),
        ("client_ip.header = \"x-real-ip\"", vec!["client_ip.header"]),
        ("mirror.enabled = false", vec!["mirror.enabled"]),
        ("publish.options = { foo = \"x\" }", vec!["publish.options"]),
        ("replica.options.aws_region = \"x\"", vec!["replica.options"]),
        (
            "publish.url = \"file:///srv/fleet\"\nbundle.trusted_keys = [\"RWAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"]",
            vec!["publish.url"],
        ),
        ("origin.url = \"http://a/base/api/\"", vec!["origin.url"]),
        ("origin.url = \"http://a/apis\"", vec![]),
        ("ttl = \"1m\"\norigin.url = \"http://a\"", vec!["ttl"]),
        ("ttl = \"1m\"\norigin = { url = \"http://a\", cache_ttl = \"1m\" }", vec![]),
        ("ttl = \"5s\"\norigin = { url = \"http://a\", cache_ttl = \"0s\" }", vec!["ttl"]),
        ("ttl = \"5s\"\norigin = { url = \"http://a\", cache_ttl = \"0s\", requests_per_minute = 0 }", vec![]),
        ("ttl = \"1m\"\nmirror.enabled = false\norigin.url = \"http://a\"", vec![]),
        ("ttl = \"1m\"", vec![]),
        ("mirror.enabled = false\norigin.url = \"http://a\"", vec![]),
    ];
    for (text, want) in cases {
        let loaded = Config::from_text(text).unwrap();
        let got: Vec<&str> = loaded.warnings.iter().map(ConfigIssue::key).collect();
        assert_eq!(got, want, "{text}");
    }
}
