//! Evidence that tells the listings of a term.

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
fn namesakes_are_told_apart_by_their_own_lists_whatever_the_counts() {
    let groups = groups(ROWS);
    let id_at = |position: u32| ListingId(u64::from(position) + 100);
    // The second pair of counts is a little wrong, so that each is that of the other term.
    for counts in [[1, 2], [2, 1], [1, 1]] {
        let terms = ["il", "oh"].into_iter().zip(counts).map(|(slug, count)| term(slug, "Springfield", Some(count)));
        let terms: Vec<Term> = terms.collect();
        let mut evidence = Evidence::new();
        for (term, ids) in terms.iter().zip([&[100][..], &[101, 102]]) {
            let known = cities(&terms, &groups, &evidence);
            assert_eq!(known[&*term.slug], Membership::Doubtful, "{counts:?}");
            let fingerprint = groups.fingerprint(TaxonomyKind::Cities, term, &id_at);
            let ids = ids.iter().copied().map(ListingId).collect();
            let listed = ListedTerm { ids, fingerprint, snapshot: "s".into() };
            evidence.insert((TaxonomyKind::Cities, term.slug.clone()), listed);
        }
        let known = cities(&terms, &groups, &evidence);
        assert_eq!(known["il"].positions(), Some(&Positions::from([0])), "{counts:?}");
        assert_eq!(known["oh"].positions(), Some(&Positions::from([1, 2])), "{counts:?}");
    }
}

#[test]
fn listings_whose_name_no_term_has_and_that_are_in_no_list_lack_their_term() {
    let groups = groups(&[ROWS, &[("", "Texas"), (" ", "Texas")]].concat());
    let unnamed = |terms: &[Term], evidence: &Evidence| {
        groups.unnamed(TaxonomyKind::Cities, terms, &cities(terms, &groups, evidence))
    };
    let whole = [term("austin", "Austin", Some(1)), term("springfield", "Springfield", Some(9))];
    assert_eq!(unnamed(&whole, &Evidence::new()), 0, "in doubt, but there");
    assert_eq!(unnamed(&whole[..1], &Evidence::new()), 3);
    let other = [term("austin", "Austin", Some(1)), term("springfield", "SPRINGFIELD", Some(3))];
    assert_eq!(unnamed(&other, &Evidence::new()), 3);
    let fingerprint = groups.fingerprint(TaxonomyKind::Cities, &other[1], &|at| ListingId(u64::from(at) + 100));
    let listed = ListedTerm { ids: [100, 101, 102].map(ListingId).into(), fingerprint, snapshot: "s".into() };
    let evidence = Evidence::from([((TaxonomyKind::Cities, "springfield".to_owned()), listed)]);
    assert_eq!(unnamed(&other, &evidence), 0);
    assert_eq!(groups.unnamed(TaxonomyKind::Sports, &[], &HashMap::new()), 0, "listings name the slug");
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
