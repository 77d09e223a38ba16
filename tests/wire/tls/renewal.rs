//! Certificates are renewed in place, without a restart or a lost request.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;

use super::{DAYS, NAME, address, certified, client, connect, with_tls};
use crate::harness::openssl::signed;
use crate::harness::{Server, Setup, breath, wait_until};

/// The certificate that new connections get.
async fn served(address: SocketAddr, dir: &Path) -> Vec<u8> {
    let stream = connect(address, dir, &["http/1.1"]).await;
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// The renewal of the certificate in `dir`: chain and key.
fn renewed(dir: &Path) -> [Vec<u8>; 2] {
    let apart = TempDir::new().unwrap();
    for name in ["ca.pem", "ca.key", "ca.cnf", "index", "ca.srl"] {
        std::fs::copy(dir.join(name), apart.path().join(name)).unwrap();
    }
    signed(apart.path(), NAME, &DAYS);
    ["cert.pem", "key.pem"].map(|name| std::fs::read(apart.path().join(name)).unwrap())
}

fn replace(dir: &Path, name: &str, content: &[u8]) {
    let aside = dir.join("aside");
    std::fs::write(&aside, content).unwrap();
    std::fs::rename(aside, dir.join(name)).unwrap();
}

async fn says(server: &Server, text: &str) {
    wait_until(&format!("it says {text:?}"), || async { server.process.said().contains(text) }).await;
}

#[tokio::test]
async fn a_new_certificate_is_taken_under_load_and_no_request_fails() {
    let dir = certified();
    let server = with_tls(Setup::offline(), dir.path()).start().await;
    let address = address(&server).await;
    let before = served(address, dir.path()).await;
    let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load: Vec<_> = [(true, true), (true, false), (false, true), (false, false)]
        .into_iter()
        .map(|(http2, keeps)| {
            let client = client(dir.path()).pool_max_idle_per_host(usize::from(keeps));
            let client = if http2 { client } else { client.http1_only() }.build().unwrap();
            let (stop, answered, dir) = (stop.clone(), answered.clone(), dir.path().to_owned());
            tokio::spawn(async move {
                let mut client = client;
                while !stop.load(Ordering::Relaxed) {
                    if http2 && !keeps {
                        client = super::client(&dir).build().unwrap();
                    }
                    let reply = client.get(format!("https://{address}/nothing")).send().await.unwrap();
                    assert_eq!(reply.status(), 404);
                    answered.fetch_add(1, Ordering::Relaxed);
                    breath().await;
                }
            })
        })
        .collect();
    // One after the other, as certbot does, without telling the server.
    let [cert, key] = renewed(dir.path());
    replace(dir.path(), "cert.pem", &cert);
    let so_far = answered.load(Ordering::Relaxed);
    wait_until("requests are answered between the two", || async { answered.load(Ordering::Relaxed) > so_far + 20 })
        .await;
    replace(dir.path(), "key.pem", &key);
    wait_until("new connections get it", || async { served(address, dir.path()).await != before }).await;
    let so_far = answered.load(Ordering::Relaxed);
    wait_until("requests are answered after it", || async { answered.load(Ordering::Relaxed) > so_far + 20 }).await;
    stop.store(true, Ordering::Relaxed);
    for client in load {
        client.await.unwrap();
    }
    let said = server.process.said();
    assert!(said.contains("the new certificate is in use") && !said.contains("ERROR"), "{said}");
}

#[tokio::test]
async fn a_broken_renewal_keeps_the_old_certificate_and_says_so() {
    let dir = certified();
    let server = with_tls(Setup::offline(), dir.path()).start().await;
    let address = address(&server).await;
    let before = served(address, dir.path()).await;
    let [cert, key] = renewed(dir.path());
    let old_key = std::fs::read(dir.path().join("key.pem")).unwrap();
    for (cert, key, wrong) in [
        (&cert[..], &old_key[..], "does not belong to the first certificate"),
        (b"", &old_key, "contains no certificate: it is empty"),
        (&cert, b"nonsense", "contains no private key"),
    ] {
        replace(dir.path(), "cert.pem", cert);
        replace(dir.path(), "key.pem", key);
        server.process.signal("HUP");
        wait_until("it is told", || async {
            server
                .finding("certificate-files")
                .await
                .is_some_and(|told| told.starts_with("HTTPS: ") && told.contains(wrong))
        })
        .await;
        let told = server.finding("certificate-files").await.unwrap();
        assert!(told.contains("the old one stays"), "{told}");
        says(&server, wrong).await;
        assert_eq!(served(address, dir.path()).await, before);
    }
    replace(dir.path(), "key.pem", &key);
    server.process.signal("HUP");
    says(&server, "the new certificate is in use").await;
    assert_ne!(served(address, dir.path()).await, before);
    let over = async || server.finding("certificate-files").await.is_none_or(|told| told.starts_with("no longer: "));
    wait_until("it is over", over).await;
    server.process.signal("HUP");
    says(&server, "the certificate files have not changed").await;
}

#[tokio::test]
async fn a_reload_takes_a_certificate_from_other_files() {
    let (dir, other, files) = (certified(), certified(), TempDir::new().unwrap());
    let config = files.path().join("grandstand.toml");
    let write = |dir: &Path| {
        let [cert, key] = ["cert.pem", "key.pem"].map(|name| dir.join(name));
        std::fs::write(&config, format!("tls = {{ cert = {cert:?}, key = {key:?} }}\n")).unwrap();
    };
    write(dir.path());
    let setup = with_tls(Setup::offline(), dir.path()).without("tls.cert").without("tls.key");
    let server = setup.serving(&["--config", config.to_str().unwrap()]).start().await;
    let address = address(&server).await;
    served(address, dir.path()).await;
    write(other.path());
    let report = server.admin(http::Method::POST, "/reload").await.json();
    assert_eq!(report["applied"], serde_json::json!(["tls.cert", "tls.key"]), "{report}");
    let renewed = served(address, other.path()).await;
    // Files that are not there are a mistake.
    write(&files.path().join("nowhere"));
    let refused = server.admin(http::Method::POST, "/reload").await;
    let errors = refused.json()["errors"].to_string();
    assert!(refused.status == 422 && errors.contains("tls.cert") && errors.contains("nowhere"), "{refused:?}");
    assert_eq!(served(address, other.path()).await, renewed);
}

/// Without a signal, too, but only if no replacement is under way.
#[tokio::test]
async fn files_that_vanish_are_reported_and_the_old_certificate_stays() {
    let dir = certified();
    let server = with_tls(Setup::offline(), dir.path()).start().await;
    let address = address(&server).await;
    let before = served(address, dir.path()).await;
    std::fs::remove_file(dir.path().join("cert.pem")).unwrap();
    wait_until("it is told", || async {
        server.finding("certificate-files").await.is_some_and(|told| told.contains("cannot be read: No such file"))
    })
    .await;
    assert_eq!(served(address, dir.path()).await, before);
    assert_eq!(server.process.said().matches("the old one stays").count(), 1);
}
