//! Admission: methods, hosts, sizes, limits, paths.

use http::HeaderValue;

use super::*;
use crate::edge::limit::LimitConfig;

fn rules() -> Rules {
    Rules {
        client_ip: ClientIpConfig::default(),
        limiter: Arc::new(Limiter::new(&LimitConfig { requests_per_minute: 5, ..LimitConfig::default() })),
        shared: None,
        pages: Some(Arc::new(Limiter::new(&LimitConfig { requests_per_minute: 50, ..LimitConfig::default() }))),
        base_path: Some(BasePath::parse("/mirror").unwrap()),
        passthrough_paths: vec!["/api/".to_owned()],
        passthrough_methods: vec![Method::GET],
        name: Some(Pseudonym::of(1)),
        dumps: true,
    }
}

type Fields<'a> = &'a [(&'static str, &'static str)];

fn ask(rules: &Rules, method: &str, target: &str, headers: Fields<'_>) -> Admitted {
    ask_in(Version::HTTP_2, rules, method, target, headers)
}

fn ask_in(version: Version, rules: &Rules, method: &str, target: &str, headers: Fields<'_>) -> Admitted {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_static(value));
    }
    let method = method.parse().unwrap();
    let view = View {
        method: &method,
        target: target.as_bytes(),
        headers: &map,
        peer: [10, 0, 0, 1].into(),
        has_body: false,
        version,
    };
    admit(&view, rules, Monotonic::from_seconds(1))
}

fn status(admitted: &Admitted) -> u16 {
    match &admitted.admission {
        Admission::Refused(problem) => problem.status().as_u16(),
        Admission::Admitted { .. } => 200,
        Admission::Preflight(_) | Admission::Options(_) => 204,
    }
}

#[test]
fn requests_are_told_apart() {
    for (method, target, headers, expected) in [
        ("GET", "/api/listings.json?state=texas", &[][..], 200),
        ("GET", "/mirror/api/listings.json", &[], 200),
        ("GET", "/api/%6cistings.json", &[], 200),
        ("GET", "http://host/api/listings.json?page=2", &[], 400),
        ("HEAD", "/api/cities.json?x=1", &[("content-length", "0")], 200),
        ("GET", "/api/regions.json", &[], 200),
        ("GET", "/api/listings.json?page=0", &[], 200),
        ("GET", "/api//listings.json", &[], 400),
        ("GET", "/api/..%2flistings.json", &[], 400),
        ("GET", "/api/listings.json", &[("content-length", "5")], 400),
        ("GET", "/api/listings.json", &[("transfer-encoding", "chunked")], 400),
        ("GET", "/api/listings/007.json", &[], 200),
        ("GET", "/other", &[], 404),
        ("GET", "/mirror/other", &[], 404),
        ("POST", "/api/listings.json", &[], 405),
        ("POST", "/api/regions.json", &[], 405),
        ("OPTIONS", "/api/listings.json", &[], 204),
        ("OPTIONS", "/api/regions.json", &[], 204),
        ("OPTIONS", "/mirror/api/sports.json", &[("content-length", "0")], 204),
        ("OPTIONS", "*", &[], 204),
        ("OPTIONS", "*", &[("content-length", "5")], 400),
        ("OPTIONS", "/api/listings.json", &[("transfer-encoding", "chunked")], 400),
        ("OPTIONS", "/other", &[], 404),
        ("OPTIONS", "/api//", &[], 400),
        ("GET", "*", &[], 400),
    ] {
        let admitted = ask(&rules(), method, target, headers);
        assert_eq!(status(&admitted), expected, "{method} {target}: {admitted:?}");
    }
}

#[test]
fn the_limit_comes_before_the_path_and_preflights_do_not_count() {
    let rules = rules();
    let preflight = [("origin", "https://x"), ("access-control-request-method", "GET")];
    for _ in 0..20 {
        assert_eq!(status(&ask(&rules, "OPTIONS", "/api/listings.json", &preflight)), 204);
    }
    for _ in 0..5 {
        assert_eq!(status(&ask(&rules, "GET", "/api//", &[])), 400);
    }
    assert_eq!(status(&ask(&rules, "GET", "/api//", &[])), 429);
    assert_eq!(status(&ask(&rules, "POST", "/api/listings.json", &[])), 429);
}

#[test]
fn http_1_1_names_its_host_and_every_version_names_a_host_or_none() {
    let asked = |version, headers| status(&ask_in(version, &rules(), "GET", "/api/listings.json", headers));
    for (headers, in_1_1, in_others) in [
        (&[][..], 400, 200),
        (&[("host", "")], 400, 400),
        (&[("host", "a b")], 400, 400),
        (&[("host", "example.org:8080")], 200, 200),
    ] {
        assert_eq!(asked(Version::HTTP_11, headers), in_1_1, "{headers:?}");
        assert_eq!(asked(Version::HTTP_10, headers), in_others, "{headers:?}");
        assert_eq!(asked(Version::HTTP_2, headers), in_others, "{headers:?}");
    }
    let preflight = [("origin", "https://x"), ("access-control-request-method", "GET")];
    assert_eq!(status(&ask_in(Version::HTTP_11, &rules(), "OPTIONS", "/api/listings.json", &preflight)), 400);
}

