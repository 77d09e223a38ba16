#!/bin/sh
# Stands in front of rustc: adds coverage for libFuzzer to the crates whose paths are to be explored. These options exist
# in stable Rust; sanitizers would need nightly.
case " $* " in
    *" --crate-name grandstand "* | *" --crate-name ppp "* | *" --crate-name serde_json "* | *" --crate-name fuzz "*)
        exec "$@" -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
            -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
            -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Clink-dead-code
        ;;
    *) exec "$@" ;;
esac
