//! The second stage: from the raw tree to a [`Config`], with the rules that concern several keys.
//!
//! Not the rules of single keys, which are with their sections. Callers: [`super::Config::examine`].

use std::net::SocketAddr;
use std::time::Duration;

use super::address::{BaseUrl, base_url, collide, socket};
use super::errors::{Finding, Place};
use super::layers::Merged;
use super::parse::path;
use super::section::{Reader, Section};
use super::units::{DAY, duration};
use super::{
    AccessConfig, AdminConfig, BundleConfig, CacheConfig, ClientIpConfig, Config, Examined, LimitsConfig, LogConfig,
    MOST_DRAIN, MirrorConfig, OriginConfig, PagesConfig, PassthroughConfig, PublishConfig, RateLimitConfig,
    ReplicaConfig, TlsConfig, Use, replica,
};

/// A shorter token than this is worth a warning, in characters.
const SHORT_TOKEN: usize = 16;

/// Reads the whole tree.
pub(super) fn resolve(merged: Merged) -> Examined {
    let Merged { root, errors: unread, incomplete } = merged;
    let mut reader = Reader::default();
    reader.incomplete = incomplete;
    let config = Section::read(&mut reader, "", root, read);
    check_listeners(&config, &mut reader);
    check_origin(&config, &mut reader);
    check_proxies(&config, &mut reader);
    replica::check(&config, &mut reader);
    reader.report_unknown();
    let warnings = warnings(&config, &reader);
    // A line that is not TOML has been reported; findings about it would be guesses.
    let guessed = |error: &Finding| unread.iter().any(|unread| unread.place() == error.place() && !is_source(unread));
    let errors: Vec<Finding> = reader.errors.iter().filter(|error| !guessed(error)).cloned().collect();
    Examined { config, warnings, errors: unread.into_iter().chain(errors).collect(), places: reader.into_places() }
}

/// Whether a finding is about a source as a whole, and not about a line.
fn is_source(finding: &Finding) -> bool {
    !matches!(finding.place(), Place::File { line: 1.., .. })
}

fn read(root: &mut Section<'_>) -> Config {
    let default = Config::default();
    let listen = root.list("listen", "\"127.0.0.1:8080\"", default.listen, socket);
    let named = root.optional("public_url", base_url);
    let public_url_is_set = named.is_some();
    let first = listen.first().map_or(default.public_url, |first| BaseUrl::of_listener(*first));
    let mut access = AccessConfig::default();
    Config {
        listen,
        public_url: named.unwrap_or(first),
        public_url_is_set,
        data_dir: root.field("data_dir", default.data_dir, path),
        ttl: root.field("ttl", default.ttl, duration(Duration::from_millis(100)..=DAY)),
        drain: root.field("drain", default.drain, duration(Duration::ZERO..=MOST_DRAIN)),
        origin: root.section("origin", OriginConfig::read),
        mirror: root.section("mirror", MirrorConfig::read),
        rate_limit: root.section("rate_limit", RateLimitConfig::read),
        client_ip: root.section("client_ip", ClientIpConfig::read),
        cache: root.section("cache", CacheConfig::read),
        bundle: root.section("bundle", BundleConfig::read),
        passthrough: root.section("passthrough", PassthroughConfig::read),
        admin: root.section("admin", AdminConfig::read),
        tls: root.section("tls", TlsConfig::read),
        log: root.section("log", |log| {
            access = AccessConfig::read(log);
            LogConfig::read(log)
        }),
        access,
        pages: root.section("pages", PagesConfig::read),
        limits: root.section("limits", LimitsConfig::read),
        publish: root.section("publish", PublishConfig::read),
        replica: root.section("replica", ReplicaConfig::read),
    }
}

/// Every listener needs a port of its own, and the admin listener must not be public by accident.
fn check_listeners(config: &Config, reader: &mut Reader) {
    // An unreadable element has been reported, so the list only looks empty.
    if config.listen.is_empty() && !reader.errors.iter().any(|error| error.key().starts_with("listen[")) {
        reader.fail("listen", "is empty: at least one address is needed");
    }
    let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
    for (key, address) in config.listeners() {
        if reader.incomplete && reader.place(key).is_none() {
            continue;
        }
        match taken.iter().find(|(_, other)| collide(address, *other)) {
            Some((other_key, other)) => reader.fail(
                key,
                format!("\"{address}\" collides with \"{other}\" of {other_key}: each listener needs its own port"),
            ),
            None => taken.push((key, address)),
        }
    }
}

/// `origin.url` and `public_url` must differ: one address cannot lead to two servers.
fn check_origin(config: &Config, reader: &mut Reader) {
    let Some(url) = config.origin.url.as_ref().filter(|url| **url == config.public_url) else { return };
    let problem = format!(
        "\"{url}\" is also public_url, the address of this server, so it would ask itself; set the address of the API to mirror"
    );
    reader.fail("origin.url", problem);
}

/// With the PROXY protocol every connection comes from a trusted proxy, so there must be one.
fn check_proxies(config: &Config, reader: &mut Reader) {
    const KEY: &str = "client_ip.proxy_protocol";
    let is_alone = config.client_ip.proxy_protocol && config.client_ip.trusted_proxies.is_empty();
    // An unreadable list has been reported, so it only looks empty.
    let is_unread = reader.errors.iter().any(|error| error.key().starts_with("client_ip.trusted_proxies"));
    if is_alone && !is_unread && !reader.incomplete {
        let problem = "is true, but client_ip.trusted_proxies is empty, so every connection would be closed; \
             list the addresses of the load balancers there";
        reader.fail(KEY, problem);
    }
}

/// Legal but suspicious values.
fn warnings(config: &Config, reader: &Reader) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut warn = |key: &str, problem: &str| {
        let place = reader.place(key).unwrap_or(Place::Default);
        found.push(Finding::new(place, key, problem));
    };
    let exposed = |address: &SocketAddr| !address.ip().to_canonical().is_loopback();
    if !config.admin.accepts_writes() {
        warn("admin.token", "is not set, and admin.listen is not a loopback address: actions are refused");
    }
    if config.admin.token.as_ref().is_some_and(|token| token.expose().len() < SHORT_TOKEN) {
        warn("admin.token", "is short and easy to guess; use 16 random characters or more");
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
    if config.publish.url.is_none() && reader.place("publish.sign_key").is_some() {
        warn("publish.sign_key", "has no effect, because publish.url is not set");
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
