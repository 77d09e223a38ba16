use super::super::occurrence::Occurrence;
use super::super::words::tests::naive;
use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::Envelope;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::membership::Evidence;
use bytes::Bytes;
use proptest::option::of as some;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) fn dataset(listings: &[Value]) -> Dataset {
    let numbered = |(id, listing): (u64, &Value)| {
        let mut listing = listing.clone();
        listing["id"] = id.into();
        listing
    };
    of_summaries(&(1..).zip(listings).map(numbered).collect::<Vec<_>>())
}

/// The same of listings that have ids.
fn of_summaries(listings: &[Value]) -> Dataset {
    let summary = |listing: &Value| {
        let raw = Bytes::from(listing.to_string());
        Summary { id: ListingId(listing["id"].as_u64().unwrap()), hash: ContentHash::of(&raw), raw }
    };
    let count = |sport: &str| listings.iter().filter(|listing| listing["sport"] == sport).count();
    let term = |sport| json!({"slug": sport, "name": sport, "count": count(sport)});
    let sports = json!([term("golf"), term("ice-hockey")]).to_string();
    let taxonomies = [Arc::from(sports), Arc::from("[]"), Arc::from("[]")];
    let summaries = listings.iter().map(summary).collect();
    Dataset::build(Content { envelope: Envelope::default(), taxonomies, summaries }, &Evidence::new()).unwrap()
}

fn search(dataset: &Dataset, raw: &str) -> Hits {
    found(dataset, &SearchQuery::parse(raw).unwrap()).unwrap()
}

fn found(dataset: &Dataset, query: &SearchQuery) -> Result<Hits, Unselected> {
    let index = SearchIndex::of(dataset).unwrap();
    let found = index.find(dataset, query);
    assert_eq!(index.find_short(dataset, query).map(Result::ok), Some(found.as_ref().ok().cloned()));
    found
}

/// The ids of the page, which are one more than the positions.
fn ids(dataset: &Dataset, raw: &str) -> Vec<u32> {
    search(dataset, raw).page.iter().map(|hit| hit.position + 1).collect()
}

/// The words of a listing, each with its fields.
fn naive_words(listing: &Value) -> BTreeMap<String, BTreeSet<ListingField>> {
    let mut words: BTreeMap<String, BTreeSet<ListingField>> = BTreeMap::new();
    let mut field = ListingField::NameStart;
    for (name, next) in [
        ("name", ListingField::City),
        ("city", ListingField::State),
        ("state", ListingField::Sport),
        ("sport", ListingField::Sport),
    ] {
        each_word(&folded(listing[name].as_str().unwrap_or_default()), true, |own| {
            words.entry(own.to_owned()).or_default().insert(field);
            field = field.max(if name == "name" { ListingField::Name } else { field });
            // Each of these scripts' letters is a place where a word may begin.
            for (at, _) in own.char_indices().skip(1).filter(|(_, letter)| is_unspaced(*letter) && name == "name") {
                words.entry(own[at..].to_owned()).or_default().insert(ListingField::Name);
            }
        });
        field = next;
    }
    words
}

/// What one word, so many after the first, is worth in a listing, by comparing it with each of the listing's words;
/// `None`: it does not match. `is_last`: `None` for two words as one.
fn naive_rank(listing: &Value, word: &str, at: usize, is_where: bool, is_last: Option<bool>) -> Option<Rank> {
    let of_word = |(own, fields): (&String, &BTreeSet<ListingField>)| {
        let found = Occurrence::within(fields.iter().map(|field| *field as u32));
        let kind = naive(word, own, is_last.unwrap_or(false));
        // As one word with its neighbour, it has no typing error and is no plural: `golf s` is not `golf`.
        let kind = kind.filter(|_| is_last.is_some() || own.starts_with(word));
        kind.map(|kind| order::rank(kind, found, at, is_where))
    };
    naive_words(listing).iter().filter_map(of_word).min()
}

