//! Reloads: each key alone, and several at once.

use super::super::declaration::Reload;
use super::super::reload::{KeyChanges, merge, refusal};
use super::{Config, declarations, needed, set, with_another};

#[test]
fn a_reload_changes_the_keys_that_are_declared_so() {
    let before = set(&needed()).unwrap();
    for key in declarations() {
        let (name, is_live) = (key.about.path(), !matches!(key.about.reload, Reload::Restart));
        let (_, after) = with_another(&key, &before, &needed());
        let (next, changes) = merge(&before, &after);
        let named = if is_live { &changes.applied } else { &changes.needs_restart };
        assert!(named.contains(&name), "{name}: {changes:?}");
        // The default of `public_url` follows `listen`.
        let derived = |changed: &String| *changed == name || (name == "listen" && changed == "public_url");
        assert!(changes.applied.iter().chain(&changes.needs_restart).all(derived), "{name} alone: {changes:?}");
        assert_eq!(next, if is_live { after } else { before.clone() }, "{name}");
    }
}

fn config(text: &str) -> Config {
    Config::from_text(text).unwrap().config
}

#[test]
fn live_keys_change_and_others_are_named_again_at_each_reload() {
    let start = config("ttl = \"5m\"\ndata_dir = \"a\"");
    let wanted = config(
        "ttl = \"1m\"\ndata_dir = \"b\"\n[[rate_limit.override]]\nnetwork = \"10.0.0.0/8\"\nrequests_per_minute = 9",
    );
    let (running, changes) = merge(&start, &wanted);
    assert_eq!(
        (changes.applied, changes.needs_restart),
        (vec!["rate_limit.override".to_owned(), "ttl".to_owned()], vec!["data_dir".to_owned()])
    );
    assert_eq!((running.ttl, &running.data_dir), (wanted.ttl, &start.data_dir));
    let (running, changes) = merge(&running, &wanted);
    assert_eq!((changes.applied, changes.needs_restart), (vec![], vec!["data_dir".to_owned()]));
    let (again, changes) = merge(&running, &config("ttl = \"1m\"\ndata_dir = \"a\""));
    assert_eq!(changes.applied, ["rate_limit.override"]);
    assert!(changes.needs_restart.is_empty() && again.rate_limit.overrides.is_empty());
}

#[test]
fn the_password_of_another_store_waits_for_that_store() {
    let of = |store: &str, file: &str| {
        config(&format!("rate_limit = {{ store = \"redis://{store}\", store_password_file = \"{file}\" }}"))
    };
    let running = of("a.test", "one");
    let (next, changes) = merge(&running, &of("a.test", "two"));
    assert_eq!(
        (&changes.applied[..], changes.needs_restart.len()),
        (&["rate_limit.store_password_file".to_owned()][..], 0)
    );
    assert_eq!(next, of("a.test", "two"));
    for wanted in [of("b.test", "two"), Config::default()] {
        let (next, changes) = merge(&running, &wanted);
        assert_eq!(changes.needs_restart, ["rate_limit.store", "rate_limit.store_password_file"]);
        assert_eq!(next, running);
    }
}

#[test]
fn a_secret_is_named_and_not_shown() {
    let with = |token: &str| config(&format!("admin.token = {token:?}"));
    let (running, changes) = merge(&with("0123456789abcdef-one"), &with("0123456789abcdef-two"));
    assert_eq!(changes, KeyChanges { applied: vec!["admin.token".to_owned()], needs_restart: vec![] });
    assert!(running.admin.token.is_some_and(|token| token.matches(b"0123456789abcdef-two")));
}

#[test]
fn https_begins_and_ends_with_a_restart_only() {
    let with = config("tls = { listen = [\"127.0.0.1:7000\"], cert = \"a\", key = \"b\" }");
    let all = ["tls.cert", "tls.key", "tls.listen"];
    for (before, after) in [(&with, &Config::default()), (&Config::default(), &with)] {
        let (running, changes) = merge(before, after);
        assert_eq!((changes.needs_restart, changes.applied.len()), (all.map(str::to_owned).into(), 0));
        assert_eq!(&running, before);
    }
}

#[test]
fn a_listener_that_expects_the_proxy_protocol_keeps_its_proxies() {
    let running = config("client_ip = { proxy_protocol = true, trusted_proxies = [\"10.0.0.1\"] }");
    let (next, changes) = merge(&running, &Config::default());
    assert_eq!(changes.needs_restart, ["client_ip.proxy_protocol", "client_ip.trusted_proxies"]);
    assert_eq!(next, running);
}

#[test]
fn a_file_without_keys_and_another_use_are_refused() {
    let of_file = |text: &str| Config { file_has_keys: true, ..config(text) };
    let mirror = of_file("origin.url = \"http://o.test\"\nttl = \"1m\"");
    for (wanted, why) in [
        (config(""), "the configuration file has no keys any more: write it completely and reload"),
        (config("# ttl = \"1m\"\n"), "no keys any more"),
        (of_file("ttl = \"1m\""), "the use would change from mirror to offline"),
        (of_file("origin.url = \"http://o.test\"\nmirror.enabled = false"), "from mirror to shield"),
    ] {
        let refused = refusal(&mirror, &wanted).unwrap();
        assert!(refused.contains(why) && refused.ends_with("or restart the server, if it is meant"), "{refused}");
    }
    let same = of_file("origin.url = \"http://other.test\"");
    assert_eq!(refusal(&mirror, &same), None, "it waits for a restart");
    let started_without_keys = config("");
    assert_eq!(refusal(&started_without_keys, &config("")), None);
    let (running, _) = merge(&started_without_keys, &of_file("ttl = \"1m\""));
    assert!(refusal(&running, &config("")).is_some());
}
