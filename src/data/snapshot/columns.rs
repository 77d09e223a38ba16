//! The columns that filters need, read once from the texts of all summaries.
//!
//! On all cores if worthwhile, and only for summaries that no earlier data set has read. [`super::membership`] decides
//! what slugs stand for. Callers: [`super::dataset`], and [`crate::data::snapshots`] for stored snapshots.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use foldhash::fast::RandomState;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::api::listing::{Summary, SummaryFields};
use crate::tasks::threads::together;

/// Listings per job.
const PIECE: usize = 4096;

/// The most unused names, apart from as many as are in use.
const MOST_UNUSED: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// The numbers of its sport, state and city among the [`Names`], by [`crate::api::taxonomy::TaxonomyKind::index`].
    pub values: [u32; 3],
    /// `modified` in nanoseconds since the epoch; `i64::MIN` where unknown.
    pub modified: i64,
}

impl Traits {
    /// Not the number of a name: the summary has none.
    pub const ABSENT: u32 = u32::MAX;
    /// The summary is not read yet, or cannot be read.
    pub const UNREAD: Self = Self { values: [u32::MAX - 1; 3], modified: i64::MIN };
}

impl Default for Traits {
    fn default() -> Self {
        Self::UNREAD
    }
}

/// Names of sports, states and cities by number. Successive data sets share them.
#[derive(Debug, Default)]
pub struct Names(RwLock<Table>);

#[derive(Debug, Default)]
struct Table {
    numbers: HashMap<Arc<str>, u32, RandomState>,
    texts: Vec<Arc<str>>,
}

impl Names {
    /// Reads the unread summaries, as far as possible.
    pub fn read(&self, summaries: &[Summary], traits: &mut [Traits]) {
        let mut table = self.0.read();
        for (summary, traits) in summaries.iter().zip(traits).filter(|(_, traits)| **traits == Traits::UNREAD) {
            // So a writer waits for one summary at most.
            RwLockReadGuard::bump(&mut table);
            let Ok(fields) = fields(summary) else { continue };
            let values = [&fields.sport, &fields.state, &fields.city];
            let values =
                values.map(|text| text.as_deref().map_or(Traits::ABSENT, |text| self.number(&mut table, text)));
            *traits = Traits { values, modified: fields.modified.unwrap_or(i64::MIN) };
        }
    }

    fn number(&self, table: &mut RwLockReadGuard<'_, Table>, text: &str) -> u32 {
        match table.numbers.get(text) {
            Some(number) => *number,
            None => RwLockReadGuard::unlocked(table, || self.add(text)),
        }
    }

    /// The number of a name; a new name gets one.
    pub fn add(&self, text: &str) -> u32 {
        let mut table = self.0.write();
        if let Some(number) = table.numbers.get(text) {
            return *number;
        }
        // It fits: memory cannot hold 2^32 names.
        let (number, text) = (table.texts.len() as u32, Arc::<str>::from(text));
        table.texts.push(text.clone());
        table.numbers.insert(text, number);
        number
    }

    /// All of them, by number.
    pub fn texts(&self) -> Vec<Arc<str>> {
        self.0.read().texts.clone()
    }

    /// Whether to start over, with so many in use.
    pub fn are_worn(&self, used: usize) -> bool {
        self.0.read().texts.len() > 2 * used + MOST_UNUSED
    }
}

pub(crate) struct Columns {
    /// The names that traits refer to.
    pub names: Arc<Names>,
    /// By position.
    pub traits: Box<[Traits]>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    NotUtf8(#[from] std::str::Utf8Error),
    #[error(transparent)]
    Summary(#[from] crate::api::listing::SummaryError),
}

impl Columns {
    /// Reads the unread summaries. Traits of another length than the summaries are ignored.
    pub(crate) fn read(names: Arc<Names>, mut traits: Vec<Traits>, summaries: &[Summary]) -> Result<Self, Unreadable> {
        if traits.len() != summaries.len() {
            traits = vec![Traits::UNREAD; summaries.len()];
        }
        let unread = traits.iter().filter(|traits| **traits == Traits::UNREAD).count();
        let threads = thread::available_parallelism().map_or(1, usize::from).min(8).min(unread / PIECE);
        if threads < 2 {
            names.read(summaries, &mut traits);
        } else {
            let work = parking_lot::Mutex::new(summaries.chunks(PIECE).zip(traits.chunks_mut(PIECE)));
            let next = || work.lock().next();
            let worker = || std::iter::from_fn(next).for_each(|(summaries, traits)| names.read(summaries, traits));
            together(threads, &worker);
        }
        let mut not_read = summaries.iter().zip(&traits).filter(|(_, traits)| **traits == Traits::UNREAD);
        not_read.try_for_each(|(summary, _)| fields(summary).map(drop))?;
        Ok(Self { names, traits: traits.into() })
    }
}

fn fields(summary: &Summary) -> Result<SummaryFields<'_>, Unreadable> {
    Ok(SummaryFields::read(std::str::from_utf8(&summary.raw)?)?)
}
