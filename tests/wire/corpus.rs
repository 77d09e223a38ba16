//! The inputs that fuzzing has kept, replayed: each once, through the target that it belongs to.

#[path = "../fuzz/targets.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus");

#[test]
fn every_input_that_fuzzing_has_kept_is_read_without_harm() {
    let mut failed = Vec::new();
    for (name, target) in targets::ALL {
        let entries = std::fs::read_dir(Path::new(CORPUS).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut count = 0;
        for entry in entries {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            if catch_unwind(AssertUnwindSafe(|| target(&bytes))).is_err() {
                failed.push(path);
            }
            count += 1;
        }
        assert!(count >= 2, "{name} has {count} inputs");
    }
    assert!(failed.is_empty(), "{failed:?}");
}
