//! Which keys a reload changes, for the page, and the test that no key is forgotten.
//!
//! Callers: [`super`].

use std::fmt::Write as _;

/// Keys that a reload changes.
const LIVE: &[&str] = &[
    "ttl",
    "drain",
    "mirror.sweep_every",
    "mirror.verify_details_every",
    "mirror.audit_per_hour",
    "mirror.keep",
    "mirror.keep_daily",
    "rate_limit.requests_per_minute",
    "rate_limit.ipv6_prefix",
    "rate_limit.store_password_file",
    "rate_limit.store_timeout",
    "rate_limit.override.network",
    "rate_limit.override.requests_per_minute",
    "client_ip.trusted_proxies",
    "client_ip.header",
    "cache.stale_while_revalidate",
    "cache.stale_if_error",
    "admin.hosts",
    "admin.token",
    "tls.cert",
    "tls.key",
    "log.format",
    "log.level",
    "log.access",
    "log.access_file",
    "pages.enabled",
    "replica.poll",
    "limits.connections",
    "limits.connections_per_client",
    "limits.head",
    "limits.origin_bytes",
];

/// Keys that need a restart.
const RESTART: &[&str] = &[
    "listen",
    "public_url",
    "data_dir",
    "origin.url",
    "origin.aliases",
    "origin.requests_per_minute",
    "origin.cache_ttl",
    "origin.timeout",
    "origin.wait",
    "origin.max_body",
    "origin.ca_file",
    "origin.user_agent",
    "mirror.enabled",
    "mirror.details",
    "mirror.max_shrink",
    "mirror.changes_for",
    "mirror.edges",
    "rate_limit.max_clients",
    "rate_limit.store",
    "client_ip.proxy_protocol",
    "cache.max_bytes",
    "bundle.trusted_keys",
    "bundle.max_age",
    "bundle.max_size",
    "passthrough.paths",
    "passthrough.methods",
    "passthrough.request_headers",
    "admin.listen",
    "tls.listen",
    "publish.url",
    "publish.sign_key",
    "publish.sign_password_file",
    "publish.full_every",
    "publish.keep",
    "publish.options",
    "replica.url",
    "replica.options",
];

