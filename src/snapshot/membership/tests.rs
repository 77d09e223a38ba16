//! Which evidence tells the listings of a term.

use super::*;

fn term(slug: &str, name: &str, count: Option<u64>) -> Term {
    Term {
        slug: slug.into(),
        strings: vec![("id".into(), format!("x-{slug}")), ("title".into(), name.into())],
        numbers: count.map(|count| ("venues".to_owned(), count)).into_iter().collect(),
    }
}

fn groups(rows: &[(&'static str, &'static str)]) -> Groups {
    let names = Names::default();
    let values = rows.iter().map(|(city, state)| ["golf", state, city].map(|name| names.add(name)));
    let traits: Vec<Traits> = values.map(|values| Traits { values, modified: 0 }).collect();
    Groups::by(&traits, &names)
}

fn cities(terms: &[Term], groups: &Groups, evidence: &Evidence) -> HashMap<Box<str>, Membership> {
    let id_at = |position: u32| ListingId(u64::from(position) + 100);
    let position_of = |id: ListingId| id.0.checked_sub(100).map(|at| at as u32);
    let scene = Scene { groups, snapshot: "s", id_at: &id_at, position_of: &position_of };
    resolve(TaxonomyKind::Cities, terms, evidence, scene)
}

const ROWS: &[(&str, &str)] =
    &[("Springfield", "Illinois"), ("Springfield", "Ohio"), ("Springfield", "Ohio"), ("Austin", "Texas")];

#[test]
fn a_name_with_its_count_is_proof() {
    let known =
        cities(&[term("austin", "Austin", Some(1)), term("x", "Nowhere", Some(0))], &groups(ROWS), &Evidence::new());
    assert_eq!(known["austin"], Membership::Named(Positions::from([3])));
    assert_eq!(known["x"], Membership::Named(Positions::new()));
    assert!(!known.contains_key("dallas"));
}

#[test]
fn without_any_listing_a_term_stands_for_none_unless_it_says_otherwise() {
    let known = cities(&[term("austin", "Austin", Some(0)), term("x", "X", Some(2))], &groups(&[]), &Evidence::new());
    assert_eq!(known["austin"], Membership::Named(Positions::new()));
    assert_eq!(known["x"], Membership::Doubtful);
}

#[test]
fn a_count_that_disagrees_is_doubt() {
    let known = cities(
        &[term("austin", "Austin", Some(2)), term("springfield", "Springfield", Some(3))],
        &groups(ROWS),
        &Evidence::new(),
    );
    assert_eq!(known["austin"], Membership::Doubtful);
    assert_eq!(known["springfield"], Membership::Named(Positions::from([0, 1, 2])));
}

#[test]
fn namesakes_are_told_apart_by_counts_or_not_at_all() {
    let terms = [term("springfield-il", "Springfield", Some(1)), term("springfield-oh", "Springfield", Some(2))];
    let known = cities(&terms, &groups(ROWS), &Evidence::new());
    assert_eq!(known["springfield-il"], Membership::Named(Positions::from([0])));
    assert_eq!(known["springfield-oh"], Membership::Named(Positions::from([1, 2])));
    let equal = [("Springfield", "Illinois"), ("Springfield", "Ohio")];
    let terms = [term("springfield-il", "Springfield", Some(1)), term("springfield-oh", "Springfield", Some(1))];
    let known = cities(&terms, &groups(&equal), &Evidence::new());
    assert_eq!(known["springfield-il"], Membership::Doubtful);
    assert_eq!(known["springfield-oh"], Membership::Doubtful);
}

#[test]
fn the_last_of_several_namesakes_is_what_the_others_leave() {
    let equal = groups(&[("Springfield", "Illinois"), ("Springfield", "Ohio"), ("Springfield", "Iowa")]);
    let terms = ["a", "b", "c"].map(|slug| term(slug, "Springfield", Some(1)));
    let id_at = |position: u32| ListingId(u64::from(position) + 100);
    let mut evidence = Evidence::new();
    for (slug, id) in [("a", 101), ("b", 100)] {
        let fingerprint = equal.fingerprint(TaxonomyKind::Cities, &term(slug, "Springfield", Some(1)), &id_at);
        let listed = ListedTerm { ids: vec![ListingId(id)], fingerprint, snapshot: "s".into() };
        evidence.insert((TaxonomyKind::Cities, slug.to_owned()), listed);
    }
    let known = cities(&terms, &equal, &evidence);
    assert_eq!(known["c"], Membership::Named(Positions::from([2])));
    let miscounted = [terms[0].clone(), terms[1].clone(), term("c", "Springfield", Some(2))];
    assert_eq!(cities(&miscounted, &equal, &evidence)["c"], Membership::Doubtful);
    evidence.pop_first();
    assert_eq!(cities(&terms, &equal, &evidence)["c"], Membership::Doubtful, "two are left");
}

