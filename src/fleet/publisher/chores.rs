//! Which objects are removed from the object store, which are written again, and which are read back.
//!
//! Pure. Callers: [`super::tidy`].

use std::collections::HashMap;

use super::plan::Chain;
use super::read_back::Doubt;
use crate::fleet::head::Head;
use crate::fleet::keys::Key;
use crate::fleet::place::Listed;

/// The work on the objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chores {
    /// Objects of our chain that other publishers may remove soon, because they are old.
    pub renew: Vec<Key>,
    /// Old objects that no head names.
    pub remove: Vec<Key>,
    /// Objects of our chain that are missing, or have another length.
    pub lost: Vec<Key>,
    /// Objects of our chain whose present version was not read back yet.
    pub doubts: Vec<Doubt>,
}

/// Decides. `own`: our chain; `stored`: the head in the object store, read just before; `good`: the versions of objects
/// that were read back. Objects' ages are measured at the head's last write, by the object store's clock. So objects
/// look younger, and none is removed too early.
pub(super) fn of(
    listed: &[Listed],
    own: &Chain,
    stored: &Head,
    good: &HashMap<Key, Option<String>>,
    keep_ms: i64,
) -> Chores {
    let Some(now_ms) = listed.iter().find(|object| object.key == Key::Head).map(|head| head.modified_ms) else {
        return Chores::default();
    };
    let age = |object: &Listed| now_ms.saturating_sub(object.modified_ms);
    let by_key: HashMap<&Key, &Listed> = listed.iter().map(|object| (&object.key, object)).collect();
    let mut chores = Chores::default();
    for (key, bytes, blake3) in own.objects() {
        let Some(object) = by_key.get(&key).filter(|object| object.bytes == bytes) else {
            chores.lost.push(key);
            continue;
        };
        if good.get(&key) != Some(&object.tag) {
            chores.doubts.push(Doubt { key: key.clone(), tag: object.tag.clone(), bytes, blake3 });
        }
        if age(object) > keep_ms / 2 {
            chores.renew.push(key);
        }
    }
    let own = &own.head;
    let needed = |key: &Key| own.names(key) || stored.names(key);
    chores.remove = listed
        .iter()
        .filter(|object| age(object) > keep_ms && !needed(&object.key))
        .map(|object| object.key.clone())
        .collect();
    chores
}

#[cfg(test)]
mod tests {
    use super::super::plan::SignatureFile;
    use super::*;
    use crate::fleet::head::{NamedBundle, NamedJournal};
    use crate::fleet::keys::{BundleKey, Digest};
    use crate::snapshot::content::SnapshotId;
    use crate::snapshot::meta::Certificate;

    const NOW: i64 = 1_790_000_000_000;
    const KEEP: i64 = 1000;

    fn digest(n: u8) -> Digest {
        Digest::new([n; 32])
    }

    fn bundle(base: Option<u8>, n: u8) -> NamedBundle {
        let snapshot = SnapshotId::parse(&format!("{n:032x}")).unwrap();
        NamedBundle { base: base.map(digest), digest: digest(n), snapshot, bytes: 100, blake3: digest(n) }
    }

    /// A head of a full bundle `n`, a delta `n + 1`, and a journal `n + 2`.
    fn head(n: u8) -> Head {
        let delta = bundle(Some(n), n + 1);
        Head {
            sequence: 1,
            written_ms: 0,
            confirmed_ms: 0,
            certificate: Certificate::Full,
            snapshot: delta.snapshot.clone(),
            full: bundle(None, n),
            deltas: vec![delta],
            journal: NamedJournal { bytes: 9, blake3: digest(n + 2) },
        }
    }

    fn listed(key: Key, bytes: u64, age: i64) -> Listed {
        Listed { key, bytes, modified_ms: NOW - age, tag: Some("1".to_owned()) }
    }

    fn chain(head: &Head, is_signed: bool) -> Chain {
        let signature = |at: usize| SignatureFile { bytes: 300, blake3: digest(90 + at as u8) };
        let signatures = if is_signed { (0..head.chain().count()).map(signature).collect() } else { Vec::new() };
        Chain { head: head.clone(), content: digest(0), full_ms: 0, last_ms: 0, signatures }
    }

    /// What is to be done where nothing was read back.
    fn of(listed: &[Listed], own: &Head, is_signed: bool, stored: &Head, keep_ms: i64) -> Chores {
        super::of(listed, &chain(own, is_signed), stored, &HashMap::new(), keep_ms)
    }

    /// The objects of a head, of that age.
    fn objects(head: &Head, age: i64) -> Vec<Listed> {
        let bundles = head.chain().map(|bundle| listed(Key::Bundle(bundle.key()), 100, age));
        bundles.chain([listed(Key::Journal(head.journal.key()), 9, age)]).collect()
    }

    fn with_head(objects: impl IntoIterator<Item = Listed>) -> Vec<Listed> {
        objects.into_iter().chain([listed(Key::Head, 50, 0)]).collect()
    }