/// The ranks of some of the words of a query, each alone or with its neighbour as one.
fn naive_ranks(listing: &Value, query: &SearchQuery, counted: &[usize]) -> Vec<Option<Rank>> {
    let words = &query.words;
    let is_where = |word: usize| counted[0] < query.before_place && word >= query.before_place;
    let one = |(at, word): (usize, &usize)| {
        let alone = naive_rank(listing, &words[*word], at, is_where(*word), Some(word + 1 == words.len()));
        let joined = words.windows(2).enumerate().filter(|(pair, _)| pair == word || pair + 1 == *word);
        let joined = joined.filter_map(|(_, pair)| naive_rank(listing, &pair.concat(), at, is_where(*word), None));
        alone.into_iter().chain(joined).min()
    };
    counted.iter().enumerate().map(one).collect()
}

fn naive_degrees(value: &Value, most: f64) -> Option<f64> {
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    number.filter(|number| number.abs() <= most)
}

/// The formula with vectors, which is another one than the index has.
fn naive_metres(from: (f64, f64), to: (f64, f64)) -> f64 {
    let vector = |(lat, lng): (f64, f64)| {
        let (lat, lng) = (lat.to_radians(), lng.to_radians());
        [lat.cos() * lng.cos(), lat.cos() * lng.sin(), lat.sin()]
    };
    let (a, b) = (vector(from), vector(to));
    let chord = (0..3).map(|at| (a[at] - b[at]).powi(2)).sum::<f64>().sqrt();
    2.0 * 6_371_008.8 * (chord / 2.0).min(1.0).asin()
}

fn listing() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("Golf"),
        Just("golfs"),
        Just("GÓLF"),
        Just("Peña's"),
        Just("pena"),
        Just("Straße"),
        Just("strasse"),
        Just("Łódź"),
        Just("lodz"),
        Just("riverside"),
        Just("Rivreside"),
        Just("o’hare"),
        Just("ohare"),
        Just("東京"),
        Just("12345"),
        Just("12346"),
        Just("<b>\"&"),
        Just("\u{202e}golf"),
        Just(""),
    ];
    let text = prop_oneof![
        9 => proptest::collection::vec(word, 0..4).prop_map(|words| Value::from(words.join(" "))),
        1 => prop_oneof![Just(Value::Null), Just(json!(7)), Just(json!(["golf"])), Just(json!({"golf": "golf"}))],
    ];
    let degrees = |most: f64| {
        prop_oneof![
            6 => (-most..=most).prop_map(Value::from),
            // Neighbours, and the date line.
            4 => (0_u8..4).prop_map(move |step| Value::from([most - 0.001, -most + 0.001, 1.0, 1.0001][usize::from(step)])),
            1 => (-most..=most).prop_map(|number| Value::from(number.to_string())),
            1 => prop_oneof![Just(Value::Null), Just(json!(most + 0.1)), Just(json!("north")), Just(json!([1]))],
        ]
    };
    let sport = prop_oneof![Just("golf"), Just("ice-hockey")];
    (text.clone(), text.clone(), text, sport, degrees(90.0), degrees(180.0)).prop_map(
        |(name, city, state, sport, lat, lng)| {
            json!({"name": name, "city": city, "state": state, "sport": sport, "lat": lat, "lng": lng})
        },
    )
}

fn queries() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[a-z]{1,3}",
        Just("golf".to_owned()),
        Just("golfs".to_owned()),
        Just("riverside".to_owned()),
        Just("PEÑAS".to_owned()),
        Just("o'hare".to_owned()),
        Just("lodz".to_owned()),
        Just("strase".to_owned()),
        Just("hocky".to_owned()),
        Just("東".to_owned()),
        Just("12345".to_owned()),
        Just("hare".to_owned()),
    ];
    let q = proptest::collection::vec(word, 1..4).prop_map(|words| format!("q={}", words.join("+")));
    let lat = prop_oneof![-90.0..=90.0_f64, Just(1.0), Just(90.0)];
    let lng = prop_oneof![-180.0..=180.0_f64, Just(1.0), Just(180.0), Just(-180.0)];
    let near = (lat.clone(), lng.clone(), 0.0..7.3_f64).prop_map(|(lat, lng, exponent)| {
        format!("near={lat},{lng}&radius={}", (10_f64.powf(exponent) / 1000.0).clamp(0.001, 20_038.0))
    });
    let bbox = (lat.clone(), lng.clone(), lat, lng)
        .prop_map(|(lat, lng, other, more)| format!("bbox={lng},{},{more},{}", lat.min(other), lat.max(other)));
    let sport = prop_oneof![Just("sport=golf".to_owned()), Just("sport=ice-hockey".to_owned())];
    (some(q), some(near), some(bbox), some(sport), 1_u8..4, 1_u8..40).prop_map(|(q, near, bbox, sport, page, size)| {
        let parts = [q, near, bbox, sport, Some(format!("page={page}&per_page={size}"))];
        parts.into_iter().flatten().collect::<Vec<_>>().join("&")
    })
}

