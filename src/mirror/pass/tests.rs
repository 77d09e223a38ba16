//! Which pages are consistent, and when a pass is full.

use super::*;

fn page(number: u64, total: u64, ids: &[u64]) -> Bytes {
    let items: Vec<String> = ids.iter().map(|id| format!(r#"{{"id":{id}}}"#)).collect();
    let body = format!(
        r#"{{"license":"x","next":{number},"generated_at":"2026-01-0{number}","per_page":100,"total":{total},"items":[{}]}}"#,
        items.join(",")
    );
    body.into()
}

fn assembled(pages: Vec<Bytes>) -> Result<Assembled, Inconsistent> {
    let taxonomies = [(); 3].map(|()| Bytes::from_static(br#"{"generated_at":"t","items":[]}"#));
    assemble(pages.into_iter(), &taxonomies, &VolatileKeys::default(), |_| None)
}

#[test]
fn consistent_pages_become_content() {
    let assembled = assembled(vec![page(1, 3, &[5, 9]), page(2, 3, &[1])]).unwrap();
    let ids: Vec<u64> = assembled.content.summaries.iter().map(|summary| summary.id.0).collect();
    assert_eq!(ids, [5, 9, 1]);
    assert_eq!(assembled.left_out, ["next"]);
    assert_eq!(assembled.content.taxonomies[0].as_ref(), r#"{"generated_at":null,"items":[]}"#);
    assert_eq!(assembled.volatile_values["list generated_at"], "\"2026-01-01\"");
    assert_eq!(assembled.volatile_values["/api/sports.json generated_at"], "\"t\"");
}

#[test]
fn pages_that_do_not_fit_are_refused() {
    for (pages, message) in [
        (vec![page(1, 3, &[1, 2]), page(2, 3, &[2])], "listing 2 is on two pages"),
        (vec![page(1, 3, &[1, 2]), page(2, 3, &[2, 1])], "listing 1 and 1 more are on two pages"),
        (vec![page(1, 3, &[1, 2])], "have 2 different listings, but page 1 states a total of 3"),
        (vec![page(1, 3, &[1, 2]), page(2, 4, &[3])], "other pages state other totals"),
        (vec![Bytes::from_static(b"<html>")], "page 1"),
        (vec![Bytes::from_static(br#"{"per_page":50,"total":0,"items":[]}"#)], "a page of 50"),
    ] {
        let error = assembled(pages).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_pass_is_full_when_one_instant_fits_every_copy() {
    let pass = |spans: &[(i64, i64)]| {
        let span = |(since_ms, until_ms): (i64, i64)| Span { since_ms, until_ms };
        Pass::new(paths(1).zip(spans.iter().copied().map(span)).collect())
    };
    assert!(pass(&[(10, 10); 4]).is_full());
    let open = pass(&[(20, 30), (10, 10), (10, 10), (10, 19)]);
    assert!(!open.is_full());
    assert_eq!(open.unproven(), ["/api/sports.json", "/api/states.json", "/api/cities.json"]);
    let closed = pass(&[(20, 30), (10, 25), (10, 25), (10, 26)]);
    assert!(closed.is_full() && closed.unproven().is_empty());
    assert_eq!(closed.until_ms(), 25);
}

#[test]
fn what_is_known_is_not_held_twice() {
    let first = assembled(vec![page(1, 3, &[5, 9]), page(2, 3, &[1])]).unwrap().content;
    let known = |item: &Summary| first.summaries.iter().find(|known| *known == item && item.id.0 != 9).cloned();
    let taxonomies = [(); 3].map(|()| Bytes::from_static(b"{}"));
    let pages = [page(1, 3, &[5, 9]), page(2, 3, &[1])];
    let bodies: Vec<_> = pages.iter().map(|page| page.as_ptr_range()).collect();
    let again = assemble(pages.iter().cloned(), &taxonomies, &VolatileKeys::default(), known).unwrap().content;
    assert_eq!(again.summaries, first.summaries);
    for (item, before) in again.summaries.iter().zip(&first.summaries) {
        assert_eq!(item.raw.as_ptr() == before.raw.as_ptr(), item.id.0 != 9);
        assert!(bodies.iter().all(|body| !body.contains(&item.raw.as_ptr())), "{} keeps its page in memory", item.id);
    }
}
