//! The address of an object store, and its options: shared by `[publish]` and `[replica]`.
//!
//! Nothing is opened here. Callers: [`super::keys`]; [`crate::fleet`] opens it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use http::HeaderValue;
use object_store::ClientConfigKey;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use url::Url;

use super::address::masked;
use super::errors::quoted;
use super::reader::{KeyReader, join};
use super::secret::Secret;
use super::sources::{Node, Raw};
use super::values::{Values, Written, expected};

/// The options of a web server that asks for basic authentication.
pub(crate) const USERNAME: &str = "username";
pub(crate) const PASSWORD: &str = "password";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// `s3://bucket/prefix`: S3 and what is compatible with it.
    S3,
    /// `gs://bucket/prefix`: Google Cloud Storage.
    Gcs,
    /// `az://container/prefix`: Azure Blob Storage.
    Azure,
    /// `file:///path`: a directory.
    File,
    /// `https://host/path` or `http://...`: a web server, only for reading.
    Web,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorePurpose {
    /// Written: no web server.
    Publish,
    Follow,
}

impl StorePurpose {
    /// The forms of an address.
    const fn forms(self) -> &'static str {
        match self {
            Self::Publish => "`s3://bucket/prefix`, `gs://...`, `az://...` or `file:///path`",
            Self::Follow => {
                "`s3://bucket/prefix`, `gs://...`, `az://...`, `file:///path`, `https://...` or `http://...`"
            }
        }
    }
}

/// The address of an object store: no user name, no query, no fragment, and no slash at the end.
#[derive(Clone, PartialEq, Eq)]
pub struct ObjectStoreUrl {
    url: Url,
    kind: StoreKind,
}

impl ObjectStoreUrl {
    pub const fn kind(&self) -> StoreKind {
        self.kind
    }

    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// The directory; `None`: it is no directory.
    pub fn directory(&self) -> Option<PathBuf> {
        if self.kind == StoreKind::File { self.url.to_file_path().ok() } else { None }
    }

    /// Whether it is asked without TLS. Endpoints in options and environment are not looked at.
    pub fn is_cleartext(&self) -> bool {
        self.url.scheme() == "http"
    }

    fn parse(text: &str, purpose: StorePurpose) -> Result<Self, String> {
        let refuse = |what: &str| Err(format!("{} is not {what}", quoted(&masked(text))));
        let form = || refuse(&format!("an address of the form {}", purpose.forms().replace('`', "")));
        let Ok(mut url) = Url::parse(text) else { return form() };
        let kind = match (url.scheme(), purpose) {
            ("s3", _) => StoreKind::S3,
            ("gs", _) => StoreKind::Gcs,
            ("az", _) => StoreKind::Azure,
            ("file", _) => StoreKind::File,
            ("http" | "https", StorePurpose::Follow) => StoreKind::Web,
            _ => return form(),
        };
        if !url.username().is_empty() || url.password().is_some() || text.contains('@') {
            return refuse(
                "an address without user name and password: put credentials into the environment or options",
            );
        }
        if text.contains(['?', '#', '\\']) || text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return refuse("an address without query, fragment, backslash and white space");
        }
        let has_host = url.host_str().is_some_and(|host| !host.is_empty());
        if has_host == (kind == StoreKind::File) || !text.contains("://") {
            return form();
        }
        if kind != StoreKind::Web && url.port().is_some() {
            return refuse("an address without a port: set the endpoint in options or environment");
        }
        let path = url.path().trim_end_matches('/').to_owned();
        // The parser has resolved dots.
        let dots = |segment: &str| matches!(segment, "." | ".." | "%2e" | "%2E");
        if path.contains("//") || text.split('/').any(dots) || (kind == StoreKind::File && path.is_empty()) {
            return refuse("an address with a plain path: no empty segments and no dots");
        }
        url.set_path(&path);
        Ok(Self { url, kind })
    }

    /// What is wrong with an option of this kind of store; the value is not shown.
    fn mistake(&self, key: &str, value: &str) -> Option<String> {
        if !self.knows(key) {
            return Some(format!("is not a known option of \"{}\"", self.url.scheme()));
        }
        if key == USERNAME && value.contains(':') {
            return Some("the value (not shown) has a colon, which no user name can have".to_owned());
        }
        let has_user = |url: &Url| !url.username().is_empty() || url.password().is_some();
        if Url::parse(value).as_ref().is_ok_and(has_user) {
            return Some(
                "the value (not shown) is a URL with a user name or a password: give these as options".to_owned(),
            );
        }
        let name = ["aws_", "google_", "azure_"].into_iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(key);
        let client = name.parse::<ClientConfigKey>().ok()?;
        if let Some((_, instead)) = UNSUPPORTED.into_iter().find(|(key, _)| *key == client) {
            return Some(format!("is not supported: {instead}"));
        }
        let is_wrong = client == ClientConfigKey::UserAgent && HeaderValue::from_str(value).is_err();
        is_wrong.then(|| "the value (not shown) is not a text for a header".to_owned())
    }

    /// Whether a key of the options is known for this kind of store.
    fn knows(&self, key: &str) -> bool {
        match self.kind {
            StoreKind::S3 => key.parse().is_ok_and(|key: AmazonS3ConfigKey| key != AmazonS3ConfigKey::Bucket),
            StoreKind::Gcs => key.parse().is_ok_and(|key: GoogleConfigKey| key != GoogleConfigKey::Bucket),
            StoreKind::Azure => key.parse().is_ok_and(|key: AzureConfigKey| key != AzureConfigKey::ContainerName),
            StoreKind::Web => matches!(key, USERNAME | PASSWORD) || key.parse::<ClientConfigKey>().is_ok(),
            StoreKind::File => false,
        }
    }
}

