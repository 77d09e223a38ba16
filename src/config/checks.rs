//! Validation: from the tree of the sources to a [`Config`], with the rules that concern several keys.
//!
//! Not the rules of single keys ([`super::values`]) and not loops through names or other machines, which are found when a
//! request comes back ([`crate::protocol::hops`]). Callers: [`super::Config::examine`], [`super::Examined::check_loops`].

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use super::address::{BaseUrl, collide, is_loopback, unbracketed};
use super::declaration::DeclaresKeys as _;
use super::errors::{ConfigIssue, ValueSource};
use super::keys::{ClientIpConfig, TlsConfig};
use super::object_store::{ObjectStoreUrl, StoreKind};
use super::proxy::ProxyVariables;
use super::reader::{KeyReader, join};
use super::rhythm::{oldest, too_late};
use super::secret::RedisUrl;
use super::sources::{Merged, Node, Raw, Table};
use super::units::duration_text;
use super::{Config, Examined, Use};

/// A shorter token than this is worth a warning, in characters.
const SHORT_TOKEN: usize = 16;

pub(super) fn resolve(merged: Merged) -> Examined {
    let Merged { root, errors: unread, unread: strays, proxies, incomplete } = merged;
    let mut reader = KeyReader::new(incomplete);
    let mut config = read(root.into_table().unwrap_or_default(), &mut reader);
    read_proxies(&mut config, &proxies, &mut reader);
    check_listeners(&config, &mut reader);
    check_origin(&config, &mut reader);
    check_limit(&config, &mut reader);
    check_proxies(&config, &mut reader);
    check_stores(&mut config, &mut reader);
    check_admin(&config, &mut reader);
    let gone = reader.report_unknown();
    let warnings = strays.into_iter().chain(gone).chain(warnings(&config, &reader)).collect();
    // A line that is not TOML has been reported; issues about it would be guesses.
    let is_of_line = |issue: &&ConfigIssue| matches!(issue.source(), ValueSource::File { line: 1.., .. });
    let guessed =
        |error: &ConfigIssue| unread.iter().filter(is_of_line).any(|unread| unread.source() == error.source());
    let errors: Vec<ConfigIssue> = reader.errors.iter().filter(|error| !guessed(error)).cloned().collect();
    Examined { config, warnings, errors: unread.into_iter().chain(errors).collect(), places: reader.places }
}

/// Every key. A key with a mistake has its default.
fn read(root: Table, reader: &mut KeyReader) -> Config {
    let has_tls = matches!(root.get("tls"), Some(Node { value: Raw::Table(tls), .. }) if !tls.is_empty());
    let mut config = Config { tls: has_tls.then(TlsConfig::default), ..Config::default() };
    reader.read("", root, &Config::own_declarations(), &mut config);
    let tls_listen = config.tls.as_ref().is_some_and(|tls| tls.listen.is_empty()).then(|| reader.source("tls.listen"));
    if tls_listen.flatten().is_some() && !reader.has_failed("tls.listen") {
        reader.fail("tls.listen", "is empty");
    }
    config.tls.take_if(|tls| tls.cert.as_os_str().is_empty() || tls.key.as_os_str().is_empty());
    config.public_url_is_set = reader.source("public_url").is_some() && !reader.has_failed("public_url");
    if let Some(first) = config.listen.first().filter(|_| !config.public_url_is_set) {
        config.public_url = BaseUrl::of_listener(*first);
    }
    config
}

/// Where a server is asked and no key says how, the variables do.
fn read_proxies(config: &mut Config, variables: &ProxyVariables, reader: &mut KeyReader) {
    let Config { origin, publish, replica, .. } = config;
    let is_far = |url: &ObjectStoreUrl| url.kind() != StoreKind::Web || !url.url().host_str().is_some_and(is_loopback);
    let is_asked =
        |url: &Option<ObjectStoreUrl>| url.as_ref().is_some_and(|url| url.kind() != StoreKind::File && is_far(url));
    // The variables never apply to this machine.
    for (key, is_asked, proxy) in [
        ("origin.proxy", origin.url.as_ref().is_some_and(|url| !url.is_loopback()), &mut origin.proxy),
        ("publish.proxy", is_asked(&publish.url), &mut publish.proxy),
        ("replica.proxy", is_asked(&replica.url), &mut replica.proxy),
    ] {
        if is_asked && reader.source(key).is_none() {
            match variables.proxy() {
                Ok(named) => *proxy = named,
                Err((name, problem)) => {
                    let problem = format!("{problem}; set this key, to \"\" for no proxy, or correct the variable");
                    reader.errors.push(ConfigIssue::new(ValueSource::Environment(name.into()), key, problem));
                }
            }
        }
    }
}

