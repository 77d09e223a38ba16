//! A store that speaks enough of S3, and fails on request: it refuses, is full, hangs, or ignores conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::harness::{Script, Seen, Setup, Upstream};

use super::s3::with_options;
use super::store::Head;

const PREFIX: &str = "/bucket/one/";

/// How the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    Forbidden,
    Unavailable,
    Full,
    Hangs,
    HangsUp,
    /// It answers all with a page of some proxy.
    Nonsense,
}

/// The store.
pub struct Bucket {
    server: Upstream,
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
    fault: Arc<Mutex<Fault>>,
}

impl Bucket {
    pub async fn start(fault: Fault) -> Self {
        let objects = Arc::<Mutex<BTreeMap<String, Bytes>>>::default();
        let fault = Arc::new(Mutex::new(fault));
        let (own, failing) = (objects.clone(), fault.clone());
        let server = Upstream::start(move |seen| {
            let failing = *failing.lock();
            answer(seen, failing, &mut own.lock())
        })
        .await;
        Self { server, objects, fault }
    }

    /// A setup that publishes to it.
    pub fn publishing(&self, setup: Setup) -> Setup {
        with_options(setup.set("publish.url", "s3://bucket/one"), &self.server.url())
    }

    pub fn fails(&self, fault: Fault) {
        *self.fault.lock() = fault;
    }

    /// How many requests have arrived.
    pub fn count(&self) -> usize {
        self.server.count()
    }

    /// The head, if there is one; all its objects must be there.
    pub fn head(&self) -> Option<Head> {
        let objects = self.objects.lock().clone();
        let head = Head::parse(objects.get("head.json")?);
        head.check(|key| objects.get(key).unwrap_or_else(|| panic!("{key} is missing")).to_vec());
        Some(head)
    }
}

fn answer(seen: &Seen, fault: Fault, objects: &mut BTreeMap<String, Bytes>) -> Script {
    let error = |status, code: &str| {
        Script::new(status, format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>no</Message></Error>"))
            .with("content-type", "application/xml")
    };
    match fault {
        Fault::None => {}
        Fault::Forbidden => return error(403, "AccessDenied"),
        Fault::Unavailable => return error(503, "SlowDown"),
        Fault::Full if seen.method == "GET" => {}
        Fault::Full => return error(507, "QuotaExceeded"),
        Fault::Hangs => return Script::hang(),
        Fault::HangsUp => return Script::hang_up(),
        Fault::Nonsense => return Script::new(200, "<html>sign in</html>").with("content-type", "text/html"),
    }
    let path = seen.target.split('?').next().unwrap();
    let Some(key) = path.strip_prefix(PREFIX) else { return list(objects) };
    let etag = |body: &Bytes| format!("\"{}\"", &blake3::hash(body).to_hex()[..32]);
    match (seen.method.as_str(), objects.get(key)) {
        ("PUT", _) => {
            // Conditions are ignored.
            let tag = etag(&seen.body);
            objects.insert(key.to_owned(), seen.body.clone());
            Script::new(200, "").with("etag", tag)
        }
        ("DELETE", _) => {
            objects.remove(key);
            Script::new(204, "")
        }
        (_, None) => error(404, "NoSuchKey"),
        (_, Some(body)) if seen.header("if-none-match") == Some(&etag(body)) => Script::new(304, ""),
        (_, Some(body)) => Script::new(200, body.clone())
            .with("etag", etag(body))
            .with("last-modified", "Sun, 22 Nov 2026 10:00:00 GMT"),
    }
}

fn list(objects: &BTreeMap<String, Bytes>) -> Script {
    let entry = |(key, body): (&String, &Bytes)| {
        format!(
            "<Contents><Key>one/{key}</Key><LastModified>2026-11-22T10:00:00.000Z</LastModified><ETag>\"x\"</ETag>\
             <Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
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