proptest! {
    #[test]
    fn the_index_finds_what_a_walk_over_all_listings_finds(
        listings in proptest::collection::vec(listing(), 0..60), raw in queries(),
    ) {
        let dataset = dataset(&listings);
        let query = SearchQuery::parse(&raw).unwrap();
        let parameters: Vec<(&str, &str)> = raw.split('&').map(|pair| pair.split_once('=').unwrap()).collect();
        let numbers = |name: &str| {
            let value = parameters.iter().find(|(own, _)| *own == name)?.1;
            Some(value.split(',').map(|part| part.parse().unwrap()).collect::<Vec<f64>>())
        };
        let (mut expected, mut unsure): (Vec<(f64, u32)>, bool) = (Vec::new(), false);
        let every: Vec<usize> = (0..query.words.len()).collect();
        let known = |at: &usize| {
            listings.iter().any(|listing| naive_ranks(listing, &query, &every)[*at].is_some())
        };
        let known: Vec<usize> = every.iter().copied().filter(known).collect();
        // A word that nothing has is left out, unless nothing has any.
        let counted = if known.is_empty() { every } else { known };
        let mut there: Vec<(u32, &Value, Option<f64>)> = Vec::new();
        for (position, listing) in (0..).zip(&listings) {
            if query.list.slugs[0].as_deref().is_some_and(|slug| listing["sport"] != slug) {
                continue;
            }
            let place = naive_degrees(&listing["lat"], 90.0).zip(naive_degrees(&listing["lng"], 180.0));
            if let Some(bbox) = numbers("bbox") {
                let Some((lat, lng)) = place else { continue };
                let [west, south, east, north] = bbox[..] else { panic!("four") };
                let beside = if west > east { lng >= west || lng <= east } else { west <= lng && lng <= east };
                unsure |= [lng - west, lng - east, lat - south, lat - north].iter().any(|gap| gap.abs() < 2e-7 && *gap != 0.0);
                if !beside || lat < south || lat > north {
                    continue;
                }
            }
            let metres = if let Some(near) = numbers("near") {
                let Some(place) = place else { continue };
                let (metres, radius) = (naive_metres((near[0], near[1]), place), numbers("radius").unwrap()[0] * 1000.0);
                unsure |= (metres - radius).abs() < 0.6;
                if metres > radius {
                    continue;
                }
                Some(metres)
            } else {
                None
            };
            there.push((position, listing, metres));
        }
        for (position, listing, metres) in there {
            let ranks = if counted.is_empty() { Vec::new() } else { naive_ranks(listing, &query, &counted) };
            let Some(ranks) = ranks.into_iter().collect::<Option<Vec<Rank>>>() else { continue };
            let name = folded(listing["name"].as_str().unwrap_or_default());
            let (mut own, mut orders) = (BTreeSet::new(), OrderCollector::default());
            each_word(&name, false, |word| _ = !is_filler(word) && own.insert(word.to_owned()));
            let length = own.len() as u8;
            orders.add(ListingId(0), &Venue::read(listing.to_string().as_bytes()), length);
            let in_name = counted.iter().filter(|word| **word < query.before_place).count();
            let words = if in_name == 0 { counted.len() } else { in_name };
            let asked = NameWords { words, says_where: words < counted.len() };
            // Of the two sports, one has two words.
            let asked_for = query.words[..query.before_place].join(" ");
            let named = |part: &str| {
                let (begins, ends) = (asked_for.strip_prefix(part), asked_for.strip_suffix(part));
                begins.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
                    || ends.is_some_and(|rest| rest.ends_with(' '))
            };
            let sport = ["ice-hockey", "golf"].into_iter().find(|sport| named(&sport.replace('-', " ")));
            let other = if sport.is_some_and(|sport| listing["sport"] != sport) { order::OTHER_SPORT } else { 0 };
            let grade = orders.finish().grade(0, ranks.iter().sum::<Rank>() | other, asked);
            let best = if ranks.is_empty() { 0.0 } else { grade as f64 };
            expected.push((metres.unwrap_or(best), position));
        }
        // Rounding decides at an edge.
        prop_assume!(!unsure);
        expected.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let found = found(&dataset, &query).unwrap();
        prop_assert_eq!(found.total, expected.len() as u64);
        let size = usize::from(query.list.per_page);
        let page: Vec<_> = expected.iter().skip((query.list.page as usize - 1) * size).take(size).collect();
        prop_assert_eq!(found.page.len(), page.len());
        for (hit, (value, position)) in found.page.iter().zip(page) {
            if query.near.is_some() {
                prop_assert!((f64::from(hit.metres.unwrap()) - value).abs() < 1.0, "{:?} and {}", hit, value);
                let same = expected.iter().any(|(metres, at)| *at == hit.position && (metres - value).abs() < 0.1);
                prop_assert!(same, "{:?} and {}", hit, position);
            } else {
                prop_assert_eq!(*hit, Hit { position: *position, metres: None });
            }
        }
    }
}

