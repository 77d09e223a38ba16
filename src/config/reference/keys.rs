//! The table of keys: meaning, values and uses.
//!
//! Not the defaults, which are read from the code. Callers: [`super`].

mod fleet;

use super::Use::{self, Mirror, Offline, Replica, Shield};
use Values::{Duration, Size, Whole, Words};

/// Which values a key takes. Bounds are included, and a test compares them with the program.
pub(super) enum Values {
    /// From the first to the second, as the configuration writes durations.
    Duration(&'static str, &'static str),
    /// From the first to the second, as the configuration writes sizes.
    Size(&'static str, &'static str),
    /// From the first to the second.
    Whole(u32, u32),
    /// Anything else, in words.
    Words(&'static str),
}

/// One key.
pub(super) struct Key {
    /// The dotted key.
    pub name: &'static str,
    /// The text for the default; `None`: the default of the code.
    pub default: Option<&'static str>,
    /// The values that it takes.
    pub values: Values,
    /// The uses that it matters for.
    pub uses: &'static [Use],
    /// The description, in Markdown.
    pub meaning: &'static str,
}

impl Key {
    /// The key's table; empty: the top level.
    pub(super) fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }
}

const ALL: &[Use] = &[Mirror, Shield, Offline, Replica];
/// Uses that have an origin.
const ONLINE: &[Use] = &[Mirror, Shield];
/// Uses that have snapshots.
const KEPT: &[Use] = &[Mirror, Offline, Replica];
const MIRROR: &[Use] = &[Mirror];
const REPLICA: &[Use] = &[Replica];
/// Uses that read an object store.
const FOLLOWS: &[Use] = &[Mirror, Replica];

const RATE: u32 = 1_000_000_000;

const fn key(name: &'static str, values: Values, uses: &'static [Use], meaning: &'static str) -> Key {
    Key { name, default: None, values, uses, meaning }
}

/// A key without a default, or whose default depends on something else.
const fn unset(
    name: &'static str,
    default: &'static str,
    values: Values,
    uses: &'static [Use],
    meaning: &'static str,
) -> Key {
    Key { name, default: Some(default), values, uses, meaning }
}

/// The tables of the file with their descriptions, in the order of the page.
pub(super) const SECTIONS: [(&str, &str); 15] = [
    ("", "Where grandstand listens, where it stores data, and how fresh answers are."),
    ("origin", "The provider's server, and how much it may be asked."),
    ("mirror", "What is crawled, how often, and which snapshots are kept."),
    ("rate_limit", "How many requests one client may send. See [HTTP behaviour](http.md#the-rate-limit)."),
    ("client_ip", "How a client is identified behind a proxy or load balancer."),
    ("cache", "Answers in memory, and how long a stale answer may be used."),
    ("bundle", "Which bundles are imported. See [Cross an air gap](cross-an-air-gap.md)."),
    ("passthrough", "Requests that are not part of the known API. See [HTTP behaviour](http.md#other-paths)."),
    ("admin", "The listener for operators. See [Operate](operate.md#the-admin-listener)."),
    ("tls", "The public HTTPS listener. Set all three keys or none. See [Operate](operate.md#https)."),
    ("log", "The log on standard error, and the access log."),
    ("pages", "The pages for people on the public listener. See [Pages](pages.md)."),
    ("limits", "Bounds on connections, request headers and memory."),
    (
        "publish",
        "The object store to which this server writes its current snapshot, for replicas. See [Run a fleet](fleet.md).",
    ),
    ("replica", "The object store that a replica follows. See [Run a fleet](fleet.md#replicas)."),
];

/// Every key, in the order of the page.
pub(super) fn keys() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().chain(fleet::KEYS)
}

