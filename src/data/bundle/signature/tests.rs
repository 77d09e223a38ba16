//! Signatures, compared with those of the `minisign` tool.

use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;

/// Runs the tool itself.
fn tool(dir: &Path, arguments: &[&str], input: &str) {
    let mut child = Command::new("minisign")
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool `minisign` is there: setup.sh installs it");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "minisign {arguments:?}: {output:?}");
}

fn public(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap().lines().nth(1).unwrap().to_owned()
}

fn trusted(keys: &[&str]) -> TrustedKeys {
    TrustedKeys::parse(keys.iter().copied()).unwrap()
}

fn never() -> io::Result<String> {
    panic!("no password is needed")
}

/// A directory with two key pairs without passwords and a file.
fn setting() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    tool(dir.path(), &["-G", "-W", "-p", "a.pub", "-s", "a.key"], "");
    tool(dir.path(), &["-G", "-W", "-p", "b.pub", "-s", "b.key"], "");
    let bytes: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(dir.path().join("file"), &bytes).unwrap();
    (dir, bytes)
}

#[test]
fn what_the_tool_signs_is_accepted_and_what_we_sign_the_tool_accepts() {
    let (dir, bytes) = setting();
    tool(dir.path(), &["-S", "-s", "a.key", "-m", "file", "-t", "a comment"], "");
    let signature = Signature::beside(&dir.path().join("file")).unwrap().unwrap();
    let (a, b) = (public(dir.path(), "a.pub"), public(dir.path(), "b.pub"));
    let signed = signature.verify(Cursor::new(&bytes), &trusted(&[&b, &a])).unwrap();
    assert_eq!(signed.comment, "a comment");
    let shown = fs::read_to_string(dir.path().join("a.pub")).unwrap();
    assert!(shown.contains(&signed.key.to_string()), "{shown} has not {}", signed.key);

    let signer = Signer::open(&dir.path().join("b.key"), never).unwrap();
    let text = signer.sign(Cursor::new(&bytes), "snapshot 1").unwrap();
    fs::write(dir.path().join("file.minisig"), &text).unwrap();
    tool(dir.path(), &["-V", "-p", "b.pub", "-m", "file"], "");
    let signed = Signature::parse(text.as_bytes()).unwrap().verify(Cursor::new(&bytes), &trusted(&[&b])).unwrap();
    assert_eq!((signed.comment.as_str(), signed.key), ("snapshot 1", signer.key()));
    assert!(!format!("{signer:?}").contains("RW"));
}

#[test]
fn the_id_of_a_key_is_shown_as_the_tool_shows_it() {
    assert_eq!(KeyId::of(&[0x30, 0x9c, 0x22, 0x08, 0x99, 0x62, 0xc6, 0x0c]).to_string(), "CC6629908229C30");
}

#[test]
fn a_key_with_a_password_signs_with_it_and_with_no_other() {
    let dir = tempfile::tempdir().unwrap();
    tool(dir.path(), &["-G", "-p", "a.pub", "-s", "a.key"], "secret\nsecret\n");
    let path = dir.path().join("a.key");
    let wrong = Signer::open(&path, || Ok("Secret".to_owned())).unwrap_err();
    assert!(matches!(wrong, SignatureError::WrongPassword(_)), "{wrong}");
    let signer = Signer::open(&path, || Ok("secret".to_owned())).unwrap();
    fs::write(dir.path().join("file"), "text").unwrap();
    fs::write(dir.path().join("file.minisig"), signer.sign(&b"text"[..], "x").unwrap()).unwrap();
    tool(dir.path(), &["-V", "-p", "a.pub", "-m", "file"], "");
}

#[test]
fn another_key_another_file_and_another_comment_are_refused() {
    let (dir, mut bytes) = setting();
    let signer = Signer::open(&dir.path().join("a.key"), never).unwrap();
    let text = signer.sign(Cursor::new(&bytes), "snapshot 1").unwrap();
    let (a, b) = (public(dir.path(), "a.pub"), public(dir.path(), "b.pub"));
    let signature = Signature::parse(text.as_bytes()).unwrap();
    let error = signature.verify(Cursor::new(&bytes), &trusted(&[&b])).unwrap_err();
    assert!(matches!(error, SignatureError::Untrusted { .. }), "{error}");
    assert!(signature.verify(Cursor::new(&bytes), &TrustedKeys::default()).is_err());
    let altered = Signature::parse(text.replace("snapshot 1", "snapshot 2").as_bytes()).unwrap();
    let error = altered.verify(Cursor::new(&bytes), &trusted(&[&a])).unwrap_err();
    assert!(matches!(error, SignatureError::Wrong(_)), "{error}");
    bytes[123_456] ^= 1;
    let error = signature.verify(Cursor::new(&bytes), &trusted(&[&a])).unwrap_err();
    assert!(matches!(error, SignatureError::Wrong(_)), "{error}");
}

