//! Which keys a reload changes: two configurations become the one that takes effect, and the names of what changed.
//!
//! Pure. A key is live only if [`merge`] names it; all others need a restart. A test knows every key and fails for one that
//! is in neither of its lists. Callers: [`crate::app`].

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use super::{
    AdminConfig, CacheConfig, ClientIpConfig, Config, LimitsConfig, MirrorConfig, RateLimitConfig, ReplicaConfig,
    TlsConfig,
};

/// The dotted keys that differ between two configurations, in alphabetical order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Those that take effect now.
    pub applied: Vec<String>,
    /// Those that take effect at the next start.
    pub needs_restart: Vec<String>,
}

/// The configuration that takes effect when `running` is to become `wanted`, and what changes. Both as they were read:
/// without the ports that the system chose.
pub(crate) fn merge(running: &Config, wanted: &Config) -> (Config, Changes) {
    let next = live(running, wanted);
    let (before, asked, after) = (running.values(), wanted.values(), next.values());
    let keys: BTreeSet<&String> = before.keys().chain(asked.keys()).collect();
    let mut changes = Changes::default();
    for key in keys.into_iter().filter(|key| before.get(*key) != asked.get(*key)) {
        let list = if after.get(key) == asked.get(key) { &mut changes.applied } else { &mut changes.needs_restart };
        list.push(key.clone());
    }
    (next, changes)
}

/// `running` with the live keys of `wanted`.
fn live(running: &Config, wanted: &Config) -> Config {
    let (old, new) = (running.clone(), wanted.clone());
    // Without trusted proxies a listener that expects the PROXY protocol accepts nobody.
    let keeps_proxies = old.client_ip.proxy_protocol && new.client_ip.trusted_proxies.is_empty();
    // Another store has a password of its own.
    let is_same_store = old.rate_limit.store == new.rate_limit.store;
    let password_file = if is_same_store { &new } else { &old }.rate_limit.store_password_file.clone();
    let tls = match (old.tls, new.tls) {
        (Some(old), Some(new)) => Some(TlsConfig { cert: new.cert, key: new.key, ..old }),
        (old, _) => old,
    };
    Config {
        ttl: new.ttl,
        drain: new.drain,
        mirror: MirrorConfig {
            sweep_every: new.mirror.sweep_every,
            verify_details_every: new.mirror.verify_details_every,
            audit_per_hour: new.mirror.audit_per_hour,
            keep: new.mirror.keep,
            keep_daily: new.mirror.keep_daily,
            ..old.mirror
        },
        rate_limit: RateLimitConfig {
            requests_per_minute: new.rate_limit.requests_per_minute,
            ipv6_prefix: new.rate_limit.ipv6_prefix,
            store_timeout: new.rate_limit.store_timeout,
            store_password_file: password_file,
            overrides: new.rate_limit.overrides,
            ..old.rate_limit
        },
        client_ip: ClientIpConfig {
            trusted_proxies: if keeps_proxies { old.client_ip.trusted_proxies } else { new.client_ip.trusted_proxies },
            header: new.client_ip.header,
            ..old.client_ip
        },
        cache: CacheConfig {
            stale_while_revalidate: new.cache.stale_while_revalidate,
            stale_if_error: new.cache.stale_if_error,
            ..old.cache
        },
        admin: AdminConfig { token: new.admin.token, hosts: new.admin.hosts, ..old.admin },
        tls,
        log: new.log,
        access: new.access,
        pages: new.pages,
        replica: ReplicaConfig { poll: new.replica.poll, ..old.replica },
        limits: LimitsConfig {
            connections: new.limits.connections,
            connections_per_client: new.limits.connections_per_client,
            head: new.limits.head,
            origin_bytes: new.limits.origin_bytes,
        },
        ..old
    }
}
