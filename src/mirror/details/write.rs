//! What arrived is made durable: many at once, and again for as long as the disk does not take it; copies of the origin's
//! answers along with it.
//!
//! It fetches nothing and decides nothing. Callers: the thread that [`Details::open`] starts, and whoever is about to end.

use std::time::{Duration, Instant};

use crate::api::listing::ListingId;
use crate::store::{DetailRecord, StoreError};

use super::{Details, Inner};

impl Details {
    /// Makes everything that arrived durable now, and copies that are not yet; `false` when the disk does not take it
    /// all within some seconds.
    pub fn flush(&self) -> bool {
        const PATIENCE: Duration = Duration::from_secs(5);
        let began = Instant::now();
        loop {
            let tried = self.0.commit().and_then(|()| self.0.store.sync());
            if tried.is_ok() && self.0.pending.lock().is_empty() {
                return true;
            }
            if began.elapsed() >= PATIENCE {
                if let Err(error) = tried {
                    tracing::error!(%error, "details cannot be stored");
                }
                return false;
            }
            if tried.is_err() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

impl Inner {
    /// Waits for arrivals, briefly, and commits them together.
    pub(super) fn write_arrivals(&self) {
        {
            let mut pending = self.pending.lock();
            if pending.is_empty() {
                self.arrived.wait_for(&mut pending, Duration::from_millis(500));
            }
        }
        // A commit of details makes the copies durable, too.
        if let Err(error) = self.commit().and_then(|()| self.store.sync()) {
            tracing::error!(%error, waiting = self.pending.lock().len(), "received details cannot be stored; trying again");
            // Disk full or read-only: what arrived stays in memory, and is tried again.
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn commit(&self) -> Result<(), StoreError> {
        let batch: Vec<(ListingId, DetailRecord)> =
            self.pending.lock().iter().map(|(id, record)| (*id, record.clone())).collect();
        if batch.is_empty() {
            return Ok(());
        }
        self.store.put_details(&batch)?;
        let mut pending = self.pending.lock();
        for (id, record) in &batch {
            // What arrived meanwhile for the same listing stays pending.
            if pending.get(id).is_some_and(|now| now.meta == record.meta) {
                pending.remove(id);
            }
        }
        Ok(())
    }
}
