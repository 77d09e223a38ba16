//! A real object store: where it is, a client that is not ours, and a line to it that can be cut.
//!
//! `GRANDSTAND_STORE_URL` is the address of a bucket, `GRANDSTAND_STORE_OPTIONS` has one option a line,
//! `GRANDSTAND_STORE_ENDPOINT` is the name of the option with the endpoint, `GRANDSTAND_STORE_SECRET` that of the
//! option with the secret, if the store checks it, and `GRANDSTAND_STORE_WRONG` another value for that.
//! `GRANDSTAND_STORE_TORN` is set if the store shows objects that are only half written.

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};
use sample_origin::Origin;
use url::Url;

use crate::fleet::relay::Relay;
use crate::fleet::store::Head;
use crate::harness::{Server, Setup, origin, until};

/// A prefix of the store.
pub struct Real {
    url: String,
    options: Vec<(String, String)>,
    client: Box<dyn ObjectStore>,
    prefix: Path,
    /// The way of the servers under test to the store.
    pub line: Relay,
}

fn given(name: &str) -> Option<String> {
    std::env::var(format!("GRANDSTAND_STORE_{name}")).ok().filter(|value| !value.is_empty())
}

impl Real {
    /// A prefix that no other test uses.
    pub async fn at(name: &str) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let url = given("URL").expect("GRANDSTAND_STORE_URL: tests/stores/run.py sets it");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let url = format!("{url}/{name}/{now}");
        let lines = given("OPTIONS").unwrap_or_default();
        let mut options: Vec<(String, String)> = lines
            .lines()
            .filter_map(|line| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())))
            .collect();
        let direct = options.iter().cloned().chain([("allow_http".to_owned(), "true".to_owned())]);
        let (client, prefix) = object_store::parse_url_opts(&Url::parse(&url).unwrap(), direct).unwrap();
        let endpoint = given("ENDPOINT").expect("GRANDSTAND_STORE_ENDPOINT");
        let (_, value) = options.iter_mut().find(|(key, _)| *key == endpoint).expect("the option with the endpoint");
        let mut there = Url::parse(value).unwrap();
        let line = Relay::to(there.port().unwrap()).await;
        there.set_port(Some(line.port())).unwrap();
        there.as_str().trim_end_matches('/').clone_into(value);
        Self { url, options, client, prefix, line }
    }

    /// A setup that publishes here.
    pub fn publishes(&self, setup: Setup) -> Setup {
        self.with(setup, "publish")
    }

    /// A setup that follows this prefix.
    pub fn following(&self, setup: Setup) -> Setup {
        self.with(setup, "replica").set("replica.poll", "200ms")
    }

    fn with(&self, setup: Setup, section: &str) -> Setup {
        let setup = setup.set(&format!("{section}.url"), &self.url);
        let options = self.options.iter();
        options.fold(setup, |setup, (name, value)| setup.set(&format!("{section}.options.{name}"), value))
    }

    /// A mirror with everything, that begins to publish when it has it.
    pub async fn publishing(&self, listings: usize, change: impl FnOnce(Setup) -> Setup) -> (Origin, Server) {
        let origin = origin(listings).await;
        let mut server = change(Setup::mirror_of(&origin)).start().await;
        server.settled(&origin).await;
        server.setup = self.publishes(server.setup.clone());
        server.restart().await;
        server.settled(&origin).await;
        (origin, server)
    }

    /// The option with the secret, and a wrong value; `None`: the store takes everybody.
    pub fn wrong() -> Option<(String, String)> {
        Some((given("SECRET")?, given("WRONG")?))
    }

    /// Whether a text has the secret in it.
    pub fn is_told_by(&self, text: &str) -> bool {
        let secret = given("SECRET").and_then(|name| self.options.iter().find(|(key, _)| *key == name));
        secret.is_some_and(|(_, value)| text.contains(value))
    }

    fn path(&self, key: &str) -> Path {
        Path::from(format!("{}/{key}", self.prefix))
    }

    /// An object; `None`: there is none.
    pub async fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.try_get(key).await.unwrap_or_else(|error| panic!("{key}: {error}"))
    }

    async fn try_get(&self, key: &str) -> object_store::Result<Option<Vec<u8>>> {
        match self.client.get(&self.path(key)).await {
            Ok(found) => Ok(Some(found.bytes().await?.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn put(&self, key: &str, bytes: Vec<u8>) {
        self.client.put(&self.path(key), bytes.into()).await.unwrap();
    }

    pub async fn delete(&self, key: &str) {
        self.client.delete(&self.path(key)).await.unwrap();
    }

    /// The head; only its form is checked. No reader ever sees half of it, except where the store is known for that.
    pub async fn head(&self) -> Option<Head> {
        if given("TORN").is_none() {
            return self.get("head.json").await.map(|file| Head::parse(&file));
        }
        until("the head is written", || async {
            let file = self.try_get("head.json").await.ok()?;
            let is_whole = |file: &Vec<u8>| serde_json::from_slice::<serde_json::Value>(file).is_ok();
            file.as_ref().is_none_or(is_whole).then(|| file.map(|file| Head::parse(&file)))
        })
        .await
    }

    /// Waits until the store has what the server serves. All objects of that head must be in order.
    pub async fn has(&self, server: &Server) -> Head {
        let snapshot = server.snapshot().await;
        until("the store has what is served", || async {
            let head = self.head().await.filter(|head| head.snapshot() == snapshot)?;
            let mut objects = Vec::new();
            for key in head.keys() {
                objects.push((key.clone(), self.get(&key).await?));
            }
            // It may have changed meanwhile.
            let again = self.head().await?;
            if again.sequence() == head.sequence() {
                head.check(|key| objects.iter().find(|(own, _)| own == key).unwrap().1.clone());
                return Some(head);
            }
            None
        })
        .await
    }
}
