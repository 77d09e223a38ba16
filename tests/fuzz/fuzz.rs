//! The fuzzer: libFuzzer around one of the targets, which the environment names. `tests/fuzz/run.py` runs it.

#![no_main]

mod targets;

use std::panic;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// The target that `FUZZ_TARGET` names.
fn target() -> targets::Target {
    static TARGET: OnceLock<targets::Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let found = targets::ALL.into_iter().find(|(known, _)| *known == name);
        let (_, target) = found.unwrap_or_else(|| panic!("FUZZ_TARGET: no target {name:?}"));
        if name == "store" {
            // libFuzzer's hook ends the process at each panic. The store catches those of its database.
            panic::set_hook(Box::new(|_| {}));
        }
        target
    })
}

fuzz_target!(|bytes: &[u8]| target()(bytes));
