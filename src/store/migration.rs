//! Migrates the file from an older format, step by step in one transaction.
//!
//! Callers: [`super::Store::open`], [`super::data_dir`].

use std::path::Path;

use redb::{ReadableDatabase, ReadableTable, WriteTransaction};

use super::error::{OpenError, StoreError};
use super::fault::{Fault, guarded};
use super::handle::Handle;
use super::{coding, files, opening, placed, tables};
use crate::api::listing::ListingId;

/// The step from one format to the next.
pub(super) struct Step {
    /// The format before the step.
    pub from: u64,
    /// Rewrites the file.
    pub run: fn(&WriteTransaction) -> Result<(), Fault>,
}

/// Every step that this program knows.
pub(super) const STEPS: &[Step] = &[Step { from: 1, run: place_details }];

/// Format 2 keeps details by place instead of by listing id.
fn place_details(transaction: &WriteTransaction) -> Result<(), Fault> {
    let mut writer = placed::Writer::open(transaction)?;
    {
        let (metas, bodies) =
            (transaction.open_table(tables::DETAIL_META_1)?, transaction.open_table(tables::DETAILS_1)?);
        for entry in metas.iter()? {
            let (id, meta) = entry?;
            // One without a body is damaged; it is fetched again.
            if let Some(body) = bodies.get(id.value())? {
                writer.put(ListingId(id.value()), meta.value(), body.value())?;
            }
        }
    }
    drop(writer);
    transaction.delete_table(tables::DETAIL_META_1)?;
    transaction.delete_table(tables::DETAILS_1)?;
    Ok(())
}

/// The steps from format `found` to `supported`, in order; none when they are the same.
///
/// # Errors
/// When there is no such path. Nothing was changed.
pub(super) fn plan(found: u64, supported: u64, steps: &[Step]) -> Result<Vec<&Step>, OpenError> {
    if found > supported {
        return Err(OpenError::NewerFormat { found, supported });
    }
    let step = |from| steps.iter().find(|step| step.from == from);
    let way: Option<Vec<_>> = (found..supported).map(step).collect();
    way.ok_or(OpenError::OlderFormat { found, supported })
}

/// Refuses a file whose format this program neither knows nor can migrate, without changing a byte. Other problems are
/// found when it is opened.
///
/// # Errors
/// When the format is a newer one, or an older one that no migration starts from.
pub(super) fn refuse_unknown(path: &Path) -> Result<(), OpenError> {
    if !files::is_file(path) {
        return Ok(());
    }
    let found = guarded(|| {
        let database = opening::untouched(path)?;
        let transaction = database.begin_read()?;
        opening::format_of(&transaction)
    });
    found.map_or(Ok(()), |found| plan(found, tables::FORMAT, STEPS).map(|_| ()))
}

/// Runs these steps and writes the new format number: all or nothing.
///
/// # Errors
/// When a step fails.
pub(super) fn migrate(handle: &Handle, steps: &[&Step]) -> Result<(), StoreError> {
    let Some(last) = steps.last() else { return Ok(()) };
    tracing::info!(from = steps[0].from, to = last.from + 1, "migrating the store to the format of this program");
    // Both formats are in the file until it is done.
    let needed = std::fs::metadata(handle.path()).map_or(1 << 20, |file| file.len());
    handle.write(needed, |transaction| {
        for step in steps {
            (step.run)(transaction)?;
        }
        let sealed = coding::seal_number(tables::META_FORMAT, last.from + 1);
        transaction.open_table(tables::META)?.insert(tables::META_FORMAT, sealed.as_slice())?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rename(transaction: &WriteTransaction) -> Result<(), Fault> {
        transaction.open_table(tables::STATE)?.insert("moved", [1].as_slice())?;
        Ok(())
    }

    fn fail(_: &WriteTransaction) -> Result<(), Fault> {
        Err(StoreError::Damaged("a step fails".to_owned()).into())
    }

    #[test]
    fn a_way_is_taken_as_a_whole_or_not_at_all() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("store");
        opening::prepare(&path).unwrap();
        let handle = Handle::open(path, Box::new(opening::database)).unwrap();
        let format = || handle.read(opening::format_of).unwrap();
        let moved = || handle.read(|t| Ok(t.open_table(tables::STATE)?.get("moved")?.is_some())).unwrap();

        let [first, second, third] = [tables::FORMAT, tables::FORMAT + 1, tables::FORMAT + 2];
        let broken = [Step { from: first, run: rename }, Step { from: second, run: fail }];
        assert!(migrate(&handle, &plan(first, third, &broken).unwrap()).is_err());
        assert_eq!((format(), moved()), (first, false), "half a migration");

        let whole = [Step { from: second, run: rename }, Step { from: first, run: rename }];
        let way = plan(first, third, &whole).unwrap();
        assert_eq!(way.iter().map(|step| step.from).collect::<Vec<_>>(), [first, second]);
        migrate(&handle, &way).unwrap();
        assert_eq!((format(), moved()), (third, true));
    }

    #[test]
    fn where_there_is_no_way_nothing_is_tried() {
        let steps = [Step { from: 1, run: rename }];
        assert!(plan(2, 2, &steps).unwrap().is_empty());
        assert!(matches!(plan(3, 2, &steps), Err(OpenError::NewerFormat { found: 3, supported: 2 })));
        assert!(matches!(plan(0, 2, &steps), Err(OpenError::OlderFormat { found: 0, supported: 2 })));
    }
}