#[test]
fn the_whole_name_comes_before_its_beginning_its_words_other_fields_and_an_error() {
    let dataset = dataset(&[
        json!({"name": "Rivreside", "city": "A"}),
        json!({"name": "Park", "city": "Riverside"}),
        json!({"name": "Riversides", "city": "A"}),
        json!({"name": "Old Riverside", "city": "A"}),
        json!({"name": "The Riverside", "city": "Riverside"}),
        json!({"name": "Riverbank"}),
    ]);
    assert_eq!(ids(&dataset, "q=riverside"), [5, 3, 4, 2, 1]);
    assert_eq!(ids(&dataset, "q=riv"), [5, 1, 3, 6, 4, 2], "of equal ones that with the word in two fields is first");
    assert_eq!(ids(&dataset, "q=park+riverside"), [2], "all words must match");
    assert_eq!(ids(&dataset, "q=riverside&per_page=2&page=2"), [4, 2]);
    assert_eq!(search(&dataset, "q=riverside&page=9").total, 5);
    assert!(ids(&dataset, "q=riverside&page=18446744073709551615").is_empty());
    assert!(ids(&dataset, "q=rivre").contains(&1) && ids(&dataset, "q=parc").is_empty(), "four letters have no error");
}

/// Two words as one are not its singular, of which the second word would be a part that nobody typed.
#[test]
fn a_letter_after_a_word_is_no_plural_of_it() {
    let named = |name: &str| json!({"name": name, "sport": "golf"});
    let dataset = dataset(&[named("Golf"), named("Golf S"), named("Golfs")]);
    assert_eq!(ids(&dataset, "q=golf+s"), [2, 3]);
    assert_eq!(ids(&dataset, "q=golfs"), [3, 1, 2]);
}

#[test]
fn among_equal_matches_the_larger_share_of_the_name_comes_first_then_more_reviews() {
    let named = |name: &str, reviews: u32| json!({"name": name, "review_count": reviews});
    let dataset = dataset(&[
        named("Fenway Park Tennis Courts", 9000),
        named("Fenway Park", 10),
        named("Fenway Park Annex", 3),
        named("Fenway Park Garden", 70),
        named("New Fenway Park", 5000),
    ]);
    assert_eq!(ids(&dataset, "q=fenway+park"), [2, 4, 3, 1, 5]);
    assert_eq!(ids(&dataset, "q=fenway+park&sort=reviews"), [1, 5, 4, 2, 3]);
    assert_eq!(ids(&dataset, "q=fenway&sort=name&per_page=2"), [2, 3]);
}

