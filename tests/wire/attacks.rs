//! Attacks by one client, or by an origin gone bad, on all others.
//!
//! Each test attacks, and checks what others notice. Rules that a single request shows are tested where they are made.

mod admin;
mod disks;
mod held;
mod methods;
mod names;
mod pipelines;
mod starving;
mod turns;
mod unread;
