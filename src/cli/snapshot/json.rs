//! `grandstand snapshot --json`: the same commands for scripts. One JSON object goes to standard output.
//!
//! Callers: [`super`].

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::admin::snapshots::Action;
use crate::cli::{Failure, plain};

use super::{Command, Desk, One, accept, snapshots_of, text};

/// Carries a command out and prints what came of it.
pub(super) fn run(command: &Command) -> Result<ExitCode, Failure> {
    let (told, code) = match command {
        Command::Accept(sources) => return accept::run(sources, true),
        Command::List(sources) => {
            let list = serde_json::to_string_pretty(&Desk::open(sources)?.list()?)?;
            list.lines().for_each(|line| println!("{}", plain(line)));
            return Ok(ExitCode::SUCCESS);
        }
        Command::Verify(sources) => verify(&Desk::open(sources)?)?,
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

/// What each kept snapshot came to; those that are gone meanwhile are left out.
fn verify(desk: &Desk) -> Result<(Value, ExitCode), Failure> {
    let mut snapshots = Vec::new();
    for one in snapshots_of(&desk.list()?) {
        let id = text(&one["id"]);
        match desk.perform(&Action::Verify(id.to_owned())) {
            Err(failure) if snapshots_of(&desk.list()?).any(|one| text(&one["id"]) == id) => return Err(failure),
            Err(_) => {}
            Ok(told) => {
                let damage = told["damage"].as_str();
                snapshots.push(
                    json!({ "id": id, "listings": one["listings"], "intact": damage.is_none(), "damage": damage }),
                );
            }
        }
    }
    let damage = desk.list()?["damage"].clone();
    let intact = damage.is_null() && snapshots.iter().all(|one| one["intact"] == true);
    let code = if intact { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok((json!({ "intact": intact, "snapshots": snapshots, "damage": damage }), code))
}