/// The end of the page.
pub(super) fn section() -> String {
    let mut text = "\n## Reload\n\n`SIGHUP` and `POST /reload` on the admin listener read the configuration again. \
        See [Run it as a service](service.md#reload). A reload changes these keys; all others need a restart:\n\n"
        .to_owned();
    for key in LIVE {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "* `{key}`");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::super::reload::merge;
    use super::super::Config;
    use super::super::keys::{Key, Values, keys};
    use super::*;

    /// Another value than that of [`config`], for each key whose values are described in words.
    const OTHERS: &[(&str, &str)] = &[
        ("listen", "[\"127.0.0.1:7001\"]"),
        ("public_url", "\"http://mirror.test\""),
        ("data_dir", "\"elsewhere\""),
        ("origin.url", "\"http://other.test\""),
        ("origin.aliases", "[\"http://alias.test\"]"),
        ("origin.ca_file", "\"ca.pem\""),
        ("origin.user_agent", "\"me\""),
        ("mirror.enabled", "false"),
        ("mirror.details", "\"on-demand\""),
        ("mirror.max_shrink", "0.5"),
        ("rate_limit.store", "\"redis://127.0.0.2\""),
        ("rate_limit.override.network", "[{network=\"10.0.0.0/8\", requests_per_minute=1}]"),
        ("client_ip.trusted_proxies", "[\"10.0.0.0/8\"]"),
        ("client_ip.header", "\"forwarded\""),
        ("client_ip.proxy_protocol", "true"),
        ("bundle.trusted_keys", "[\"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"]"),
        ("passthrough.paths", "[]"),
        ("passthrough.methods", "[\"GET\"]"),
        ("passthrough.request_headers", "[\"Accept\"]"),
        ("admin.listen", "\"127.0.0.1:7002\""),
        ("admin.hosts", "[\"mirror.test\"]"),
        ("admin.token", "\"0123456789abcdef0123456789\""),
        ("tls.listen", "[\"127.0.0.1:7003\"]"),
        ("tls.cert", "\"other.pem\""),
        ("tls.key", "\"other.key\""),
        ("log.format", "\"json\""),
        ("log.level", "\"debug\""),
        ("log.access", "true"),
        ("log.access_file", "\"access.log\""),
        ("mirror.edges", "\"own\""),
        ("rate_limit.store_password_file", "\"password\""),
        ("publish.url", "\"s3://store/b\""),
        ("publish.sign_key", "\"a.key\""),
        ("publish.sign_password_file", "\"password\""),
        ("publish.options", "{region=\"x\"}"),
        ("replica.url", "\"s3://other/b\""),
        ("replica.options", "{region=\"x\"}"),
        ("pages.enabled", "false"),
    ];

    fn config(set: Option<(&str, &str)>) -> Config {
        let mut sets: Vec<String> = [
            "tls.listen=[\"127.0.0.1:7000\"]",
            "tls.cert=\"a.pem\"",
            "tls.key=\"a.key\"",
            "origin.url=\"http://o.test\"",
            "rate_limit.store=\"redis://127.0.0.1\"",
            "client_ip.trusted_proxies=[\"10.1.0.0/16\"]",
            "publish.url=\"s3://published/a\"",
            "publish.sign_key=\"minisign.key\"",
            "replica.url=\"s3://followed/a\"",
        ]
        .map(str::to_owned)
        .into();
        sets.extend(set.map(|(key, value)| format!("{key}={value}")));
        Config::load(None, std::iter::empty(), &sets).unwrap_or_else(|error| panic!("{set:?}: {error}")).config
    }

    /// The configuration with another value for a key.
    fn changed(key: &Key) -> Config {
        let name = key.name.replace("override.network", "override").replace("override.requests_per_minute", "override");
        let ends = match key.values {
            Values::Duration(least, most) | Values::Size(least, most) => [format!("{least:?}"), format!("{most:?}")],
            Values::Whole(..) if name == "rate_limit.override" => {
                [1, 2].map(|rate| format!("[{{network=\"10.0.0.0/8\", requests_per_minute={rate}}}]"))
            }
            Values::Whole(least, most) => [least.to_string(), most.to_string()],
            Values::Words(_) => {
                let other = OTHERS.iter().find(|(other, _)| *other == key.name);
                let (_, other) = other.unwrap_or_else(|| panic!("give {} another value in OTHERS", key.name));
                return config(Some((&name, other)));
            }
        };
        let found = ends.iter().map(|end| config(Some((&name, end)))).find(|other| *other != config(None));
        found.unwrap_or_else(|| panic!("{} has no other value", key.name))
    }

    #[test]
    fn every_key_is_live_or_needs_a_restart_and_a_reload_does_what_the_lists_say() {
        let before = config(None);
        for key in keys() {
            let lists = [LIVE, RESTART].map(|list| list.iter().filter(|name| **name == key.name).count());
            assert_eq!(lists[0] + lists[1], 1, "{} must be in one of the lists LIVE and RESTART", key.name);
            let after = changed(key);
            let (next, changes) = merge(&before, &after);
            let named = if lists[0] == 1 { &changes.applied } else { &changes.needs_restart };
            let name = key.name.strip_prefix("rate_limit.override.").map_or(key.name, |_| "rate_limit.override");
            // The default of `public_url` follows `listen`.
            assert!(named.iter().any(|changed| changed == name), "{name}: {changes:?}");
            let derived = |changed: &String| changed == name || (name == "listen" && changed == "public_url");
            let all = changes.applied.iter().chain(&changes.needs_restart);
            assert!(all.clone().all(derived), "{name} alone has changed: {changes:?}");
            assert_eq!(next, if lists[0] == 1 { after } else { before.clone() }, "{name}");
        }
        let known: BTreeSet<&str> = keys().map(|key| key.name).collect();
        for name in LIVE.iter().chain(RESTART).chain(OTHERS.iter().map(|(name, _)| name)) {
            assert!(known.contains(name), "{name} is no key");
        }
    }
}