#[test]
fn without_counts_a_name_over_two_states_is_doubt() {
    let known = cities(
        &[term("austin", "Austin", None), term("springfield", "Springfield", None)],
        &groups(ROWS),
        &Evidence::new(),
    );
    assert_eq!(known["austin"], Membership::Named(Positions::from([3])));
    assert_eq!(known["springfield"], Membership::Doubtful);
}

#[test]
fn what_the_origin_listed_holds_until_the_groups_change() {
    let terms = [term("springfield", "Springfield", Some(2)), term("austin", "Austin", Some(1))];
    let before = groups(ROWS);
    let id_at = |position: u32| ListingId(u64::from(position) + 100);
    let fingerprint = before.fingerprint(TaxonomyKind::Cities, &terms[0], &id_at);
    let listed = ListedTerm { ids: vec![ListingId(101), ListingId(102)], fingerprint, snapshot: "s".into() };
    let evidence = Evidence::from([((TaxonomyKind::Cities, "springfield".to_owned()), listed)]);
    assert_eq!(cities(&terms, &before, &evidence)["springfield"], Membership::Listed([1, 2].into(), fingerprint));
    let after = groups(&[ROWS, &[("Springfield", "Ohio")]].concat());
    assert_eq!(cities(&terms, &after, &evidence)["springfield"], Membership::Doubtful);
}

#[test]
fn what_the_origin_listed_holds_while_its_listings_only_change_their_places() {
    let term = term("springfield", "Springfield", Some(2));
    let before = groups(ROWS);
    let fingerprint = before.fingerprint(TaxonomyKind::Cities, &term, &|at| ListingId(u64::from(at) + 100));
    // The second listing of Ohio has come to stand before the first.
    let moved = before.fingerprint(TaxonomyKind::Cities, &term, &|at| ListingId([100, 102, 101, 103][at as usize]));
    assert_eq!(fingerprint, moved);
    let other = before.fingerprint(TaxonomyKind::Cities, &term, &|at| ListingId([101, 100, 102, 103][at as usize]));
    assert_ne!(fingerprint, other, "a listing of Illinois is one of Ohio now");
}

#[test]
fn ids_that_no_name_explains_hold_for_one_snapshot_only() {
    let terms = [term("atx", "ATX", Some(1))];
    let groups = groups(ROWS);
    let fingerprint = groups.fingerprint(TaxonomyKind::Cities, &terms[0], &|at| ListingId(u64::from(at) + 100));
    for (snapshot, expected) in [("s", Membership::Listed([3].into(), fingerprint)), ("older", Membership::Doubtful)] {
        let listed = ListedTerm { ids: vec![ListingId(103)], fingerprint, snapshot: snapshot.into() };
        let evidence = Evidence::from([((TaxonomyKind::Cities, "atx".to_owned()), listed)]);
        assert_eq!(cities(&terms, &groups, &evidence)["atx"], expected);
    }
}

#[test]
fn sports_are_slugs_in_the_listings_themselves() {
    let evidence = Evidence::new();
    let groups = groups(ROWS);
    let scene = Scene { groups: &groups, snapshot: "s", id_at: &|_| ListingId(0), position_of: &|_| None };
    let known = |terms: &[Term]| resolve(TaxonomyKind::Sports, terms, &evidence, scene);
    assert_eq!(known(&[])["golf"].positions().map(Positions::len), Some(4));
    assert_eq!(known(&[term("golf", "Golf", Some(4))])["golf"].positions().map(Positions::len), Some(4));
    assert_eq!(known(&[term("golf", "Golf", Some(5))])["golf"], Membership::Doubtful);
}
