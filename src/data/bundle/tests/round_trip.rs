//! Round trips: what goes in comes out, and deltas lead from their base to their snapshot and from nowhere else.

use proptest::prelude::*;

use super::*;
use crate::api::hash::Digest;

#[test]
fn what_is_bundled_comes_out_as_it_was() {
    let world = World::of(1..60);
    let (bytes, written) = world.bundle(None);
    let bundle = open(&bytes).unwrap();
    assert_eq!(bundle.content(), Some(&world.content));
    assert_eq!(bundle.evidence_over(Evidence::new()), world.evidence);
    assert_eq!(bundle.meta(world.meta.published_ms), world.meta);
    assert_eq!(details_of(&bundle, &bytes).unwrap(), world.details);
    assert_eq!((bundle.manifest(), bundle.digest()), (&written.manifest, written.digest));
    assert_eq!(bundle.file_hash(), blake3::hash(&bytes));
    assert_eq!((bundle.base(), bundle.manifest().kind()), (None, "full"));
    let manifest = bundle.manifest();
    assert_eq!(
        (manifest.license.as_deref(), manifest.attribution.as_deref()),
        (Some("CC BY 4.0"), Some(r#"{"name":"Venues"}"#))
    );
    assert_eq!(manifest.origin.as_deref(), Some("https://venues.example"));
    assert!(bundle.detail_ids().iter().eq(world.details.keys()));
}

#[test]
fn the_validators_are_no_part_of_the_digest_and_the_time_of_publication_is_in_nothing() {
    let world = World::of(1..60);
    let (bytes, written) = world.bundle(None);
    let mut other = world.clone();
    other.meta.published_ms += 1;
    assert_eq!(other.full(), bytes);
    other.details.values_mut().for_each(|detail| detail.etag = None);
    let (others, then) = other.bundle(None);
    assert_ne!(others, bytes);
    assert_eq!(then.digest, written.digest);
    other.meta.confirmed_ms += 1;
    assert_ne!(other.bundle(None).1.digest, written.digest);
}

#[test]
fn progress_is_told_in_bytes_up_to_the_end() {
    let bytes = World::of(1..60).full();
    let mut seen = Vec::new();
    Bundle::open(Cursor::new(&bytes), &mut |done, of| seen.push((done, of))).unwrap();
    let all = bytes.len() as u64;
    assert!(seen.is_sorted() && seen.last() == Some(&(all, all)), "{seen:?}");
}

/// Whoever stands at one of them lacks what came between.
#[test]
fn the_same_change_at_two_places_of_a_chain_has_two_digests() {
    let (old, new) = (World::of(1..60), World::of(1..61));
    let digest = |follows| {
        let export = Export { follows, ..new.export(Some(&old), &BTreeMap::new()) };
        write(Vec::new(), &export, std::iter::empty::<Result<_, Infallible>>()).unwrap().digest
    };
    let places = [None, Some(Digest([1; 32])), Some(Digest([2; 32]))];
    assert_eq!(places.map(digest).into_iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
    assert_eq!(places.map(digest), places.map(digest));
}

#[test]
fn a_delta_names_its_base_and_refuses_any_other() {
    let (old, new) = (World::of(1..60), World::of(1..61));
    let (bytes, _) = new.bundle(Some(&old));
    let bundle = open(&bytes).unwrap();
    assert_eq!((bundle.content(), bundle.base()), (None, Some(&old.content.id())));
    assert_eq!(bundle.content_over(Some(&old.content)).unwrap(), new.content);
    let wrong = bundle.content_over(Some(&World::of(1..59).content)).unwrap_err().to_string();
    assert!(wrong.contains(old.content.id().as_str()), "{wrong}");
    let none = bundle.content_over(None).unwrap_err().to_string();
    assert!(none.contains(old.content.id().as_str()), "{none}");
    let again = bundle.content_over(Some(&new.content)).unwrap_err();
    assert!(matches!(again, BundleError::WrongBase { .. }), "{again}");
}

#[test]
fn a_bundle_beside_equal_data_shares_its_texts_and_keeps_no_part_for_the_few_that_differ() {
    let known = World::of(1..60);
    let dataset = Dataset::build(known.content.clone(), &Evidence::new()).unwrap();
    let mut world = known.clone();
    world.content.summaries.push(summary(60, 1));
    world.content.summaries[9] = summary(10, 2);
    let bytes = world.full();
    let bundle = Bundle::open_beside(Cursor::new(&bytes), Some(&dataset), &mut |_, _| {}).unwrap();
    let content = bundle.content().unwrap();
    assert_eq!(content, &world.content);
    for (at, summary) in content.summaries.iter().enumerate() {
        let is_shared = known.content.summaries.get(at).is_some_and(|known| known.raw.as_ptr() == summary.raw.as_ptr());
        assert_eq!(is_shared, ![10, 60].contains(&summary.id.0), "{}", summary.id);
        assert!(is_shared || summary.raw.is_unique(), "{}", summary.id);
    }
    // Of other data, nothing is shared, and nothing is copied: the texts lie in the part.
    let other = Dataset::build(World::of(100..160).content, &Evidence::new()).unwrap();
    let bundle = Bundle::open_beside(Cursor::new(&bytes), Some(&other), &mut |_, _| {}).unwrap();
    let content = bundle.content().unwrap();
    assert_eq!(content, &world.content);
    assert!(content.summaries.iter().all(|summary| !summary.raw.is_unique()));
}

#[test]
fn an_empty_snapshot_travels_too() {
    let world = World::of([]);
    let bytes = world.full();
    assert_eq!(open(&bytes).unwrap().content(), Some(&world.content));
    let some = World::of(1..3);
    let emptied = world.bundle(Some(&some)).0;
    assert_eq!(open(&emptied).unwrap().content_over(Some(&some.content)).unwrap(), world.content);
}

#[test]
fn records_larger_than_a_part_and_many_parts_travel() {
    let mut world = World::of(1..60);
    for (n, detail) in world.details.values_mut().filter(|detail| detail.state == DetailState::Present).enumerate() {
        // Hardly compressible.
        let noise: String =
            (0..n * 600).map(|m| ContentHash::of(&[n as u8, m as u8, (m >> 8) as u8]).to_string()).collect();
        detail.body = format!(r#"{{"noise":"{noise}"}}"#).into();
    }
    let bytes = world.full();
    assert!(bytes.len() > 5 << 20);
    let bundle = open(&bytes).unwrap();
    assert_eq!(details_of(&bundle, &bytes).unwrap(), world.details);
}

#[test]
fn what_could_not_be_read_is_not_written() {
    let refused = |change: &dyn Fn(&mut World)| {
        let mut world = World::of(1..20);
        change(&mut world);
        let details = world.details.clone();
        let export = world.export(None, &details);
        write(Vec::new(), &export, details.into_iter().map(Ok::<_, Infallible>)).unwrap_err().to_string()
    };
    let body =
        |world: &mut World, id, body: &'static str| world.details.get_mut(&ListingId(id)).unwrap().body = body.into();
    for (message, change) in [
        (
            "listing 1",
            Box::new(|world: &mut World| world.content.summaries[1].raw = "{\"id\":1}".into())
                as Box<dyn Fn(&mut World)>,
        ),
        ("twice", Box::new(|world| world.content.summaries[1] = world.content.summaries[2].clone())),
        ("listing 5", Box::new(move |world| body(world, 5, "[]"))),
        ("gone", Box::new(move |world| body(world, 4, "{}"))),
        (
            "the listing is not in the snapshot",
            Box::new(|world| drop(world.details.insert(ListingId(99), detail(99, 1).1))),
        ),
        (
            "header value",
            Box::new(|world| world.details.get_mut(&ListingId(5)).unwrap().etag = Some("\"a\"\r\nb".to_owned())),
        ),
        ("not JSON", Box::new(|world| drop(world.meta.volatile_values.insert("list x".to_owned(), "x".to_owned())))),
    ] {
        let error = refused(&change);
        assert!(error.contains(message), "{error} says nothing of {message}");
    }
}

#[test]
fn details_that_change_in_number_or_fail_on_the_way_end_the_writing() {
    let world = World::of(1..20);
    let export = world.export(None, &world.details);
    let few = world.details.clone().into_iter().skip(1).map(Ok::<_, Infallible>);
    let error = write(Vec::new(), &export, few).unwrap_err();
    assert!(matches!(error, WriteError::Counts { .. }), "{error}");
    let failing = std::iter::once(Err::<(ListingId, Detail), _>(std::io::Error::other("the store is gone")));
    let error = write(Vec::new(), &export, failing).unwrap_err();
    assert!(error.to_string().contains("the store is gone"), "{error}");
}

prop_compose! {
    /// A world, and one that came of it by any edits.
    fn edits()(
        ids in prop::collection::hash_set(1_u64..200, 0..40).prop_map(Vec::from_iter),
        more in prop::collection::hash_set(200_u64..300, 0..6),
        keep in prop::collection::vec(any::<bool>(), 40),
        change in prop::collection::vec(prop::bool::weighted(0.1), 46),
    )(
        new in Just(
            ids.iter().zip(&keep).filter(|(_, keep)| **keep).map(|(id, _)| *id).chain(more).zip(change).collect::<Vec<_>>(),
        ).prop_flat_map(|new| prop_oneof![Just(new.clone()), Just(new).prop_shuffle()]),
        ids in Just(ids),
        taxonomy in prop_oneof![Just(None), ".{0,60}".prop_map(|text| Some(serde_json::json!([text]).to_string()))],
    ) -> (World, World) {
        let old = World::of(ids);
        let mut world = World::of(new.iter().map(|(id, _)| *id));
        for (at, (id, _)) in new.iter().enumerate().filter(|(_, (_, changed))| *changed) {
            world.content.summaries[at] = summary(*id, 2);
            if world.details.contains_key(&ListingId(*id)) {
                world.details.extend([detail(*id, 2)]);
            }
        }
        if let Some(text) = taxonomy {
            world.content.taxonomies[1] = text.into();
        }
        (old, world)
    }
}

proptest! {
    #[test]
    fn a_delta_leads_from_its_base_to_its_snapshot((old, new) in edits()) {
        let (bytes, _) = new.bundle(Some(&old));
        let bundle = open(&bytes).unwrap();
        prop_assert_eq!(bundle.content_over(Some(&old.content)).unwrap(), new.content.clone());
        prop_assert_eq!(new.bundle(Some(&old)).0, bytes.clone());
        let there = details_of(&bundle, &bytes).unwrap();
        let mut details = old.details.clone();
        details.retain(|id, _| new.content.summaries.iter().any(|summary| summary.id == *id));
        details.extend(there);
        prop_assert_eq!(details, new.details.clone());
        let Base { added, changed, removed, .. } = bundle.manifest().base.clone().unwrap();
        let ids = |world: &World| world.content.summaries.iter().map(|s| (s.id, s.hash)).collect::<BTreeMap<_, _>>();
        let (was, is) = (ids(&old), ids(&new));
        prop_assert_eq!(added, is.keys().filter(|id| !was.contains_key(id)).count() as u64);
        prop_assert_eq!(removed, was.keys().filter(|id| !is.contains_key(id)).count() as u64);
        prop_assert_eq!(changed, is.iter().filter(|(id, hash)| was.get(id).is_some_and(|old| old != *hash)).count() as u64);
    }

    #[test]
    fn any_content_travels_and_the_same_gives_the_same_bytes((_, world) in edits()) {
        let bytes = world.full();
        prop_assert_eq!(world.full(), bytes.clone());
        let bundle = open(&bytes).unwrap();
        prop_assert_eq!(bundle.content(), Some(&world.content));
        prop_assert_eq!(details_of(&bundle, &bytes).unwrap(), world.details);
    }
}

#[test]
fn a_delta_has_evidence_of_its_own_or_that_of_its_base() {
    let [old, new] = [1..20, 1..21].map(|ids| World::of(ids).with_evidence_of_its_own());
    let (own, kept) = (new.bundle(Some(&old)).0, new.bundle_that_keeps_evidence(&old));
    assert!(kept.len() < own.len(), "{} {}", kept.len(), own.len());
    for (bytes, keeps) in [(&own, false), (&kept, true)] {
        let bundle = open(bytes).unwrap();
        assert_eq!(bundle.evidence_over(old.evidence.clone()), new.evidence, "{keeps}");
        assert_eq!(bundle.content_over(Some(&old.content)).unwrap(), new.content);
    }
    assert_eq!(open(&own).unwrap().evidence_over(Evidence::new()), new.evidence, "whatever the base has");
    // A list for yet another snapshot does not become one for this.
    let other = World::of(1..20).evidence;
    assert_eq!(open(&kept).unwrap().evidence_over(other.clone()), other);
}

#[test]
fn verdicts_and_a_total_that_the_origin_states_travel() {
    let mut world = World::of(1..20);
    for verdicts in [None, Some(Told::of(&["city"], &[]))] {
        world.verdicts = verdicts;
        let bytes = world.full();
        let bundle = open(&bytes).unwrap();
        assert_eq!(bundle.manifest().told(), world.verdicts.clone().unwrap_or_default());
        assert_eq!(details_of(&bundle, &bytes).unwrap(), world.details);
    }
    world.content.envelope.fields.push(EnvelopeField::Total);
    let before = world.content.id();
    world.content.envelope.state_total(21, 1);
    let bytes = world.full();
    let bundle = open(&bytes).unwrap();
    assert_eq!(bundle.content().unwrap().envelope.stated_total(), Some((21, 1)));
    assert_ne!(world.content.id(), before, "it is content");
}