#[test]
fn what_people_type_is_found() {
    let place = |name: &str, city: &str, state: &str, sport: &str| json!({"name": name, "city": city, "state": state, "sport": sport});
    let dataset = dataset(&[
        place("U.S. Bank Stadium", "Minneapolis", "Minnesota", "golf"),
        place("Zilker Gym", "Austin", "Texas", "golf"),
        place("Lake Pickleball Center", "Saint Paul", "Minnesota", "ice-hockey"),
        place("Y.M.C.A. of O`ahu", "St. Louis", "Missouri", "golf"),
        place("東京体育館", "New York", "New York", "golf"),
        place("Nationals Field", "Washington", "District of Columbia", "ice-hockey"),
        place("Ft. Mason", "San Francisco", "CA", "golf"),
    ]);
    for (typed, expected) in [
        ("austin,+tx", &[2][..]),
        ("new+york,+ny", &[5]),
        ("washington+dc", &[6]),
        ("golf+in+texas", &[2]),
        ("gyms", &[2]),
        ("saint+paul", &[3]),
        ("st+paul", &[3]),
        ("saint+louis", &[4]),
        ("picklebl", &[3]),
        ("pickle+ball", &[3]),
        ("us+bank+stadium", &[1]),
        ("u.s.+bank", &[1]),
        ("ymca", &[4]),
        ("oahu", &[4]),
        ("体育", &[5]),
        ("fort+mason,+california", &[7]),
        ("hockey+on+ice", &[6, 3]),
        ("zilker+xyzzy", &[2]),
        ("xyzzy", &[]),
    ] {
        let found = ids(&dataset, &format!("q={typed}"));
        assert!(expected.iter().all(|id| found.contains(id)), "{typed}: {found:?}");
        assert!(found.len() == expected.len(), "{typed}: {found:?}");
    }
}

#[test]
fn no_order_depends_on_the_origins() {
    let named =
        |id: u64, name: &str| json!({"id": id, "name": name, "rating": 4.5, "review_count": 9, "lat": 1, "lng": 2});
    let listings = [named(9, "Park"), named(3, "Park"), named(5, "Park"), named(4, "Lake")];
    let dataset = of_summaries(&listings);
    for raw in ["q=park", "q=park&sort=rating", "q=park&sort=reviews", "q=park&sort=name", "q=park&near=1,2"] {
        let found = search(&dataset, raw);
        let ids: Vec<u64> =
            found.page.iter().map(|hit| dataset.content.summaries[hit.position as usize].id.0).collect();
        assert_eq!(ids, [3, 5, 9], "{raw}");
    }
}

#[test]
fn a_word_that_is_repeated_counts_once() {
    let place = |name: &str, city: &str, reviews: u64| json!({"name": name, "city": city, "review_count": reviews});
    let dataset = dataset(&[
        place("Copper Country Pickleball Club", "Houghton", 9),
        place("Copper Country Country Club", "Houghton", 8),
        place("Columbus Gym", "Columbus", 3),
        place("Columbus Gym Annex", "Columbus", 7),
        place("Park at Oak Park", "Columbus", 1),
        place("Oak Park Parking", "Columbus", 2),
    ]);
    assert_eq!(ids(&dataset, "q=copper+country+country+club"), [2, 1]);
    assert_eq!(ids(&dataset, "q=columbus+gym+columbus"), [3, 4]);
    assert_eq!(ids(&dataset, "q=park+at+oak+park"), [5, 6]);
}

#[test]
fn a_word_may_be_in_the_plural() {
    let names = ["Arena Complex", "Golf Academy", "Beach Gym", "Glass Court", "Ice Rinks"];
    let dataset = dataset(&names.map(|name| json!({"name": name})));
    for (typed, expected) in [
        ("complexes", &[1][..]),
        ("academies", &[2]),
        ("beaches", &[3]),
        ("glasses", &[4]),
        ("courts", &[4]),
        ("rinks", &[5]),
        ("rink", &[5]),
        ("iceses", &[]),
    ] {
        assert_eq!(ids(&dataset, &format!("q={typed}")), expected, "{typed}");
    }
}