/// The keys of a single machine.
const KEYS: &[Key] = &[
    key(
        "listen",
        Words("list of addresses with port"),
        ALL,
        "Public addresses: HTTP/1.1, and HTTP/2 without TLS. Port 0: the system chooses a port.",
    ),
    unset(
        "public_url",
        "the first address of `listen`",
        Words("URL, may have a path"),
        ALL,
        "The address that clients use. Links in the answers (`api_url`, `Link`) start with it.",
    ),
    key(
        "data_dir",
        Words("path"),
        ALL,
        "The directory of the snapshots and of the *ledger*, the record of the requests to the origin. Only one server can use it at a time. A relative path starts at the working directory.",
    ),
    key(
        "ttl",
        Duration("100ms", "1d"),
        ALL,
        "How long clients may cache an answer. A mirror refreshes early enough that the data normally stays younger than this. In a shield: how long an answer is fresh if the origin does not say. `/status` of a mirror or replica is 503 when its data was not confirmed for three times `ttl`.",
    ),
    key("drain", Duration("0s", "1h"), ALL, "How long a stop (SIGTERM, Ctrl-C) waits for requests in flight."),
    unset(
        "origin.url",
        "none",
        Words("URL, may have a path"),
        ONLINE,
        "The base address of the origin. Without it grandstand is offline, or a replica if `replica.url` is set.",
    ),
    key(
        "origin.aliases",
        Words("list of URLs"),
        ALL,
        "Other base addresses of the same origin, which its data may contain. Links to them are rewritten. A bundle from an alias is accepted.",
    ),
    key(
        "origin.requests_per_minute",
        Whole(0, RATE),
        ONLINE,
        "The budget: at most this many requests to the origin in any 60 seconds. 0: unlimited.",
    ),
    key(
        "origin.cache_ttl",
        Duration("0s", "1d"),
        ONLINE,
        "How old a copy in the origin's CDN can be if its headers do not say. Without `Age`, a changed detail is requested once more after this time. A `generated_at` that is older than the headers say by more than twice this time is not used as a time, unless it is known to follow the clock (`origin.stamps` in `/status`).",
    ),
    key(
        "origin.timeout",
        Duration("10ms", "10m"),
        ONLINE,
        "How long one request to the origin may take, the body included. When a body is passed on to a client as it arrives, this is the timeout for each piece, and the whole body may take 60 times as long.",
    ),
    key(
        "origin.wait",
        Duration("0s", "10m"),
        ONLINE,
        "How long a client's request may wait for the budget. If no slot is expected within this time, the answer is 503 at once, without waiting. A request with a stale answer at hand does not wait.",
    ),
    key(
        "origin.max_body",
        Size("1KiB", "4GiB"),
        ONLINE,
        "The largest body that is accepted from the origin. A body that is read whole may have at most a quarter of `limits.origin_bytes`.",
    ),
    unset(
        "origin.ca_file",
        "none",
        Words("path of a PEM file"),
        ONLINE,
        "Certificate authorities to trust in addition to those of the system. It must hold the authority, not the server's own certificate.",
    ),
    unset(
        "origin.user_agent",
        "`\"grandstand/<version>\"`",
        Words("header value"),
        ONLINE,
        "The `User-Agent` sent to the origin. A contact address in it is good manners.",
    ),
    key("mirror.enabled", Words("`true` or `false`"), ONLINE, "`true`: mirror. `false`: shield, nothing is crawled."),
    key(
        "mirror.details",
        Words("`\"all\"` or `\"on-demand\"`"),
        MIRROR,
        "`\"all\"`: the details of all listings are fetched. `\"on-demand\"`: a detail is fetched when a client asks for it, and kept current from then on.",
    ),
    key(
        "mirror.sweep_every",
        Duration("100ms", "365d"),
        MIRROR,
        "How often every page is revalidated even when nothing seems to have changed.",
    ),
    key(
        "mirror.verify_details_every",
        Duration("100ms", "365d"),
        MIRROR,
        "Each detail is revalidated at least this often.",
    ),
    key(
        "mirror.edges",
        Words("`\"origin\"` or `\"own\"`"),
        KEPT,
        "How odd requests are answered, such as `page=0` or an unknown slug: the API's documentation leaves them open. `\"origin\"`: as the origin answers them, once a mirror has learned it. `\"own\"`: as [HTTP behaviour](http.md#odd-requests) says.",
    ),
    key(
        "mirror.audit_per_hour",
        Whole(0, 3600),
        MIRROR,
        "How many requests per hour are compared with the origin in the background. 0: none.",
    ),
    key(
        "mirror.max_shrink",
        Words("number, 0 to 1"),
        MIRROR,
        "A new snapshot that lost more than this share of its listings is held back. `grandstand snapshot accept` publishes it.",
    ),
    key(
        "mirror.keep",
        Whole(1, 1000),
        KEPT,
        "How many of the newest snapshots are kept for rollback and for `snapshot=`.",
    ),
    key(
        "mirror.keep_daily",
        Whole(0, 3660),
        KEPT,
        "In addition to `mirror.keep`: for how many days the last snapshot of each day (UTC) is kept. Days without a new snapshot do not count.",
    ),
    key("mirror.changes_for", Duration("0s", "3650d"), KEPT, "How far back `/changes.json` answers."),
    key(
        "rate_limit.requests_per_minute",
        Whole(0, RATE),
        ALL,
        "How many requests one client may send in any 60 seconds. 0: no limit.",
    ),
    key(
        "rate_limit.ipv6_prefix",
        Whole(1, 128),
        ALL,
        "How many leading bits of an IPv6 address identify a client. An IPv4 address is one client.",
    ),
    key(
        "rate_limit.max_clients",
        Whole(1, 67_108_864),
        ALL,
        "How many clients are remembered. Beyond the limit, clients with the fewest requests are forgotten first.",
    ),
    unset(
        "rate_limit.store",
        "none",
        Words("`redis://` or `rediss://` URL"),
        ALL,
        "A Redis or Valkey server that counts for a whole fleet. See [Operate](operate.md#one-limit-for-a-fleet). Without it each process counts by itself.",
    ),
    unset(
        "rate_limit.store_password_file",
        "none",
        Words("path"),
        ALL,
        "A file with the password of that server. It is read at each connection.",
    ),
    key(
        "rate_limit.store_timeout",
        Duration("1ms", "10s"),
        ALL,
        "How long one decision waits for Redis or Valkey. After that, this process counts by itself until the server answers again.",
    ),
    unset(
        "rate_limit.override.network",
        "none",
        Words("network or address"),
        ALL,
        "In a table `[[rate_limit.override]]`, which can be repeated: the clients that get another limit.",
    ),
    unset(
        "rate_limit.override.requests_per_minute",
        "none",
        Whole(0, RATE),
        ALL,
        "In the same table: how many requests each of these clients may send in any 60 seconds. 0: no limit. If networks overlap, the longest prefix wins.",
    ),
    key(
        "client_ip.trusted_proxies",
        Words("list of networks or addresses"),
        ALL,
        "Peers whose `client_ip.header` and PROXY protocol header are believed. Empty: no peer is believed, and the TCP peer is the client.",
    ),
    key(
        "client_ip.header",
        Words("header name"),
        ALL,
        "`\"x-forwarded-for\"`, `\"forwarded\"`, or the name of a header that holds one address.",
    ),
    key(
        "client_ip.proxy_protocol",
        Words("`true` or `false`"),
        ALL,
        "Connections to `listen` and `tls.listen` begin with a [PROXY protocol](operate.md#behind-a-load-balancer) header, version 1 or 2, and come from `client_ip.trusted_proxies`, which must not be empty. Other connections are closed.",
    ),
    key("cache.max_bytes", Size("1KiB", "1024GiB"), ALL, "Memory for cached answers."),
    key(
        "cache.stale_while_revalidate",
        Duration("0s", "30d"),
        ALL,
        "How long a stale answer may be used while it is revalidated. On other paths only the origin decides. Offline and in a replica it is only sent to clients in `Cache-Control`.",
    ),
    key(
        "cache.stale_if_error",
        Duration("0s", "365d"),
        ALL,
        "How long a stale answer may be used when the origin fails, unless the origin forbids it. Offline and in a replica it is only sent to clients in `Cache-Control`.",
    ),
    key(
        "bundle.trusted_keys",
        Words("list of minisign public keys (`RW...`)"),
        ALL,
        "If set, only bundles that one of these keys signed are accepted: by `bundle verify`, `bundle import`, `serve --bundle` and the admin listener. A replica accepts only heads that one of them signed. In a shield, only `bundle verify` and `bundle inspect` use the keys.",
    ),
    unset(
        "bundle.max_age",
        "none",
        Duration("1s", "3650d"),
        KEPT,
        "`/status` is 503 when the data was confirmed longer ago. In a mirror and a replica, three times `ttl` counts if that is less.",
    ),
    key(
        "bundle.max_size",
        Size("1KiB", "1024GiB"),
        ALL,
        "The largest bundle that is downloaded, verified, imported or uploaded. A larger upload is refused before its body is read.",
    ),
    key(
        "passthrough.paths",
        Words("list of path prefixes"),
        ONLINE,
        "Paths that are forwarded to the origin and cached. `[]`: none.",
    ),
    key(
        "passthrough.methods",
        Words("list of methods"),
        ONLINE,
        "Methods that are forwarded there. Answers to methods other than `GET`, `HEAD` and (RFC 9110 §9.3.3) `POST` are not cached. Methods other than `GET` and `HEAD` may have a body of at most 1 MiB. A successful request with an unsafe method removes the cached answers of its URL.",
    ),
    key(
        "passthrough.request_headers",
        Words("list of header names"),
        ONLINE,
        "Client headers that are forwarded there with `GET` and `HEAD`. With other methods, all end-to-end headers are forwarded. `[\"*\"]`: nearly all headers; then only the origin's `Vary` says what an answer depends on.",
    ),
    key(
        "admin.listen",
        Words("address with port"),
        ALL,
        "Address of the admin listener. Never a public address. Port 0: the system chooses a port.",
    ),
    key(
        "admin.hosts",
        Words("list of host names or addresses without port"),
        ALL,
        "Further names in `Host` that the admin listener accepts, beside `localhost`, loopback addresses and its own address. \
         For example the name by which Prometheus in another container reaches it.",
    ),
    unset(
        "admin.token",
        "none",
        Words("visible ASCII characters"),
        ALL,
        "What actions (`POST`, `DELETE` and `GET /bundle`) must send as `Authorization: Bearer <token>`. Without a token, actions are accepted on loopback only.",
    ),
    unset(
        "tls.listen",
        "none",
        Words("list of addresses with port"),
        ALL,
        "Public HTTPS addresses: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.",
    ),
    unset(
        "tls.cert",
        "none",
        Words("path of a PEM file"),
        ALL,
        "The certificate chain, the server's own certificate first. A new file is loaded within seconds.",
    ),
    unset("tls.key", "none", Words("path of a PEM file"), ALL, "The private key, without a passphrase."),
    key("log.format", Words("`\"text\"` or `\"json\"`"), ALL, "The form of a line, in the access log too."),
    key(
        "log.level",
        Words("`\"error\"`, `\"warn\"`, `\"info\"`, `\"debug\"` or `\"trace\"`"),
        ALL,
        "The least severe level that is logged. `\"debug\"` logs each request.",
    ),
    key(
        "log.access",
        Words("`true` or `false`"),
        ALL,
        "The [access log](operate.md#access-log): one line for each request.",
    ),
    unset(
        "log.access_file",
        "none",
        Words("path"),
        ALL,
        "The file of the access log. Without it the lines go to standard error.",
    ),
    key(
        "pages.enabled",
        Words("`true` or `false`"),
        ALL,
        "Whether the front page, the documentation, the map and the dumps are served. If not, their paths are like all unknown paths: 404, unless `passthrough.paths` covers them.",
    ),
    key(
        "limits.connections",
        Whole(1, 1_000_000),
        ALL,
        "Client connections in total. When all are taken, the connection that has been idle longest is closed. If the limit on open files is too low, fewer connections are accepted.",
    ),
    key(
        "limits.connections_per_client",
        Whole(1, 1_000_000),
        ALL,
        "Connections of one client. Further ones get 503 or are closed. Peers in `client_ip.trusted_proxies` are exempt; with `client_ip.proxy_protocol`, the connections of the announced client are counted.",
    ),
    key(
        "limits.head",
        Size("1KiB", "256KiB"),
        ALL,
        "The longest request line (65,534 bytes at most), and the largest request headers. Longer ones get 414, larger ones 431.",
    ),
    key(
        "limits.origin_bytes",
        Size("1MiB", "1024GiB"),
        ONLINE,
        "Memory for all bodies from the origin that are being received, decoded or checked.",
    ),
];