    #[test]
    fn what_no_head_names_is_removed_when_it_is_old_enough() {
        let (own, old) = (head(10), head(20));
        for (age, removed) in [(KEEP, 0), (KEEP + 1, 3)] {
            let all = with_head([objects(&own, 5), objects(&old, age)].concat());
            let chores = of(&all, &own, false, &own, KEEP);
            assert_eq!((chores.remove.len(), chores.renew.len(), chores.lost.len()), (removed, 0, 0), "{age}");
            assert!(!chores.remove.contains(&Key::Head));
        }
    }

    #[test]
    fn neither_our_chain_nor_that_of_the_head_in_the_store_is_removed() {
        let (own, other, old) = (head(10), head(20), head(30));
        let all = with_head([objects(&own, 2 * KEEP), objects(&other, 2 * KEEP), objects(&old, 2 * KEEP)].concat());
        let chores = of(&all, &own, false, &other, KEEP);
        let old: Vec<Key> = objects(&old, 0).into_iter().map(|object| object.key).collect();
        assert_eq!(chores.remove, old);
        assert_eq!(chores.renew.len(), 3, "our own are written again");
    }

    #[test]
    fn what_is_older_than_half_of_the_time_is_written_again() {
        let own = head(10);
        for (age, renewed) in [(KEEP / 2, 0), (KEEP / 2 + 1, 3)] {
            assert_eq!(of(&with_head(objects(&own, age)), &own, false, &own, KEEP).renew.len(), renewed, "{age}");
        }
    }

    #[test]
    fn a_missing_object_and_one_of_another_length_break_the_chain() {
        let own = head(10);
        let whole = objects(&own, 0);
        for lost in 0..whole.len() {
            let mut all = whole.clone();
            all[lost].bytes += 1;
            let key = [all[lost].key.clone()];
            assert_eq!(of(&with_head(all.clone()), &own, false, &own, KEEP).lost, key, "{lost}");
            all.remove(lost);
            assert_eq!(of(&with_head(all), &own, false, &own, KEEP).lost, key, "{lost}");
        }
        assert_eq!(of(&with_head(whole.clone()), &own, true, &own, KEEP).lost.len(), 2, "there are no signatures");
        let signatures: Vec<Listed> = own.chain().map(|bundle| listed(Key::Signature(bundle.key()), 300, 0)).collect();
        let signed = [whole, signatures.clone()].concat();
        assert_eq!(of(&with_head(signed.clone()), &own, true, &own, KEEP).lost, []);
        let mut cut = signed;
        cut.last_mut().unwrap().bytes -= 1;
        assert_eq!(of(&with_head(cut), &own, true, &own, KEEP).lost, [signatures[1].key.clone()]);
    }

    #[test]
    fn each_version_of_an_object_is_read_back_once_and_the_full_bundle_last() {
        let own = head(10);
        let mut all = with_head(objects(&own, 0));
        let all_doubts = of(&all, &own, false, &own, KEEP).doubts;
        let keys: Vec<&Key> = all_doubts.iter().map(|doubt| &doubt.key).collect();
        let key = |bundle: &NamedBundle| Key::Bundle(bundle.key());
        assert_eq!(keys, [&Key::Journal(own.journal.key()), &key(&own.deltas[0]), &key(&own.full)]);
        assert_eq!((all_doubts[1].bytes, all_doubts[1].blake3), (100, digest(11)));
        let good: HashMap<Key, Option<String>> = all_doubts.into_iter().map(|doubt| (doubt.key, doubt.tag)).collect();
        assert_eq!(super::of(&all, &chain(&own, false), &own, &good, KEEP).doubts, []);
        let delta = all.iter_mut().find(|object| object.key == key(&own.deltas[0])).unwrap();
        delta.tag = Some("2".to_owned());
        let doubts = super::of(&all, &chain(&own, false), &own, &good, KEEP).doubts;
        assert_eq!((doubts.len(), &doubts[0].key, doubts[0].tag.as_deref()), (1, &key(&own.deltas[0]), Some("2")));
    }

    #[test]
    fn signatures_are_read_back_too() {
        let own = head(10);
        let signatures = own.chain().map(|bundle| listed(Key::Signature(bundle.key()), 300, 0));
        let all = with_head(objects(&own, 0).into_iter().chain(signatures));
        let doubts = of(&all, &own, true, &own, KEEP).doubts;
        let signed: Vec<_> = doubts.iter().filter(|doubt| matches!(doubt.key, Key::Signature(_))).collect();
        assert_eq!((doubts.len(), signed.len()), (5, 2));
        assert_eq!((signed[0].bytes, signed[0].blake3, signed[1].blake3), (300, digest(90), digest(91)));
    }

    #[test]
    fn without_a_head_in_the_list_nothing_is_done() {
        let old = head(20);
        assert_eq!(of(&objects(&old, 9 * KEEP), &head(10), false, &old, KEEP), Chores::default());
    }

    #[test]
    fn signatures_go_with_their_bundles() {
        let own = head(10);
        let gone = BundleKey::Delta(digest(70).short(), digest(71).short());
        let all = with_head([objects(&own, 0), vec![listed(Key::Signature(gone.clone()), 300, 2 * KEEP)]].concat());
        assert_eq!(of(&all, &own, false, &own, KEEP).remove, [Key::Signature(gone)]);
    }
}