/// Every listener needs a port of its own, and the admin listener must not be public by accident.
fn check_listeners(config: &Config, reader: &mut KeyReader) {
    // An unreadable element has been reported, so the list only looks empty.
    if config.listen.is_empty() && !reader.has_failed("listen") {
        reader.fail("listen", "is empty: at least one address is needed");
    }
    let is_v4 = |address: &SocketAddr| address.ip().to_canonical().is_ipv4();
    let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
    for (key, address) in config.listeners() {
        if reader.incomplete && reader.source(key).is_none() {
            continue;
        }
        let collides = |(other_key, other): &&(&str, SocketAddr)| {
            // Listeners of one kind may share a port: IPv6 ones then leave IPv4 alone.
            let is_shared = *other_key == key && is_v4(&address) != is_v4(other);
            !is_shared && collide(address, *other)
        };
        match taken.iter().find(collides) {
            Some((other_key, other)) => reader.fail(
                key,
                format!("\"{address}\" collides with \"{other}\" of {other_key}: each listener needs its own port"),
            ),
            None => taken.push((key, address)),
        }
    }
}

/// `origin.url` and `public_url` must differ: one address cannot lead to two servers.
fn check_origin(config: &Config, reader: &mut KeyReader) {
    let Some(url) = config.origin.url.as_ref().filter(|url| **url == config.public_url) else { return };
    let problem = format!(
        "\"{url}\" is also public_url, the address of this server, so it would ask itself; set the address of the API to mirror"
    );
    reader.fail("origin.url", problem);
}

/// With the PROXY protocol every connection comes from a trusted proxy, so there must be one.
fn check_proxies(config: &Config, reader: &mut KeyReader) {
    const KEY: &str = "client_ip.proxy_protocol";
    let is_alone = config.client_ip.proxy_protocol && config.client_ip.trusted_proxies.is_empty();
    // An unreadable list has been reported, so it only looks empty.
    let is_unread = reader.has_failed("client_ip.trusted_proxies");
    if is_alone && !is_unread && !reader.incomplete {
        let problem = "is true, but client_ip.trusted_proxies is empty, so every connection would be closed; \
             list the addresses of the load balancers there";
        reader.fail(KEY, problem);
    }
}

fn check_limit(config: &Config, reader: &mut KeyReader) {
    let limit = &config.rate_limit;
    let in_url = limit.store.as_ref().and_then(RedisUrl::password).is_some();
    if limit.store_password_file.is_some() && (in_url || limit.store.is_none()) {
        let problem = if in_url {
            "`rate_limit.store` has a password, too; remove one of them"
        } else {
            "needs `rate_limit.store`"
        };
        reader.fail("rate_limit.store_password_file", problem);
    }
    for (index, entry) in limit.overrides.iter().enumerate() {
        if limit.overrides[..index].iter().any(|other| other.network == entry.network) {
            reader.fail("rate_limit.override", format!("{} is listed twice", entry.network));
        }
    }
}

fn check_admin(config: &Config, reader: &mut KeyReader) {
    if config.admin.token.is_some() && config.admin.token_file.is_some() {
        reader.fail("admin.token_file", "admin.token is set, too; remove one of them");
    }
}

