//! Attacks: what one client, or an origin gone bad, tries against everybody else.
//!
//! Each test attacks, and looks at what the others notice. Rules that a single request shows are tested where they are
//! made.

mod starving;
