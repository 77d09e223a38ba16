//! An object store in memory that lies, or does not answer.

use std::future::pending;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

use crate::fleet::keys::ObjectKey;

/// What an object store does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fleet) enum Lie {
    /// Writes of heads are confirmed and lost.
    LosesHeads,
    /// Writes of bundles are confirmed and lost.
    LosesBundles,
    /// The last byte of a bundle is another one.
    AltersBundles,
    /// The last byte of a bundle is missing.
    CutsBundles,
    AltersJournals,
    /// The last byte of a head is missing.
    CutsHeads,
    /// What is written is answered with an error.
    WritesAndFails,
    WritesFail,
    IgnoresConditions,
    HasNoConditions,
    /// Reading gives the first head that there ever was.
    ShowsOldHeads,
    /// Reading the head gives 404.
    HidesHeads,
    ReadsFail,
    ListsNothing,
    ListsFail,
    RemovesNothing,
    /// No call is answered.
    Hangs,
    /// Objects end after their first byte, and their answers do not.
    Stops,
}

pub(in crate::fleet) use Lie as L;

/// An object store that lies.
#[derive(Debug, Default)]
pub(in crate::fleet) struct Liar {
    pub store: InMemory,
    pub lie: Mutex<Option<Lie>>,
    /// The objects that were read.
    pub read: Mutex<Vec<String>>,
}

impl Liar {
    fn tells(&self, lie: Lie) -> bool {
        *self.lie.lock() == Some(lie)
    }

    fn fails<T>() -> Result<T> {
        Err(Error::Generic { store: "Liar", source: "it fails".into() })
    }
}

impl std::fmt::Display for Liar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("liar")
    }
}

/// Where the first head is kept.
fn old() -> Path {
    Path::from("old")
}

fn altered(payload: &PutPayload, is_cut: bool) -> PutPayload {
    let mut bytes: Vec<u8> = payload.iter().flat_map(|piece| piece.iter().copied()).collect();
    let last = bytes.pop().unwrap_or_default();
    if !is_cut {
        bytes.push(last ^ 1);
    }
    bytes.into()
}

#[async_trait]
impl ObjectStore for Liar {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut opts: PutOptions) -> Result<PutResult> {
        let key = ObjectKey::parse(location.as_ref()).unwrap();
        let lie = *self.lie.lock();
        let payload = match (lie, &key) {
            (Some(L::Hangs), _) => pending().await,
            (Some(L::WritesFail), _) => return Self::fails(),
            (Some(L::HasNoConditions), _) if opts.mode != PutMode::Overwrite => {
                return Err(Error::NotImplemented {
                    operation: "a condition".to_owned(),
                    implementer: "liar".to_owned(),
                });
            }
            (Some(L::LosesHeads), ObjectKey::Head)
            | (Some(L::LosesBundles), ObjectKey::Full(..) | ObjectKey::Delta(..)) => {
                return self.store.put(&Path::from("lost"), payload).await;
            }
            (Some(L::AltersBundles), ObjectKey::Full(..) | ObjectKey::Delta(..))
            | (Some(L::AltersJournals), ObjectKey::Journal(_)) => altered(&payload, false),
            (Some(L::CutsBundles), ObjectKey::Full(..) | ObjectKey::Delta(..))
            | (Some(L::CutsHeads), ObjectKey::Head) => altered(&payload, true),
            _ => payload,
        };
        if lie == Some(L::IgnoresConditions) {
            opts.mode = PutMode::Overwrite;
        }
        if key == ObjectKey::Head && self.store.head(&old()).await.is_err() {
            self.store.put(&old(), payload.clone()).await?;
        }
        let written = self.store.put_opts(location, payload, opts).await;
        if lie == Some(L::WritesAndFails) { Self::fails() } else { written }
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        pending().await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = location.as_ref() == ObjectKey::Head.to_string();
        self.read.lock().push(location.to_string());
        let lie = *self.lie.lock();
        match lie {
            Some(L::Hangs) => pending().await,
            Some(L::ReadsFail) => return Self::fails(),
            Some(L::HidesHeads) if is_head => {
                return Err(Error::NotFound { path: location.to_string(), source: "hidden".into() });
            }
            _ => {}
        }
        let from = if is_head && self.tells(L::ShowsOldHeads) { &old() } else { location };
        let mut found = self.store.get_opts(from, options).await?;
        if lie == Some(L::Stops) {
            let some = stream::once(async { Ok(Bytes::from_static(b"x")) });
            found.payload = GetResultPayload::Stream(some.chain(stream::pending()).boxed());
        }
        Ok(found)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        if self.tells(L::Hangs) {
            return stream::pending().boxed();
        }
        if self.tells(L::RemovesNothing) {
            return stream::once(async { Self::fails() }).boxed();
        }
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match *self.lie.lock() {
            Some(L::Hangs) => stream::pending().boxed(),
            Some(L::ListsNothing) => stream::empty().boxed(),
            Some(L::ListsFail) => stream::once(async { Self::fails() }).boxed(),
            _ => self.store.list(prefix),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}