impl fmt::Display for ObjectStoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

impl fmt::Debug for ObjectStoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.url.as_str())
    }
}

pub(super) fn publish_url() -> Values<ObjectStoreUrl> {
    object_store_url(StorePurpose::Publish)
}

pub(super) fn follow_url() -> Values<ObjectStoreUrl> {
    object_store_url(StorePurpose::Follow)
}

fn object_store_url(purpose: StorePurpose) -> Values<ObjectStoreUrl> {
    let parse = move |node: &Node| match node.as_text() {
        Some(text) => ObjectStoreUrl::parse(text, purpose),
        None => expected(node, "an address in quotes, such as \"s3://bucket/prefix\""),
    };
    Values::single(purpose.forms(), parse, ObjectStoreUrl::to_string)
}

/// Options of the library's client that this program does not follow, and what holds instead.
pub(crate) const UNSUPPORTED: [(ClientConfigKey, &str); 12] = [
    (ClientConfigKey::AllowInvalidCertificates, "add the authority of the server to those of the system"),
    (ClientConfigKey::ProxyUrl, "set the key `proxy` beside `options`"),
    (ClientConfigKey::ProxyExcludes, "set the variable `no_proxy`, or the key `proxy` beside `options`"),
    (ClientConfigKey::ProxyCaCertificate, "add the authority to those of the system"),
    (ClientConfigKey::NoSystemCertificates, "the certificate authorities of the system are trusted"),
    (ClientConfigKey::RandomizeAddresses, "the addresses of a name are tried in the order of the resolver"),
    (ClientConfigKey::Http2KeepAliveInterval, FIXED),
    (ClientConfigKey::Http2KeepAliveTimeout, FIXED),
    (ClientConfigKey::Http2KeepAliveWhileIdle, FIXED),
    (ClientConfigKey::Http2MaxFrameSize, FIXED),
    (ClientConfigKey::PoolIdleTimeout, FIXED),
    (ClientConfigKey::PoolMaxIdlePerHost, FIXED),
];

const FIXED: &str = "remove it; how connections are kept is fixed";

/// Options of a store by their names in lower case, such as `aws_endpoint`. All values count as secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreOptions(BTreeMap<String, Secret>);

impl StoreOptions {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.expose()))
    }

    /// The value of an option; `None`: it is not set.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(Secret::expose)
    }

    /// Takes out those that this kind of store does not take; each with the reason.
    pub(super) fn take_wrong(&mut self, url: &ObjectStoreUrl) -> Vec<(String, String)> {
        let mut wrong = Vec::new();
        self.0.retain(|key, value| match url.mistake(key, value.expose()) {
            Some(mistake) => {
                wrong.push((key.clone(), mistake));
                false
            }
            None => true,
        });
        wrong
    }
}

/// Options, of which only the names are shown.
pub(super) fn store_options() -> Values<StoreOptions> {
    let read = |reader: &mut KeyReader, path: &str, node: Node| match node.into_table() {
        Ok(table) => {
            let option = |(key, node): (String, Node)| {
                let value = reader.parsed(&join(path, &key), &node, option_value)?;
                Some((key, value))
            };
            Some(StoreOptions(table.into_iter().filter_map(option).collect()))
        }
        Err(shown) => {
            reader.fail(path, format!("{shown} is not a table of keys"));
            None
        }
    };
    Values::new("table of texts", read, |StoreOptions(options)| {
        let names: Vec<&str> = options.keys().map(String::as_str).collect();
        if names.is_empty() {
            Written::Nothing
        } else {
            Written::Comment(format!("set, values not shown: {}", names.join(", ")))
        }
    })
}