fn check_stores(config: &mut Config, reader: &mut KeyReader) {
    let (publish, replica) = (&mut config.publish, &mut config.replica);
    for (section, url, options) in
        [("publish", &publish.url, &mut publish.options), ("replica", &replica.url, &mut replica.options)]
    {
        let Some(url) = url else { continue };
        for (key, problem) in options.take_wrong(url) {
            reader.fail(&join(&format!("{section}.options"), &key), problem);
        }
    }
    if publish.sign_password_file.is_some() && publish.sign_key.is_none() {
        let problem = "is set, but sign_key is not: name the key that the password is for";
        reader.fail("publish.sign_password_file", problem);
    }
    let Some(url) = &replica.url else { return };
    if url.is_cleartext() && config.bundle.trusted_keys.is_empty() {
        let problem = format!(
            "\"{url}\" is read without TLS, so anybody on the way could change the data: use https, or set \
             bundle.trusted_keys and sign what is published"
        );
        reader.fail("replica.url", problem);
    }
    if publish.url.as_ref() == Some(url) {
        let problem = format!("\"{url}\" is publish.url, too: a server that follows itself gets nothing new");
        reader.fail("replica.url", problem);
    }
}

/// Legal but suspicious values.
fn warnings(config: &Config, reader: &KeyReader) -> Vec<ConfigIssue> {
    let mut found = Vec::new();
    let mut warn = |key: &str, problem: &str| {
        let source = reader.source(key).unwrap_or(ValueSource::Default);
        found.push(ConfigIssue::new(source, key, problem));
    };
    let exposed = |address: &SocketAddr| !address.ip().to_canonical().is_loopback();
    if !config.admin.accepts_writes() {
        warn("admin.token", "is not set, and admin.listen is not a loopback address: actions are refused");
    }
    if config.admin.secret().is_some_and(|token| token.expose().len() < SHORT_TOKEN) {
        warn("admin.token", "is short and easy to guess; use 16 random characters or more");
    }
    let url = config.origin.url.as_ref().map_or("", BaseUrl::as_str);
    if let Some(base) = url.strip_suffix("/api") {
        let problem = format!("\"{url}\" ends with /api, so {url}/api/listings.json is asked; write \"{base}\"");
        warn("origin.url", &problem);
    }
    let (ttl, copies) = (config.ttl, config.origin.cache_ttl);
    let oldest = oldest(Use::Mirror, config).unwrap_or(Duration::MAX);
    let limit = config.origin.requests_per_minute.map(NonZeroU32::get);
    if config.usage() != Use::Mirror {
        // Nobody refreshes.
    } else if let Some((why, todo)) = too_late(ttl, oldest, copies, limit) {
        warn("ttl", &format!("the server will be unhealthy again and again: {why}. {todo}"));
    } else if ttl < copies {
        let [ttl, copies, oldest] = [ttl, copies, ttl + copies].map(duration_text);
        let why = format!("{ttl} is shorter than origin.cache_ttl ({copies}), the age of copies in the origin's CDN");
        let todo = format!("set ttl to {copies}, or origin.cache_ttl to how long the CDN keeps copies (0s: no CDN)");
        warn("ttl", &format!("{why}, so data can be {oldest} old; {todo}"));
    }
    let tls = || config.tls.iter().flat_map(|tls| &tls.listen);
    let (public_url, is_set) = (&config.public_url, config.public_url_is_set);
    if !is_set && public_url.is_loopback() && config.listen.iter().chain(tls()).any(exposed) {
        let problem =
            format!("is not set: links in answers start with {public_url}, which other machines cannot reach");
        warn("public_url", &problem);
    }
    let ours = |address: &SocketAddr| {
        address.port() == public_url.port() && (!exposed(address) || address.ip().to_canonical().is_unspecified())
    };
    let listened_on = if public_url.is_https() { tls().any(ours) } else { config.listen.iter().any(ours) };
    if is_set && public_url.is_loopback() && !listened_on {
        let problem = format!(
            "{public_url} has port {}, but no listener here has it. Links in answers work only if another program on this \
             machine forwards that port. Without this key, links start with the first listener",
            public_url.port()
        );
        warn("public_url", &problem);
    }
    if config.client_ip.header != ClientIpConfig::default().header && config.client_ip.trusted_proxies.is_empty() {
        warn("client_ip.header", "has no effect, because client_ip.trusted_proxies is empty");
    }
    if config.publish.url.is_some() && config.usage() == Use::Shield {
        warn("publish.url", "has no effect, because a shield keeps no snapshot that could be published");
    }
    match config.publish.url {
        None if reader.source("publish.sign_key").is_some() => {
            warn("publish.sign_key", "has no effect, because publish.url is not set");
        }
        Some(_)
            if config.usage() != Use::Shield
                && config.publish.sign_key.is_none()
                && !config.bundle.trusted_keys.is_empty() =>
        {
            let problem = "what is written there is not signed, although bundle.trusted_keys is set: replicas with these keys \
                           refuse it; set publish.sign_key";
            warn("publish.url", problem);
        }
        _ => {}
    }
    for (section, url) in [("publish", &config.publish.url), ("replica", &config.replica.url)] {
        let key = format!("{section}.options");
        if url.is_none() && reader.source(&key).is_some() {
            warn(&key, &format!("has no effect, because {section}.url is not set"));
        }
    }
    if config.replica.url.is_some() && config.usage() == Use::Shield {
        warn("replica.url", "has no effect, because a shield keeps no data that could come from an object store");
    }
    if !config.mirror.enabled && config.origin.url.is_none() {
        let usage = if config.usage() == Use::Replica { "a replica" } else { "an offline server" };
        let problem = format!("is false, but origin.url is not set, so this is {usage}; set origin.url for a shield");
        warn("mirror.enabled", &problem);
    }
    found
}

