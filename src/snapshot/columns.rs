//! What filters need to know of all summaries, read from their texts once.
//!
//! On all cores where that pays. It decides nothing: what slugs stand for is [`super::membership`]'s business. Callers:
//! [`super::dataset`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::api::listing::{Summary, SummaryFields};

use super::membership::{Groups, Member};

/// Listings that are read at a time: as many as share a container of a bitmap, so that parts are joined without mixing.
const CHUNK: usize = 1 << 16;

/// What was read.
pub struct Columns {
    /// Positions by what listings say of themselves.
    pub groups: Groups,
    /// `modified` by position; `i64::MIN` where unknown.
    pub modified: Box<[i64]>,
    /// Whether every listing has one.
    pub modified_known: bool,
}

/// Why a summary cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is no UTF-8.
    #[error(transparent)]
    NotUtf8(#[from] std::str::Utf8Error),
    /// It is no summary.
    #[error(transparent)]
    Summary(#[from] crate::api::listing::SummaryError),
}

impl Columns {
    /// Reads fewer than 2^32 summaries.
    ///
    /// # Errors
    /// For the first one that cannot be read.
    pub fn read(summaries: &[Summary]) -> Result<Self, Unreadable> {
        let mut modified = vec![i64::MIN; summaries.len()].into_boxed_slice();
        let chunks = summaries.len().div_ceil(CHUNK);
        let threads = thread::available_parallelism().map_or(1, usize::from).min(8).min(chunks);
        let groups = if threads < 2 {
            let mut groups = Groups::default();
            read(&mut groups, 0, summaries, &mut modified)?;
            groups
        } else {
            on(threads, summaries, &mut modified)?
        };
        let modified_known = !modified.contains(&i64::MIN);
        Ok(Self { groups, modified, modified_known })
    }
}

fn on(threads: usize, summaries: &[Summary], modified: &mut [i64]) -> Result<Groups, Unreadable> {
    let work = parking_lot::Mutex::new(summaries.chunks(CHUNK).zip(modified.chunks_mut(CHUNK)).enumerate());
    // Chunks are taken in order: none before the first that fails is left out.
    let failed = AtomicUsize::new(usize::MAX);
    let worker = || {
        let mut groups = Groups::default();
        loop {
            let next = work.lock().next();
            let Some((chunk, (summaries, modified))) = next else { return Ok(groups) };
            if failed.load(Ordering::Relaxed) < chunk {
                return Ok(groups);
            }
            read(&mut groups, (chunk * CHUNK) as u32, summaries, modified).map_err(|error| {
                failed.fetch_min(chunk, Ordering::Relaxed);
                (chunk, error)
            })?;
        }
    };
    let parts: Vec<Result<Groups, (usize, Unreadable)>> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = Groups::default();
    let mut first: Option<(usize, Unreadable)> = None;
    for part in parts {
        match part {
            Ok(groups) => all.join(groups),
            Err(error) if first.as_ref().is_none_or(|first| error.0 < first.0) => first = Some(error),
            Err(_) => {}
        }
    }
    first.map_or(Ok(all), |(_, error)| Err(error))
}

fn read(groups: &mut Groups, first: u32, summaries: &[Summary], modified: &mut [i64]) -> Result<(), Unreadable> {
    for (position, (summary, modified)) in (first..).zip(summaries.iter().zip(modified)) {
        let fields = SummaryFields::read(std::str::from_utf8(&summary.raw)?)?;
        let (city, state, sport) = (fields.city.as_deref(), fields.state.as_deref(), fields.sport.as_deref());
        groups.add(position, Member { city, state, sport });
        *modified = fields.modified.unwrap_or(i64::MIN);
    }
    Ok(())
}
