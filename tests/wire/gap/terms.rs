//! The origin's lists for terms that no name explains: each snapshot keeps its own, wherever it is carried.

use std::collections::BTreeMap;

use sample_origin::{CountStyle, Origin, Switches};

use super::{Desk, LIST, edit, mirrored};
use crate::compare::slugs;
use crate::harness::{Server, Setup, run};

type Lists = BTreeMap<String, String>;

/// The list of every term there is, the first page.
fn targets(origin: &Origin) -> Vec<String> {
    let kinds = [("sports", "sport"), ("states", "state"), ("cities", "city")];
    let of_kind = |(name, parameter): (&str, &str)| -> Vec<String> {
        slugs(origin, name).iter().map(|slug| format!("{LIST}?{parameter}={slug}&per_page=100")).collect()
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

async fn answers(server: &Server, targets: &[String]) -> Lists {
    let mut lists = Lists::new();
    for target in targets {
        lists.insert(target.clone(), server.ok(target).await.text().to_owned());
    }
    lists
}

fn differing<'a>(one: &'a Lists, other: &Lists) -> Vec<&'a str> {
    one.iter().filter(|(target, text)| other.get(*target) != Some(text)).map(|(target, _)| &**target).collect()
}

#[tokio::test]
async fn a_rollback_answers_terms_from_what_the_origin_listed_for_them_then() {
    let switches = Switches { counts: CountStyle::Absent, ..Switches::default() };
    let (origin, mirror) = mirrored(260, switches).await;
    let (desk, offline) = (Desk::new(), Setup::offline());
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "old.gsb").await;
    let targets = targets(&origin);
    let (old_id, old) = (mirror.snapshot().await, answers(&mirror, &targets).await);
    edit(&origin, &mirror, |world| {
        let ids = world.ids();
        assert!(ids.iter().step_by(3).all(|id| world.relocate(*id, "texarkana", Some("texas")) && world.touch(*id)));
    })
    .await;
    desk.does(&mirror.setup, &mirror.data_dir(), &["export"], "new.gsb").await;
    let new = answers(&mirror, &targets).await;
    assert!(differing(&old, &new).len() > 20, "{:?}", differing(&old, &new));

    for name in ["old.gsb", "new.gsb"] {
        desk.does(&offline, &desk.data(), &["import"], name).await;
    }
    let mut server = desk.serve_copy(offline.clone()).await;
    let expect = async |server: &Server, expected: &Lists, what: &str| {
        let found = answers(server, &targets).await;
        assert!(found == *expected, "{what}: {:?} differ", differing(&found, expected));
    };
    expect(&server, &new, "the newest").await;
    let rolled_back = run(&offline.arguments(&["snapshot", "rollback", &old_id], &server.data_dir())).await;
    assert_eq!(rolled_back.0, 0, "{}", rolled_back.1);
    expect(&server, &old, "rolled back").await;
    server.restart().await;
    expect(&server, &old, "rolled back, after a restart").await;
    desk.does(&offline, &server.data_dir(), &["export"], "again.gsb").await;
    let dir = tempfile::tempdir().unwrap();
    desk.does(&offline, &dir.path().join("data"), &["import"], "again.gsb").await;
    expect(&offline.clone().start_in(dir).await, &old, "carried on").await;
    let released = run(&offline.arguments(&["snapshot", "release"], &server.data_dir())).await;
    assert_eq!(released.0, 0, "{}", released.1);
    expect(&server, &new, "rollback ended").await;
}