#[test]
fn every_byte_of_a_signature_matters_but_those_of_its_untrusted_comment() {
    let (dir, _) = setting();
    let signer = Signer::open(&dir.path().join("a.key"), never).unwrap();
    let text = signer.sign(&b"x"[..], "snapshot 1").unwrap();
    let keys = trusted(&[&public(dir.path(), "a.pub")]);
    let untrusted = text.find('\n').unwrap();
    for at in untrusted..text.len() {
        let mut altered = text.clone().into_bytes();
        altered[at] ^= 1;
        let accepted =
            Signature::parse(&altered).is_ok_and(|signature| signature.verify(Cursor::new(b"x"), &keys).is_ok());
        // The end of the last line may be anything that reads as one.
        assert!(!accepted || at + 1 == text.len(), "byte {at} of {text}");
        let _ = Signature::parse(&text.as_bytes()[..at]);
    }
}

#[test]
fn the_old_form_is_refused_by_name() {
    let (dir, _) = setting();
    tool(dir.path(), &["-S", "-l", "-s", "a.key", "-m", "file"], "");
    let error = Signature::beside(&dir.path().join("file")).err().unwrap();
    assert!(matches!(error, SignatureError::Legacy), "{error}");
}

#[test]
fn what_is_no_key_and_no_signature_is_named() {
    let (dir, _) = setting();
    assert!(Signature::beside(&dir.path().join("file")).unwrap().is_none());
    for text in ["", "a\nb\nc\nd\n", "untrusted comment: x\nRUQ\ntrusted comment: y\nAA==\n"] {
        assert!(matches!(Signature::parse(text.as_bytes()), Err(SignatureError::NotASignature(_))), "{text:?}");
    }
    assert!(Signature::parse(&vec![b'a'; 20_000]).is_err());
    for key in ["RW", &"A".repeat(56), ""] {
        assert!(matches!(TrustedKeys::parse([key]), Err(SignatureError::NotAKey(_))), "{key:?}");
    }
    for name in ["a.pub", "file"] {
        assert!(Signer::open(&dir.path().join(name), never).is_err(), "{name}");
    }
    let mut short = fs::read_to_string(dir.path().join("a.key")).unwrap();
    short.truncate(short.len() - 20);
    fs::write(dir.path().join("short.key"), short).unwrap();
    assert!(Signer::open(&dir.path().join("short.key"), never).is_err());
}

#[test]
fn only_a_regular_file_is_opened_by_whatever_links() {
    let dir = tempfile::tempdir().unwrap();
    let [file, link, fifo, socket, none] = ["file", "link", "fifo", "socket", "none"].map(|name| dir.path().join(name));
    fs::write(&file, "x").unwrap();
    symlink(&file, &link).unwrap();
    files::open(&link).unwrap();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _listener = UnixListener::bind(&socket).unwrap();
    for (path, what) in
        [(dir.path(), "a directory"), (&fifo, "a FIFO"), (&socket, "a socket"), (Path::new("/dev/zero"), "a device")]
    {
        let refused = files::open(path).unwrap_err().to_string();
        assert!(refused.contains(what), "{what}: {refused}");
    }
    assert_eq!(files::open(&none).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn whose_a_bundle_is_comes_before_what_is_wrong_with_it() {
    let (dir, mut bytes) = setting();
    bytes[..8].copy_from_slice(&crate::data::bundle::MAGIC[..8]);
    let signer = Signer::open(&dir.path().join("a.key"), never).unwrap();
    let text = signer.sign(Cursor::new(&bytes), "snapshot 1").unwrap();
    let keys = trusted(&[&public(dir.path(), "a.pub")]);
    let judged = |bytes: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let signature = Signature::parse(text.as_bytes()).unwrap();
        open(file, Claim::Signed(signature), &keys, None, &mut |_, _| {}).unwrap_err()
    };
    let error = judged(&bytes);
    assert!(matches!(error, TrustError::Bundle(_)), "whole, and no bundle: {error}");
    bytes[150_000] ^= 1;
    let error = judged(&bytes);
    assert!(matches!(error, TrustError::Signature(SignatureError::Wrong(_))), "{error}");
}
