//! The certificate files: their content, and the messages about bad ones.

use std::path::Path;

use super::{DAYS, NAME, address, certified, client, with_tls};
use crate::harness::openssl::{authority, openssl, signed, signed_for_key};
use crate::harness::{Setup, run};

#[tokio::test]
async fn unusable_files_are_named_with_what_is_wrong() {
    let (good, other) = (certified(), certified());
    let dir = good.path();
    let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    openssl(dir, &["x509", "-in", "cert.pem", "-outform", "DER", "-out", "cert.der"]);
    openssl(dir, &["pkcs8", "-topk8", "-in", "key.pem", "-passout", "pass:x", "-out", "locked.pem"]);
    openssl(dir, &["ec", "-in", "key.pem", "-aes256", "-passout", "pass:x", "-out", "locked-before.pem"]);
    assert!(std::fs::read_to_string(dir.join("locked-before.pem")).unwrap().contains("Proc-Type: 4,ENCRYPTED"));
    std::fs::write(dir.join("wide.pem"), b"\xff\xfe-\0-\0-\0-\0-\0").unwrap();
    std::fs::write(dir.join("empty.pem"), "").unwrap();
    std::fs::write(dir.join("cut.pem"), &std::fs::read(dir.join("cert.pem")).unwrap()[..200]).unwrap();
    let strange = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n";
    std::fs::write(dir.join("strange.pem"), strange).unwrap();
    let strange = "-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n";
    std::fs::write(dir.join("strange.key"), strange).unwrap();
    let chain = [std::fs::read(dir.join("ca.pem")).unwrap(), std::fs::read(dir.join("cert.pem")).unwrap()].concat();
    std::fs::write(dir.join("wrong-way.pem"), chain).unwrap();
    let (cert, key, foreign) = (at("cert.pem"), at("key.pem"), other.path().join("key.pem"));
    for (cert, key, wrong) in [
        ("/nowhere/cert.pem", &*key, vec!["tls.cert: \"/nowhere/cert.pem\" cannot be read: No such file"]),
        (&cert, "/nowhere/key.pem", vec!["tls.key: \"/nowhere/key.pem\" cannot be read: No such file"]),
        ("/nowhere/c", "/nowhere/k", vec!["tls.cert: \"/nowhere/c\" cannot", "tls.key: \"/nowhere/k\" cannot"]),
        (
            dir.to_str().unwrap(),
            &key,
            vec!["tls.cert: ", "cannot be read: this is a directory, and a regular file is needed"],
        ),
        (
            &at("empty.pem"),
            &at("empty.pem"),
            vec!["contains no certificate: it is empty", "contains no private key: it is empty"],
        ),
        (&at("cert.der"), &key, vec!["tls.cert: ", "contains no certificate: it looks like DER"]),
        (&at("cut.pem"), &key, vec!["tls.cert: ", "is not PEM"]),
        (
            &key,
            &cert,
            vec!["contains no certificate, but a private key: are", "contains no private key, but certificates"],
        ),
        (&at("strange.pem"), &key, vec!["tls.cert: ", "contains an invalid certificate"]),
        (&cert, &at("strange.key"), vec!["tls.key: ", "contains an unusable private key"]),
        (&cert, &at("locked.pem"), vec!["tls.key: ", "contains an encrypted private key", "openssl pkey -in"]),
        (&cert, &at("locked-before.pem"), vec!["tls.key: ", "contains an encrypted private key", "openssl pkey -in"]),
        (&at("wide.pem"), &key, vec!["tls.cert: ", "contains no certificate: it is UTF-16; save it as UTF-8"]),
        (&cert, foreign.to_str().unwrap(), vec!["tls.key: ", "does not belong to the first certificate in", &cert]),
        (&at("wrong-way.pem"), &key, vec!["tls.key: ", "does not belong to the first certificate in"]),
    ] {
        let setup = with_tls(Setup::offline(), dir).set("tls.cert", cert).set("tls.key", key);
        for command in ["check", "serve"] {
            let (code, said) = run(&setup.arguments(&[command], &dir.join("data"))).await;
            assert_eq!(code, 64, "{command} {cert} {key}: {said}");
            for wrong in &wrong {
                assert!(said.contains(wrong), "{command} does not say {wrong:?}: {said}");
            }
            assert!(!said.contains("panicked") && !said.contains("MII"), "{said}");
        }
    }
    assert!(!dir.join("data").exists(), "nothing is touched");
}

