//! `grandstand snapshot --json`: the same commands for scripts. One JSON object goes to standard output.
//!
//! Callers: [`super`].

use std::process::ExitCode;

use serde_json::Value;

use crate::admin::snapshots::Action;
use crate::cli::{Failure, plain};

use super::{Command, Desk, One, accept, code};

/// Carries a command out and prints what came of it.
pub(super) fn run(command: &Command) -> Result<ExitCode, Failure> {
    let (told, code) = match command {
        Command::Accept(sources) => return accept::run(sources, true),
        Command::List(sources) => {
            let list = serde_json::to_string_pretty(&Desk::open(sources)?.list()?)?;
            list.lines().for_each(|line| println!("{}", plain(line)));
            return Ok(ExitCode::SUCCESS);
        }
        Command::Verify(sources) => {
            let told = Desk::open(sources)?.perform(&Action::VerifyAll)?;
            let code = code(&told);
            (told, code)
        }
        Command::Release(sources) => (Desk::open(sources)?.perform(&Action::Release)?, ExitCode::SUCCESS),
        Command::Rollback(one) => on(one, Action::Rollback)?,
        Command::Pin(one) => on(one, Action::Pin)?,
        Command::Unpin(one) => on(one, Action::Unpin)?,
    };
    println!("{}", plain(&told.to_string()));
    Ok(code)
}

fn on(One { id, sources }: &One, action: fn(String) -> Action) -> Result<(Value, ExitCode), Failure> {
    let desk = Desk::open(sources)?;
    Ok((desk.perform(&action(desk.resolve(id)?))?, ExitCode::SUCCESS))
}