#[test]
fn what_http_2_brings_is_bounded_too() {
    let long = format!("/api/listings.json?x={}", "y".repeat(MOST_HEAD));
    assert_eq!(status(&ask(&rules(), "GET", &long, &[])), 414);
    let value: &'static str = "y".repeat(MOST_HEAD).leak();
    assert_eq!(status(&ask(&rules(), "GET", "/api/listings.json", &[("x", value)])), 431);
    for (fields, expected) in [(MOST_FIELDS, 200), (MOST_FIELDS + 1, 431)] {
        assert_eq!(status(&ask(&rules(), "GET", "/api/listings.json", &vec![("x", "y"); fields])), expected);
    }
}

#[test]
fn which_methods_there_are_depends_on_the_path() {
    let preflight = [("origin", "https://x"), ("access-control-request-method", "POST")];
    for (target, methods) in [
        ("/api/listings.json", Methods::Known),
        ("/mirror/changes.json", Methods::Known),
        ("/mirror/api/regions.json", Methods::PassedThrough),
    ] {
        let asked = ask(&rules(), "OPTIONS", target, &[]).admission;
        assert!(matches!(asked, Admission::Options(told) if told == methods), "{target}: {asked:?}");
        let asked = ask(&rules(), "OPTIONS", target, &preflight).admission;
        assert!(matches!(asked, Admission::Preflight(told) if told == methods), "{target}: {asked:?}");
    }
    let rules = Rules { passthrough_methods: vec![Method::GET, Method::OPTIONS], ..rules() };
    assert_eq!(status(&ask(&rules, "OPTIONS", "/api/regions.json", &[("content-length", "5")])), 200);
    assert_eq!(status(&ask(&rules, "OPTIONS", "/api/listings.json", &[])), 204);
}

#[test]
fn what_changed_is_asked_for_by_a_known_endpoint() {
    let since = |target: &str| match ask(&rules(), "GET", target, &[]).admission {
        Admission::Admitted { target: Target::Api(ApiTarget::Changes { since }), .. } => {
            since.map_err(|problem| problem.detail().to_owned())
        }
        other => panic!("{target}: {other:?}"),
    };
    for target in
        ["/changes.json?since=abc", "/mirror/changes.json?since=abc&page=0", "/change%73.json?since=abc&since="]
    {
        assert_eq!(since(target).as_deref(), Ok("abc"), "{target}");
    }
    for (target, named) in
        [("/changes.json", "missing"), ("/changes.json?since=", "missing"), ("/changes.json?since=a&since=b", "twice")]
    {
        let refused = since(target).unwrap_err();
        assert!(refused.contains(named) && refused.contains("\"since\""), "{target}: {refused}");
    }
    assert_eq!(status(&ask(&rules(), "POST", "/changes.json?since=abc", &[])), 405);
    assert_eq!(status(&ask(&rules(), "GET", "/changes.json?since=abc", &[("content-length", "5")])), 400);
    assert_eq!(ask(&rules(), "GET", "/changes.json", &[]).route, RouteLabel::Changes);
}

#[test]
fn a_query_becomes_its_canonical_form() {
    let admitted = ask(&rules(), "GET", "/api/listings.json?per_page=100&snapshot=abc&x=1", &[]);
    let Admission::Admitted { target: Target::Api(ApiTarget::List { query, pin, .. }), .. } = admitted.admission else {
        panic!("{admitted:?}");
    };
    assert_eq!(query.per_page, 100);
    assert_eq!(pin.as_deref(), Some("abc"));
}

#[test]
fn odd_queries_are_told_apart() {
    let target = |query: &str| match ask(&rules(), "GET", &format!("/api/{query}"), &[]).admission {
        Admission::Admitted { target, .. } => Ok(target),
        other => Err(format!("{other:?}")),
    };
    for ordinary in ["listings.json", "listings.json?page=2&sport=golf&x=", "listings.json?snapshot="] {
        assert!(matches!(target(ordinary), Ok(Target::Api(ApiTarget::List { .. }))), "{ordinary}");
    }
    for (odd, is_refused) in [
        ("listings.json?page=0", true),
        ("listings.json?sport=a&sport=b", true),
        ("listings.json?per_page=101", false),
        ("listings.json?sport=", false),
    ] {
        match target(odd) {
            Ok(Target::Api(ApiTarget::OddList(asked))) => assert_eq!(asked.ours.is_err(), is_refused, "{odd}"),
            other => panic!("{odd}: {other:?}"),
        }
    }
    for (spelled, raw) in [("sport=golf", None), ("city=new%20york&page=2", Some("city=new%20york&page=2"))] {
        let expected = raw.map(Box::from);
        assert!(
            matches!(target(&format!("listings.json?{spelled}")), Ok(Target::Api(ApiTarget::List { raw, .. })) if raw == expected)
        );
    }
    assert!(matches!(target("listings/x.json"), Ok(Target::Api(ApiTarget::NoListing(id))) if &*id == "x"));
    assert!(matches!(target("listings/%2B%37.json"), Ok(Target::Api(ApiTarget::NoListing(id))) if &*id == "%2B7"));
    for refused in ["listings.json?page=%FF", "sports.json?snapshot=a&snapshot=b", "states.json?snapshot=%FF"] {
        assert!(target(refused).is_err(), "{refused}");
    }
    for kind in TaxonomyKind::ALL {
        for ignored in ["page=0", "page=abc", "sport=a&sport=b", "modified_since=garbage", "page=%FF", "per_page=&x"] {
            let asked = target(&format!("{}?{ignored}&snapshot=a", &kind.path()["/api/".len()..]));
            let expected = Target::Api(ApiTarget::Taxonomy { kind, pin: Some("a".into()) });
            assert_eq!(asked, Ok(expected), "{ignored}");
        }
    }
}