#[test]
fn words_after_in_say_where() {
    let place = |name: &str, city: &str, state: &str| json!({"name": name, "city": city, "state": state});
    let dataset = dataset(&[
        place("Washington Pool", "Bend", "Oregon"),
        place("Lincoln Pool", "Spokane", "Washington"),
        place("Washington Pool", "Tacoma", "Washington"),
        place("Pool", "Tacoma", "Washington"),
        place("Drive In Pool", "Bend", "Oregon"),
    ]);
    assert_eq!(ids(&dataset, "q=pool+in+washington"), [4, 3, 2, 1], "the whole name, then any there, then elsewhere");
    assert_eq!(ids(&dataset, "q=pool+near+tacoma,+wa"), [4, 3]);
    assert_eq!(
        ids(&dataset, "q=washington+pool"),
        [3, 1, 4, 2],
        "of two with one name that where two fields have a word"
    );
    assert_eq!(ids(&dataset, "q=in+washington"), ids(&dataset, "q=washington"), "no other words");
    assert_eq!(ids(&dataset, "q=drive+in+pool"), [5], "a name may have such a word");
}

#[test]
fn a_sport_that_is_named_comes_before_names_that_have_the_word() {
    let place = |name: &str, sport: &str| json!({"name": name, "city": "Laredo", "state": "Texas", "sport": sport});
    let dataset = dataset(&[
        place("Golf Crest Rink", "ice-hockey"),
        place("Lake Country Club", "golf"),
        place("Lake Golf Club", "golf"),
        place("Golf", "ice-hockey"),
        place("Hockey Golf House", "ice-hockey"),
    ]);
    assert_eq!(ids(&dataset, "q=golf+in+texas"), [4, 3, 2, 1, 5], "after the whole name");
    assert_eq!(ids(&dataset, "q=golf+laredo"), [3, 2, 4, 1, 5]);
    assert_eq!(ids(&dataset, "q=golf"), [4, 1, 3, 5, 2], "the name is first where it has all words");
    assert_eq!(ids(&dataset, "q=laredo+ice+hockey"), [5, 1, 4]);
    assert_eq!(ids(&dataset, "q=golf+crest+rink+laredo"), [1]);
}

#[test]
fn all_words_must_match_but_those_that_nothing_has() {
    let place = |name: &str, city: &str| json!({"name": name, "city": city, "sport": "golf"});
    let dataset = dataset(&[place("Planet Fitness", "Phoenix"), place("24 Hour Gym", "Mesa")]);
    let found = |raw: &str| (ids(&dataset, raw), search(&dataset, raw).ignored.join(" "));
    assert_eq!(found("q=planet+fitness+opening+times"), (vec![1], "opening times".into()));
    assert_eq!(found("q=planet+gym"), (vec![], String::new()), "each is somewhere");
    assert_eq!(found("q=planet+gym+xyzzy"), (vec![], "xyzzy".into()));
    let files =
        |raw: &str| SearchIndex::of(&dataset).unwrap().find_all(&dataset, &SearchQuery::parse(raw).unwrap()).unwrap();
    assert_eq!(files("q=planet+gym").ignored.join(" "), "");
    assert_eq!(files("q=xyzzy+plugh").ignored.join(" "), "xyzzy plugh");
}

#[test]
fn facets_say_how_many_results_each_sport_and_state_has() {
    let listing = |name: &str, sport: &str| json!({"name": name, "sport": sport, "state": "Texas"});
    let dataset = dataset(&[
        listing("Lake Arena", "ice-hockey"),
        listing("Lake Links", "golf"),
        listing("Lake Golf", "golf"),
        listing("Hill Golf", "golf"),
    ]);
    let counts = |raw: &str| {
        let found = search(&dataset, raw).facets?;
        Some(found.0.map(|terms| terms.iter().map(|term| format!("{} {}", term.slug, term.count)).collect::<Vec<_>>()))
    };
    assert_eq!(counts("q=lake"), None, "not asked for");
    assert_eq!(
        counts("q=lake&facets=1&per_page=1&page=2"),
        Some([vec!["golf 2".into(), "ice-hockey 1".into()], vec![]])
    );
    assert_eq!(counts("q=lake&facets=1&sport=golf"), Some([vec!["golf 2".into()], vec![]]));
    assert_eq!(counts("q=hockey&facets=1&sport=golf"), Some([vec![], vec![]]));
}