#[tokio::test]
async fn a_certificate_that_is_over_or_that_of_an_authority_is_served_with_a_warning() {
    let (over, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    authority(over.path());
    signed(over.path(), NAME, &["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"]);
    let make = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "key.pem"];
    openssl(own.path(), &[&make[..], &["-out", "cert.pem"]].concat());
    let trusting = crate::client::client_builder().no_proxy().tls_danger_accept_invalid_certs(true).build().unwrap();
    for (dir, warning, logged, found) in [
        (&over, "tls.cert: the certificate expired at 2020-02-01T00:00:00Z", "expired at", "expired"),
        (&own, OF_AUTHORITY, OF_AUTHORITY, "CA:FALSE"),
    ] {
        let setup = with_tls(Setup::offline(), dir.path());
        let (code, said) = run(&setup.arguments(&["check"], &dir.path().join("data"))).await;
        assert!(code == 0 && said.contains(&format!("warning: {warning}")), "{said}");
        let server = setup.start().await;
        assert!(server.process.said().contains(logged), "{}", server.process.said());
        assert!(server.finding("certificate-ends").await.unwrap().contains(found));
        let url = format!("https://{}/nothing", address(&server).await);
        assert_eq!(trusting.get(url).send().await.unwrap().status(), 404);
        if found == "expired" {
            assert_eq!(server.status().await["tls"]["valid_until"], "2020-02-01T00:00:00Z");
        }
    }
}

const OF_AUTHORITY: &str = "tls.cert: the certificate is that of an authority (CA:TRUE): many clients refuse it";

/// Makes `key.pem` of a kind, by these commands; the second reads `made.pem` of the first.
fn make_key(dir: &Path, commands: &[&[&str]]) {
    for command in commands {
        openssl(dir, command);
        std::fs::copy(dir.join("key.pem"), dir.join("made.pem")).unwrap();
    }
}

#[tokio::test]
async fn keys_of_every_usual_kind_and_form_are_served_also_behind_a_byte_order_mark() {
    let dir = tempfile::tempdir().unwrap();
    authority(dir.path());
    let rsa = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "key.pem"];
    let p384 = ["ecparam", "-name", "secp384r1", "-genkey", "-noout", "-out", "key.pem"];
    let kinds: [(&str, &[&[&str]]); 5] = [
        ("BEGIN PRIVATE KEY", &[&rsa]),
        ("BEGIN RSA PRIVATE KEY", &[&rsa, &["rsa", "-in", "made.pem", "-traditional", "-out", "key.pem"]]),
        ("BEGIN EC PRIVATE KEY", &[&p384]),
        ("BEGIN PRIVATE KEY", &[&p384, &["pkcs8", "-topk8", "-nocrypt", "-in", "made.pem", "-out", "key.pem"]]),
        ("BEGIN PRIVATE KEY", &[&["genpkey", "-algorithm", "ed25519", "-out", "key.pem"]]),
    ];
    for (form, commands) in kinds {
        make_key(dir.path(), commands);
        assert!(std::fs::read_to_string(dir.path().join("key.pem")).unwrap().contains(form), "{form}");
        signed_for_key(dir.path(), NAME, &DAYS);
        if form.contains("EC") {
            for path in ["cert.pem", "key.pem"].map(|name| dir.path().join(name)) {
                std::fs::write(&path, ["\u{feff}".as_bytes(), &std::fs::read(&path).unwrap()].concat()).unwrap();
            }
        }
        let server = with_tls(Setup::offline(), dir.path()).start().await;
        let url = format!("https://{}/nothing", address(&server).await);
        let reply = client(dir.path()).build().unwrap().get(url).send().await;
        assert_eq!(reply.unwrap().status(), 404, "{form} of {commands:?}");
    }
}

/// Chain and key may share a file, and the chain may be long.
#[tokio::test]
async fn a_chain_is_sent_whole_and_may_share_a_file_with_the_key() {
    let (root, below) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    authority(root.path());
    let request = ["req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=between", "-keyout", "between.key"];
    openssl(root.path(), &[&request[..], &["-out", "between.csr"]].concat());
    std::fs::write(root.path().join("between.ext"), "basicConstraints=critical,CA:TRUE\n").unwrap();
    let sign =
        ["x509", "-req", "-in", "between.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"];
    openssl(root.path(), &[&sign[..], &["-extfile", "between.ext", "-out", "between.pem"]].concat());
    authority(below.path());
    for (from, to) in [("between.pem", "ca.pem"), ("between.key", "ca.key")] {
        std::fs::copy(root.path().join(from), below.path().join(to)).unwrap();
    }
    signed(below.path(), NAME, &DAYS);
    let all = ["key.pem", "cert.pem", "ca.pem"].map(|name| std::fs::read(below.path().join(name)).unwrap());
    let one = below.path().join("all.pem");
    std::fs::write(&one, all.concat()).unwrap();
    let one = one.to_str().unwrap();
    let server = with_tls(Setup::offline(), below.path()).set("tls.cert", one).set("tls.key", one).start().await;
    let url = format!("https://{}/nothing", address(&server).await);
    assert_eq!(client(root.path()).build().unwrap().get(url).send().await.unwrap().status(), 404);
}

/// Only `serve` needs the key.
#[tokio::test]
async fn status_needs_no_key() {
    let dir = certified();
    let server = with_tls(Setup::offline(), dir.path()).start().await;
    let elsewhere = server.setup.clone().set("tls.key", "/nowhere/key.pem");
    let (code, said) = run(&elsewhere.arguments(&["status"], &server.data_dir())).await;
    assert!(code == 1 && said.contains("\n  problem    no snapshot has been imported yet, "), "{code} {said}");
    assert!(said.contains("https      certificate valid until 2"), "{said}");
}
