//! Checks the objects in the object store from time to time: removes old ones, writes those in use again before other
//! publishers take them for old, and notices those that are lost or altered.
//!
//! Callers: [`super`].

use std::io::{Seek as _, Write as _};
use std::time::{Duration, Instant};

use super::Publisher;
use super::chores;
use super::error::PublishError;
use crate::fleet::keys::Key;
use crate::fleet::place::{Condition, Found, PlaceError};
use crate::semantics::excerpt::Excerpt;
use crate::store::nameless;
use crate::tasks::blocking;

/// The pause between two checks: a part of `publish.keep`, within these bounds.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(600);
const PART: u32 = 16;

/// The pause before the next check, after so many in a row that have found a bad object.
fn pause(keep: Duration, full_every: Duration, broken_checks: u32) -> Duration {
    let every = (keep / PART).clamp(SHORTEST, LONGEST);
    // An object store that alters whatever it gets must not cost a full bundle with each check. But an object that is
    // half of `keep` old must be written again before it is old enough for other publishers to remove it.
    let most = full_every.min(keep / 2).max(every);
    every.saturating_mul(1 << broken_checks.min(8)).min(most)
}

impl Publisher {
    /// Says in `/status` that the objects could not be checked, until a check succeeds.
    pub(super) fn unchecked(&self, error: &PublishError) {
        let url = &self.settings.url;
        let why = format!("{url}: the objects could not be checked, or old ones not removed: {error}");
        let why = Excerpt(why).to_string();
        tracing::warn!("{why}");
        self.status.is_broken(why);
    }

    /// Whether it is time to check the objects.
    pub(super) fn is_time_to_tidy(&self) -> bool {
        let pause = pause(self.settings.keep, self.settings.full_every, self.broken_checks);
        self.ledger.is_some() && self.tidied.is_none_or(|at| at.elapsed() >= pause)
    }

    /// Lists the objects, writes some again and removes others. If the chain has lost an object, the plan gets to know
    /// it.
    ///
    /// # Errors
    /// When the object store fails.
    pub(super) async fn tidy(&mut self) -> Result<(), PublishError> {
        self.tidied = Some(Instant::now());
        let listed = self.place.list().await?;
        // Just before anything is removed.
        self.look().await?;
        let (Some(ledger), Some(stored)) = (&self.ledger, self.stored_head()) else { return Ok(()) };
        let keep_ms = i64::try_from(self.settings.keep.as_millis()).unwrap_or(i64::MAX);
        let found = chores::of(&listed, &ledger.chain, stored, self.read_back.good(), keep_ms);
        self.breaks(&found.lost);
        if found.lost.is_empty() && found.doubts.is_empty() {
            self.is_whole();
        }
        if found.lost.is_empty() {
            for key in &found.renew {
                if !self.renew(key).await? {
                    self.breaks(std::slice::from_ref(key));
                }
            }
            if !self.is_broken {
                self.read_back.begin(&self.place, found.doubts);
            }
        }
        for key in &found.remove {
            self.place.delete(key).await?;
        }
        if !found.remove.is_empty() {
            tracing::info!(url = self.settings.url, objects = found.remove.len(), "old objects were removed");
        }
        let keep = self.settings.keep;
        let place = self.place.clone();
        blocking(move || Ok::<_, PublishError>(place.sweep(keep)?)).await
    }

    /// Notes which objects that were read back are not what the head names.
    pub(super) async fn judge(&mut self) {
        let Some(own) = self.ledger.as_ref().map(|ledger| &ledger.chain) else { return };
        let bad = self.read_back.judge(own).await;
        if bad.is_empty() && self.read_back.has_all_of(own) {
            self.is_whole();
        }
        self.breaks(&bad);
    }

    /// Every object was found as it was written.
    fn is_whole(&mut self) {
        if !self.is_broken {
            self.broken_checks = 0;
            self.status.is_whole();
        }
    }

    /// Notes objects of the chain that are lost. A full bundle follows.
    fn breaks(&mut self, lost: &[Key]) {
        for key in lost {
            tracing::warn!(
                url = self.settings.url,
                %key,
                "an object in the object store is missing, or is not what was written; everything is written again"
            );
        }
        let Some(first) = lost.first() else { return };
        self.read_back.begin_anew();
        let url = &self.settings.url;
        self.status.lacks(self.clock.now_mono());
        self.status.is_broken(format!(
            "{url}: the object {first} was missing or altered; everything is written again, and then read back"
        ));
        if !self.is_broken {
            self.is_broken = true;
            self.broken_checks += 1;
        }
    }

    /// Writes an object again as it is, so that its age is zero. `false`: it is not what the head says.
    async fn renew(&self, key: &Key) -> Result<bool, PublishError> {
        let Some(own) = self.ledger.as_ref().map(|ledger| &ledger.chain) else { return Ok(true) };
        let Some((_, bytes, blake3)) = own.objects().find(|(own, ..)| own == key) else { return Ok(true) };
        if let Key::Bundle(_) = key {
            let data_dir = self.settings.data_dir.clone();
            let mut file =
                blocking(move || Ok::<_, PublishError>(nameless::create(&data_dir, nameless::BUNDLE)?)).await?;
            let mut hasher = blake3::Hasher::new();
            let mut download = self.place.download(key, 0).await?;
            let mut read = 0_u64;
            while let Some(piece) = download.next().await? {
                read += piece.len() as u64;
                if read > bytes {
                    return Ok(false);
                }
                hasher.update(&piece);
                file = blocking(move || Ok::<_, PublishError>(file.write_all(&piece).map(|()| file)?)).await?;
            }
            if read != bytes || blake3 != hasher.finalize().into() {
                return Ok(false);
            }
            file.rewind()?;
            self.place.write_file(key, file, bytes).await?;
            return Ok(true);
        }
        match self.place.read(key, bytes, None).await {
            Ok(Found::Changed(read, _)) if blake3 == blake3::hash(&read).into() => {
                self.place.write(key, read, Condition::Always).await?;
                Ok(true)
            }
            Ok(_) | Err(PlaceError::Missing(_) | PlaceError::TooLarge { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_that_find_bad_objects_are_further_apart_but_never_by_more_than_half_of_keep() {
        const HOUR: Duration = Duration::from_secs(3600);
        let (minute, day) = (HOUR / 60, 24 * HOUR);
        for (keep, full_every, broken_checks, expected) in [
            (7 * day, 7 * day, 0, 10 * minute),
            (7 * day, 7 * day, 1, 20 * minute),
            (7 * day, 7 * day, 8, 2560 * minute),
            (7 * day, 7 * day, 99, 2560 * minute),
            (7 * day, HOUR, 8, HOUR),
            (7 * day, minute, 8, 10 * minute),
            (HOUR, 7 * day, 2, 15 * minute),
            (HOUR, 7 * day, 4, 30 * minute),
            (minute, 7 * day, 8, minute / 2),
        ] {
            let pause = pause(keep, full_every, broken_checks);
            assert_eq!(pause, expected, "{keep:?} {full_every:?} {broken_checks}");
            assert!(pause <= keep / 2);
        }
    }
}
