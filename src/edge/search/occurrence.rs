//! Occurrence of a word in a listing: in which of its fields, in three bits.
//!
//! Callers: [`super::words`] stores it, [`super::order`] ranks by it, [`super::index`].

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListingField {
    /// The beginning of the name.
    NameStart,
    Name,
    City,
    State,
    /// Its slug, and the name that the index of sports shows.
    Sport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WordPlace {
    NameStart,
    Name,
    Elsewhere,
}

/// Where a listing has a word, and whether a second field has it, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Occurrence(u8);

impl Occurrence {
    pub(super) const BITS: u32 = 3;
    const REPEATED: u8 = 4;
    /// How many there are.
    pub(super) const ALL: usize = 1 << Self::BITS;

    pub(super) const fn of(bits: u32) -> Self {
        Self((bits & (Self::ALL as u32 - 1)) as u8)
    }

    /// The occurrence of a word in these fields of a listing, in order.
    pub(super) fn within(mut fields: impl Iterator<Item = u32>) -> Self {
        let mut last = fields.next().unwrap_or_default();
        let place = last.min(ListingField::City as u32) as u8;
        let is_name = |field: u32| field <= ListingField::Name as u32;
        let is_repeated = fields.any(|field| {
            let differs = field != last && !(is_name(field) && is_name(last));
            last = field;
            differs
        });
        Self(place + if is_repeated { Self::REPEATED } else { 0 })
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        (0..Self::ALL as u8).map(Self)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn place(self) -> WordPlace {
        match self.0 & 0b11 {
            0 => WordPlace::NameStart,
            1 => WordPlace::Name,
            _ => WordPlace::Elsewhere,
        }
    }

    /// Whether two fields have the word.
    pub(super) const fn is_repeated(self) -> bool {
        self.0 & Self::REPEATED != 0
    }
}
