use bytes::Bytes;

use super::*;
use crate::origin::copies::Change;

fn copy(path: &str, body: String, since_ms: i64, until_ms: i64) -> Copy {
    Copy { path: path.to_owned(), change: Change::New, body: Bytes::from(body), since_ms, until_ms }
}

fn page(number: u64, total: u64, ids: &[u64]) -> Copy {
    let items: Vec<String> = ids.iter().map(|id| format!(r#"{{"id":{id}}}"#)).collect();
    let body = format!(
        r#"{{"license":"x","next":{number},"generated_at":"2026-01-0{number}","per_page":100,"total":{total},"items":[{}]}}"#,
        items.join(",")
    );
    copy(&page_path(number), body, 10, 10)
}

fn pass(pages: Vec<Copy>) -> Pass {
    let taxonomies =
        TaxonomyKind::ALL.map(|kind| copy(kind.path(), r#"{"generated_at":"t","items":[]}"#.into(), 10, 10));
    Pass { pages, taxonomies }
}

#[test]
fn consistent_pages_become_content() {
    let assembled = pass(vec![page(1, 3, &[5, 9]), page(2, 3, &[1])]).assemble(&VolatileKeys::default()).unwrap();
    let ids: Vec<u64> = assembled.content.summaries.iter().map(|summary| summary.id.0).collect();
    assert_eq!(ids, [5, 9, 1]);
    assert_eq!(assembled.left_out, ["next"]);
    assert_eq!(assembled.content.taxonomies[0].as_ref(), r#"{"generated_at":null,"items":[]}"#);
    assert_eq!(values_of(&assembled.volatile_values, "list")["generated_at"], "\"2026-01-01\"");
    assert_eq!(values_of(&assembled.volatile_values, "/api/sports.json")["generated_at"], "\"t\"");
}

#[test]
fn pages_that_do_not_fit_are_refused() {
    for (pages, message) in [
        (vec![page(1, 3, &[1, 2]), page(2, 3, &[2])], "listing 2 is on two pages"),
        (vec![page(1, 3, &[1, 2])], "hold 2 listings, but say that there are 3"),
        (vec![page(1, 3, &[1, 2]), page(2, 4, &[3])], "page 2 says that there are 4"),
        (vec![copy("x", "<html>".into(), 0, 0)], "page 1"),
        (vec![copy("x", r#"{"per_page":50,"total":0,"items":[]}"#.into(), 0, 0)], "pages of 50"),
    ] {
        let error = pass(pages).assemble(&VolatileKeys::default()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_pass_is_full_when_one_instant_fits_every_copy() {
    let mut pass = pass(vec![page(1, 0, &[])]);
    assert!(pass.is_full());
    pass.replace(copy(&page_path(1), String::new(), 20, 30));
    assert!(!pass.is_full());
    assert_eq!(pass.unproven().len(), 3);
    for kind in TaxonomyKind::ALL {
        pass.replace(copy(kind.path(), String::new(), 10, 25));
    }
    assert!(pass.is_full());
    assert_eq!(pass.until_ms(), 25);
}
