//! What the source itself has to keep: imports that point down, findings that are tested, messages that a person has read, and its size.
//!
//! Nothing here runs the server. `floors` reads the imports, `messages` every text, and `size` counts lines.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail loudly")]
#![allow(missing_docs, unreachable_pub, reason = "nothing here is called from outside")]

mod findings;
mod floors;
mod messages;
mod size;
