//! A small bundle, damaged in every way: refused, always with an error.

use super::*;

fn small() -> Vec<Vec<u8>> {
    let (old, mut new) = (World::of(1..7), World::of([2, 9, 3, 4, 1]));
    new.content.summaries[2] = summary(3, 2);
    vec![new.full(), new.bundle(Some(&old)).0]
}

#[test]
fn a_bundle_that_is_truncated_anywhere_is_refused() {
    for bytes in small() {
        for len in 0..bytes.len() {
            let error = open(&bytes[..len]).unwrap_err();
            let fits = match &error {
                BundleError::Empty => len == 0,
                BundleError::Truncated { length, .. } | BundleError::Ends { length, .. } => *length == len as u64,
                _ => false,
            };
            assert!(fits, "{len} of {} bytes: {error}", bytes.len());
        }
    }
    let bytes = &small()[0];
    let message = |len: usize| open(&bytes[..len]).unwrap_err().to_string();
    assert_eq!(message(60), "truncated at byte 60, in part 1 (manifest, at byte 10)");
    assert_eq!(message(20), "truncated at byte 20: manifest should follow part 0");
}

#[test]
fn a_bundle_with_any_flipped_bit_is_refused() {
    for bytes in small() {
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&flipped).is_err(), "bit {bit}");
        }
    }
}

#[test]
fn what_is_no_bundle_is_named() {
    let bytes = World::of(1..7).full();
    let message = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
    assert_eq!(message(b""), "the file is empty");
    assert_eq!(message(b"PK\x03\x04 and so on"), "not a bundle: `grandstand bundle export` writes bundles");
    let mut newer = bytes.clone();
    newer[8] = 6;
    assert_eq!(message(&newer), "bundle format 6, but this program reads formats 1 to 5; use a newer grandstand");
    newer[8] = 0;
    assert!(message(&newer).starts_with("bundle format 0"));
}

#[test]
fn a_transfer_in_text_mode_is_named() {
    let bytes = World::of(1..7).full();
    let replaced = |from: &[u8], to: &[u8]| -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some(byte) = rest.first() {
            let (piece, taken) =
                if rest.starts_with(from) { (to, from.len()) } else { (std::slice::from_ref(byte), 1) };
            out.extend_from_slice(piece);
            rest = &rest[taken..];
        }
        out
    };
    let seven_bits: Vec<u8> = bytes.iter().map(|byte| byte & 0x7f).collect();
    let latin1: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    let lossy = String::from_utf8_lossy(&bytes).into_owned();
    for mangled in
        [replaced(b"\r\n", b"\n"), replaced(b"\n", b"\r\n"), seven_bits, latin1.into_bytes(), lossy.into_bytes()]
    {
        let error = open(&mangled).unwrap_err();
        assert!(matches!(error, BundleError::TextMode), "{error}");
    }
}

#[test]
fn whatever_follows_the_end_is_refused() {
    let bytes = World::of(1..7).full();
    for more in [b"\0".to_vec(), bytes.clone()] {
        let error = open(&[bytes.clone(), more].concat()).unwrap_err();
        assert!(matches!(error, BundleError::Trailing { end, .. } if end == bytes.len() as u64), "{error}");
    }
}

#[test]
fn a_file_that_changes_before_its_details_are_read_is_noticed() {
    let mut world = World::of(1..7);
    let bytes = world.full();
    let bundle = open(&bytes).unwrap();
    // What is read again begins with the details.
    let start = bundle.parts[0][0].at.offset as usize;
    let end = bundle.parts[1].last().unwrap().at.offset as usize;
    for at in start..end {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        let read: Vec<_> = bundle.details(Cursor::new(&changed)).collect();
        assert!(matches!(read.last(), Some(Err(BundleError::Changed))), "byte {at}");
    }
    assert!(matches!(details_of(&bundle, &bytes[..start + 50]).unwrap_err(), BundleError::Changed));
    // Another bundle, intact in itself.
    world.details.values_mut().for_each(|detail| detail.current = false);
    assert!(matches!(details_of(&bundle, &world.full()).unwrap_err(), BundleError::Changed));
}

#[test]
fn any_byte_may_be_another_and_any_bytes_may_follow_the_magic() {
    let bytes = World::of(1..7).full();
    let mut runner = proptest::test_runner::TestRunner::default();
    let strategy = (0..bytes.len(), proptest::collection::vec(proptest::num::u8::ANY, 0..200));
    let result = runner.run(&strategy, |(at, noise)| {
        let with_noise = [&bytes[..at], &noise].concat();
        let whole = with_noise == bytes;
        proptest::prop_assert_eq!(open(&with_noise).is_ok(), whole);
        Ok(())
    });
    result.unwrap();
}
