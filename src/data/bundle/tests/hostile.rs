//! Bundles that somebody put together by hand, with every hash right.

use super::super::MAX_PART;
use super::super::part::{self, HEAD_LEN, LEVEL, PartHead as Head, PartKind as Kind, START_LEN};
use super::*;

/// A part as it is put together.
#[derive(Clone, Debug)]
struct Made {
    kind: u8,
    flags: [u8; 3],
    /// What the head says; `None`: the truth.
    says: Option<u32>,
    raw: Vec<u8>,
    /// Frames in the place of that of `raw`.
    packed: Option<Vec<u8>>,
}

impl Made {
    fn new(kind: Kind, raw: &[u8]) -> Self {
        Self { kind: kind as u8, flags: [0; 3], says: None, raw: raw.to_vec(), packed: None }
    }
}

fn pack(raw: &[u8]) -> Vec<u8> {
    part::packer(LEVEL).unwrap().compress(raw).unwrap()
}

/// The parts of a bundle but the end.
fn take_apart(bytes: &[u8]) -> Vec<Made> {
    let (mut parts, mut at) = (Vec::new(), START_LEN);
    while at < bytes.len() {
        let head = Head::of_bytes(bytes[at..at + HEAD_LEN].try_into().unwrap());
        let frame = &bytes[at + HEAD_LEN..at + HEAD_LEN + head.packed as usize];
        let raw = zstd::bulk::decompress(frame, head.raw as usize).unwrap();
        parts.push(Made { kind: head.kind, flags: head.flags, says: None, raw, packed: None });
        at += HEAD_LEN + frame.len();
    }
    parts.pop();
    parts
}

/// A bundle of these parts, with every hash and the end right.
fn put_together(parts: &[Made]) -> Vec<u8> {
    let mut out = part::start(FORMAT).to_vec();
    let (mut chain, mut digest, mut sum) = (part::first(FORMAT), part::first(FORMAT), 0);
    let mut add = |made: &Made, chain: &mut _| {
        let packed = made.packed.clone().unwrap_or_else(|| pack(&made.raw));
        let raw = made.says.unwrap_or(made.raw.len() as u32);
        let mut head = Head::following(chain, Kind::End, raw, &packed);
        (head.kind, head.flags) = (made.kind, made.flags);
        head.hash = head.chained(chain, &packed);
        out.extend_from_slice(&head.to_bytes());
        out.extend_from_slice(&packed);
        *chain = head.hash;
        raw
    };
    for made in parts {
        sum += u64::from(add(made, &mut chain));
        if made.kind <= Kind::Details as u8 {
            digest = chain;
        }
    }
    let end = [&(parts.len() as u32).to_le_bytes()[..], &sum.to_le_bytes(), &digest.0].concat();
    add(&Made::new(Kind::End, &end), &mut chain);
    out
}

fn parts() -> Vec<Made> {
    take_apart(&World::of(1..7).full())
}

fn first(parts: &[Made], kind: Kind) -> usize {
    parts.iter().position(|made| made.kind == kind as u8).unwrap()
}

/// What is said of a bundle in which one part is another.
fn with(kind: Kind, change: impl FnOnce(&mut Made)) -> BundleError {
    let mut parts = parts();
    let at = first(&parts, kind);
    change(&mut parts[at]);
    open(&put_together(&parts)).unwrap_err()
}

