//! Lookup: answers from the current and from kept snapshots, and what is forwarded.

use std::net::IpAddr;

use bytes::Bytes;

use super::*;
use crate::api::hash::ContentHash;
use crate::api::listing::{ListingId, Summary};
use crate::api::page::{Envelope, EnvelopeField};
use crate::api::query::Parameters;
use crate::api::taxonomy::TaxonomyKind;
use crate::config::Config;
use crate::data::cache::Key;
use crate::data::snapshot::content::Content;
use crate::data::snapshot::dataset::Dataset;
use crate::data::snapshot::journal::{Entry, Journal};
use crate::data::snapshot::membership::Evidence;
use crate::data::snapshot::meta::SnapshotMeta;
use crate::data::snapshot::pointer::View;
use crate::data::snapshot::verdicts::table::Table;
use crate::data::snapshot::verdicts::told::Told;
use crate::edge::pages::Site;

const PUBLIC: &str = "http://mirror.test";

/// Listings 1 to `count`, each of which says `text`; sports are told apart by `text`, too.
fn content(count: u64, text: &str) -> Content {
    let summary = |id| {
        let raw = format!(r#"{{"id":{id},"text":"{text}"}}"#);
        Summary { id: ListingId(id), hash: ContentHash::of(raw.as_bytes()), raw: Bytes::from(raw) }
    };
    let carried = |key: &str, value: &str| EnvelopeField::Carried { key: key.into(), value: value.into() };
    let fields = vec![
        carried("license", r#""https://license.test/by""#),
        EnvelopeField::GeneratedAt,
        EnvelopeField::Page,
        EnvelopeField::Total,
        EnvelopeField::Items,
    ];
    let sports = format!(r#"[{{"slug":"golf","label":"{text}","n":{count}}}]"#);
    Content {
        envelope: Envelope { fields, ..Envelope::default() },
        taxonomies: [sports.into(), "[]".into(), "[]".into()],
        summaries: (1..=count).map(summary).collect(),
    }
}

fn meta(confirmed_ms: i64) -> SnapshotMeta {
    SnapshotMeta { published_ms: 0, ..SnapshotMeta::full(confirmed_ms) }
}

fn dataset(content: Content) -> Arc<Dataset> {
    Arc::new(Dataset::build(content, &Evidence::new()).unwrap())
}

/// An offline replica that serves 30 listings, and 20 of an earlier snapshot.
struct Rig {
    finder: Arc<Finder>,
    old: Arc<Snapshot>,
}

impl Rig {
    fn new() -> Self {
        let old = Arc::new(Snapshot::new(dataset(content(20, "old")), meta(1_000_000), 1, 0));
        let (current, new) = (SnapshotPointer::default(), dataset(content(30, "new")));
        current.swap(new.clone(), meta(2_000_000), 2);
        let earlier = EarlierSnapshots::default();
        earlier.will_be_replaced(old.clone());
        earlier.shown(new.id.as_str());
        let entry = Entry::between(&old.dataset.content, &new.content, 5);
        let journal = Arc::new(Journal::new([entry]));
        current.show(View { journal, ..View::clone(&current.view()) });
        let finder = Finder {
            current,
            cache: Cache::new(1 << 20),
            on_demand: OnDemand::default(),
            details: None,
            origin: None,
            proxy: None,
            instants: None,
            rewrite: Rewrite::new(None, &[], PUBLIC),
            public_url: PUBLIC.into(),
            rendering: FairSemaphore::new(2, 1),
            pages: ArcSwap::from_pointee(Pages::new(Site {
                public_url: PUBLIC.into(),
                usage: "offline",
                has_snapshots: true,
                requests_per_minute: 60,
                tiles: None,
                tiles_credit: None,
            })),
            earlier,
            searches: None,
            absent: Absent::OFFLINE,
            settings: Settings::new(Config::default()),
            verdicts: Verdicts::default(),
            clock: Clock::system(),
        };
        Self { finder: Arc::new(finder), old }
    }

    fn id(&self) -> &str {
        self.old.dataset.id.as_str()
    }

    async fn find(&self, target: ApiTarget) -> Found {
        self.finder.find(target, Coding::Identity, IpAddr::from([127, 0, 0, 1]).into()).await
    }

    async fn list(&self, query: &str) -> Found {
        let Parameters { list, snapshot, .. } = Parameters::parse(query).unwrap();
        self.find(ApiTarget::List { query: list, pin: snapshot, has_size: true, raw: None }).await
    }

    async fn sports(&self, pin: Option<&str>) -> String {
        let found = self.find(ApiTarget::Taxonomy { kind: TaxonomyKind::Sports, pin: pin.map(Into::into) }).await;
        shown(found).text
    }

    async fn changes(&self, since: &str) -> Found {
        self.find(ApiTarget::Changes { since: Ok(since.into()) }).await
    }
}

struct Shown {
    text: String,
    link: String,
    snapshot: String,
    pinned: bool,
    tag: Option<http::HeaderValue>,
}

fn shown(found: Found) -> Shown {
    match found {
        Found::Snapshot(FromSnapshot { reply, published, pinned, .. }) => Shown {
            text: String::from_utf8(reply.body.identity().to_vec()).unwrap(),
            link: reply.link.as_ref().unwrap().to_str().unwrap().to_owned(),
            snapshot: published.dataset.id.to_string(),
            pinned,
            tag: reply.etag.clone(),
        },
        Found::Problem(problem) => panic!("{problem:?}"),
        Found::Through { .. } => panic!("read through"),
        Found::Document { .. } => panic!("a page"),
    }
}

fn refused(found: Found) -> (u16, String, Option<u64>) {
    match found {
        Found::Problem(problem) => (problem.status().as_u16(), problem.detail().to_owned(), problem.retry_after()),
        _ => panic!("it was found"),
    }
}

#[tokio::test]
async fn a_kept_snapshot_answers_as_it_did_when_it_was_served() {
    let rig = Rig::new();
    let pin = format!("snapshot={}", rig.id());
    let page = shown(rig.list(&format!("page=2&per_page=15&{pin}")).await);
    assert!(page.text.starts_with(r#"{"license":"https://license.test/by","generated_at":"1970-01-01T00:16:40Z","#));
    assert!(page.text.contains(r#""total":20"#) && page.text.contains(r#"{"id":20,"text":"old"}]"#), "{}", page.text);
    assert_eq!((page.snapshot.as_str(), page.pinned), (rig.id(), true));
    for (rel, number) in [("first", ""), ("prev", ""), ("last", "page=2&")] {
        let link = format!("<{PUBLIC}/api/listings.json?{number}per_page=15&{pin}>; rel=\"{rel}\"");
        assert!(page.link.contains(&link), "{link}: {}", page.link);
    }
    let beyond = shown(rig.list(&format!("page=9&{pin}")).await).text;
    assert!(beyond.contains(r#""total":20,"items":[]"#), "{beyond}");
    let current = shown(rig.list("page=2&per_page=15").await);
    assert!(current.text.contains(r#"{"id":30,"text":"new"}"#) && !current.pinned && current.tag != page.tag);
}

#[tokio::test]
async fn a_taxonomy_of_a_kept_snapshot_neither_uses_nor_fills_the_served_ones_place() {
    let rig = Rig::new();
    for _ in 0..3 {
        assert!(rig.sports(Some(rig.id())).await.contains("old"));
    }
    assert_eq!(rig.finder.cache.size().1, 0);
    assert!(rig.sports(None).await.contains("new"));
    assert!(rig.sports(Some(rig.id())).await.contains("old"));
    assert!(rig.sports(None).await.contains("new"));
}

#[tokio::test]
async fn a_snapshot_that_is_not_in_memory_is_gone() {
    let rig = Rig::new();
    let current = rig.finder.current.get().unwrap().dataset.id.to_string();
    let (status, detail, _) = refused(rig.list("snapshot=nonsense").await);
    assert!(status == 410 && detail.contains(&current), "{status} {detail}");
    assert!(shown(rig.list(&format!("snapshot={current}")).await).pinned, "the current one is always there");
}

#[tokio::test]
async fn what_only_the_origin_can_tell_is_not_asked_for_the_past() {
    // What the origin answers otherwise today, it answered otherwise then.
    let rig = Rig::new();
    rig.finder.verdicts.doubt(&Parameters::parse("state=texas").unwrap().list, 1);
    let (status, detail, retry_after) = refused(rig.list(&format!("state=texas&snapshot={}", rig.id())).await);
    assert!(status == 503 && detail.contains("(state)") && retry_after.is_some(), "{status} {detail}");
    shown(rig.list(&format!("snapshot={}", rig.id())).await);
}

#[tokio::test]
async fn what_is_found_to_differ_is_not_answered_from_the_cache_either() {
    let rig = Rig::new();
    let states = "state=nowhere";
    for _ in 0..3 {
        shown(rig.list(states).await);
    }
    rig.finder.verdicts.doubt(&Parameters::parse(states).unwrap().list, 1);
    assert_eq!(refused(rig.list(states).await).0, 503);
    rig.finder.verdicts.change(|table| *table = Table::default());
    shown(rig.list(states).await);
    // The right listings in another order are better than none, but nobody keeps them.
    let told = Told::of(&[], &["state"]);
    rig.finder.verdicts.change(|table| *table = Table::of_told(&told, true));
    assert!(matches!(rig.list(states).await, Found::Snapshot(FromSnapshot { is_provisional: true, .. })));
}

#[tokio::test]
async fn what_changed_is_told_since_any_snapshot_that_the_journal_knows() {
    let rig = Rig::new();
    let current = rig.finder.current.get().unwrap().dataset.id.to_string();
    let all = shown(rig.changes(rig.id()).await);
    let document: serde_json::Value = serde_json::from_str(&all.text).unwrap();
    assert_eq!((&document["since"], &document["snapshot"]), (&rig.id().into(), &current.as_str().into()));
    assert_eq!(document["added"], serde_json::json!((21..=30).collect::<Vec<u64>>()));
    assert_eq!(document["changed"], serde_json::json!((1..=20).collect::<Vec<u64>>()));
    assert_eq!(
        (&document["removed"], &document["license"]),
        (&serde_json::json!([]), &"https://license.test/by".into())
    );
    assert_eq!((all.link.as_str(), all.pinned), ("<https://license.test/by>; rel=\"license\"", false));
    let none = shown(rig.changes(&current).await).text;
    assert!(none.ends_with(r#""added":[],"changed":[],"removed":[]}"#), "{none}");
    let (status, detail, _) = refused(rig.changes("nonsense").await);
    assert!(status == 410 && detail.contains("\"since\"") && detail.contains(&current), "{status} {detail}");
}

#[tokio::test]
async fn what_changed_is_kept_when_it_is_wanted_and_made_anew_after_a_switch() {
    let rig = Rig::new();
    let first = shown(rig.changes(rig.id()).await);
    assert_eq!(rig.finder.cache.size().1, 0);
    let second = shown(rig.changes(rig.id()).await);
    assert_eq!((rig.finder.cache.size().1, &second.text), (1, &first.text));
    let served = rig.finder.current.get().unwrap();
    let next = dataset(content(29, "new"));
    let mut view = View::clone(&rig.finder.current.view());
    Arc::make_mut(&mut view.journal).push(Entry::between(&served.dataset.content, &next.content, 6));
    rig.finder.current.show(view);
    assert_eq!(shown(rig.changes(rig.id()).await).tag, first.tag, "the switch does not show yet");
    rig.finder.current.swap(next, meta(3_000_000), 3);
    let third = shown(rig.changes(rig.id()).await);
    assert!(third.text.contains(r#""added":[21,22,23,24,25,26,27,28,29],"#), "{}", third.text);
    assert_ne!(third.tag, first.tag);
    let served = rig.finder.current.get().unwrap();
    rig.finder.current.swap(served.dataset.clone(), meta(4_000_000), 3);
    let fourth = shown(rig.changes(rig.id()).await);
    assert!(fourth.tag == third.tag && fourth.text != third.text, "confirmed for a later instant");
}

#[tokio::test]
async fn a_page_that_became_odd_does_not_enter_the_cache_in_place_of_the_old_one() {
    let rig = Rig::new();
    let page = "page=2&per_page=25";
    rig.list(page).await;
    rig.list(page).await;
    let key = Key::List(Parameters::parse(page).unwrap().list);
    let epoch = || rig.finder.cache.reply(&key).map(|reply| reply.epoch());
    let before = epoch();
    assert!(before.is_some());
    rig.finder.current.swap(dataset(content(20, "fewer")), meta(3_000_000), 3);
    // Nobody can be asked what a page beyond the last is.
    assert!(matches!(rig.list(page).await, Found::Snapshot(FromSnapshot { is_provisional: true, .. })));
    assert_eq!(epoch(), before, "it would hide a meaning that is found later");
}
