//! Failures of the disk: the store says which, keeps what it had, and goes on when the disk does.

use super::*;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{StorageBackend, backends::FileBackend};

/// A file that refuses to be written while the flag is set.
#[derive(Debug)]
struct Faulty {
    file: FileBackend,
    fails: Arc<AtomicBool>,
    kind: ErrorKind,
}

impl Faulty {
    fn check(&self) -> io::Result<()> {
        if self.fails.load(Ordering::Relaxed) { Err(self.kind.into()) } else { Ok(()) }
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.check()?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

pub(crate) fn failing(kind: ErrorKind) -> (tempfile::TempDir, Store, Arc<AtomicBool>) {
    let temp = tempfile::tempdir().unwrap();
    let fails = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&fails);
    let opener = move |path: &Path| {
        let file = File::options().read(true).write(true).open(path)?;
        let file = Faulty { file: FileBackend::new(file)?, fails: Arc::clone(&flag), kind };
        database::on(file)
    };
    let store = Store::open_with(&DataDir::open(temp.path()).unwrap(), Box::new(opener)).unwrap();
    (temp, store, fails)
}

#[test]
fn a_full_disk_is_named_and_survived() {
    let (_temp, store, fails) = failing(ErrorKind::StorageFull);
    let first = store.publish(&content(500), &meta(1)).unwrap();
    fails.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        match store.publish(&content(5000), &meta(2)).unwrap_err() {
            StoreError::NoSpace { path, needed } => assert!(path == store.path() && needed < 10 << 20),
            other => panic!("{other}"),
        }
        let refused = store.put_details(&[(ListingId(1), detail("x"))]);
        assert!(matches!(refused, Err(StoreError::NoSpace { needed: 1.., .. })), "{refused:?}");
    }
    fails.store(false, Ordering::Relaxed);
    assert_eq!(store.current().unwrap().unwrap().0, first);
    assert!(store.load(&first).unwrap() == content(500));
    let second = store.publish(&content(5000), &meta(2)).unwrap();
    assert!(store.load(&second).unwrap() == content(5000));
}

#[test]
fn a_read_only_disk_is_named() {
    let (_temp, store, fails) = failing(ErrorKind::ReadOnlyFilesystem);
    fails.store(true, Ordering::Relaxed);
    assert!(matches!(store.put_state("s", b"x"), Err(StoreError::ReadOnly { .. })));
    fails.store(false, Ordering::Relaxed);
    store.put_state("s", b"x").unwrap();
}

#[test]
fn where_nothing_can_be_written_everything_can_still_be_read() {
    let temp = tempfile::tempdir().unwrap();
    let first = open(temp.path()).unwrap().publish(&content(500), &meta(1)).unwrap();
    let before = std::fs::read(temp.path().join("grandstand.redb")).unwrap();
    let refuses = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&refuses);
    let opener = move |path: &Path| {
        if flag.load(Ordering::Relaxed) {
            return Err(io::Error::from(ErrorKind::PermissionDenied).into());
        }
        database::open(path)
    };
    let store = Store::open_with(&DataDir::open(temp.path()).unwrap(), Box::new(opener)).unwrap();
    assert!(store.load(&first).unwrap() == content(500));
    for _ in 0..2 {
        assert!(matches!(store.put_state("s", b"x"), Err(StoreError::ReadOnly { .. })));
        assert!(store.findings()[0].text.contains("not writable") && store.try_writing().is_err());
        assert!(store.load(&first).unwrap() == content(500));
    }
    assert!(std::fs::read(store.path()).unwrap() == before, "reading leaves no trace");
    refuses.store(false, Ordering::Relaxed);
    store.try_writing().unwrap();
    assert_eq!(store.findings(), []);
    store.put_state("s", b"x").unwrap();
    assert!(store.load(&first).unwrap() == content(500));
}

#[test]
fn a_file_that_lost_its_name_is_told_while_it_goes_on_working() {
    let temp = tempfile::tempdir().unwrap();
    let store = open(temp.path()).unwrap();
    let (path, elsewhere) = (store.path().to_owned(), temp.path().join("elsewhere"));
    std::fs::rename(&path, &elsewhere).unwrap();
    store.put_state("s", b"x").unwrap();
    let told = store.findings();
    assert!(
        told.len() == 1 && told[0].unhealthy && told[0].text.contains("was removed, moved or replaced"),
        "{told:?}"
    );
    std::fs::rename(&elsewhere, &path).unwrap();
    assert_eq!(store.findings(), []);
    // Nor is a copy under the directory's name what the server has open.
    let away = temp.path().with_extension("away");
    std::fs::rename(temp.path(), &away).unwrap();
    std::fs::create_dir(temp.path()).unwrap();
    for file in ["grandstand.redb", "LOCK"] {
        std::fs::copy(away.join(file), temp.path().join(file)).unwrap();
    }
    let told = store.findings();
    assert!(told.len() == 1 && told[0].unhealthy && told[0].text.contains("replaced"), "{told:?}");
    std::fs::remove_dir_all(temp.path()).unwrap();
    std::fs::rename(&away, temp.path()).unwrap();
    assert_eq!(store.findings(), []);
}

#[test]
fn what_is_no_damage_is_not_called_so() {
    let path = Path::new("x");
    let error = |error: redb::Error| error::Fault::Redb(Box::new(error)).into_store_error(path, 0);
    for other in [
        redb::Error::PreviousIo,
        redb::Error::DatabaseClosed,
        redb::Error::UpgradeRequired(1),
        redb::Error::DatabaseAlreadyOpen,
    ] {
        let told = error(other);
        assert!(matches!(told, StoreError::Disk { .. }), "{told}");
    }
    assert!(matches!(error(redb::Error::Corrupted("x".to_owned())), StoreError::Damaged(_)));
    assert_eq!(StoreError::NoSpace { path: path.to_owned(), needed: 0 }.to_string(), "no space left for x");
}

#[test]
fn a_file_that_cannot_be_created_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("grandstand.redb")).unwrap();
    assert!(open(temp.path()).is_err());
}
