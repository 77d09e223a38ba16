//! Every key of the configuration, declared once: a row is its name, type, default, values, uses, and whether a reload
//! takes it. Its documentation is the text on the reference page.
//!
//! To add a key, add a row here, and the code that uses the value. Then write the page (`CONTRIBUTING.md`). Not the rules
//! that concern several keys ([`super::checks`]). Callers: `config`; other rooms read the structs.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE};
use http::{HeaderName, Method};
use ipnet::IpNet;

use crate::protocol::caching::Allowed;
use crate::words::named;

use super::Use::{self, Mirror, Offline, Replica, Shield};
use super::address::{BaseUrl, base_url, network, own_name, public_url, socket};
use super::declaration::Reload::{self, If, Live, Restart};
use super::declaration::{Declaration, DeclaresKeys, keys};
use super::object_store::{ObjectStoreUrl, StoreOptions, follow_url, publish_url, store_options};
use super::proxy::{Proxy, proxy};
use super::secret::{RedisUrl, Secret, TokenFile, store_url, token, token_file};
use super::tiles::{TileUrl, credit, tile_url};
use super::units::{DAY, GIB, HOUR, KIB, MIB, MILLISECOND, MINUTE, SECOND, TIB};
use super::values::{
    boolean, duration, file, header, header_text, method, path, path_prefix, rate, request_headers, share, size,
    tables, trusted_key, whole, word,
};

const ALL: &[Use] = &[Mirror, Shield, Offline, Replica];
/// Uses that have an origin.
const ONLINE: &[Use] = &[Mirror, Shield];
/// Uses that have snapshots.
const KEPT: &[Use] = &[Mirror, Offline, Replica];
const MIRROR: &[Use] = &[Mirror];
const REPLICA: &[Use] = &[Replica];
/// Uses that read an object store.
const FOLLOWS: &[Use] = &[Mirror, Replica];

/// A password is that of the store in effect: another store has one of its own.
const WITH_STORE: Reload = If(|old, new| old.rate_limit.store == new.rate_limit.store);
/// Without trusted proxies a listener that expects the PROXY protocol accepts nobody.
const WITH_PROXIES: Reload = If(|old, new| !old.client_ip.proxy_protocol || !new.client_ip.trusted_proxies.is_empty());

/// What was a key, and what is constant now. From 1.0 on these are unknown keys.
pub(super) const CONSTANTS: [(&str, &str); 10] = [
    ("mirror.audit_per_hour", "mirror.examine_per_hour takes its place"),
    ("mirror.edges", "mirror.examine_per_hour = 0 is what \"own\" was"),
    ("mirror.changes_for", "/changes.json and /changes.ndjson go back 30 days"),
    ("mirror.verify_details_every", "details are revalidated within 7 days"),
    ("mirror.keep_daily", "the last snapshot of each of 7 days is kept"),
    ("rate_limit.max_clients", "200,000 clients are remembered"),
    ("limits.head", "a request line, and the headers of a request, may have 48 KiB"),
    ("limits.origin_bytes", "all bodies of the origin that are being received may have 128 MiB together"),
    ("bundle.max_size", "a bundle may have 4 GiB"),
    ("publish.full_every", "a full bundle is written at least every 7 days"),
];

/// The upper bound of `drain`.
const MOST_DRAIN: Duration = HOUR;

named! {
    /// Which details are fetched ahead of being asked for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Details, as_str {
        /// The details of all listings.
        All = "all",
        /// A detail is fetched when a client requests it.
        OnDemand = "on-demand",
    }
}

