//! Many first-in-first-out lists over the same numbered windows, each window in one of them at most.
//!
//! Doubly linked lists in two vectors, so that adding, taking the first and removing from the middle are a few stores.
//! It does not know what the lists mean.
//! Callers: `table` (windows by how many admissions they hold) and `wheel` (windows by when their oldest admission
//! leaves).

use super::index::Slot;

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Lists {
    ends: Vec<Ends>,
    links: Vec<Link>,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    first: Slot,
    last: Slot,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    before: Slot,
    after: Slot,
    list: u32,
}

impl Lists {
    /// That many empty lists, numbered from 0.
    pub(super) fn new(lists: usize) -> Self {
        Self { ends: vec![Ends { first: NONE, last: NONE }; lists], links: Vec::new() }
    }

    /// The list that the window is in; `None` for none.
    pub(super) fn list_of(&self, slot: Slot) -> Option<usize> {
        self.links.get(slot as usize).map(|link| link.list).filter(|&list| list != NONE).map(|list| list as usize)
    }

    /// The window that has been in the list for longest.
    pub(super) fn first(&self, list: usize) -> Option<Slot> {
        Some(self.ends[list].first).filter(|&slot| slot != NONE)
    }

    /// Adds a window that is in no list.
    pub(super) fn push(&mut self, list: usize, slot: Slot) {
        let needed = slot as usize + 1;
        if self.links.len() < needed {
            self.links.resize(needed, Link { before: NONE, after: NONE, list: NONE });
        }
        let last = std::mem::replace(&mut self.ends[list].last, slot);
        match self.links.get_mut(last as usize) {
            Some(link) => link.after = slot,
            None => self.ends[list].first = slot,
        }
        self.links[slot as usize] = Link { before: last, after: NONE, list: list as u32 };
    }

    /// Takes the window out of the list that it is in, if any.
    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(list) = self.list_of(slot) else {
            return;
        };
        let Link { before, after, .. } = self.links[slot as usize];
        match self.links.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => self.ends[list].first = after,
        }
        match self.links.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => self.ends[list].last = before,
        }
        self.links[slot as usize].list = NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_queues(steps in prop::collection::vec((0_usize..3, 0_u32..8), 0..100)) {
            let (mut lists, mut model) = (Lists::new(3), vec![Vec::new(); 3]);
            for (list, slot) in steps {
                if lists.list_of(slot).is_some() {
                    lists.remove(slot);
                    for queue in &mut model {
                        queue.retain(|&other| other != slot);
                    }
                } else {
                    lists.push(list, slot);
                    model[list].push(slot);
                }
                for (list, queue) in model.iter().enumerate() {
                    prop_assert_eq!(lists.first(list), queue.first().copied());
                    prop_assert!(queue.iter().all(|&slot| lists.list_of(slot) == Some(list)));
                }
            }
        }
    }
}
