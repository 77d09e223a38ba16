//! Tests of heads.

use minisign::KeyPair;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn now() -> WallTime {
    WallTime::from_millis(1_790_000_000_000)
}

#[test]
fn a_number_more_than_a_day_ahead_is_refused_with_the_clock_that_was_compared() {
    for (ahead_ms, refused) in [(-1, false), (0, false), (86_400_000, false), (86_400_001, true)] {
        let sequence = u64::try_from(now().as_millis() + ahead_ms).unwrap();
        let file = Head { sequence, ..head() }.to_file(None).unwrap();
        let read = Head::read(&file, &TrustedKeys::default(), now());
        assert_eq!(matches!(read, Err(HeadError::Ahead { .. })), refused, "{ahead_ms}");
    }
    let file = Head { sequence: MOST_NUMBER - 1, ..head() }.to_file(None).unwrap();
    let text = Head::read(&file, &TrustedKeys::default(), now()).unwrap_err().to_string();
    assert!(text.contains("9007199254740990") && text.contains("1790000000000 ms since 1970"), "{text}");
}

fn snapshot_id(n: u8) -> SnapshotId {
    SnapshotId::parse(&format!("{n:02x}").repeat(16)).unwrap()
}

fn hash(n: u8) -> Digest {
    Digest([n; 32])
}

fn bundle(base: Option<u8>, n: u8, snapshot: u8) -> NamedBundle {
    NamedBundle::new(base.map(hash), hash(n), snapshot_id(snapshot), FileHash { bytes: 100, blake3: hash(200) })
}

/// A full bundle, a delta of content, and one of details.
fn head() -> Head {
    Head {
        format: FORMAT,
        sequence: 1_790_000_000_001,
        written_ms: 1_790_000_000_000,
        confirmed_ms: 1_789_999_999_000,
        certificate: Certificate::Incremental,
        snapshot: snapshot_id(2),
        full: bundle(None, 10, 1),
        deltas: vec![bundle(Some(10), 11, 2), bundle(Some(11), 12, 2)],
        journal: NamedJournal::new(FileHash { bytes: 9, blake3: hash(77) }),
    }
}

fn file_of(text: &str, signature: Option<&str>) -> Vec<u8> {
    serde_json::to_vec(&json!({ "head": text, "signature": signature })).unwrap()
}

/// A signer with a key of its own, and the keys that trust it.
fn signer() -> (Signer, TrustedKeys) {
    let dir = tempfile::tempdir().unwrap();
    let pair = KeyPair::generate_unencrypted_keypair().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, pair.sk.to_box(None).unwrap().to_string()).unwrap();
    let signer = Signer::open(&path, || unreachable!("it has no password")).unwrap();
    (signer, TrustedKeys::parse([pair.pk.to_base64().as_str()]).unwrap())
}

#[test]
fn a_head_is_read_as_it_is_written() {
    let file = head().to_file(None).unwrap();
    assert_eq!(Head::read(&file, &TrustedKeys::default(), now()).unwrap(), (head(), None));
    assert_eq!(Head::read_unverified(&file).unwrap(), head());
    let outer: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(outer["signature"], Value::Null);
    let inner: Value = serde_json::from_str(outer["head"].as_str().unwrap()).unwrap();
    assert_eq!(inner["format"], 1);
    assert_eq!(inner["certificate"], "incremental");
    assert_eq!(inner["full"]["key"], format!("full/{}-{}.gsb", snapshot_id(1), hash(10).short()));
    assert_eq!(inner["full"].get("base_digest"), None);
    assert_eq!(inner["deltas"][1]["key"], format!("delta/{}-{}.gsb", hash(11).short(), hash(12).short()));
    assert_eq!(inner["deltas"][1]["base_digest"], hash(11).to_string());
    assert_eq!(inner["journal"]["key"], format!("journal/{}", hash(77).short()));
}

#[test]
fn a_reader_needs_what_follows_its_digest() {
    let head = head();
    assert_eq!(head.after(&hash(10)).unwrap(), &head.deltas[..]);
    assert_eq!(head.after(&hash(11)).unwrap(), &head.deltas[1..]);
    assert_eq!(head.after(&hash(12)).unwrap(), []);
    assert_eq!(head.after(&hash(13)), None);
}

#[test]
fn it_names_what_belongs_to_it_and_nothing_else() {
    let head = head();
    for bundle in head.chain() {
        assert!(head.names(&bundle.key()) && head.names(&bundle.key().signature()));
    }
    assert!(head.names(&ObjectKey::Head) && head.names(&ObjectKey::Journal(hash(77).short())));
    assert!(!head.names(&ObjectKey::Journal(hash(78).short())));
    assert!(!head.names(&ObjectKey::Delta(hash(10).short(), hash(12).short())));
    assert!(!head.names(&ObjectKey::Full(snapshot_id(2), hash(10).short())));
}

