//! A real S3 server: moto, as its package `moto[server]` installs it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use http::Method;

use crate::client::{Reply, plain_client};
use crate::harness::{PATIENCE, Setup};

const BUCKET: &str = "fleet";
/// The server reads who asks, and does not check the signature.
const AUTHORIZATION: &str =
    "AWS4-HMAC-SHA256 Credential=tester/20261122/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// The server until it is dropped.
pub struct S3 {
    child: Child,
    url: String,
}

impl S3 {
    /// Starts it on a port of the system's choice, with an empty bucket.
    pub async fn start() -> Self {
        let mut child = Command::new(program())
            .args(["-H", "127.0.0.1", "-p", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("moto_server: setup.sh installs it");
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (tell, told) = mpsc::channel();
        // It goes on reading, so that the server can go on writing.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some((_, address)) = line.split_once("Running on http://") {
                    let _ = tell.send(format!("http://{}", address.trim()));
                }
            }
        });
        let url = tokio::task::spawn_blocking(move || told.recv_timeout(PATIENCE)).await.unwrap();
        let this = Self { child, url: url.expect("moto_server says where it listens") };
        assert_eq!(this.send(Method::PUT, "").await.status(), 200);
        this
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address of a prefix.
    pub fn place(prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}")
    }

    /// A setup that publishes to a prefix.
    pub fn publishing(&self, setup: Setup, prefix: &str) -> Setup {
        with_options(setup.set("publish.url", &Self::place(prefix)), "publish", &self.url)
    }

    /// An object, read without our code.
    pub async fn get(&self, prefix: &str, key: &str) -> Reply {
        Reply::of(self.send(Method::GET, &format!("{prefix}/{key}")).await).await
    }

    pub async fn delete(&self, prefix: &str, key: &str) {
        assert_eq!(self.send(Method::DELETE, &format!("{prefix}/{key}")).await.status(), 204);
    }

    async fn send(&self, method: Method, path: &str) -> reqwest::Response {
        let request = plain_client().request(method, format!("{}/{BUCKET}/{path}", self.url));
        request.header("authorization", AUTHORIZATION).send().await.unwrap()
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // It may have ended by itself; both fail then, and that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The options of a store at this address, with credentials. `section`: `publish` or `replica`.
pub fn with_options(setup: Setup, section: &str, endpoint: &str) -> Setup {
    let options = [
        ("aws_endpoint", endpoint),
        ("aws_access_key_id", "tester"),
        ("aws_secret_access_key", "hunter2"),
        ("aws_region", "us-east-1"),
    ];
    options.into_iter().fold(setup, |setup, (name, value)| setup.set(&format!("{section}.options.{name}"), value))
}

/// Where setup.sh puts it, or where the system has it.
fn program() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/moto/bin/moto_server");
    if own.exists() { own } else { PathBuf::from("moto_server") }
}
