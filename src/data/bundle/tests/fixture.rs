//! Bundles of each format: they must open, and mean the same.
//!
//! Never write one of these anew: a new format gets new files. `GRANDSTAND_FIXTURE=write cargo test fixture` makes
//! those that are not there.

use std::path::PathBuf;

use super::*;

fn fixture(name: &str, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "fixtures", name].iter().collect();
    if !path.exists() && std::env::var("GRANDSTAND_FIXTURE").is_ok_and(|mode| mode == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, make()).unwrap();
    }
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn bundles_of_format_1_open_and_mean_what_they_meant() {
    let (old, mut new) = (World::of(1..13), World::of([20, 1, 2, 4, 3, 5, 6, 7, 9, 10, 11, 12]));
    new.content.summaries[1] = summary(1, 2);
    new.details.extend([detail(1, 2)]);
    new.content.taxonomies[2] = old.content.taxonomies[2].replace("\"a\"", "\"b\"").into();
    let full = fixture("bundle-v1.gsb", || panic!("{NO_WRITER}"));
    let delta = fixture("bundle-v1-delta.gsb", || panic!("{NO_WRITER}"));

    let bundle = open(&full).unwrap();
    assert_eq!(bundle.digest().to_string(), FULL);
    assert_eq!(bundle.manifest().snapshot.as_str(), "bd969ef2baaf0627fcf1346bf0e2ebb2");
    assert_eq!(bundle.content(), Some(&old.content));
    assert_eq!((bundle.evidence_over(Evidence::new()), bundle.meta(old.meta.published_ms)), (old.evidence, old.meta));
    assert_eq!(details_of(&bundle, &full).unwrap(), old.details);

    let bundle = open(&delta).unwrap();
    assert_eq!(bundle.digest().to_string(), DELTA);
    let base = bundle.manifest().base.clone().unwrap();
    assert_eq!((base.snapshot, base.added, base.changed, base.removed), (old.content.id(), 1, 1, 1));
    assert_eq!(bundle.content_over(Some(&old.content)).unwrap(), new.content);
    let details = details_of(&bundle, &delta).unwrap();
    assert_eq!(details.keys().map(|id| id.0).collect::<Vec<_>>(), [1, 20]);
    assert!(details.iter().all(|(id, detail)| new.details[id] == *detail));
}

#[test]
fn bundles_of_format_2_open_without_their_lessons() {
    let world = World::of(1..13);
    let full = fixture("bundle-v2.gsb", || panic!("{NO_WRITER}"));
    let bundle = open(&full).unwrap();
    assert_eq!(bundle.format(), 2);
    assert_eq!((bundle.content(), bundle.evidence_over(Evidence::new())), (Some(&world.content), world.evidence));
    assert_eq!(bundle.meta(world.meta.published_ms), world.meta);
    assert_eq!(details_of(&bundle, &full).unwrap(), world.details);
}

#[test]
fn a_delta_of_format_4_opens_and_means_what_it_meant() {
    let (old, new) = (World::of(1..13), World::of(1..14).with_evidence_of_its_own());
    let old = old.with_evidence_of_its_own();
    let bundle = means_what_it_meant(&old, &new, "bundle-v4-delta.gsb", || panic!("{NO_WRITER}"));
    assert_eq!(bundle.format(), 4);
}

/// Shapes with one filter.
const OTHERS: [&str; 5] = ["sport", "state", "modified_since(date)", "modified_since(zoned)", "modified_since(local)"];

impl Told {
    /// These shapes are disproved, some by their order alone.
    pub(crate) fn of(by_rows: &[&str], by_order: &[&str]) -> Self {
        let disproved = [by_rows, by_order].concat();
        let told = serde_json::json!({ "confirmed": [], "disproved": disproved, "by_order": by_order });
        serde_json::from_value(told).unwrap()
    }
}

#[test]
fn bundles_of_this_format_open_and_mean_what_they_meant() {
    let [mut old, mut new] = [1..13, 1..14].map(|ids| World::of(ids).with_evidence_of_its_own());
    for world in [&mut old, &mut new] {
        world.meta.form.page_size = 20;
        world.verdicts = Some(Told::of(&["city"], &OTHERS));
        world.content.envelope.fields.push(EnvelopeField::Total);
        world.content.envelope.state_total(21, 1);
    }
    let [mut old, new] = [old, new].map(World::with_evidence_of_its_own);
    let full = fixture("bundle-v5.gsb", || old.full());
    let bundle = open(&full).unwrap();
    assert_eq!((bundle.format(), bundle.content()), (FORMAT, Some(&old.content)));
    assert_eq!(bundle.evidence_over(Evidence::new()), old.evidence);
    assert_eq!(bundle.manifest().told(), old.verdicts.take().unwrap());
    assert_eq!(
        (bundle.meta(old.meta.published_ms), details_of(&bundle, &full).unwrap()),
        (old.meta.clone(), old.details.clone())
    );
    let bundle = means_what_it_meant(&old, &new, "bundle-v5-delta.gsb", || new.bundle_that_keeps_evidence(&old));
    assert_eq!((bundle.format(), Some(bundle.manifest().told())), (FORMAT, new.verdicts.clone()));
}

/// A delta of one more listing, which keeps the evidence of its base.
fn means_what_it_meant(old: &World, new: &World, name: &str, make: impl FnOnce() -> Vec<u8>) -> Bundle {
    let delta = fixture(name, make);
    let bundle = open(&delta).unwrap();
    assert!(bundle.manifest().keeps_evidence);
    assert_eq!(bundle.content_over(Some(&old.content)).unwrap(), new.content);
    assert_eq!(bundle.evidence_over(old.evidence.clone()), new.evidence);
    assert_eq!(details_of(&bundle, &delta).unwrap().len(), 1);
    bundle
}

const NO_WRITER: &str = "no program writes this format any more";
const FULL: &str = "905f64fbe8874acb7fd5535398eceb83658d582fc2eac6efcf690dbd6be5ee7b";
const DELTA: &str = "1fda729de292989a62e7cfe8af3f7b94e42122d30a76f3175b3b0f1bfeea997f";