#[test]
fn with_trusted_keys_one_of_them_must_have_signed_the_text() {
    let ((signer, trusted), (other, _)) = (signer(), signer());
    let signed = head().to_file(Some(&signer)).unwrap();
    let (read, key) = Head::read(&signed, &trusted, now()).unwrap();
    assert_eq!((read, key), (head(), Some(signer.key())));
    // Nobody has to look at it.
    assert_eq!(Head::read(&signed, &TrustedKeys::default(), now()).unwrap(), (head(), None));
    let unsigned = head().to_file(None).unwrap();
    assert!(matches!(Head::read(&unsigned, &trusted, now()), Err(HeadError::Unsigned)));
    let foreign = head().to_file(Some(&other)).unwrap();
    assert!(matches!(
        Head::read(&foreign, &trusted, now()),
        Err(HeadError::Signature(SignatureError::Untrusted { .. }))
    ));
    let outer: Value = serde_json::from_slice(&signed).unwrap();
    let signature = outer["signature"].as_str();
    let altered = Head { sequence: 1_790_000_000_002, ..head() }.text();
    let altered = Head::read(&file_of(&altered, signature), &trusted, now());
    assert!(matches!(altered, Err(HeadError::Signature(SignatureError::Wrong(_)))));
    let nonsense = Head::read(&file_of(&head().text(), Some("x")), &trusted, now());
    assert!(matches!(nonsense, Err(HeadError::Signature(SignatureError::NotASignature(_)))));
}

#[test]
fn a_newer_format_is_named() {
    let error = Head::read_unverified(&file_of(r#"{"format":2,"news":[]}"#, None)).unwrap_err();
    assert!(matches!(error, HeadError::Format(2)), "{error}");
}

/// The head with one change to its text.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut inner: Value = serde_json::from_str(&head().text()).unwrap();
    change(&mut inner);
    let read = Head::read_unverified(&file_of(&inner.to_string(), None));
    read.map_or_else(|error| error.to_string(), |head| panic!("it is taken: {head:?}"))
}

#[test]
fn a_text_that_is_not_a_head_is_refused_with_the_reason() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 16] = [
        (|head| head["more"] = json!(1), "unknown field `more`"),
        (|head| head["full"]["more"] = json!(1), "unknown field `more`"),
        (|head| head["sequence"] = json!(-1), "invalid value"),
        (|head| head["sequence"] = json!(1_u64 << 53), "beyond 2^53"),
        (|head| head["written_ms"] = json!(i64::MAX), "written_ms is"),
        (|head| head["confirmed_ms"] = json!(1.5), "invalid type"),
        (|head| head["certificate"] = json!("sure"), "unknown variant"),
        (|head| head["snapshot"] = json!("../../etc/passwd"), "is not a snapshot id"),
        (|head| head["snapshot"] = json!(snapshot_id(9).to_string()), "its chain ends with"),
        (|head| head["full"]["key"] = json!("full/../x"), "the key \"full/../x\" must be full/"),
        (|head| head["full"]["bytes"] = json!(0), "is not the length of a file"),
        (|head| head["full"]["base_digest"] = json!(hash(1).to_string()), "must be delta/"),
        (|head| head["full"]["digest"] = json!("ab"), "is not a hash"),
        (|head| head["deltas"][1] = head["deltas"][0].clone(), "does not follow"),
        (|head| head["journal"]["key"] = json!("head.json"), "must be journal/"),
        (|head| head["deltas"][0]["blake3"] = json!("AB".repeat(32)), "is not a hash"),
    ];
    for (change, reason) in cases {
        let error = changed(change);
        assert!(error.contains(reason), "{error} is not {reason}");
    }
}

#[test]
fn a_chain_has_at_most_64_deltas_and_no_circle() {
    let chain = |count: u8| {
        let deltas: Vec<NamedBundle> = (0..count).map(|n| bundle(Some(10 + n), 11 + n, 2)).collect();
        Head { deltas, ..head() }.to_file(None).unwrap()
    };
    assert_eq!(Head::read_unverified(&chain(64)).unwrap().deltas.len(), 64);
    assert!(Head::read_unverified(&chain(65)).unwrap_err().to_string().contains("at most 64"));
    let circle = Head { deltas: vec![bundle(Some(10), 11, 2), bundle(Some(11), 10, 2)], ..head() };
    assert!(Head::read_unverified(&circle.to_file(None).unwrap()).unwrap_err().to_string().contains("twice"));
}

#[test]
fn the_outer_object_has_two_fields_and_a_bound() {
    let text = head().text();
    for (outer, reason) in [
        (json!({ "head": text, "signature": null, "more": 1 }), "unknown field"),
        (json!({ "head": text }), "missing field"),
        (json!({ "signature": null }), "missing field"),
        (json!({ "head": { "format": 1 }, "signature": null }), "invalid type"),
        (json!([text, null]), "not a JSON object"),
        (json!({ "head": text, "signature": "x".repeat(17 << 10) }), "too long"),
        (json!({ "head": "x".repeat(257 << 10), "signature": null }), "at most 262144"),
    ] {
        let error = Head::read_unverified(outer.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error} is not {reason}");
    }
    let twice = format!("{{\"head\":{0},\"head\":{0},\"signature\":null}}", serde_json::to_string(&text).unwrap());
    assert!(Head::read_unverified(twice.as_bytes()).unwrap_err().to_string().contains("duplicate"));
}

proptest! {
    #[test]
    fn any_bytes_are_a_head_or_not(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Head::read_unverified(&bytes);
        let _ = Head::read_unverified(&file_of(&String::from_utf8_lossy(&bytes), None));
    }

    #[test]
    fn an_altered_head_is_refused_or_sound(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = head().text().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(text) = String::from_utf8(text)
            && let Ok(read) = Head::read_unverified(&file_of(&text, None))
        {
            prop_assert!(read.chain().all(|bundle| ObjectKey::parse(&bundle.key().to_string()).is_some()));
            prop_assert_eq!(Head::read_unverified(&read.to_file(None).unwrap()).unwrap(), read);
        }
    }
}