fn manifest(from: &str, to: &str) -> BundleError {
    with(Kind::Manifest, |made| {
        let text = String::from_utf8(made.raw.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        made.raw = text.replace(from, to).into();
    })
}

#[test]
fn a_stamp_that_is_no_instant_is_refused() {
    let stamped = |stamp: i64| manifest("\"confirmed_ms\":1795000000123", &format!("\"confirmed_ms\":{stamp}"));
    for stamp in [i64::MIN, i64::MAX, 253_402_300_800_000] {
        let error = stamped(stamp).to_string();
        assert!(error.contains(&format!("confirmed_ms is {stamp}, which is no instant")), "{error}");
    }
}

#[test]
fn what_is_put_together_rightly_is_accepted() {
    assert_eq!(put_together(&parts()), World::of(1..7).full());
}

#[test]
fn only_a_delta_without_evidence_of_its_own_keeps_that_of_its_base() {
    let [old, new] = [1..7, 1..9].map(|ids| World::of(ids).with_evidence_of_its_own());
    let kept = take_apart(&new.bundle_that_keeps_evidence(&old));
    assert_eq!(put_together(&kept), new.bundle_that_keeps_evidence(&old));
    let own = take_apart(&new.bundle(Some(&old)).0);
    let mut both = kept.clone();
    let evidence = own[first(&own, Kind::Evidence)].clone();
    both.insert(first(&kept, Kind::Details), evidence);
    let error = open(&put_together(&both)).unwrap_err();
    assert!(matches!(error, BundleError::Disagrees { .. }), "{error}");
    let mut full = parts();
    let at = first(&full, Kind::Manifest);
    full[at].raw.pop();
    full[at].raw.extend_from_slice(b",\"keeps_evidence\":true}");
    let error = open(&put_together(&full)).unwrap_err().to_string();
    assert!(error.contains("has no base whose evidence"), "{error}");
}

#[test]
fn a_part_that_is_too_large_is_refused_before_memory_is_taken() {
    let error = with(Kind::Envelope, |made| made.says = Some(u32::MAX));
    assert!(matches!(error, BundleError::TooLarge { raw, .. } if raw == u64::from(u32::MAX)), "{error}");
    let error = with(Kind::Envelope, |made| made.says = Some(MAX_PART as u32 + 1));
    assert!(matches!(error, BundleError::TooLarge { .. }), "{error}");
}

#[test]
fn parts_that_together_are_too_large_for_the_file_are_refused() {
    let mut parts = parts();
    let bomb = vec![b' '; 40 << 20];
    let at = first(&parts, Kind::Taxonomy);
    parts[at..at + 3].iter_mut().for_each(|made| made.raw.clone_from(&bomb));
    let bytes = put_together(&parts);
    assert!(bytes.len() < 64 << 10, "{}", bytes.len());
    let error = open(&bytes).unwrap_err();
    assert!(matches!(error, BundleError::Heavy { at, .. } if at.part == 3), "{error}");
}

/// A detail of almost the longest text that there can be.
fn long_detail(id: u64) -> Made {
    let text = format!("{{\"id\":{id}{}}}", " ".repeat(31 << 20));
    let head = [&id.to_le_bytes()[..], &[0], &(text.len() as u32).to_le_bytes()].concat();
    Made::new(Kind::Details, &[&head, text.as_bytes()].concat())
}

#[test]
fn details_that_together_are_too_large_for_the_file_are_refused() {
    let mut parts = parts();
    let at = first(&parts, Kind::Details);
    parts.splice(at..=at, [1, 2, 4].map(long_detail));
    let error = open(&put_together(&parts)).unwrap_err();
    assert!(matches!(error, BundleError::Bomb { at: found, .. } if found.part as usize == at + 3), "{error}");
}

#[test]
fn records_that_take_more_memory_than_the_file_accounts_for_are_refused() {
    let summaries: Vec<u8> = (0..200_000_u64)
        .flat_map(|id| {
            let text = format!("{{\"id\":{}}}", id + 1);
            [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
        })
        .collect();
    let terms: Vec<u8> = (0..400_000_u32)
        .flat_map(|term| {
            let slug = format!("{term:08}");
            [&[0][..], &8_u32.to_le_bytes(), slug.as_bytes(), &0_u32.to_le_bytes(), &[0; 16], &[0; 4]].concat()
        })
        .collect();
    for (kind, raw) in [(Kind::Summaries, summaries), (Kind::Evidence, terms)] {
        let error = with(kind, |made| made.raw = raw);
        assert!(matches!(error, BundleError::Heavy { at, .. } if at.kind == kind), "{error}");
    }
}

#[test]
fn lists_of_nothing_in_manifest_and_envelope_are_refused_before_they_are_unpacked() {
    let manifest = with(Kind::Manifest, |made| {
        let text = String::from_utf8(made.raw.clone()).unwrap();
        let many = format!("\"open_points\":[{}\"\"]", "\"\",".repeat(1 << 20));
        made.raw = text.replace("\"open_points\":[\"page 3\"]", &many).into();
    });
    let envelope = with(Kind::Envelope, |made| {
        made.raw = format!("{{\"fields\":[{}\"items\"],\"empty_filters\":\"[]\"}}", "\"page\",".repeat(1 << 20)).into();
    });
    for error in [manifest, envelope] {
        assert!(matches!(error, BundleError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn a_frame_that_unpacks_to_another_length_is_refused() {
    let longer = with(Kind::Envelope, |made| made.says = Some(made.raw.len() as u32 - 1));
    let shorter = with(Kind::Envelope, |made| made.says = Some(made.raw.len() as u32 + 1));
    let two = with(Kind::Envelope, |made| {
        let (one, other) = made.raw.split_at(5);
        made.packed = Some([pack(one), pack(other)].concat());
    });
    let none = with(Kind::Envelope, |made| made.packed = Some(made.raw.clone()));
    let skippable = with(Kind::Envelope, |made| {
        made.packed = Some([pack(&made.raw), b"\x50\x2a\x4d\x18\x01\0\0\0x".to_vec()].concat());
    });
    for error in [longer, shorter, two, none, skippable] {
        assert!(matches!(error, BundleError::Frame { .. }), "{error}");
    }
}

#[test]
fn parts_that_are_left_out_repeated_or_moved_are_refused() {
    for at in 0..parts().len() {
        // Without evidence or details nothing is missing that the manifest does not count.
        let optional = [Kind::Evidence as u8];
        let mut left_out = parts();
        let removed = left_out.remove(at);
        assert!(optional.contains(&removed.kind) || open(&put_together(&left_out)).is_err(), "without {removed:?}");
        let mut repeated = parts();
        repeated.insert(at, removed.clone());
        assert!(open(&put_together(&repeated)).is_err(), "twice {removed:?}");
        let mut moved = left_out;
        moved.push(removed.clone());
        assert!(at + 1 == parts().len() || open(&put_together(&moved)).is_err(), "at the end {removed:?}");
    }
}

#[test]
fn unknown_kinds_and_flags_and_empty_parts_are_refused() {
    let error = with(Kind::Evidence, |made| made.kind = 77);
    assert!(matches!(error, BundleError::UnknownKind { kind: 77, .. }), "{error}");
    let error = with(Kind::Evidence, |made| made.flags[0] = 1);
    assert!(matches!(error, BundleError::UnknownFlags(_)), "{error}");
    for kind in [Kind::Summaries, Kind::Evidence, Kind::Details, Kind::Validators] {
        let error = with(kind, |made| made.raw.clear());
        assert!(error.to_string().contains("it is empty"), "{error}");
    }
}

#[test]
fn a_manifest_that_says_something_else_is_refused() {
    let id = World::of(1..7).content.id().to_string();
    for (from, to, told) in [
        (id.as_str(), "0123456789abcdef0123456789abcdef", "snapshot id"),
        (id.as_str(), "x", "not a snapshot id"),
        ("\"listings\":6", "\"listings\":7", "listings"),
        ("\"listings\":6", "\"listings\":99999999999", "more than there can be"),
        ("\"details\":{\"present\":4", "\"details\":{\"present\":3", "full bundle"),
        ("\"present\":4", "\"present\":3", "details"),
        ("\"gone\":1", "\"gone\":0", "details"),
        ("\"generated_at\"", "\"other\"", "volatile"),
        ("\"\\\"x\\\"\"", "\"x}\"", "not JSON"),
        ("\"program\"", "\"unknown\"", "unknown"),
        ("\"base\":null", "\"base\":5", "invalid type"),
    ] {
        let error = manifest(from, to).to_string();
        assert!(error.contains(told), "{to}: {error}");
    }
}

#[test]
fn records_that_make_no_sense_are_refused() {
    let record = |text: &str| [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    for (kind, raw, told) in [
        (Kind::Summaries, b"\xff\xff\xff\xff{}".to_vec(), "wrong length"),
        (Kind::Summaries, record("[]"), "not a JSON object"),
        (Kind::Summaries, record(r#"{"name":"x"}"#), "no valid id"),
        (Kind::Summaries, record(&"[".repeat(100)), "deeper"),
        (Kind::Summaries, [record(r#"{"id":1}"#), record(r#"{"id":1,"a":2}"#)].concat(), "two of listing 1"),
        (Kind::Evidence, b"\x09".to_vec(), "taxonomy 9 is unknown"),
        (Kind::Evidence, [vec![0; 25], vec![0xff; 4]].concat(), "wrong length"),
        (Kind::Details, [&1_u64.to_le_bytes()[..], &[7, 0, 0, 0, 0]].concat(), "unknown state 7"),
        (Kind::Details, [&1_u64.to_le_bytes()[..], &[1, 1, 0, 0, 0, b'x']].concat(), "has a body"),
        (Kind::Details, [&99_u64.to_le_bytes()[..], &[1, 0, 0, 0, 0]].concat(), "not in the snapshot"),
        (
            Kind::Details,
            [1_u64.to_le_bytes(), [1, 0, 0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0], [0; 8]].concat()[..26].to_vec(),
            "out of order",
        ),
        (Kind::Validators, [&1_u64.to_le_bytes()[..], &[2, 0, 0]].concat(), "current"),
        (Kind::Validators, [&1_u64.to_le_bytes()[..], &[1, 1, 1, 0, 0, 0, b'\n', 0]].concat(), "header value"),
        (Kind::Validators, [&2_u64.to_le_bytes()[..], &[1, 0, 0]].concat(), "out of order"),
        (Kind::Validators, [&1_u64.to_le_bytes()[..], &[1, 0, 0]].concat(), "validators"),
        (Kind::Taxonomy, b"\xff".to_vec(), "not UTF-8"),
        (Kind::Taxonomy, b"[{".to_vec(), "not valid JSON"),
        (Kind::Taxonomy, b"7".to_vec(), "neither an object nor an array: 7"),
        (
            Kind::Envelope,
            br#"{"fields":["items",{"carried":{"key":"a","value":"x"}}],"empty_filters":"{}"}"#.to_vec(),
            "\"a\"",
        ),
        (
            Kind::Envelope,
            br#"{"fields":["items"],"empty_filters":"7"}"#.to_vec(),
            "\"7\" does not stand for no filters",
        ),
        (Kind::Envelope, br#"{"fields":["total"],"empty_filters":"{}"}"#.to_vec(), "`items` is missing"),
        (Kind::Envelope, br#"{"fields":["items","items"],"empty_filters":"{}"}"#.to_vec(), "is repeated"),
        (
            Kind::Envelope,
            br#"{"fields":["items","page",{"volatile":{"key":"page"}}],"empty_filters":"{}"}"#.to_vec(),
            "\"page\" is a computed field",
        ),
    ] {
        let error = with(kind, |made| made.raw = raw).to_string();
        assert!(error.contains(told), "{kind:?}: {error} says nothing of {told}");
    }
}

#[test]
fn a_delta_whose_script_makes_no_sense_is_refused_when_it_is_read_or_applied() {
    let (old, new) = (World::of(1..7), World::of([2, 9, 3, 1]));
    let parts = take_apart(&new.bundle(Some(&old)).0);
    let changed = |kind, raw: &[u8]| {
        let mut parts = parts.clone();
        let at = first(&parts, kind);
        parts[at].raw = raw.to_vec();
        open(&put_together(&parts)).and_then(|bundle| bundle.content_over(Some(&old.content))).unwrap_err().to_string()
    };
    let copy = |from: u32, count: u32| [from.to_le_bytes(), count.to_le_bytes()].concat();
    let nine = [&[0xff; 4][..], &1_u32.to_le_bytes(), &9_u64.to_le_bytes()].concat();
    let eight = [&[0xff; 4][..], &1_u32.to_le_bytes(), &8_u64.to_le_bytes()].concat();
    for (raw, told) in [
        (copy(0, 7), "beyond the base"),
        (copy(u32::MAX - 1, u32::MAX), "beyond the base"),
        (copy(0, 0), "does nothing"),
        ([copy(0, 6), copy(0, 6)].concat(), "more"),
        (copy(0, 4), "added listings"),
        ([copy(0, 1), copy(0, 2), nine.clone()].concat(), "twice"),
        ([copy(0, 3), eight].concat(), "no summary of listing 8"),
        ([copy(0, 3), nine].concat(), new.content.id().as_str()),
    ] {
        let error = changed(Kind::Order, &raw);
        assert!(error.contains(told), "{error} says nothing of {told}");
    }
    let most: Vec<u8> = (0..2_000_000).flat_map(|_| copy(0, 20)).collect();
    let error = changed(Kind::Taxonomy, &most);
    assert!(error.contains("a script produces more than"), "{error}");
    assert!(changed(Kind::Taxonomy, &copy(0, 1000)).contains("beyond the base"));
    assert!(changed(Kind::Taxonomy, &copy(0, 3)).contains(new.content.id().as_str()));
    let mut unreadable = World::of(1..7);
    unreadable.content.taxonomies[1] = "7".into();
    let error =
        open(&unreadable.bundle(Some(&old)).0).unwrap().content_over(Some(&old.content)).unwrap_err().to_string();
    assert!(error.contains("an index of terms"), "{error}");
}
