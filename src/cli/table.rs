//! Tables and colours of what commands print.
//!
//! Words and values are the commands' own. Callers: the commands.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use super::terminal::Terminal;

/// On which side of its column a cell stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    /// For numbers.
    Right,
}

/// A table with a heading. Columns are as wide as their widest cell.
pub(super) struct Table<const N: usize> {
    columns: [(&'static str, Align); N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table without rows.
    pub(super) const fn new(columns: [(&'static str, Align); N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.columns.map(|(name, _)| name.to_owned());
        let width = |column: usize| {
            let cells = std::iter::once(&names).chain(&self.rows).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: [usize; N] = std::array::from_fn(width);
        for row in std::iter::once(&names).chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let (width, gap) = (widths[column], if column == 0 { "" } else { "  " });
                line.push_str(gap);
                match self.columns[column].1 {
                    Align::Left => write!(line, "{cell:<width$}")?,
                    Align::Right => write!(line, "{cell:>width$}")?,
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Lines of a name and a value, one below the other.
pub(super) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in facts {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:>width$}  {value}");
    }
    text
}

/// Colours, where they are seen and wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paint(bool);

impl Paint {
    /// For standard output of this process.
    pub(super) fn of_stdout() -> Self {
        Self(Terminal::of_stdout().colours)
    }

    fn in_colour<'a>(self, code: &str, text: &'a str) -> Cow<'a, str> {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m").into() } else { text.into() }
    }

    /// A heading.
    pub(super) fn heading(self, text: &str) -> Cow<'_, str> {
        self.in_colour("1", text)
    }

    /// A verdict.
    pub(super) fn verdict(self, is_good: bool, text: &str) -> Cow<'_, str> {
        self.in_colour(if is_good { "1;32" } else { "1;31" }, text)
    }

    /// Something that needs a look.
    pub(super) fn warning(self, text: &str) -> Cow<'_, str> {
        self.in_colour("33", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new([("NAME", Align::Left), ("LISTINGS", Align::Right), ("", Align::Left)]);
        table.row(["a".into(), "7".into(), "served".into()]);
        table.row(["a longer one".into(), "1234567890".into(), String::new()]);
        table.row(["São".into(), "12".into(), String::new()]);
        let expected = "\
NAME            LISTINGS
a                      7  served
a longer one  1234567890
São                   12
";
        assert_eq!(table.to_string(), expected);
        let empty = Table::new([("NAME", Align::Left), ("LISTINGS", Align::Right)]);
        assert_eq!(empty.to_string(), "NAME  LISTINGS\n");
    }

    #[test]
    fn facts_stand_one_below_the_other() {
        assert_eq!(facts(&[("a", "1".into()), ("long", "2".into())]), "   a  1\nlong  2\n");
    }

    #[test]
    fn colours_go_where_they_are_wanted() {
        assert_eq!(Paint(false).verdict(true, "healthy"), "healthy");
        assert_eq!(Paint(true).verdict(true, "healthy"), "\x1b[1;32mhealthy\x1b[0m");
        assert_eq!(Paint(true).verdict(false, "unhealthy"), "\x1b[1;31munhealthy\x1b[0m");
        assert_eq!(Paint(true).warning("held"), "\x1b[33mheld\x1b[0m");
        assert_eq!(Paint(true).heading(""), "");
    }
}
