//! The head in the object store: read before each decision, and written with a condition if the object store can do
//! that.
//!
//! Callers: [`super`].

use bytes::Bytes;

use super::Publisher;
use super::error::PublishError;
use super::plan::{Chain, Stored};
use crate::fleet::head::{self, Head, HeadError};
use crate::fleet::keys::Key;
use crate::fleet::place::{Condition, Found, PlaceError, Version};
use crate::semantics::excerpt::Excerpt;
use crate::tasks;

/// The head in the object store, when it was last read.
#[derive(Clone, Debug)]
pub(super) enum InStore {
    /// There is none.
    Missing,
    /// There is one; `None`: it cannot be read, or is not believed.
    Head(Option<Box<Head>>, Version),
}

/// Whether the object store has conditional writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conditions {
    /// Not tried yet.
    Unknown,
    /// A write that had to be refused was refused.
    Kept,
    /// It has no conditions, or ignores them: the last write wins.
    Ignored,
}

impl Publisher {
    /// Reads the head, each time as a whole: whoever alters it may keep what tells its versions apart.
    pub(super) async fn look(&mut self) -> Result<(), PublishError> {
        let found = match self.place.read(&Key::Head, head::MOST_BYTES, None).await {
            Ok(Found::Unchanged) | Err(PlaceError::Missing(_)) => InStore::Missing,
            Ok(Found::Changed(file, version)) => {
                let head = match Head::read(&file, &self.trusted, self.clock.now_wall()) {
                    Ok((head, _key)) => Some(Box::new(head)),
                    Err(error @ HeadError::Format(_)) => return Err(PublishError::Newer(error.to_string())),
                    Err(error) => {
                        self.disbelieve(&error.to_string());
                        None
                    }
                };
                InStore::Head(head, version)
            }
            Err(error @ PlaceError::TooLarge { .. }) => {
                self.disbelieve(&error.to_string());
                InStore::Missing
            }
            Err(error) => return Err(error.into()),
        };
        self.stored = Some(found);
        Ok(())
    }

    /// Says that the head in the object store is not believed. The plan replaces it.
    fn disbelieve(&self, why: &str) {
        self.status.lacks(self.clock.now_mono());
        let url = &self.settings.url;
        let why = Excerpt(format!("{url}: head.json is not believed and is replaced: {why}")).to_string();
        if self.status.failed("head", why.clone()) {
            tracing::warn!("{why}");
        }
    }

    /// The head in the object store, if it can be read.
    pub(super) fn stored_head(&self) -> Option<&Head> {
        match &self.stored {
            Some(InStore::Head(Some(head), _)) => Some(head),
            _ => None,
        }
    }

    /// The head in the object store as the plan sees it. `is_settled`: ours was there already; two publishers must not
    /// replace each other's heads without end, so a later one stays until there is something new to say. An earlier one
    /// is an old copy, which replicas refuse.
    pub(super) fn stored_for_plan(&self, is_settled: bool) -> Stored {
        let own = self.ledger.as_ref().map(|ledger| &ledger.chain.head);
        match &self.stored {
            Some(InStore::Missing) => Stored::Missing,
            Some(InStore::Head(Some(head), _)) if own == Some(&**head) => Stored::Own,
            Some(InStore::Head(Some(head), _)) if is_settled && own.is_none_or(|own| own.sequence <= head.sequence) => {
                Stored::Own
            }
            _ => Stored::Other,
        }
    }

    /// Writes the head of a chain.
    ///
    /// # Errors
    /// With a conflict when another publisher has written since the head was read.
    pub(super) async fn put_head(&mut self, chain: &Chain) -> Result<(), PublishError> {
        let (signer, head) = (self.signer.clone(), chain.head.clone());
        let file = tasks::blocking(move || Ok::<_, PublishError>(head.to_file(signer.as_deref())?)).await?;
        let file = Bytes::from(file);
        let version = match self.conditions {
            Conditions::Kept => self.put(&file, self.condition()).await?,
            Conditions::Ignored => self.put(&file, Condition::Always).await?,
            // The condition can only hold where it is ignored: then this is the write, too.
            Conditions::Unknown => match self.put(&file, Condition::Impossible).await {
                Ok(version) => {
                    self.conditions = Conditions::Ignored;
                    version
                }
                Err(PlaceError::Changed(_) | PlaceError::Missing(_)) => {
                    self.conditions = Conditions::Kept;
                    self.put(&file, self.condition()).await?
                }
                Err(PlaceError::Unsupported(_) | PlaceError::Failed(_)) => {
                    let version = self.put(&file, Condition::Always).await?;
                    self.conditions = Conditions::Ignored;
                    version
                }
                Err(error) => return Err(error.into()),
            },
        };
        self.stored = Some(InStore::Head(Some(Box::new(chain.head.clone())), version));
        Ok(())
    }

    async fn put(&self, file: &Bytes, condition: Condition) -> Result<Version, PlaceError> {
        match self.place.write(&Key::Head, file.clone(), condition.clone()).await {
            // It replaces conditionally and does not create conditionally.
            Err(PlaceError::Unsupported(_)) if condition == Condition::Absent => {
                self.place.write(&Key::Head, file.clone(), Condition::Always).await
            }
            written => written,
        }
    }

    fn condition(&self) -> Condition {
        match &self.stored {
            Some(InStore::Head(_, version)) => Condition::Over(version.clone()),
            Some(InStore::Missing) => Condition::Absent,
            None => Condition::Always,
        }
    }
}