/// A text, or what is written like one. The message does not show it.
fn option_value(node: &Node) -> Result<Secret, String> {
    match node.value {
        Raw::String | Raw::Integer(_) | Raw::Boolean(_) if !node.text.is_empty() => Ok(Secret::new(node.text.clone())),
        _ => Err("the value (not shown) is not a text in quotes".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_address_is_kept_without_its_slash() {
        for (text, kind, kept) in [
            ("s3://bucket/a/prefix/", StoreKind::S3, "s3://bucket/a/prefix"),
            ("s3://bucket", StoreKind::S3, "s3://bucket"),
            ("gs://bucket/x", StoreKind::Gcs, "gs://bucket/x"),
            ("az://container/x", StoreKind::Azure, "az://container/x"),
            ("file:///srv/my%20store/", StoreKind::File, "file:///srv/my%20store"),
        ] {
            let url = ObjectStoreUrl::parse(text, StorePurpose::Publish).unwrap();
            assert_eq!((url.kind(), url.to_string().as_str()), (kind, kept));
        }
        let directory = ObjectStoreUrl::parse("file:///srv/my%20store", StorePurpose::Follow).unwrap().directory();
        assert_eq!(directory.unwrap(), Path::new("/srv/my store"));
        let web = ObjectStoreUrl::parse("http://127.0.0.1:8000/fleet", StorePurpose::Follow).unwrap();
        assert!(web.is_cleartext() && web.kind() == StoreKind::Web);
    }

    #[test]
    fn other_addresses_are_refused_and_passwords_not_shown() {
        for text in [
            "",
            "bucket/prefix",
            "/srv/store",
            "ftp://host/x",
            "https://host/x",
            "memory:///x",
            "s3:bucket/x",
            "s3:///x",
            "s3://me:hunter2@bucket/x",
            "s3://bucket:9000/x",
            "s3://bucket/x?y=1",
            "s3://bucket/x#y",
            "s3://bucket/a//b",
            "s3://bucket/a/../b",
            "s3://bucket/a b",
            "file://host/srv/store",
            "file:///",
            "file:relative",
        ] {
            let refused = ObjectStoreUrl::parse(text, StorePurpose::Publish).err().unwrap_or_else(|| panic!("{text}"));
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn an_endpoint_has_no_password_in_it() {
        let store = ObjectStoreUrl::parse("s3://b/x", StorePurpose::Publish).unwrap();
        assert_eq!(store.mistake("aws_endpoint", "http://127.0.0.1:9000"), None);
        let mistake = store.mistake("aws_endpoint", "http://me:hunter2@127.0.0.1:9000").unwrap();
        assert!(mistake.contains("user name") && !mistake.contains("hunter2"), "{mistake}");
    }

    #[test]
    fn an_option_belongs_to_its_kind_of_store() {
        let knows = |url: &str, key: &str| ObjectStoreUrl::parse(url, StorePurpose::Follow).unwrap().knows(key);
        for (url, key, known) in [
            ("s3://b/x", "aws_endpoint", true),
            ("s3://b/x", "aws_allow_http", true),
            ("s3://b/x", "allow_http", true),
            ("s3://b/x", "aws_bucket", false),
            ("s3://b/x", "azure_storage_account_name", false),
            ("az://c/x", "azure_storage_account_name", true),
            ("gs://b/x", "google_service_account", true),
            ("https://h/x", "connect_timeout", true),
            ("https://h/x", "username", true),
            ("s3://b/x", "password", false),
            ("https://h/x", "aws_endpoint", false),
            ("file:///x", "allow_http", false),
        ] {
            assert_eq!(knows(url, key), known, "{url} {key}");
        }
    }

    #[test]
    fn an_option_that_would_have_no_effect_is_refused() {
        let mistake = |key: &str, value: &str| {
            let url = ObjectStoreUrl::parse("s3://b/x", StorePurpose::Follow).unwrap();
            url.mistake(key, value).unwrap_or_default()
        };
        for key in ["proxy_url", "aws_proxy_url", "allow_invalid_certificates", "disable_system_certificates"] {
            assert!(mistake(key, "hunter2").starts_with("is not supported: "), "{key}");
        }
        for (value, told) in [("mirror/1", ""), ("a\nb", "the value (not shown) is not a text for a header")] {
            assert_eq!(mistake("user_agent", value), told);
        }
    }
}