#[test]
fn words_that_nothing_has_and_those_beyond_the_eighth_are_named() {
    let dataset = dataset(&[json!({"name": "a b c d e f g h i"}), json!({"name": "a"})]);
    let ignored = |raw: &str| search(&dataset, raw).ignored.join(" ");
    assert_eq!(ignored("q=a+xyzzy+b+plugh"), "xyzzy plugh");
    assert_eq!(ignored("q=a+b+c+d+e+f+g+h+i+xyzzy"), "i xyzzy");
    assert_eq!(ignored("q=xyzzy"), "", "nothing is left to look for");
    assert_eq!(search(&dataset, "q=a+xyzzy+b").total, 1);
    assert_eq!(search(&dataset, "q=xyzzy").total, 0);
}

#[test]
fn a_sport_is_found_by_the_name_that_its_index_shows() {
    let sports = r#"[{"slug": "football", "name": "American Football", "count": 1}]"#;
    let raw = Bytes::from(r#"{"id": 1, "name": "ListingField", "sport": "football"}"#);
    let summaries = vec![Summary { id: ListingId(1), hash: ContentHash::of(&raw), raw }];
    let taxonomies = [Arc::from(sports), Arc::from("[]"), Arc::from("[]")];
    let content = Content { envelope: Envelope::default(), taxonomies, summaries };
    let dataset = Dataset::build(content, &Evidence::new()).unwrap();
    assert_eq!(ids(&dataset, "q=american+football"), [1]);
}

#[test]
fn listings_of_one_place_are_ordered_by_reviews_and_id_and_those_without_a_place_are_never_near() {
    let dataset = dataset(&[
        json!({"name": "a", "lat": 30.0, "lng": -97.0}),
        json!({"name": "b", "lat": null, "lng": -97.0}),
        json!({"name": "c", "lat": "30.0", "lng": "-97.0"}),
        json!({"name": "d", "lat": 30.001, "lng": -97.0}),
        json!({"name": "e", "lat": 300, "lng": -97.0}),
        json!({"name": "f"}),
    ]);
    let found = search(&dataset, "near=30,-97&radius=20000");
    assert_eq!(found.page.iter().map(|hit| hit.position).collect::<Vec<_>>(), [0, 2, 3]);
    assert_eq!(found.page.iter().map(|hit| hit.metres).collect::<Vec<_>>(), [Some(0), Some(0), Some(111)]);
    assert_eq!(ids(&dataset, "bbox=-180,-90,180,90"), [1, 3, 4]);
    assert_eq!(search(&dataset, "near=30,-97&radius=0.1").total, 2);
}

#[test]
fn a_field_without_end_is_read_at_its_start() {
    let name = format!("{}end", "é ".repeat(MOST_OF_A_FIELD));
    let dataset = dataset(&[json!({"name": name})]);
    assert!(ids(&dataset, "q=end").is_empty() && ids(&dataset, "q=e") == [1]);
}

#[test]
fn a_slug_that_nothing_has_is_named() {
    let dataset = dataset(&[json!({"name": "a", "sport": "golf"})]);
    let find = |raw: &str| found(&dataset, &SearchQuery::parse(raw).unwrap());
    assert_eq!(find("sport=golf").unwrap().total, 1);
    let why = find("q=a&sport=polo").unwrap_err();
    assert!(why.to_string().contains("polo") && matches!(why, Unselected::Unknown { .. }), "{why}");
    // No listing has a time.
    assert_eq!(find("modified_since=2026-01-01").unwrap_err(), Unselected::Modified);
}
