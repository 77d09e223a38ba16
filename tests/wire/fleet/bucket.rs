//! A store that speaks enough of S3, or of Google's XML API, and fails on request: it refuses, is full, or hangs.
//!
//! As S3 it ignores conditions. As Google's store it keeps them, by the number of each object's generation. No emulator of
//! that API installs by name: `gcp-storage-emulator` has only its JSON part.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::harness::{Script, Seen, Setup, Upstream};

use super::s3::with_options;
use super::store::Head;

const PREFIX: &str = "/bucket/one/";
const GENERATION: &str = "x-goog-generation";

/// The API that it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    S3,
    Google,
}

/// Objects, with the number of their generation.
type Objects = BTreeMap<String, (Bytes, u64)>;

/// How the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Forbidden,
    Unavailable,
    Full,
    Hangs,
    HangsUp,
    /// It gives no lists.
    Unlistable,
    /// It answers all with a page of some proxy.
    Nonsense,
}

/// The store.
pub struct Bucket {
    server: Upstream,
    dialect: Dialect,
    objects: Arc<Mutex<Objects>>,
    fault: Arc<Mutex<Fault>>,
}

impl Bucket {
    pub async fn start(fault: Fault) -> Self {
        Self::speaking(Dialect::S3, fault).await
    }

    pub async fn speaking(dialect: Dialect, fault: Fault) -> Self {
        let objects = Arc::<Mutex<Objects>>::default();
        let fault = Arc::new(Mutex::new(fault));
        let (own, failing) = (objects.clone(), fault.clone());
        let server = Upstream::start(move |seen| {
            let failing = *failing.lock();
            answer(seen, dialect, failing, &mut own.lock())
        })
        .await;
        Self { server, dialect, objects, fault }
    }

    /// A setup that publishes to it.
    pub fn publishing(&self, setup: Setup) -> Setup {
        self.with(setup, "publish")
    }

    /// A setup that follows it.
    pub fn following(&self, setup: Setup) -> Setup {
        self.with(setup, "replica").set("replica.poll", "200ms")
    }

    fn with(&self, setup: Setup, section: &str) -> Setup {
        let key = |name: &str| format!("{section}.{name}");
        match self.dialect {
            Dialect::S3 => with_options(setup.set(&key("url"), "s3://bucket/one"), section, &self.server.url()),
            Dialect::Google => setup
                .set(&key("url"), "gs://bucket/one")
                .set(&key("options.google_base_url"), &self.server.url())
                .set(&key("options.google_bearer_token"), "hunter2"),
        }
    }

    /// The requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.server.seen()
    }

    pub fn fails(&self, fault: Fault) {
        *self.fault.lock() = fault;
    }

    pub const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// How many requests have arrived.
    pub fn count(&self) -> usize {
        self.server.count()
    }

    /// The head, if there is one; all its objects must be there.
    pub fn head(&self) -> Option<Head> {
        let objects = self.objects.lock().clone();
        let head = Head::parse(&objects.get("head.json")?.0);
        head.check(|key| objects.get(key).unwrap_or_else(|| panic!("{key} is missing")).0.to_vec());
        Some(head)
    }
}

fn answer(seen: &Seen, dialect: Dialect, fault: Fault, objects: &mut Objects) -> Script {
    let error = |status, code: &str| {
        Script::new(status, format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message></Error>"))
            .with("content-type", "application/xml")
    };
    match fault {
        Fault::None | Fault::Unlistable => {}
        Fault::Forbidden => return error(403, "AccessDenied"),
        Fault::Unavailable => return error(503, "SlowDown"),
        Fault::Full if seen.method == "GET" => {}
        Fault::Full => return error(507, "QuotaExceeded"),
        Fault::Hangs => return Script::hang(),
        Fault::HangsUp => return Script::hang_up(),
        Fault::Nonsense => return Script::new(200, "<html>sign in</html>").with("content-type", "text/html"),
    }
    let path = seen.target.split('?').next().unwrap();
    let path = percent_encoding::percent_decode_str(path).decode_utf8().unwrap();
    let Some(key) = path.strip_prefix(PREFIX) else {
        return if fault == Fault::Unlistable { error(403, "AccessDenied") } else { list(objects) };
    };
    let etag = |body: &Bytes| format!("\"{}\"", &blake3::hash(body).to_hex()[..32]);
    let present = objects.get(key).map_or(0, |(_, generation)| *generation);
    let wanted = seen.header("x-goog-if-generation-match").filter(|_| dialect == Dialect::Google);
    match (seen.method.as_str(), objects.get(key)) {
        ("PUT", _) if wanted.is_some_and(|wanted| wanted != present.to_string()) => error(412, "PreconditionFailed"),
        ("PUT", _) => {
            let tag = etag(&seen.body);
            let next = objects.values().map(|(_, generation)| *generation).max().unwrap_or(1000) + 1;
            objects.insert(key.to_owned(), (seen.body.clone(), next));
            Script::new(200, "").with("etag", tag).with(GENERATION, next)
        }
        ("DELETE", _) => {
            objects.remove(key);
            Script::new(204, "")
        }
        (_, None) => error(404, "NoSuchKey"),
        (_, Some((body, _))) if seen.header("if-none-match") == Some(&etag(body)) => Script::new(304, ""),
        (_, Some((body, generation))) => Script::new(200, body.clone())
            .with("etag", etag(body))
            .with(GENERATION, generation)
            .with("last-modified", "Sun, 22 Nov 2026 10:00:00 GMT"),
    }
}

fn list(objects: &Objects) -> Script {
    let entry = |(key, (body, generation)): (&String, &(Bytes, u64))| {
        format!(
            "<Contents><Key>one/{key}</Key><LastModified>2026-11-22T10:00:00.000Z</LastModified>\
             <ETag>\"{generation}\"</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
            body.len()
        )
    };
    let entries: String = objects.iter().map(entry).collect();
    let xml = format!(
        "<?xml version=\"1.0\"?><ListBucketResult><Name>bucket</Name><Prefix>one/</Prefix><KeyCount>{}</KeyCount>\
         <MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>",
        objects.len()
    );
    Script::new(200, xml).with("content-type", "application/xml")
}