named! {
    /// The form of a log line.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LogFormat, as_str {
        /// For people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

named! {
    /// Severity of log lines; the words are also directives of `tracing`'s filter.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LogLevel, as_str {
        /// Unexpected failures.
        Error = "error",
        /// Something is wrong and was dealt with.
        Warn = "warn",
        /// Events.
        Info = "info",
        /// Details of events, and each request.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

keys! {
    /// Where grandstand listens, where it stores data, and how fresh answers are.
    pub struct Config {
        /// Public addresses: HTTP/1.1, and HTTP/2 without TLS. Port 0: the system chooses a port. An IPv4 and an IPv6
        /// address may share a port: `["0.0.0.0:8080", "[::]:8080"]`. `[::]` alone accepts IPv4 connections, too. The default is reached
        /// from this machine only. A socket that systemd passes takes the place of an address.
        listen: Vec<SocketAddr> = vec![([127, 0, 0, 1], 8080).into()],
            socket().list("list of addresses with port", "\"127.0.0.1:8080\""), ALL, Restart;
        /// The address that clients use. Links in the answers (`api_url`, `Link`) start with it.
        public_url: BaseUrl = BaseUrl::of_listener(([127, 0, 0, 1], 8080).into()), public_url(), ALL, Restart;
        /// The directory of the snapshots and of the *ledger*, the record of the requests to the origin. Only one
        /// server can use it at a time. A relative path starts at the working directory.
        data_dir: PathBuf = "grandstand-data".into(), path("path"), ALL, Restart;
        /// How long clients may cache an answer. A mirror refreshes early enough that the data normally stays younger
        /// than this, unless it is shorter than `origin.cache_ttl`. In a shield: how long an answer is fresh if the origin
        /// does not say. `/status` of a mirror or replica is 503 when its data was not confirmed for three times `ttl`.
        ttl: Duration = 5 * MINUTE, duration(100 * MILLISECOND..=DAY), ALL, Live;
        /// How long a stop (SIGTERM, Ctrl-C) waits for requests in flight. After SIGTERM, unless systemd passes the sockets, new
        /// connections are accepted for a quarter of it, 5 s at most.
        drain: Duration = 5 * SECOND, duration(Duration::ZERO..=MOST_DRAIN), ALL, Live;
        tables {
            [origin] origin: OriginConfig;
            [mirror] mirror: MirrorConfig;
            [rate_limit] rate_limit: RateLimitConfig;
            [client_ip] client_ip: ClientIpConfig;
            [cache] cache: CacheConfig;
            [bundle] bundle: BundleConfig;
            [passthrough] passthrough: PassthroughConfig;
            [admin] admin: AdminConfig;
            [tls] tls: Option<TlsConfig>;
            [log] log: LogConfig;
            [log] access: AccessConfig;
            [pages] pages: PagesConfig;
            [limits] limits: LimitsConfig;
            [publish] publish: PublishConfig;
            [replica] replica: ReplicaConfig;
        }
        derived {
            /// Whether the operator named a `public_url`.
            public_url_is_set: bool = false;
            /// Whether the configuration file has a key.
            file_has_keys: bool = false;
        }
    }
}

keys! {
    /// The provider's server, and how much it may be asked.
    pub struct OriginConfig {
        /// The base address of the origin: what stands before `/api/listings.json`. Without it grandstand is offline, or
        /// a replica if `replica.url` is set.
        url: Option<BaseUrl> = None, base_url().or_none("absent, offline"), ONLINE, Restart;
        /// Other base addresses of the same origin, which its data may contain. Links to them are rewritten. A bundle
        /// from an alias is accepted.
        aliases: Vec<BaseUrl> = Vec::new(), base_url().list("list of URLs", "\"https://example.org\""), ALL, Restart;
        /// The budget: at most this many requests to the origin in any 60 seconds. 0: unlimited.
        requests_per_minute: Option<NonZeroU32> = NonZeroU32::new(60), rate("unlimited"), ONLINE, Restart;
        /// How old a copy in the origin's CDN can be if its headers do not say. Without `Age`, a changed detail is
        /// requested once more after this time. A `generated_at` that is older than the headers say by more than twice
        /// this time is not used as a time, unless it is known to follow the clock (`origin.stamps` in `/status`).
        cache_ttl: Duration = 5 * MINUTE, duration(Duration::ZERO..=DAY), ONLINE, Restart;
        /// How long one request to the origin may take, the body included. When a body is passed on to a client as it
        /// arrives, this is the timeout for each piece, and the whole body may take 60 times as long.
        timeout: Duration = 10 * SECOND, duration(10 * MILLISECOND..=10 * MINUTE), ONLINE, Restart;
        /// How long a client's request may wait for the budget. If no slot is expected within this time, the answer is
        /// 503 at once, without waiting. A request with a stale answer at hand does not wait.
        wait: Duration = 10 * SECOND, duration(Duration::ZERO..=10 * MINUTE), ONLINE, Restart;
        /// The largest body that is accepted from the origin. A body that is read whole may have at most 32 MiB.
        max_body: u64 = 32 * MIB, size(KIB..=4 * GIB), ONLINE, Restart;
        /// Certificate authorities to trust in addition to those of the system. It must hold the authority, not the
        /// server's own certificate.
        ca_file: Option<PathBuf> = None,
            file("path of a PEM file").or_none("absent: the certificates of the system"), ONLINE, Restart;
        /// The `User-Agent` sent to the origin. A contact address in it is good manners.
        user_agent: String = concat!("grandstand/", env!("CARGO_PKG_VERSION")).to_owned(),
            header_text().default_is("`\"grandstand/<version>\"`"), ONLINE, Restart;
        /// The [proxy](proxies.md#through-a-proxy) through which the origin is asked. A user name and a password in the
        /// URL are sent to it, and never printed. Default: the variables `http_proxy`, `https_proxy`, `all_proxy` and
        /// `no_proxy`.
        proxy: Proxy = Proxy::default(), proxy(), ONLINE, Restart;
    }
}

keys! {
    /// What is crawled, how often, and which snapshots are kept.
    pub struct MirrorConfig {
        /// `true`: mirror. `false`: shield, nothing is crawled.
        enabled: bool = true, boolean(), ONLINE, Restart;
        /// `"all"`: the details of all listings are fetched. `"on-demand"`: a detail is fetched when a client asks for
        /// it, and kept current from then on.
        details: Details = Details::All, word(Details::ALL, Details::as_str), MIRROR, Restart;
        /// How often every page is revalidated even when nothing seems to have changed.
        sweep_every: Duration = 6 * HOUR, duration(100 * MILLISECOND..=365 * DAY), MIRROR, Live;
        /// How many examples an hour are asked of the origin, to find out whether it answers as this server does. When the
        /// first list is there, one of each kind of request is asked at once, at most 108 in all. 0: none, and every request
        /// is answered as documented, odd ones by the table of [open cases](http.md#open-cases).
        examine_per_hour: u32 = 6, whole("examples", 0..=3600), MIRROR, Live;
        /// A new snapshot that lost more than this share of its listings is held back. `grandstand snapshot accept`
        /// makes it current.
        max_shrink: f64 = 0.2, share(), MIRROR, Restart;
        /// How many of the newest snapshots are kept for rollback; beside them, the last snapshot of each of 7 days (UTC).
        keep: u32 = 5, whole("snapshots", 1..=1000), KEPT, Live;
        derived {
            /// Each detail is revalidated at least this often, if a tenth of the budget is enough for it: at 60 requests a
            /// minute, up to about 47,000 listings.
            verify_details_every: Duration = 7 * DAY;
            /// Beside `mirror.keep`, the last snapshot of each of so many days (UTC) is kept. Days without one do not count.
            keep_daily: u32 = 7;
        }
    }
}

keys! {
    /// How many requests one client may send. See [HTTP behaviour](http.md#the-rate-limit).
    pub struct RateLimitConfig {
        /// How many requests one client may send in any 60 seconds. 0: no limit.
        requests_per_minute: Option<NonZeroU32> = NonZeroU32::new(60), rate("off"), ALL, Live;
        /// How many leading bits of an IPv6 address identify a client. An IPv4 address is one client.
        ipv6_prefix: u8 = 64, whole("bits", 1..=128), ALL, Live;
        /// A Redis or Valkey server that counts for a whole fleet. See [Run a fleet](fleet.md#one-limit-for-a-fleet).
        /// Without it each process counts by itself.
        store: Option<RedisUrl> = None, store_url().or_none("absent: each process counts for itself"), ALL, Restart;
        /// A file with the password of that server. It is read at each connection.
        store_password_file: Option<PathBuf> = None,
            file("path").or_none("absent: the password in store, if any"), ALL, WITH_STORE;
        /// How long one decision waits for Redis or Valkey. After that, this process counts by itself until the server
        /// answers again.
        store_timeout: Duration = 50 * MILLISECOND, duration(MILLISECOND..=10 * SECOND), ALL, Live;
        /// Other limits for the clients of some networks; no network twice, the longest matching prefix wins.
        "override" overrides: Vec<RateLimitOverride> = Vec::new(), tables(), ALL, Live;
    }
}

keys! {
    /// One `[[rate_limit.override]]`: another limit for some clients.
    pub struct RateLimitOverride {
        /// In a table `[[rate_limit.override]]`, which can be repeated: the clients that get another limit.
        network: IpNet = IpNet::default(), network().required(), ALL, Live;
        /// In the same table: how many requests each of these clients may send in any 60 seconds. 0: no limit. If
        /// networks overlap, the longest prefix wins.
        requests_per_minute: Option<NonZeroU32> = None, rate("no limit").required(), ALL, Live;
    }
}

keys! {
    /// How a client is identified behind a proxy or load balancer.
    pub struct ClientIpConfig {
        /// Peers whose `client_ip.header` and PROXY protocol header are believed. Empty: no peer is believed, and the
        /// TCP peer is the client.
        trusted_proxies: Vec<IpNet> = Vec::new(),
            network().list("list of networks or addresses", "\"10.0.0.0/8\""), ALL, WITH_PROXIES;
        /// `"x-forwarded-for"`, `"forwarded"`, or the name of a header that holds one address.
        header: HeaderName = HeaderName::from_static("x-forwarded-for"), header(), ALL, Live;
        /// Connections to `listen` and `tls.listen` begin with a [PROXY protocol](proxies.md#the-proxy-protocol)
        /// header, version 1 or 2, and come from `client_ip.trusted_proxies`, which must not be empty. Other
        /// connections are closed.
        proxy_protocol: bool = false, boolean(), ALL, Restart;
    }
}

keys! {
    /// Answers in memory, and how long a stale answer may be used.
    pub struct CacheConfig {
        /// Memory for cached answers.
        max_bytes: u64 = 256 * MIB, size(KIB..=TIB), ALL, Restart;
        /// How long a stale answer may be used while it is revalidated. On other paths only the origin decides. Offline
        /// and in a replica it is only sent to clients in `Cache-Control`.
        stale_while_revalidate: Duration = MINUTE, duration(Duration::ZERO..=30 * DAY), ALL, Live;
        /// How long a stale answer may be used when the origin fails, unless the origin forbids it. Offline and in a
        /// replica it is only sent to clients in `Cache-Control`.
        stale_if_error: Duration = DAY, duration(Duration::ZERO..=365 * DAY), ALL, Live;
    }
}

keys! {
    /// Which bundles are imported. See [Cross an air gap](cross-an-air-gap.md).
    pub struct BundleConfig {
        /// If set, only bundles that one of these keys signed are accepted: by `bundle verify`, `bundle import` and
        /// the admin listener. The data directory then refuses imports without keys, until its server has
        /// started without keys. A replica accepts only heads that one of them signed. In a shield, only `bundle verify`
        /// and `bundle inspect` use the keys.
        trusted_keys: Vec<String> = Vec::new(),
            trusted_key().list("list of minisign public keys (`RW...`)", "\"RW...\""), ALL, Restart;
        /// `/status` is 503 when the data was confirmed longer ago. In a mirror and a replica, three times `ttl` counts
        /// if that is less.
        max_age: Option<Duration> = None,
            duration(SECOND..=3650 * DAY).or_none("absent: 3 × ttl in a mirror or replica, any age offline"), KEPT, Restart;
    }
}

keys! {
    /// Requests that are not part of the known API. See [HTTP behaviour](http.md#other-paths).
    pub struct PassthroughConfig {
        /// Paths that are forwarded to the origin and cached. `[]`: none.
        paths: Vec<String> = vec!["/api/".to_owned()],
            path_prefix().list("list of path prefixes", "\"/api/\""), ONLINE, Restart;
        /// Methods that are forwarded there. Answers to methods other than `GET` and `HEAD` are not cached. Such
        /// requests may have a body of at most 1 MiB. A successful request with an unsafe method removes the cached
        /// answers of its URL.
        methods: Vec<Method> = vec![Method::GET, Method::HEAD],
            method().list("list of methods", "\"GET\""), ONLINE, Restart;
        /// Client headers that are forwarded there with `GET` and `HEAD`. With other methods, all end-to-end headers
        /// are forwarded. `["*"]`: nearly all headers; then only the origin's `Vary` says what an answer depends on.
        request_headers: Allowed = Allowed::Only(vec![ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, COOKIE]),
            request_headers(), ONLINE, Restart;
    }
}

keys! {
    /// The listener for operators. See [Operate](operate.md#the-admin-listener).
    pub struct AdminConfig {
        /// Address of the admin listener. Never a public address. Port 0: the system chooses a port.
        listen: SocketAddr = ([127, 0, 0, 1], 9090).into(), socket(), ALL, Restart;
        /// What actions (`POST`, `DELETE` and `GET /bundle`) must send as `Authorization: Bearer <token>`. Without a
        /// token, actions are accepted on loopback only.
        token: Option<Secret> = None, token().or_none("absent"), ALL, Live;
        /// A file with the token, instead of `admin.token`. White space around it does not count. It is read at the
        /// start, at each reload, and by each command.
        token_file: Option<TokenFile> = None, token_file().or_none("absent"), ALL, Live;
        /// Further names in `Host` that the admin listener accepts, beside `localhost`, loopback addresses and its own
        /// address. For example the name by which Prometheus in another container reaches it.
        hosts: Vec<String> = Vec::new(),
            own_name().list("list of host names or addresses without port", "\"mirror.internal\""), ALL, Live;
    }
}

keys! {
    /// The public HTTPS listener. Set all three keys or none. See [Proxies](proxies.md#https).
    pub struct TlsConfig {
        /// Public HTTPS addresses: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.
        listen: Vec<SocketAddr> = Vec::new(),
            socket().list("list of addresses with port", "\"0.0.0.0:8443\"").required(), ALL, Restart;
        /// The certificate chain, the server's own certificate first. A new file is loaded within seconds.
        cert: PathBuf = PathBuf::new(), path("path of a PEM file").required(), ALL, Live;
        /// The private key, without a passphrase.
        key: PathBuf = PathBuf::new(), path("path of a PEM file").required(), ALL, Live;
    }
}

keys! {
    /// The log on standard error, and the access log.
    #[derive(Copy)]
    pub struct LogConfig {
        /// The form of a line, in the access log too.
        format: LogFormat = LogFormat::Text, word(LogFormat::ALL, LogFormat::as_str), ALL, Live;
        /// The least severe level that is logged. `"debug"` logs each request.
        level: LogLevel = LogLevel::Info, word(LogLevel::ALL, LogLevel::as_str), ALL, Live;
    }
}

keys! {
    /// The access log, in `[log]`.
    pub struct AccessConfig {
        /// The [access log](operate.md#access-log): one line for each request.
        "access" enabled: bool = false, boolean(), ALL, Live;
        /// The file of the access log. Without it the lines go to standard error.
        "access_file" file: Option<PathBuf> = None, path("path").or_none("absent: standard error"), ALL, Live;
    }
}

keys! {
    /// The pages for people on the public listener. See [Pages](pages.md).
    pub struct PagesConfig {
        /// Whether the front page, the documentation, the finder, pages of venues, the widget and the dumps are served. If not, their paths are like
        /// all unknown paths: 404, unless `passthrough.paths` covers them.
        enabled: bool = true, boolean(), ALL, Live;
        /// A street map behind the venues. Browsers load its images from that server, which sees the addresses of your
        /// visitors. Without it, maps show the outlines of the states, and load nothing from other servers.
        tiles: Option<TileUrl> = None, tile_url().or_none("absent: the outlines of the states"), KEPT, Live;
        /// The credit that the server of the tiles asks for; it stands below each map.
        tiles_credit: Option<String> = None, credit().or_none("absent: no credit"), KEPT, Live;
    }
}

keys! {
    /// Bounds on connections and memory.
    pub struct LimitsConfig {
        /// Client connections in total. When all are taken, the connection that has been idle longest is closed. If the
        /// limit on open files is too low, fewer connections are accepted.
        connections: u32 = 20_000, whole("connections", 1..=1_000_000), ALL, Live;
        /// Connections of one client, at most a quarter of all. Further ones get 503 or are closed. Peers in
        /// `client_ip.trusted_proxies` are exempt; with `client_ip.proxy_protocol`, the connections of the announced
        /// client are counted.
        connections_per_client: u32 = 512, whole("connections", 1..=1_000_000), ALL, Live;
        derived {
            /// Memory for all bodies from the origin that are being received, decoded or checked.
            origin_bytes: u64 = 128 * MIB;
        }
    }
}

keys! {
    /// The object store to which this server writes its current snapshot, for replicas. See [Run a fleet](fleet.md).
    pub struct PublishConfig {
        /// The object store. Without it, nothing is written to an object store. Use one publisher for each prefix.
        url: Option<ObjectStoreUrl> = None, publish_url().or_none("absent: nothing is published"), KEPT, Restart;
        /// Signs every bundle and every head. Replicas with `bundle.trusted_keys` need it.
        sign_key: Option<PathBuf> = None,
            file("path of a minisign secret key").or_none("absent: nothing is signed"), KEPT, Restart;
        /// The password of that key is the first line of the file. Without it the key must have no password.
        sign_password_file: Option<PathBuf> = None,
            file("path of a file").or_none("absent: the key has no password"), KEPT, Restart;
        /// A bundle that is not listed in the head is removed this long after it was written. Bundles in use are
        /// written again after half of this time. So a replica that is behind by less than half of it can finish its
        /// downloads.
        keep: Duration = 7 * DAY, duration(MINUTE..=3650 * DAY), KEPT, Restart;
        /// The proxy through which the object store is asked, as `origin.proxy`.
        proxy: Proxy = Proxy::default(), proxy(), KEPT, Restart;
        /// Credentials and settings of the object store, such as `aws_endpoint`. They override the environment
        /// (`AWS_ENDPOINT`), and are never printed. [The names](#options-of-object-stores).
        options: StoreOptions = StoreOptions::default(), store_options(), KEPT, Restart;
    }
}

keys! {
    /// The object store that a replica follows. See [Run a fleet](fleet.md#replicas).
    pub struct ReplicaConfig {
        /// The object store that a publisher writes to. With `origin.url`, a mirror with an empty disk takes its first
        /// data from it. `http://` needs `bundle.trusted_keys`.
        url: Option<ObjectStoreUrl> = None,
            follow_url().or_none("absent: no object store is followed"), FOLLOWS, Restart;
        /// How often a replica looks for a new head.
        poll: Duration = 10 * SECOND, duration(100 * MILLISECOND..=DAY), REPLICA, Live;
        /// The proxy through which the object store is asked, as `origin.proxy`.
        proxy: Proxy = Proxy::default(), proxy(), FOLLOWS, Restart;
        /// Credentials and settings of the object store, such as `aws_access_key_id`. They override the environment,
        /// and are never shown.
        options: StoreOptions = StoreOptions::default(), store_options(), FOLLOWS, Restart;
    }
}

impl AdminConfig {
    /// The token, wherever it is configured.
    pub fn secret(&self) -> Option<&Secret> {
        self.token.as_ref().or(self.token_file.as_ref().map(|file| &file.token))
    }

    /// Whether actions are accepted at all: on loopback, or with a token.
    pub fn accepts_writes(&self) -> bool {
        self.secret().is_some() || self.listen.ip().to_canonical().is_loopback()
    }
}