/// The first listener, with its key, that a URL leads to, as far as that shows without asking for a name. Another port of
/// the same machine is another program. Port 0 is not bound yet.
pub(super) fn own_listener(
    url: &BaseUrl,
    listeners: Vec<(&'static str, SocketAddr)>,
) -> Option<(&'static str, SocketAddr)> {
    let address = unbracketed(url.host()).parse::<IpAddr>().ok();
    let address = address.map(|address| address.to_canonical());
    // A connection to an unspecified address goes to this machine.
    let is_here = address.map_or_else(|| url.is_loopback(), |address| address.is_unspecified());
    let reaches = |listener: IpAddr| {
        let is_any = listener.is_unspecified() && (is_here || url.is_loopback());
        address == Some(listener) || (is_here && listener.is_loopback()) || is_any
    };
    let is_own = |at: &SocketAddr| at.port() != 0 && at.port() == url.port() && reaches(at.ip().to_canonical());
    listeners.into_iter().find(|(_, address)| is_own(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(url: &str, listeners: &[&str]) -> Option<String> {
        let listeners = listeners.iter().map(|listener| ("listen", listener.parse().unwrap())).collect();
        own_listener(&BaseUrl::parse(url).unwrap(), listeners).map(|(_, address)| address.to_string())
    }

    #[test]
    fn an_origin_that_is_one_of_our_listeners_is_found() {
        for (url, listener) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://127.0.0.1:8080/base", "127.0.0.1:8080"),
            ("https://127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://localhost:8080", "127.0.0.1:8080"),
            ("http://localhost:8080", "0.0.0.0:8080"),
            ("http://a.localhost:8080", "[::1]:8080"),
            ("http://127.0.0.7:8080", "0.0.0.0:8080"),
            ("http://0.0.0.0:8080", "127.0.0.1:8080"),
            ("http://[::]:8080", "[::1]:8080"),
            ("http://[::ffff:127.0.0.1]:8080", "127.0.0.1:8080"),
            ("https://192.0.2.1", "192.0.2.1:443"),
        ] {
            assert_eq!(found(url, &["203.0.113.1:1", listener]).as_deref(), Some(listener), "{url}");
        }
    }

    #[test]
    fn other_ports_and_other_machines_are_no_loop() {
        for (url, listener) in [
            ("http://127.0.0.1:8081", "127.0.0.1:8080"),
            ("http://localhost:8081", "0.0.0.0:8080"),
            ("http://127.0.0.2:8080", "127.0.0.1:8080"),
            ("http://192.0.2.1:8080", "127.0.0.1:8080"),
            ("http://[2001:db8::1]:8080", "0.0.0.0:8080"),
            ("https://elsewhere.test", "0.0.0.0:443"),
            ("http://127.0.0.1:8080", "127.0.0.1:0"),
        ] {
            assert_eq!(found(url, &[listener]), None, "{url} {listener}");
        }
    }
}
