//! Succession of data sets: one that follows another is as if it were indexed from scratch.

use super::many::{Many, content, evidence, many};
use super::*;

/// What happens to the listing at a place, wherever that is.
#[derive(Clone, Debug)]
enum Edit {
    Change([usize; 3]),
    Modify(Option<i64>),
    List(usize),
    Remove,
    Insert(u64),
    MoveTo(usize),
    TurnAround,
}

fn edit() -> impl Strategy<Value = (usize, Edit)> {
    let edit = prop_oneof![
        4 => proptest::array::uniform3(0_usize..7).prop_map(Edit::Change),
        4 => proptest::option::of(0_i64..3600).prop_map(Edit::Modify),
        1 => (0_usize..3).prop_map(Edit::List),
        2 => Just(Edit::Remove),
        2 => prop_oneof![1_000_000_u64..1_000_100, any::<u64>()].prop_map(Edit::Insert),
        3 => any::<usize>().prop_map(Edit::MoveTo),
        1 => Just(Edit::TurnAround),
    ];
    (any::<usize>(), edit)
}

fn apply(rows: &mut Vec<Many>, (place, edit): (usize, Edit)) {
    let place = place % rows.len();
    match edit {
        Edit::Change(values) => rows[place].values = values,
        Edit::Modify(modified) => rows[place].modified = modified,
        Edit::List(kind) => rows[place].listed[kind] ^= true,
        Edit::Remove => drop(rows.remove(place)),
        Edit::Insert(id) if rows.iter().any(|row| row.id == id) => {}
        Edit::Insert(id) => rows.insert(place, Many { id, ..rows[place].clone() }),
        Edit::MoveTo(other) => {
            let row = rows.remove(place);
            rows.insert(other % (rows.len() + 1), row);
        }
        Edit::TurnAround => rows[place..].reverse(),
    }
}

fn names(dataset: &Dataset) -> Vec<[Option<Arc<str>>; 3]> {
    let texts = dataset.columns.names.texts();
    let values = dataset.columns.traits.iter().map(|traits| traits.values);
    values.map(|values| values.map(|number| texts.get(number as usize).cloned())).collect()
}

fn check_same(one: &Dataset, other: &Dataset) -> Result<(), TestCaseError> {
    prop_assert_eq!(&one.id, &other.id);
    prop_assert_eq!(names(one), names(other));
    prop_assert!(one.membership == other.membership && one.name_keys == other.name_keys);
    prop_assert_eq!(&one.doubtful, &other.doubtful);
    prop_assert!((0..).take(one.len()).all(|position| one.modified_at(position) == other.modified_at(position)));
    prop_assert_eq!(one.modified_known, other.modified_known);
    prop_assert_eq!(one.since.is_some(), other.since.is_some());
    prop_assert_eq!(one.names, other.names);
    prop_assert!(one.content.summaries.iter().zip(0..).all(|(known, place)| one.position(known.id) == Some(place)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_follows_a_data_set_is_as_if_it_were_read_anew(
        seed: u64,
        newest_first: bool,
        unreadable in prop_oneof![Just(0_u64), Just(100)],
        rounds in proptest::collection::vec((proptest::collection::vec(edit(), 0..12), any::<bool>()), 1..4),
    ) {
        let mut rows = many(seed, newest_first, unreadable);
        let mut evidence = evidence(&rows);
        let mut dataset = Dataset::build(content(&rows), &evidence).unwrap();
        for (edits, explained) in rounds {
            for edit in edits {
                apply(&mut rows, edit);
            }
            if explained {
                evidence = super::many::evidence(&rows);
            }
            let followed = dataset.followed_by(content(&rows), &evidence).unwrap();
            prop_assert!(Arc::ptr_eq(&followed.columns.names, &dataset.columns.names));
            check_same(&followed, &Dataset::build(content(&rows), &evidence).unwrap())?;
            dataset = followed;
        }
    }
}

#[test]
fn what_changed_is_read_and_what_cannot_be_read_is_refused() {
    let rows = many(1, false, 0);
    let dataset = Dataset::build(content(&rows), &Evidence::new()).unwrap();
    let mut changed = content(&rows);
    changed.summaries[7].raw = Bytes::from_static(b"[]");
    // Only what is known by its id and its hash is not read again.
    assert!(dataset.followed_by(changed.clone(), &Evidence::new()).is_ok());
    changed.summaries[7].hash = ContentHash::of(b"[]");
    let refused = [dataset.followed_by(changed.clone(), &Evidence::new()), Dataset::build(changed, &Evidence::new())];
    for refused in refused {
        assert!(matches!(refused, Err(DatasetError::Summary(_))));
    }
}

#[test]
fn names_that_nobody_has_any_more_are_let_go() {
    let mut rows = many(2, false, 0);
    let mut dataset = Dataset::build(content(&rows), &Evidence::new()).unwrap();
    let first = Arc::downgrade(&dataset.columns.names);
    for round in 0..8 {
        for (row, value) in rows.iter_mut().zip(round * 10_000..) {
            row.values[2] = value;
        }
        dataset = dataset.followed_by(content(&rows), &Evidence::new()).unwrap();
        assert!(dataset.columns.names.texts().len() < 4 * rows.len() + 5000);
    }
    assert!(first.upgrade().is_none());
    assert_eq!(names(&dataset), names(&Dataset::build(content(&rows), &Evidence::new()).unwrap()));
}
